"""Is it on record who held a run, and how each of them left it, even if they were killed? (P221)"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.providers.scripted import scripted
from nottwice.store.interface import Commit, Store
from tests.postgres import server

PROGRAM = """
import os, signal, sys
import nottwice as nt

@nt.tool("unsafe_on_replay", name="opening_mail")
def mail(to: str) -> str:
    if to == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"mailed {to}"

with nt.run("r", store=sys.argv[1]):
    for to in ("ann", "bob", "cy"):
        mail(to=to)
"""


@nt.tool("unsafe_on_replay", name="opening_mail", verify=lambda call: nt.happened("mailed bob"))
def mail(to: str) -> str:
    return f"mailed {to}"


@pytest.fixture(params=["sqlite", "files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return server.ledger_url(tmp_path, lease_seconds=1)
    return str(tmp_path / "a.db") if request.param == "sqlite" else f"file:{tmp_path / 'runs'}"


def work(place: str) -> None:
    with nt.Ledger(place) as ledger, ledger.run("r", acquire_timeout="30s"):
        for to in ("ann", "bob", "cy"):
            mail(to=to)


def test_a_killed_opening_ends_when_the_next_process_takes_the_run(
    place: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    killed = subprocess.run([sys.executable, program, place, "bob"], check=False)
    assert killed.returncode == -signal.SIGKILL
    with nt.Ledger(place) as ledger:
        (open_still,) = ledger.run_record("r").openings or ()
        assert (open_still.ended, open_still.ended_at, open_still.receipts) == (None, None, None)
    work(place)
    work(place)
    with nt.Ledger(place) as ledger:
        record = ledger.run_record("r")
    first, second, third = record.openings or ()
    assert first.ended in ("killed", "taken over")
    if "postgres" not in place:
        assert first.ended == "killed"
    assert first.ended_at == second.began_at
    assert first.receipts is None
    # The receipt of ann, and that of bob, which verify found.
    assert (second.ended, second.receipts) == ("completed", 2)
    assert (third.ended, third.receipts) == ("completed", 3)
    assert first.holder not in (second.holder, third.holder)
    assert record.opened == 3


def test_an_opening_says_how_the_run_was_left(tmp_path: Path) -> None:
    store = str(tmp_path / "a.db")

    @nt.tool("unsafe_on_replay", name="opening_wait", approve=True)
    def risky() -> str:
        return "done"

    with pytest.raises(nt.errors.ApprovalNeeded):
        with nt.run("waits", store=store):
            risky()
    with pytest.raises(RuntimeError):
        with nt.run("fails", store=store):
            raise RuntimeError("no")
    with pytest.raises(KeyboardInterrupt):
        with nt.run("stops", store=store):
            raise KeyboardInterrupt
    with nt.Ledger(store) as ledger:
        said = {run.id: ledger.run_record(run.id).openings for run in ledger.runs()}
    assert {name: [one.ended for one in openings or ()] for name, openings in said.items()} == {
        "waits": ["waiting"],
        "fails": ["failed"],
        "stops": ["released"],
    }


class DiesAfterReply:
    """A store whose process is killed when the reply of a model has become durable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.location = store.location

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, commit: Commit) -> None:
        self._store.commit(commit)
        rows = [write.row for write in commit.calls]
        if any(row.identity.tool_name == "nottwice.model" and row.result for row in rows):
            os.kill(os.getpid(), signal.SIGKILL)


def test_the_reply_of_a_model_that_is_used_again_is_counted_with_its_cost(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    agent = nt.Agent("opening-agent", version="1.0.0", provider=scripted(["Done."]))
    pid = os.fork()
    if pid == 0:
        with nt.Ledger(path) as ledger:
            agent.run("r", goal="Say done.", store=nt.Ledger(DiesAfterReply(ledger.store)))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    with nt.Ledger(path) as ledger:
        outcome = agent.run("r", store=ledger)
        assert outcome.state.answer == "Done."
        first, second = ledger.run_record("r").openings or ()
        paid = outcome.state.spent
    assert (first.ended, first.tokens_saved) == ("killed", None)
    assert (second.ended, second.receipts) == ("completed", 1)
    assert second.tokens_saved == paid.tokens > 0
    assert second.usd_saved == paid.usd > 0
