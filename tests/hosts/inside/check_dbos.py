"""DBOS itself on SQLite or PostgreSQL, real processes, real SIGKILLs. Runs inside `.venv-hosts`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from tests.hosts.inside.effects import lines, plan_death, wait_for

PROGRAM = Path(__file__).with_name("dbos_program.py")
RECOVERED = [["recovered", ""]]


class Program:
    """The processes of one test."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, self.words, self.id = folder, words, uuid.uuid4().hex
        if os.environ.get("NOTTWICE_PLACE"):
            (folder / "place").write_text(os.environ["NOTTWICE_PLACE"])

    @property
    def store(self) -> str:
        place = self.folder / "place"
        return place.read_text() if place.exists() else str(self.folder / "ledger.db")

    def start(self, plan: Any) -> subprocess.Popen[str]:
        command = [sys.executable, str(PROGRAM), str(self.folder), self.id, json.dumps(plan)]
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
        process = self.start(plan)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, (self.folder / "log").read_text()[-3000:]
        return json.loads(said.splitlines()[-1])

    @property
    def done(self) -> list[str]:
        return sorted(lines(self.folder))


@pytest.mark.parametrize("words", [["bare"], []], ids=["bare", "protected"])
def test_a_process_killed_after_the_effect(tmp_path: Path, words: list[str]) -> None:
    """P307. Two effects without nottwice, one with it."""
    program = Program(tmp_path, *words)
    plan_death(tmp_path, "after")
    program.killed([["send", "a"], ["send", "b"]])
    assert program.finish(RECOVERED) == {"result": [{"did": "a"}, {"did": "b"}]}
    assert program.done == (["a", "a", "b"] if words else ["a", "b"])


@pytest.mark.parametrize("at", ["before", "acknowledge"])
def test_a_process_killed_before_the_effect_or_after_the_receipt(tmp_path: Path, at: str) -> None:
    program = Program(tmp_path)
    plan_death(tmp_path, at)
    program.killed([["send", "a"], ["send", "b"], ["send", "c"]])
    assert len(program.finish(RECOVERED)["result"]) == 3
    assert program.done == ["a", "b", "c"]


def test_parallel_steps_are_made_once_each(tmp_path: Path) -> None:
    program = Program(tmp_path)
    plan_death(tmp_path, "after")
    plan = [["asend", f"{n}"] for n in range(6)]
    program.killed(plan)
    assert len(program.finish(RECOVERED)["result"]) == 6
    assert program.done == [f"{n}" for n in range(6)]


def test_a_resumed_workflow_gets_its_receipts(tmp_path: Path) -> None:
    """P307. Cancelled and resumed, it counts again from the beginning."""
    program = Program(tmp_path)
    plan_death(tmp_path, "after")
    program.killed([["send", "a"], ["send", "b"]])
    assert program.finish([["resume", ""]]) == {"result": [{"did": "a"}, {"did": "b"}]}
    assert program.done == ["a", "b"]


def test_a_doubt_is_waited_for_in_the_workflow_until_a_person_has_decided(tmp_path: Path) -> None:
    program = Program(tmp_path)
    plan_death(tmp_path, "after")
    program.killed([["post", "a"], ["post", "b"]])
    process = program.start(RECOVERED)
    with nt.Reviews(program.store) as reviews:
        wait_for(lambda: reviews.open() or process.poll() is not None)
        (case,) = reviews.open()
        said: dict[str, Any] = {"result": {"did": "seen"}, "by": "ann", "why": "looked"}
        reviews.decide(case.review.review_id, "happened", **said)
    printed, _ = process.communicate(timeout=120)
    assert json.loads(printed.splitlines()[-1]) == {"result": [{"did": "seen"}, {"did": "b"}]}
    assert program.done == ["a", "b"]


def test_a_tool_that_fails_for_good_fails_its_workflow(tmp_path: Path) -> None:
    assert Program(tmp_path).finish([["refuse", "a"]]) == {"error": "Permanent"}
