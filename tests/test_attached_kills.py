"""Programs that are attached to a run and really killed make each effect once (P240, P241)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nottwice as nt
from tests.attached_programs import APPROVED, ASKS, ONE, THREE, Program


@pytest.fixture(params=["SQLite", "JSON files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "SQLite":
        return str(tmp_path / "agent.db")
    return f"file:{tmp_path / 'agent'}"


def test_a_bare_program_that_was_killed_makes_its_effect_twice(tmp_path: Path, store: str) -> None:
    """The control: without it, one effect below would prove nothing."""
    program = Program(tmp_path, store, ONE, how="bare")
    program.run("after the effect")
    program.run()
    assert len(program.effects) == 2


def test_a_call_that_was_killed_after_its_effect_is_not_made_again(
    tmp_path: Path, store: str
) -> None:
    program = Program(tmp_path, store, ONE)
    program.run("after the effect")
    word, review = program.run().split()
    assert word == "review"
    with nt.Reviews(store) as inbox:
        inbox.decide(review, "happened", by="ann", why="saw it", result={"charged": 7})
    assert program.run() == "replayed {'charged': 7}"
    assert program.effects == ["7 None"]


def test_a_call_that_did_not_happen_is_made_exactly_once_more(tmp_path: Path, store: str) -> None:
    program = Program(tmp_path, store, ONE)
    program.run("after the effect")
    review = program.run().split()[1]
    with nt.Reviews(store) as inbox:
        inbox.decide(review, "did-not-happen", by="ann", why="not there")
    assert program.run() == "made {'charged': 7}"
    assert program.run() == "replayed {'charged': 7}"
    assert len(program.effects) == 2


def test_a_call_that_was_killed_after_its_receipt_is_answered_from_it(
    tmp_path: Path, store: str
) -> None:
    program = Program(tmp_path, store, ONE)
    program.run("after the receipt")
    assert program.run() == "replayed {'charged': 7}"
    assert program.effects == ["7 None"]


def test_a_keyed_call_that_was_killed_is_sent_again_with_its_key(
    tmp_path: Path, store: str
) -> None:
    program = Program(tmp_path, store, ONE, how="idempotent_with_key")
    program.run("after the effect")
    assert program.run() == "made {'charged': 7}"
    assert program.effects == ["7 order-7", "7 order-7"]


def test_an_approval_that_was_given_through_the_framework_survives_a_kill(
    tmp_path: Path, store: str
) -> None:
    program = Program(tmp_path, store, APPROVED)
    program.run("after the approval")
    assert program.effects == []
    assert program.run() == "asked 0 made"
    assert program.run() == "asked 0 replayed"
    assert program.effects == ["7 None"]


def test_an_approved_call_that_was_killed_is_in_doubt_and_not_approved_again(
    tmp_path: Path, store: str
) -> None:
    program = Program(tmp_path, store, APPROVED)
    program.run("after the effect")
    assert program.run().startswith("asked 0 review")
    assert program.effects == ["7 None"]


def test_an_idempotent_call_that_was_killed_is_sent_again(tmp_path: Path, store: str) -> None:
    program = Program(tmp_path, store, ONE, how="idempotent")
    program.run("after the effect")
    assert program.run() == "made {'charged': 7}"
    assert program.effects == ["7 None", "7 None"]


def test_of_parallel_calls_only_the_killed_one_is_in_doubt(tmp_path: Path, store: str) -> None:
    program = Program(tmp_path, store, THREE)
    program.run("after the effect")
    assert program.run() == "replayed replayed review"
    assert sorted(program.effects) == ["5 None", "6 None", "7 None"]


def test_a_reply_that_is_durable_is_not_asked_for_again(tmp_path: Path, store: str) -> None:
    program = Program(tmp_path, store, ASKS)
    program.run("after the reply")
    assert program.run() == "reply"
    assert program.effects == ["asked None"]


def test_a_program_that_ends_leaves_its_run_idle(tmp_path: Path, store: str) -> None:
    """The next process does not wait for a holder, and no interruption is reported."""
    program = Program(tmp_path, store, ONE)
    assert program.run() == "made {'charged': 7}"
    with nt.Ledger(store, create=False) as ledger:
        run = ledger.store.load_run("ticket-7")
        assert run is not None
        assert (run.status.value, run.holder_id) == ("idle", None)
    words = [sys.executable, "-m", "nottwice", "runs", "--state", "idle", "--json"]
    shown = subprocess.run(
        [*words, "--store", store], capture_output=True, text=True, timeout=60, check=True
    )
    (listed,) = json.loads(shown.stdout)["runs"]
    assert (listed["run_id"], listed["state"]) == ("ticket-7", "idle")
