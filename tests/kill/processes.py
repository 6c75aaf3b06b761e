"""How does a test start a process, listen to it, kill it, and see what it left behind?

``Case`` is one test's corner of the world: a ledger of its own, a run, and an effect that the World
counts under a name of its own. What a crash left in the ledger is read with plain SQL, so that no
line of the code under test has a say in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tests
from nottwice.testing import World, WorldClient

ROOT = Path(tests.__file__).parent.parent
LISTEN_SECONDS = 60.0


class Nursery:
    """The process that the agents are forked from."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "nursery.sock"
        self.errors = folder / "errors.txt"
        with self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kill.nursery", str(self.path)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdout is not None
        with self._process.stdout as ready:
            assert ready.readline() == b"ready\n", self.errors.read_text()

    def start(self, plan: dict[str, Any]) -> Agent:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(LISTEN_SECONDS)
        connection.connect(str(self.path))
        connection.sendall(json.dumps(plan).encode() + b"\n")
        return Agent(connection, self.errors)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=LISTEN_SECONDS)


class Agent:
    """A process that carries out a plan, as seen from the test."""

    def __init__(self, connection: socket.socket, errors: Path) -> None:
        self._connection = connection
        self._stream = connection.makefile("r", encoding="utf-8")
        self._errors = errors
        self.exit_code: int | None = None
        self.lines: list[dict[str, Any]] = []
        self.pid: int = self.hear("pid")["pid"]

    def hear(self, name: str) -> dict[str, Any]:
        """The next line that speaks of ``name``."""
        while True:
            line = self._next_line()
            assert line is not None, f"it ended without {name!r}: {self.lines}"
            if name in line:
                return line

    def end(self) -> Agent:
        """Wait until it has ended."""
        while self.exit_code is None:
            assert self._next_line() is not None, f"no exit was reported: {self.lines}"
        return self

    def kill(self) -> Agent:
        """SIGKILL, and wait until it is dead."""
        # It may have come to its own end at this very moment.
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        return self.end()

    def signal(self, number: signal.Signals) -> None:
        # After its end the pid may belong to another process.
        if self.exit_code is None:
            os.kill(self.pid, number)

    def wait_until_stopped(self) -> None:
        """Wait until it has stopped itself (SIGSTOP) where its plan says."""
        wait_until(lambda: _is_stopped(self.pid))

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    @property
    def was_killed(self) -> bool:
        return self.exit_code == -signal.SIGKILL

    @property
    def said(self) -> dict[str, Any]:
        """All that it said, the last word on each matter."""
        merged: dict[str, Any] = {}
        for line in self.lines:
            merged.update(line)
        return merged

    @property
    def words(self) -> list[dict[str, Any]]:
        """What it said itself, line by line."""
        return [line for line in self.lines if not line.keys() & {"pid", "exit"}]

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self._stream.close()
        self._connection.close()

    def _next_line(self) -> dict[str, Any] | None:
        text = self._stream.readline()
        if not text:
            return None
        line: dict[str, Any] = json.loads(text)
        self.lines.append(line)
        self.exit_code = line.get("exit", self.exit_code)
        assert "broken" not in line, line["broken"]
        return line


class Case:
    """One test's ledger, run and effect."""

    def __init__(self, nursery: Nursery, world: World, ledger: Path, name: str) -> None:
        self.world = world
        self.client: WorldClient = world.client()
        self.ledger = ledger
        self.run = "run"
        self.effect = name
        self.started = 0
        self._nursery = nursery
        self._agents: list[Agent] = []

    def start(self, program: str = "call", **plan: Any) -> Agent:
        """Start a process and do not wait for it."""
        self.started += 1
        agent = self._nursery.start(self.plan(program, **plan))
        self._agents.append(agent)
        return agent

    def finish(self, program: str = "call", **plan: Any) -> Agent:
        """Start a process and wait until it has ended or killed itself."""
        return self.start(program, **plan).end()

    def plan(self, program: str, **plan: Any) -> dict[str, Any]:
        return {
            "program": program,
            "ledger": str(self.ledger),
            "world": self.world.url,
            "effect": self.effect,
            "run": self.run,
            **plan,
        }

    def gate(self, name: str = "gate") -> str:
        """A gate of the World that only this test knows."""
        return f"{self.effect} {name}"

    def effects(self, effect: str | None = None) -> int:
        """How often it really happened."""
        return self.world.count(effect or self.effect)

    def rows(self, run: str | None = None) -> list[dict[str, Any]]:
        """The ledger's calls, oldest first."""
        return self._select(
            "SELECT * FROM tool_call_results WHERE workflow_id = ? ORDER BY created_at, rowid",
            run or self.run,
        )

    def row(self) -> dict[str, Any]:
        """The only call in the ledger."""
        (row,) = self.rows()
        return row

    def reviews(self) -> list[dict[str, Any]]:
        return self._select(
            "SELECT * FROM nottwice_reviews WHERE workflow_id = ? ORDER BY opened_at, review_id",
            self.run,
        )

    def open_review(self) -> str:
        """The id of the only review that is open."""
        (review,) = [one for one in self.reviews() if one["status"] == "open"]
        return str(review["review_id"])

    def evidence(self) -> list[dict[str, Any]]:
        query = "SELECT * FROM nottwice_evidence WHERE workflow_id = ? ORDER BY at"
        return self._select(query, self.run)

    def events(self) -> list[dict[str, Any]]:
        """What the run was told, oldest first."""
        return self._select(
            "SELECT * FROM nottwice_events WHERE workflow_id = ? ORDER BY sent_at, event_id",
            self.run,
        )

    def run_record(self) -> dict[str, Any]:
        (record,) = self._select("SELECT * FROM nottwice_runs WHERE workflow_id = ?", self.run)
        return record

    def decide(self, verb: str, **more: Any) -> Agent:
        """Let a process of its own decide the open review."""
        review = more.pop("review", None) or self.open_review()
        return self.finish("decide", more={"verb": verb, "review": review, **more})

    def close(self) -> None:
        for agent in self._agents:
            agent.close()

    def _select(self, sql: str, run: str) -> list[dict[str, Any]]:
        if not self.ledger.exists():
            return []
        with contextlib.closing(sqlite3.connect(self.ledger, timeout=30)) as connection:
            connection.row_factory = sqlite3.Row
            # The process may have died before it had made the tables.
            if not connection.execute("PRAGMA user_version").fetchone()[0]:
                return []
            return [dict(row) for row in connection.execute(sql, (run,))]


def _is_stopped(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    if status.exists():
        return status.read_text().rpartition(")")[2].split()[0] == "T"
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return told.stdout.startswith("T")


def wait_until(claim: Any, *, seconds: float = 30.0) -> None:
    """Poll until ``claim()`` holds; for what no gate of the World can tell."""
    give_up_at = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < give_up_at, "it did not become true in time"
        time.sleep(0.005)
