"""A ledger that an older nottwice left behind is brought forward, and its runs are resumed."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.store.sqlite.schema import known_scripts
from tests.store import kept_ledgers as kept

KNOWN = [script.number for script in known_scripts()]


@pytest.fixture(params=KNOWN)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / "agent.db"
    kept.restore(request.param, path)
    kept.sent.clear()
    return str(path)


def settle(blocked: pytest.ExceptionInfo[nt.RunBlocked], store: str, result: str) -> None:
    review_id = blocked.value.review_id
    assert review_id is not None
    with nt.Reviews(store) as reviews:
        reviews.decide(
            review_id,
            "happened",
            by="ann",
            why="in the log",
            result=result,
            holder_stopped=True,
        )


def test_every_schema_has_a_ledger_that_is_kept() -> None:
    assert [f"{number:04}.sql" for number in KNOWN] == sorted(
        file.name for file in kept.FOLDER.glob("*.sql")
    )


def test_it_is_brought_forward_and_stays_whole(ledger: str) -> None:
    with nt.run("new", store=ledger):
        pass
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (KNOWN[-1],)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_run_that_was_done_is_answered_by_its_receipts(ledger: str) -> None:
    assert kept.agent("done", "ann", ledger) == [{"order": 3}, "mailed ann"]
    assert kept.sent == []


@pytest.mark.parametrize(("run_id", "to"), [("waiting", "bob"), ("in doubt", "cy")])
def test_a_run_in_doubt_still_waits_for_a_person_and_then_continues(
    ledger: str, run_id: str, to: str
) -> None:
    with pytest.raises(nt.errors.ReplayUnsafeError) as blocked:
        kept.agent(run_id, to, ledger)
    settle(blocked, ledger, "mailed, says ann")
    assert kept.agent(run_id, to, ledger) == [{"order": len(to)}, "mailed, says ann"]
    assert kept.sent == []


def test_a_graph_that_waited_for_an_answer_takes_it_and_ends(tmp_path: Path) -> None:
    for number in KNOWN:
        ledger = str(tmp_path / f"{number}.db")
        kept.restore(number, Path(ledger))
        kept.sent.clear()
        with nt.Reviews(ledger) as reviews:
            (case,) = reviews.open("graph")
            reviews.decide(case.review.review_id, "large", by="ann")
        outcome = kept.graph.run("graph", {}, store=ledger)
        assert outcome.state["told"] == "mailed large"
        assert kept.sent == ["large"]


def test_a_doubt_that_waits_is_shown_as_one(ledger: str) -> None:
    with nt.Reviews(ledger) as reviews:
        (case,) = reviews.open("waiting")
        assert case.review.kind.value == "in doubt"
