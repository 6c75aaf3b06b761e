"""A ledger that an older nottwice left behind is brought forward, and its runs are resumed.

The first release has one schema, so a nottwice to come, which has more scripts, does it too. It has
to work before the first migration that users get.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.store.sqlite import schema
from nottwice.store.sqlite.schema import bring_forward, known_scripts
from tests.store import kept_ledgers as kept

KNOWN = [script.number for script in known_scripts()]


@pytest.fixture(params=KNOWN)
def number(request: pytest.FixtureRequest) -> int:
    kept_number: int = request.param
    return kept_number


@pytest.fixture(params=["this nottwice", "a nottwice to come"])
def ledger(
    request: pytest.FixtureRequest, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    path = tmp_path / "agent.db"
    kept.restore(number, path)
    kept.sent.clear()
    if request.param == "a nottwice to come":
        kept.become_a_nottwice_to_come(monkeypatch)
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


def test_it_has_the_schema_that_its_scripts_make(number: int, tmp_path: Path) -> None:
    """After a change of a script that no release has yet, write it again: see kept_ledgers.py."""
    kept.restore(number, tmp_path / "kept.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as made:
        bring_forward(made, "here", scripts=known_scripts()[:number])
    assert kept.shape(tmp_path / "kept.db") == kept.shape(tmp_path / "new.db")


def test_it_is_brought_forward_and_stays_whole(ledger: str) -> None:
    with nt.run("new", store=ledger):
        pass
    version, sound, _ = kept.shape(Path(ledger))
    assert (version, sound) == (schema.known_scripts()[-1].number, "ok")


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


def test_a_graph_that_waited_for_an_answer_takes_it_and_ends(ledger: str) -> None:
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
