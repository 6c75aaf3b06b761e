"""Does the bare `nottwice` summarise the ledger and say what to type, and `runs` list the runs?"""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import nottwice as nt
from tests.cli.workplace import HOSTILE, Workplace


def test_the_status_counts_runs_reviews_and_calls_in_doubt(killed: Workplace) -> None:
    lines = killed.cli().stdout.splitlines()
    assert lines[0] == f"Ledger {killed.store}"
    assert lines[1].split(maxsplit=1) == ["runs", "5: 1 interrupted, 3 waiting, 1 completed"]
    assert lines[2].split(maxsplit=1) == ["reviews", "3 open"]
    assert lines[3].split(maxsplit=1) == ["waiting", "3 for a person"]
    assert lines[4].split(maxsplit=1) == ["in", "doubt  4 calls"]


def test_every_command_that_the_status_suggests_works_as_printed(killed: Workplace) -> None:
    suggested = [line.strip() for line in killed.cli().stdout.splitlines() if "  nottwice" in line]
    assert len(suggested) == 4
    for line in suggested:
        ended = killed.shell(line)
        # A decision without a verb and without a terminal to ask at ends with 2.
        assert ended.exit_code == (2 if " decide " in line else 0), ended


def test_what_waits_for_a_person_comes_before_what_only_has_to_be_run(killed: Workplace) -> None:
    hints = killed.json()["next"]
    assert [line.split()[1] for line in hints] == ["decide", "decide", "decide", "show"]
    assert shlex.split(hints[-1])[2] == "ticket-7"


def test_a_decided_run_is_suggested_for_resuming(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    workplace.cli("decide", review_id, "did-not-happen", "--why", "looked")
    shown = workplace.cli().stdout
    assert "2 open, 1 decided" in shown
    assert "2 for a person, 1 for you to resume it: a person has decided" in shown
    listed = next(x for x in workplace.cli("runs").stdout.splitlines() if x.startswith("ticket-9"))
    assert listed.endswith(f"review {review_id}, decided: resume it")
    assert "run 'ticket-9' has its decision: run your program again to use it" in shown


def test_a_ledger_in_order_needs_no_person(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "agent.db") as ledger, ledger.run("a"):
        pass
    place = Workplace(tmp_path)
    assert "nothing needs you" in place.cli().stdout
    assert place.json()["runs"]["completed"] == 1


def test_a_failed_run_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    for number, said in ((1, "1 run failed: run it again"), (2, "2 runs failed: run each again")):
        ledger = nt.Ledger(tmp_path / "agent.db")
        with ledger, pytest.raises(ValueError, match="boom"), ledger.run(f"r{number}"):
            raise ValueError("boom")
        place = Workplace(tmp_path)
        assert said in place.cli().stdout
        assert "nothing needs you" not in place.cli().stdout
    (command,) = place.json()["next"]
    assert "runs --state failed" in command
    assert "Run your program" in place.cli("show", "r1").stdout


def test_suggestions_beyond_the_first_are_counted(
    killed: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nottwice.views.ledger.overview.MOST_HINTS", 1)
    hints = [line for line in killed.cli().stdout.splitlines() if "  nottwice" in line]
    assert len(hints) == 2
    assert "… and 3 more that need a person" in killed.cli().stdout


@pytest.mark.parametrize("words", ["", "runs", "reviews"])
def test_nothing_hostile_reaches_a_real_terminal(words: str, killed: Workplace) -> None:
    shown = killed.terminal(f"nottwice {words} --store agent.db").stdout
    assert "[red]evil[/red]" in shown
    assert "\x1b[31mevil" not in shown
    assert "\x1b]0;" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "\nError: forged" not in shown
    assert HOSTILE not in shown


# Runs of graphs


def test_waiting_runs_are_counted_by_what_they_wait_for(graph_runs: Workplace) -> None:
    waiting = {"review": 1, "timer": 1, "event": 1, "child": 1, "decided": 0}
    assert graph_runs.json()["waiting"] == waiting
    shown = graph_runs.cli().stdout
    assert "waiting   1 for a person, 1 for time, 1 for an event, 1 for a child run" in shown


def test_a_run_for_which_something_has_come_is_suggested(graph_place: Workplace) -> None:
    before = graph_place.json("--app", "flows")["next"]
    resume = f"nottwice run --id listen-1 --app flows --store {graph_place.store}"
    assert resume not in before
    assert graph_place.cli("send", "listen-1", "news").exit_code == 0
    assert resume in graph_place.json("--app", "flows")["next"]
    assert (
        "run 'listen-1' has what it waited for: this resumes it"
        in graph_place.cli("--app", "flows").stdout
    )
    # Without the code there is no command for it, but still the hint.
    assert "run 'listen-1' has what it waited for: run your program" in graph_place.cli().stdout


def test_a_child_is_resumed_by_resuming_its_root_and_only_once(graph_place: Workplace) -> None:
    (review,) = graph_place.json("reviews")["reviews"]
    # In this process `--app flows` would declare its tools for all tests.
    (decided,) = graph_place.lines(
        f"decide {review['review_id']} yes --why x --app flows --store agent.db"
    )
    assert decided.stdout.splitlines()[-1].endswith(
        "again to continue: nottwice run --id parent-1 --app flows --store agent.db"
    )
    commands = graph_place.json("--app", "flows")["next"]
    assert [line.split()[3] for line in commands if line.startswith("nottwice run")].count(
        "parent-1"
    ) == 1


def test_a_file_that_cannot_be_read_is_named_and_the_exit_code_is_3(tmp_path: Path) -> None:
    store = f"file:{tmp_path / 'runs'}"
    for run_id in ("bad", "good"):
        with nt.run(run_id, store=store):
            pass
    (tmp_path / "runs/bad.json").write_bytes(b"{")
    place = Workplace(tmp_path)
    ended = place.cli("--store", store)
    assert ended.exit_code == 3
    assert "bad.json cannot be read" in ended.stdout
    listed = place.cli("runs", "--store", store)
    assert listed.exit_code == 0
    assert "good" in listed.stdout
    assert "bad.json cannot be read" in listed.stderr


def test_a_row_that_is_not_believed_is_reported_and_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P410."""
    monkeypatch.setenv("NOTTWICE_KEY", bytes(range(32)).hex())

    @nt.tool("unsafe_on_replay", name="status_mail")
    def mail(to: str) -> None:
        raise nt.Ambiguous("the answer was lost")

    place = Workplace(tmp_path)
    with nt.Ledger(place.store) as ledger:
        for run_id in ("a-1", "b-1"):
            with pytest.raises(nt.RunBlocked), ledger.run(run_id):
                mail(run_id)
    with closing(sqlite3.connect(place.store)) as other:
        other.execute("UPDATE tool_call_results SET args_json = '{}' WHERE workflow_id = 'a-1'")
        other.commit()
    shown = place.cli()
    assert shown.exit_code == 3
    assert "in doubt    not counted: a row cannot be trusted" in shown.stdout
    suggested = [line.strip() for line in shown.stdout.splitlines() if "  nottwice" in line]
    assert suggested[0].startswith("nottwice audit --verify")
    assert len(suggested) == 3
    assert "status_mail(to='b-1')" in shown.stdout
    assert place.json("reviews")["open"] == 2
    assert "1 run with rows that cannot be trusted" in place.cli("report").stdout
