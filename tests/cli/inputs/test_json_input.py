"""Is data from a command line strict JSON, and is everything else refused before it is used?"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click
import pytest

from nottwice.cli.inputs.json_input import read_json


def read(given: str) -> object:
    return read_json(given, option="--input", outcome="Nothing was started.")


def test_json_is_typed_piped_or_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(' {"a": [1, null, "ü"]} ') == {"a": [1, None, "ü"]}
    (tmp_path / "input.json").write_text('"from a file"', encoding="utf-8")
    assert read(f"@{tmp_path / 'input.json'}") == "from a file"
    monkeypatch.setattr(sys, "stdin", io.StringIO("7"))
    assert read("-") == 7


@pytest.mark.parametrize(
    "given",
    ["", "{", "sent", "NaN", "[Infinity]", '{"a": 1, "a": 1}', "[" * 100_000, '"\\ud800"'],
)
def test_what_is_not_json_is_a_usage_error_that_says_so(given: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        read(given)
    assert "--input is not JSON that can be kept" in caught.value.message
    assert "Nothing was started." in caught.value.message


def test_what_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"))
    for given in (f"@{tmp_path / 'bytes'}", "@no such file", "@no\0file", "-"):
        with pytest.raises(click.UsageError, match=r"--input cannot be read: .*started"):
            read(given)
