"""DBOS itself on SQLite or PostgreSQL, real processes, real SIGKILLs. Runs inside `.venv-hosts`."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from tests.hosts.inside.effects import lines, looks, plan_death, wait_for
from tests.hosts.inside.servers import database
from tests.hosts.inside.tools import apart, place_ledger, store_of

__all__ = ["database"]

PROGRAM = Path(__file__).with_name("dbos_program.py")
RECOVERED = [["recovered", ""]]
CONTROL = pytest.mark.parametrize("words", [["bare"], []], ids=["bare", "protected"])


class Program:
    """The processes of one test."""

    def __init__(self, folder: Path, *words: str, place: str = "") -> None:
        """``place``: the database of DBOS and of the ledger."""
        self.folder, self.words, self.id = folder, words, uuid.uuid4().hex
        place_ledger(folder, place)

    def start(self, plan: Any, *before: str) -> subprocess.Popen[str]:
        """Start a process. ``before``: what to put before its command."""
        program = [*before, sys.executable, str(PROGRAM)]
        command = [*program, str(self.folder), self.id, json.dumps(plan)]
        log = (self.folder / "log").open("a")
        return subprocess.Popen(
            [*command, *self.words], stdout=subprocess.PIPE, stderr=log, text=True
        )

    def killed(self, plan: Any) -> None:
        """Run a process that dies as planned."""
        process = self.start(plan)
        process.communicate(timeout=120)
        assert process.returncode == -9, (self.folder / "log").read_text()[-3000:]

    def finish(self, plan: Any) -> Any:
        """Run a process to its end."""
        return self.result_of(self.start(plan))

    def result_of(self, process: subprocess.Popen[str]) -> Any:
        """What a process prints at its end."""
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, (self.folder / "log").read_text()[-3000:]
        return json.loads(said.splitlines()[-1])

    @property
    def done(self) -> list[str]:
        return sorted(lines(self.folder))


@CONTROL
def test_a_process_killed_after_the_effect(tmp_path: Path, words: list[str]) -> None:
    """P307. Two effects without nottwice, one with it."""
    program = Program(tmp_path, *words)
    plan_death(tmp_path, "after")
    program.killed([["send", "a"], ["send", "b"]])
    assert program.finish(RECOVERED) == {"result": [{"did": "a"}, {"did": "b"}]}
    assert program.done == (["a", "a", "b"] if words else ["a", "b"])


@CONTROL
@pytest.mark.parametrize("at", ["before", "acknowledge"])
def test_a_process_killed_before_the_effect_or_after_the_receipt(
    tmp_path: Path, at: str, words: list[str]
) -> None:
    """P307. A kill before the effect repeats nothing in the control either."""
    program = Program(tmp_path, *words)
    plan_death(tmp_path, at)
    program.killed([["send", "a"], ["send", "b"]])
    assert _recorded(tmp_path) == []
    assert program.finish(RECOVERED) == {"result": [{"did": "a"}, {"did": "b"}]}
    assert program.done == (["a", "a", "b"] if words and at == "acknowledge" else ["a", "b"])


def test_a_process_killed_between_two_steps(tmp_path: Path) -> None:
    """P307. DBOS has recorded the first, so a control would count 1, too."""
    program = Program(tmp_path)
    plan_death(tmp_path, "between")
    program.killed([["send", "a"], ["send", "b"]])
    assert _recorded(tmp_path) == ["nottwice.send"]
    assert program.finish(RECOVERED) == {"result": [{"did": "a"}, {"did": "b"}]}
    assert program.done == ["a", "b"]


@CONTROL
def test_parallel_steps_are_made_once_each(tmp_path: Path, words: list[str]) -> None:
    program = Program(tmp_path, *words)
    plan_death(tmp_path, "after")
    plan = [["asend", f"{n}"] for n in range(6)]
    program.killed(plan)
    assert len(program.finish(RECOVERED)["result"]) == 6
    assert sorted(set(program.done)) == [f"{n}" for n in range(6)]
    assert (len(program.done) > 6) == bool(words)


@CONTROL
def test_a_resumed_workflow_gets_its_receipts(tmp_path: Path, words: list[str]) -> None:
    """P307. Cancelled and resumed, it counts again from the beginning."""
    program = Program(tmp_path, *words)
    plan_death(tmp_path, "after")
    program.killed([["send", "a"], ["send", "b"]])
    assert program.finish([["resume", ""]]) == {"result": [{"did": "a"}, {"did": "b"}]}
    assert (program.done == ["a", "b"]) == (not words)


def test_a_doubt_is_waited_for_in_the_workflow_until_a_person_has_decided(tmp_path: Path) -> None:
    """P307. DBOS alone asks nobody: its control is the process killed after the effect."""
    program = Program(tmp_path)
    plan_death(tmp_path, "after")
    program.killed([["post", "a"], ["post", "b"]])
    process = program.start(RECOVERED)
    with nt.Reviews(store_of(tmp_path)) as reviews:
        wait_for(lambda: reviews.open() or process.poll() is not None)
        (case,) = reviews.open()
        said: dict[str, Any] = {"result": {"did": "seen"}, "by": "ann", "why": "looked"}
        reviews.decide(case.review.review_id, "happened", **said)
    assert program.result_of(process) == {"result": [{"did": "seen"}, {"did": "b"}]}
    assert program.done == ["a", "b"]


@pytest.mark.parametrize("name", ["post", "apost"])
def test_a_step_that_looks_once_an_hour_sees_a_decision_immediately(
    tmp_path: Path, name: str
) -> None:
    program = Program(tmp_path, "rarely")
    plan_death(tmp_path, "after")
    program.killed([[name, "a"]])
    process = program.start(RECOVERED)
    wait_for(lambda: _waits(tmp_path) or process.poll() is not None)
    with nt.Reviews(store_of(tmp_path)) as reviews:
        _decide(reviews, f"{program.id}/{name}.1", "a")
    assert program.result_of(process) == {"result": [{"did": "seen a"}]}
    assert program.done == ["a"]


def test_a_workflow_that_is_cancelled_stops_waiting(tmp_path: Path) -> None:
    """The process ends, which it does not while a step waits."""
    program = Program(tmp_path, "rarely")
    plan_death(tmp_path, "after")
    program.killed([["post", "a"]])
    process = program.start(RECOVERED)
    wait_for(lambda: _waits(tmp_path) or process.poll() is not None)
    (tmp_path / "cancel").touch()
    assert program.result_of(process) == {"error": "DBOSAwaitedWorkflowCancelledError"}
    assert program.done == ["a"]


@pytest.mark.parametrize("name", ["ponder", "brood"])
@pytest.mark.parametrize("words", ["rarely", "briefly"], ids=["cancel", "deadline"])
def test_a_step_hears_of_its_end_while_it_asks_verify(
    tmp_path: Path, words: str, name: str
) -> None:
    """P304. It releases the call and asks no person. The ``verify`` of ``ponder`` answers again and
    again, that of ``brood`` never."""
    program = Program(tmp_path, words)
    plan_death(tmp_path, "after")
    program.killed([[name, "a"]])
    process = program.start(RECOVERED)
    wait_for(lambda: looks(tmp_path) or process.poll() is not None)
    (tmp_path / "cancel").touch()
    assert program.result_of(process) == {"error": "DBOSAwaitedWorkflowCancelledError"}
    with nt.Reviews(store_of(tmp_path)) as reviews:
        assert reviews.open() == []
    assert program.done == ["a"]


@pytest.mark.parametrize("order", ["cba", "bca"])
def test_gathered_doubts_get_their_own_answers_when_killed_while_they_wait(
    tmp_path: Path, order: str
) -> None:
    """P307. Each decision reaches its own call, and a kill follows each decision."""
    program = Program(tmp_path)
    (tmp_path / "all-slow").touch()
    process = program.start([["apost", line] for line in "abc"])
    wait_for(lambda: len(program.done) == 3 or process.poll() is not None)
    (tmp_path / "go").touch()
    _kill(process)
    for line in order[:-1]:
        process = _recover_and_decide(program, line)
        _wait_for_record(program, line, process)
        _kill(process)
    process = _recover_and_decide(program, order[-1])
    assert program.result_of(process) == {"result": [{"did": f"seen {line}"} for line in "abc"]}
    assert program.done == ["a", "b", "c"]


def _recover_and_decide(program: Program, line: str) -> subprocess.Popen[str]:
    """Start a process, and decide while it waits."""
    call, process = f"{program.id}/apost.{'abc'.index(line) + 1}", program.start(RECOVERED)
    with nt.Reviews(store_of(program.folder)) as reviews:
        wait_for(lambda: reviews.open(call) or process.poll() is not None)
        _decide(reviews, call, line)
    return process


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=30)


def _wait_for_record(program: Program, line: str, process: subprocess.Popen[str]) -> None:
    wait_for(lambda: _is_recorded(program.folder, line) or process.poll() is not None)


def _is_recorded(folder: Path, line: str) -> bool:
    """Whether DBOS has recorded the answer of a person as the result of a step."""
    database = sqlite3.connect(folder / "dbos.sqlite", timeout=30)
    try:
        query = "SELECT output FROM operation_outputs WHERE function_name = 'nottwice.apost'"
        rows = database.execute(query).fetchall()
    finally:
        database.close()
    return any(f"seen {line}".encode() in base64.b64decode(output) for (output,) in rows)


def _decide(reviews: nt.Reviews, call: str, line: str) -> None:
    """A person has seen that the call happened, and what it did."""
    (case,) = reviews.open(call)
    said: dict[str, Any] = {"result": {"did": f"seen {line}"}, "by": "ann", "why": "looked"}
    reviews.decide(case.review.review_id, "happened", **said)


def test_a_tool_that_fails_permanently_fails_its_workflow(tmp_path: Path) -> None:
    assert Program(tmp_path).finish([["refuse", "a"]]) == {"error": "Permanent"}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "namespace"])
@CONTROL
def test_a_slow_step_that_another_executor_recovers(
    tmp_path: Path, words: list[str], *, elsewhere: bool
) -> None:
    """P307. The first executor lives, and may be in another pid namespace."""
    program = Program(tmp_path, *words)
    (tmp_path / "slow").touch()
    first = program.start([["send", "a"], ["send", "b"]], *(apart() if elsewhere else []))
    wait_for((tmp_path / "slowed").exists)
    second = program.start(RECOVERED)
    if words:
        wait_for(lambda: program.done.count("a") == 2)
    else:
        # It has found the call in the hands of the first, and waits.
        wait_for(lambda: _waits(tmp_path))
    (tmp_path / "go").touch()
    wanted = {"result": [{"did": "a"}, {"did": "b"}]}
    assert program.result_of(second) == wanted
    assert program.result_of(first) == wanted
    assert (program.done == ["a", "b"]) == (not words)


def _recorded(folder: Path) -> list[str]:
    """The steps that DBOS knows the outcome of."""
    with closing(sqlite3.connect(folder / "dbos.sqlite", timeout=30)) as records:
        rows = records.execute("SELECT function_name FROM operation_outputs").fetchall()
    return [name for (name,) in rows]


def _waits(folder: Path) -> bool:
    """Whether a step has said that it waits."""
    return "nottwice.dbos: " in (folder / "log").read_text()


@CONTROL
def test_the_database_is_restarted_under_a_step(
    tmp_path: Path, database: Any, words: list[str]
) -> None:
    """P290. DBOS and the ledger are both in it. The control keeps its own receipts, and loses one.

    DBOS itself comes through a restart: without receipts of its own, the control would count 1.
    """
    program = Program(tmp_path, *words, place=database.url)
    (tmp_path / "slow").touch()
    process = program.start([["send", "a"], ["send", "b"]])
    wait_for((tmp_path / "slowed").exists)
    database.restart()
    (tmp_path / "go").touch()
    assert program.result_of(process) == {"result": [{"did": "a"}, {"did": "b"}]}
    assert program.done == (["a", "a", "b"] if words else ["a", "b"])
