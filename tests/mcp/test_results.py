"""A receipt holds the tool's own value, and gives the same result again (P275)."""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.mcp.results import is_complete, result_of, text_in, told, value_of, with_note

CHARGED = {"type": "object", "properties": {"charged": {"type": "integer"}}}
WRAPPED = {"type": "object", "properties": {"result": {"type": "string"}}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


CASES: list[tuple[dict[str, Any], dict[str, Any] | None, Any]] = [
    ({"content": [text("sent")]}, None, "sent"),
    (
        {"content": [text('{\n "charged": 4\n}')], "structuredContent": {"charged": 4}},
        CHARGED,
        {"charged": 4},
    ),
    ({"content": [text("hi")], "structuredContent": {"result": "hi"}}, WRAPPED, "hi"),
    ({"content": [text("[1, 2]")], "structuredContent": {"result": [1, 2]}}, WRAPPED, [1, 2]),
]


@pytest.mark.parametrize(("result", "schema", "value"), CASES)
def test_a_person_could_type_the_value(
    result: dict[str, Any], schema: dict[str, Any] | None, value: Any
) -> None:
    assert value_of({**result, "isError": False}, schema) == value
    again = result_of(value, schema)
    assert again.get("structuredContent") == result.get("structuredContent")


@pytest.mark.parametrize(
    "result",
    [
        {"content": [text("a"), text("b")]},
        {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
        {"content": [{**text("a"), "annotations": {"priority": 1}}]},
        {"content": [text("four")], "structuredContent": {"charged": 4}},
        {"content": []},
        {"resultType": "task", "task": {"taskId": "7"}},
    ],
)
@pytest.mark.parametrize("schema", [None, CHARGED, WRAPPED])
def test_what_has_no_simpler_form_is_kept_whole(
    result: dict[str, Any], schema: dict[str, Any] | None
) -> None:
    assert result_of(value_of(result, schema), schema) == result


def test_what_a_person_typed_fits_the_schema_or_is_only_a_text() -> None:
    assert result_of('{"charged": 4}', CHARGED)["structuredContent"] == {"charged": 4}
    in_words = result_of("It happened.", CHARGED)
    assert "structuredContent" not in in_words
    assert in_words["isError"] is True
    assert result_of("It happened.", WRAPPED)["structuredContent"] == {"result": "It happened."}


def test_a_value_that_only_looks_like_content_is_a_value() -> None:
    value = {"content": ["a"]}
    assert result_of(value, CHARGED)["structuredContent"] == value


def test_notes_and_refusals_are_texts_for_the_model() -> None:
    noted = with_note({"content": [text("sent")], "structuredContent": 1}, "[nottwice] note")
    assert noted["content"] == [text("sent"), text("[nottwice] note")]
    assert noted["structuredContent"] == 1
    stopped = told("no", review_id="1c6a")
    assert stopped["isError"] is True
    assert stopped["_meta"] == {"nottwice/review": "1c6a"}
    assert text_in(stopped) == "no"
    assert text_in({"content": []}) == "an error"
    assert not is_complete({"resultType": "input_required"})
    assert is_complete({"content": []})
