"""Can nothing that somebody else wrote steer the terminal, and is a pipe given plain lines?"""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from nottwice.cli.render import output
from tests.cli.workplace import HOSTILE, Workplace


@given(st.text())
def test_safe_text_is_printable_and_on_one_line(text: str) -> None:
    assert output.safe(text).isprintable()


@given(st.text(alphabet=st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"])))
def test_printable_text_is_left_as_it_is(text: str) -> None:
    assert output.safe(text) == text


def test_what_is_escaped_can_be_recognised() -> None:
    assert output.safe("a\x1b[31m\n\t\r\x9b\u202e\ud800") == (
        "a\\x1b[31m\\n\\t\\r\\x9b\\u202e\\ud800"
    )


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_shortened_text_is_never_longer_than_allowed(text: str, most: int) -> None:
    assert len(output.shorten(text, most)) <= most


def test_short_text_is_not_cut_and_long_text_shows_that_it_is() -> None:
    assert output.shorten("abc", 3) == "abc"
    assert output.shorten("abcd", 3) == "ab…"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What rich writes to a terminal, with colours switched on."""
    stream = io.StringIO()
    monkeypatch.setattr(output, "_on_terminal", lambda: True)
    monkeypatch.setattr(
        output,
        "_console",
        lambda: Console(
            file=stream, force_terminal=True, color_system="truecolor", width=200, markup=False
        ),
    )
    return stream


def test_a_terminal_gets_markup_and_escapes_as_mere_text(terminal: io.StringIO) -> None:
    output.show_table(("run", "state"), [(HOSTILE, "waiting")])
    output.show_facts(HOSTILE, [("name", HOSTILE)])
    shown = terminal.getvalue()
    assert shown.count("[red]\\x1b[31mevil\\x1b]0;title\\x07\\nError: forged\\u202e") == 3
    assert "\x1b]0;" not in shown
    assert "\x07" not in shown
    assert "\x1b[31mevil" not in shown
    # Our own colours do arrive.
    assert "\x1b[33mwaiting" in shown


def test_a_pipe_gets_aligned_columns_that_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_table(("run", "state"), [("x" * 300, "waiting"), ("y", None)])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["RUN" + " " * 299 + "STATE", "x" * 300 + "  waiting", "y"]


def test_a_pipe_gets_facts_under_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_facts("Title", [("a", 1), ("longer", "two"), ("left out", None)])
    assert capsys.readouterr().out == "Title\n  a       1\n  longer  two\n"


def test_json_is_pure_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_json({"text": HOSTILE + "é\ud800"})
    shown = capsys.readouterr().out
    assert shown.isascii()
    assert shown.replace("\n", "").isprintable()
    assert json.loads(shown) == {"text": HOSTILE + "é\ud800"}


def test_errors_are_safe_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_error(HOSTILE)
    output.show_note(HOSTILE)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


def test_a_terminal_that_cannot_spell_a_character_gets_its_escape(killed: Workplace) -> None:
    line = "PYTHONUTF8=0 PYTHONIOENCODING=ascii nottwice show done-1 --limit 1 --store agent.db"
    ended = killed.shell(line)
    assert ended.exit_code == 0, ended
    assert "\\u2026 and " in ended.stdout


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-5, "0 s ago"), (59, "59 s ago"), (61, "1 min ago"), (7200, "2 h ago"), (1e6, "11 d ago")],
)
def test_an_age_is_told_in_the_largest_unit_that_fits(seconds: float, expected: str) -> None:
    assert output.age_text(seconds) == expected


def test_moments_are_told_in_utc() -> None:
    assert output.utc_text(1_700_000_000.9999) == "2023-11-14 22:13:20.999"
    assert output.iso_text(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
    assert output.utc_text(None) is None
    assert output.iso_text(None) is None
