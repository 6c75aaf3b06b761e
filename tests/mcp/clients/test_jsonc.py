"""Is every value of a configuration found where it is, and is what is not JSON refused?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import UsageError
from nottwice.mcp.clients.jsonc import DEEPEST, JsonPart, read

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def plain(part: JsonPart) -> Any:
    if isinstance(part.value, dict):
        return {name: plain(member.part) for name, member in part.value.items()}
    if isinstance(part.value, list):
        return [plain(item) for item in part.value]
    return part.value


@given(JSON, st.sampled_from([None, 1, 2, "\t"]), st.booleans())
def test_it_reads_what_json_reads(value: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert plain(read(text)) == json.loads(text)


@given(JSON)
def test_the_text_of_each_part_is_its_value(value: Any) -> None:
    text = json.dumps({"a": [value, value]}, indent=2)
    part = read(text).find("a")
    assert part is not None
    for item in part.value:
        assert json.loads(text[item.start : item.end]) == value
    assert text[read(text).members["a"].key_start :].startswith('"a"')


def test_comments_and_trailing_commas_are_skipped() -> None:
    text = """// a comment with "quotes" and { braces
    { /* one
         more */ "a": [1, // here
      2, ], "url": "http://no.comment/*here*/", }
    // the end"""
    assert plain(read(text)) == {"a": [1, 2], "url": "http://no.comment/*here*/"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1, column 1"),
        ("{", "line 1, column 2"),
        ('{"a": }', "line 1, column 7"),
        ('{\n  "a": 1\n  "b": 2}', "line 3, column 3: a comma or }"),
        ('{"a" 1}', "line 1, column 6: a colon"),
        ("[1 2]", "line 1, column 4: a comma or ]"),
        ("[1]]", "line 1, column 4: there is something after the end"),
        ('["a\nb"]', "line 1, column 2: a text in quotation marks"),
        ('["\\x"]', "line 1, column 2: a text in quotation marks"),
        ("[1.]", "line 1, column 2: 1. is not a number"),
        ("{'a': 1}", "line 1, column 2: a text in quotation marks"),
        ("{,}", "line 1, column 2"),
        ("/* never ends", "line 1, column 1"),
        ('{"a": 1,\n "a": 2}', "line 2, column 2: the name 'a' is there twice"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert f"it is not JSON: {place}" in str(caught.value)


def test_a_value_nested_too_deeply_is_refused_and_not_a_crash() -> None:
    read("[" * DEEPEST + "]" * DEEPEST)
    with pytest.raises(UsageError, match="nested deeper"):
        read("[" * 100_000)
