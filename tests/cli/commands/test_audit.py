"""Does `nottwice audit` say who did what and why, and can no entry be removed by accident?"""

from __future__ import annotations

import json
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice import policy
from nottwice.cli.main import main
from nottwice.model.review import AuditEntry
from nottwice.store.interface import Commit
from tests.cli.workplace import HOSTILE, Workplace
from tests.fakes import FakeClock

NOON = datetime(2026, 11, 5, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """A ledger in which a policy denied something, and people did this and that at three times."""
    clock = FakeClock(NOON)

    @nt.tool("unsafe_on_replay", name="drop_table")
    def drop(name: str) -> None: ...

    rules = policy.only("search")
    with nt.Ledger(tmp_path / "agent.db", clock=clock, policy=rules) as ledger:
        with ledger.run("ticket-7"), pytest.raises(nt.errors.DeniedByPolicy):
            drop("users")
        for hours, run, action in ((1, "ticket-8", "decide approve"), (2, "gone-1", "remove")):
            entry = AuditEntry(run, NOON + hours * 3600, "ann", action, "review 1", HOSTILE)
            ledger.store.commit(Commit(workflow_id=run, audit=(entry,)))
        with ledger.run("ticket-8"):
            pass
    return Workplace(tmp_path)


def test_everything_that_was_done_is_told_oldest_first(place: Workplace) -> None:
    lines = place.cli("audit").stdout.splitlines()
    assert lines[0].split() == ["WHEN", "(UTC)", "RUN", "WHO", "ACTION", "ABOUT", "WHY"]
    told = [re.split(r"  +", line) for line in lines[1:]]
    assert [(one[0][:16], one[1], one[3]) for one in told] == [
        ("2026-11-05 12:00", "ticket-7", "deny"),
        ("2026-11-05 13:00", "ticket-8", "decide approve"),
        ("2026-11-05 14:00", "gone-1", "remove"),
    ]
    assert told[0][2] == "policy only(search)"
    assert "drop_table is not on the list" in lines[1]
    assert "\x1b" not in "".join(lines)


def test_a_denial_is_told_of_the_run_and_of_what_was_removed(place: Workplace) -> None:
    (denial,) = place.json("audit", "ticket-7")["entries"]
    assert denial["at"] == "2026-11-05T12:00:00.000000Z"
    assert (denial["run_id"], denial["action"]) == ("ticket-7", "deny")
    assert re.fullmatch(r"call [0-9a-f]{16} drop_table", denial["subject"])
    (removed,) = place.json("audit", "gone-1")["entries"]
    assert removed["action"] == "remove"
    missing = place.cli("audit", "nobody")
    assert missing.exit_code == 1
    assert "There is no run 'nobody'" in missing.stderr


def test_lines_are_one_document_each(place: Workplace) -> None:
    result = place.cli("audit", "--lines")
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["run_id"] for one in told] == ["ticket-7", "ticket-8", "gone-1"]
    assert told[2]["why"] == HOSTILE
    assert result.stdout.isascii()
    both = place.cli("audit", "--lines", "--json")
    assert (both.exit_code, both.stdout) == (2, "")


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        (["--action", "decide"], ["ticket-8"]),
        (["--action", "decide approve"], ["ticket-8"]),
        (["--action", "dec"], []),
        (["--since", "2026-11-05T12:30"], ["ticket-8", "gone-1"]),
        (["--since", "2026-11-05T15:30+02:00"], ["gone-1"]),
        (["--since", "2026-11-06"], []),
        (["--since", "2026-11-05", "--action", "deny"], ["ticket-7"]),
    ],
)
def test_some_of_it_can_be_asked_for(place: Workplace, words: list[str], runs: list[str]) -> None:
    assert [one["run_id"] for one in place.json("audit", *words)["entries"]] == runs


def test_a_time_ago_counts_from_now(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        for days in (3, 0):
            at = (now - timedelta(days=days)).timestamp()
            entry = AuditEntry(f"run-{days}", at, "ann", "remove", "it", "old")
            ledger.store.commit(Commit(workflow_id=f"run-{days}", audit=(entry,)))
    found = Workplace(tmp_path).json("audit", "--since", "24h")["entries"]
    assert [one["run_id"] for one in found] == ["run-0"]


def test_what_is_no_time_is_said_and_nothing_is_nothing(place: Workplace) -> None:
    wrong = place.cli("audit", "--since", "yesterday")
    assert wrong.exit_code == 2
    assert "neither a time ago" in wrong.stderr
    assert place.cli("audit", "--action", "fly").stdout == "Nothing of that kind was done.\n"


def test_earlier_entries_are_counted_and_can_be_had(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nottwice.cli.commands.audit.MOST_ROWS", 2)
    lines = place.cli("audit").stdout.splitlines()
    assert lines[0].startswith("… and 1 earlier: nottwice audit --all")
    assert len(place.cli("audit", "--all").stdout.splitlines()) == 4


@pytest.mark.parametrize(
    "slip",
    [
        "DELETE FROM nottwice_audit",
        "UPDATE nottwice_audit SET who = 'bob'",
        "DELETE FROM nottwice_audit WHERE 1 = 1",
    ],
)
def test_a_slip_of_sql_does_not_change_the_trail(place: Workplace, slip: str) -> None:
    connection = sqlite3.connect(place.store, isolation_level=None)
    try:
        with pytest.raises(sqlite3.IntegrityError, match="only ever added to"):
            connection.execute(slip)
    finally:
        connection.close()
    assert len(place.json("audit")["entries"]) == 3


# Whatever is done to a ledger by people leaves its entry, one test an action. A denial is above, a
# recording is in test_replay.py, a migration in test_migrate.py, retention in test_gc.py.


@pytest.fixture
def asked(tmp_path: Path) -> Workplace:
    """A run that waits for an answer, and one that waits because an outcome is unknown."""

    @nt.tool("unsafe_on_replay", name="audited doubt")
    def doubt() -> str:
        raise TimeoutError

    flow = nt.Graph("audited", version="1.0.0")

    @flow.node
    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": nt.ask("Go on?", options=["yes", "no"])}

    store = tmp_path / "agent.db"
    flow.run("question", {}, store=store)
    with pytest.raises(nt.errors.ReplayUnsafeError), nt.run("doubt", store=store):
        doubt()
    return Workplace(tmp_path)


def review_of(place: Workplace, run_id: str) -> str:
    reviews = place.json("reviews")["reviews"]
    return str(next(one["review_id"] for one in reviews if one["run_id"] == run_id))


def last_entry(place: Workplace, *words: str) -> tuple[str, ...]:
    """Do it, and tell the one entry that it left: run, who, action, about, why."""
    before = place.json("audit")["entries"]
    done = place.cli(*words, "--by", "ann")
    assert done.exit_code == 0, done.output
    *earlier, entry = place.json("audit")["entries"]
    assert earlier == before
    return tuple(entry[name] for name in ("run_id", "who", "action", "subject", "why"))


@pytest.mark.parametrize(
    ("run_id", "words", "action"),
    [
        ("question", ["yes"], "decide answer"),
        ("question", ["abort"], "decide abort"),
        ("doubt", ["happened", "--result", '"sent"'], "decide happened"),
        ("doubt", ["abort"], "decide abort"),
    ],
)
def test_a_decision_leaves_an_entry(
    asked: Workplace, run_id: str, words: list[str], action: str
) -> None:
    review = review_of(asked, run_id)
    entry = last_entry(asked, "decide", review, *words, "--why", "I looked")
    assert entry == (run_id, "ann", action, f"review {review}", "I looked")


def test_a_decision_that_is_taken_back_leaves_a_second_entry(asked: Workplace) -> None:
    review = review_of(asked, "question")
    last_entry(asked, "decide", review, "yes")
    entry = last_entry(asked, "decide", review, "undo", "--why", "too early")
    assert entry == ("question", "ann", "decide undo", f"review {review}", "too early")


def test_a_cancelled_run_leaves_an_entry(asked: Workplace) -> None:
    entry = last_entry(asked, "cancel", "question", "--why", "enough")
    assert entry == ("question", "ann", "cancel", "run question", "enough")


def test_a_copy_a_restore_and_its_account_leave_an_entry_each(asked: Workplace) -> None:
    copy = asked.folder / "copy.db"
    entry = last_entry(asked, "backup", str(copy))
    assert entry[:4] == ("", "ann", "backup", str(copy))
    entry = last_entry(asked, "backup", "--restored", "--why", "Monday's")
    assert (entry[:3], entry[4]) == (("", "ann", "copy"), "Monday's")
    entry = last_entry(asked, "backup", "--accounted-for", "--why", "nothing ran")
    assert (entry[:3], entry[4]) == (("", "ann", "account for copy"), "nothing ran")


def test_looking_leaves_no_entry(asked: Workplace) -> None:
    for words in ("runs", "show doubt", "reviews", "audit", "history question", "gc --dry-run"):
        assert asked.cli(*words.split()).exit_code == 0
    assert asked.json("audit")["entries"] == []


def test_the_app_on_the_line_brings_the_ledger_that_is_shown(
    place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOTTWICE_STORE", raising=False)
    text = "import nottwice as nt\napp = nt.App(graphs=[], store='agent.db')\n"
    (tmp_path / "audit_app.py").write_text(text)
    nt.Ledger(tmp_path / "nottwice.db").close()
    told = CliRunner().invoke(main, ["audit", "--app", "audit_app.py:app", "--json"])
    assert told.exit_code == 0, told.output
    assert len(json.loads(told.stdout)["entries"]) == 3
