"""Does the screen print only what holds, count what was shown, and keep commands in one piece?"""

from __future__ import annotations

import pytest

from nottwice.cli.demo.screen import Line, Screen
from nottwice.testing.showcase import ShowcaseErrand, Shown, Way


def shown(*, refunds: int = 1, mails: int = 1) -> Shown:
    errand = ShowcaseErrand(
        way=Way.NOTTWICE, order_id=7, shop_url="", script="", ledger="", checkpoint=""
    )
    return Shown(errand=errand, pids=(1, 2), refunds=refunds, mails=mails, reviews=0)


def test_a_line_adds_up_and_two_wrongs_do_not_make_a_right() -> None:
    line = Line("agent", "here", [shown(refunds=0), shown(refunds=2), shown(mails=3)])
    assert (line.kills, line.refunds, line.mails) == (3, 3, 5)
    assert (line.done_twice, line.lost) == (3, 1)


def test_a_claim_that_holds_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(person=False)
    screen.claim("One refund.", holds=True, text="It looked before it acted.")
    assert capsys.readouterr().out == "It looked before it acted.\n"
    assert screen.broken_claims == []


def test_a_claim_that_does_not_hold_is_not_explained_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen(person=False)
    screen.claim("One refund.", holds=False, text="It looked before it acted.")
    assert capsys.readouterr().out == "This did not hold: One refund.\n"
    assert screen.broken_claims == ["One refund."]


def test_a_command_is_never_broken_and_its_brackets_are_no_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = "nottwice show " + "x" * 200 + " '[bold]'"
    Screen(person=False).say_unbroken(command)
    assert capsys.readouterr().out == command + "\n"


def test_facts_are_no_markup_and_leave_no_blanks_behind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Screen(person=False).facts([("the call", "f('[red]')"), ("it", "is " + "long " * 30)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "  the call  f('[red]')"
    assert all(line == line.rstrip() and len(line) <= 80 for line in lines)


def test_results_pass_through_the_bar_which_a_pipe_does_not_show(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = [shown(), shown(refunds=2)]
    assert list(Screen(person=False).with_progress(results, 2)) == results
    assert capsys.readouterr().out == ""


def test_the_table_shows_every_number_in_its_column(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(person=False).table([Line("agent", "here", [shown(refunds=3), shown(mails=0)])])
    row = capsys.readouterr().out.splitlines()[-2]
    assert row.split() == ["agent", "here", "2", "4", "1", "2", "1"]
