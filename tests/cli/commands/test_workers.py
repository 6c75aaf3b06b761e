"""`nottwice workers` shows real workers: idle, stopped, killed, and told to stop (P380)."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.main import main
from nottwice.model.runs.workers import SILENT_SECONDS
from nottwice.views.ledger.workers import list_workers
from nottwice.worker.presence import Presence
from tests.cli.commands.test_worker import Place, wait_for
from tests.postgres import server

LATER_MICROS = int((SILENT_SECONDS + 1) * 1_000_000)


class Fleet(Place):
    """Workers on one ledger, which is kept by one of the stores."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        match kind:
            case "sqlite":
                self.address = str(folder / "agent.db")
            case "files":
                self.address = f"file:{folder / 'runs'}"
            case _:
                self.address = server.ledger_url(folder)
        super().__init__(folder)

    def write(self, app: str) -> None:
        super().write(app.replace('str(here / "agent.db")', repr(self.address)))

    def shown(self) -> list[dict[str, Any]]:
        ended = CliRunner().invoke(main, ["workers", "--json", "--store", self.address])
        # Before the worker has created it, there is no ledger.
        workers: list[dict[str, Any]] = json.loads(ended.stdout).get("workers", [])
        return workers

    def let_pass(self) -> None:
        """Let the heartbeat be as old as that of a worker that has been stopped for a while."""
        match self.kind:
            case "sqlite":
                with closing(sqlite3.connect(self.address)) as connection, connection:
                    connection.execute(
                        "UPDATE nottwice_workers SET seen_at = seen_at - ?", (LATER_MICROS,)
                    )
            case "files":
                with nt.Ledger(self.address) as ledger:
                    (worker,) = ledger.store.workers(now=ledger.clock.now())
                    before = worker.seen_at - SILENT_SECONDS - 1
                    ledger.store.announce(replace(worker, seen_at=before))
            case _:
                schema = server.schema_for(self.folder)
                with server.connected() as session:
                    session.execute(
                        f"UPDATE {schema}.workers SET seen_at = seen_at - {LATER_MICROS}".encode()
                    )


@pytest.fixture(params=["sqlite", "files", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, request.param)
    yield made
    for worker in made.workers:
        if worker.poll() is None:
            worker.kill()
        worker.communicate()


def states(fleet: Fleet) -> list[str]:
    return [one["state"] for one in fleet.shown()]


def idle(fleet: Fleet) -> subprocess.Popen[str]:
    """A worker that waits for work."""
    worker = fleet.worker()
    wait_for(lambda: f"pid {worker.pid} on" in json.dumps(fleet.shown()))
    return worker


def test_a_real_worker_is_alive_while_it_is_idle_silent_when_stopped_and_dead_when_killed(
    fleet: Fleet,
) -> None:
    worker = idle(fleet)
    (shown,) = fleet.shown()
    assert (shown["state"], shown["held"]) == ("alive", 0)
    assert shown["graphs"] == ["asking@1.0.0", "flow@1.0.0"]
    worker.send_signal(signal.SIGSTOP)
    fleet.let_pass()
    assert states(fleet) == ["silent"]
    worker.kill()
    worker.wait()
    assert states(fleet) == ["dead"]
    # The next worker removes what the dead one has left, and when it is told to stop, its own.
    second = idle(fleet)
    assert states(fleet) == ["alive"]
    second.terminate()
    assert second.wait() == 0
    assert fleet.shown() == []


def test_without_a_worker_it_says_how_to_start_one(tmp_path: Path) -> None:
    store = str(tmp_path / "a.db")
    with nt.Ledger(store):
        pass
    ended = CliRunner().invoke(main, ["workers", "--store", store])
    assert ended.exit_code == 0
    assert ended.stdout == f"No worker is on record.\nStart one: nottwice worker --store {store}\n"


def test_workers_are_listed_and_counted_by_the_bare_command(tmp_path: Path) -> None:
    store = str(tmp_path / "a.db")
    with nt.Ledger(store) as ledger:
        bare = CliRunner().invoke(main, ["--store", store]).stdout
        assert "alive" not in bare
        worker = Presence(ledger, ["b@1.0.0", "a@2.0.0"], concurrency=8)
        worker.renew()
        (known,) = list_workers(ledger).workers
        listed = CliRunner().invoke(main, ["workers", "--store", store]).stdout
        head, row = listed.splitlines()
        assert head.split() == ["WORKER", "STATE", "HEARD", "FROM", "STARTED", "RUNS", "GRAPHS"]
        assert row.startswith(known.process)
        assert row.endswith("idle  a@2.0.0, b@1.0.0")
        bare = CliRunner().invoke(main, ["--store", store]).stdout
        assert "1 alive" in bare
