"""Is a copy complete or absent, and does it ask before its runs continue? (P90, P91)"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.guard.ledger import ledger_of
from nottwice.guard.upkeep.backup import account_for, hold_restored
from nottwice.store.memory import MemoryStore
from nottwice.store.sqlite import copy as sqlite_copy
from nottwice.worker.presence import Presence
from tests.tidy.source import ROOT

sent: list[str] = []
dies: list[str] = []


@nt.tool("unsafe_on_replay", name="backup_mail")
def mail(to: str) -> str:
    sent.append(to)
    if to in dies:
        os._exit(9)
    return to


@nt.tool("idempotent_with_key", key="pay-{order}", window="24h", name="backup_pay")
def pay(order: int) -> int:
    sent.append(f"order {order}")
    if "pay" in dies:
        os._exit(9)
    return order


@pytest.fixture(params=["agent.db", "file:agent"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    sent.clear()
    name: str = request.param
    return name


def copy_of(store: str) -> str:
    return "file:copy" if store.startswith("file:") else "copy"


def agent(store: str, *names: str, run_id: str = "run", fails: bool = False) -> None:
    with nt.run(run_id, store=store):
        for name in names:
            mail(name)
        if fails:
            raise ValueError("not yet")


def begun(store: str) -> None:
    with pytest.raises(ValueError, match="not yet"):
        agent(store, "ann", fails=True)


def review_of(blocked: pytest.ExceptionInfo[nt.RunBlocked]) -> str:
    assert blocked.value.review_id is not None
    return str(blocked.value.review_id)


def decide(store: str, review_id: str, verb: str) -> None:
    with nt.Reviews(store) as reviews:
        reviews.decide(review_id, verb, by="ann", why="looked at the outbox")


def test_what_was_done_since_the_backup_is_not_done_again_without_a_person(store: str) -> None:
    begun(store)
    nt.backup("copy", store=store)
    agent(store, "ann", "bob")
    assert sent == ["ann", "bob"]
    for _ in range(2):
        with pytest.raises(nt.RunBlocked, match="is a copy made on") as blocked:
            agent(copy_of(store), "ann", "bob")
    assert sent == ["ann", "bob"]
    decide(copy_of(store), review_of(blocked), "accept")
    agent(copy_of(store), "ann")
    assert sent == ["ann", "bob"]
    agent(copy_of(store), "ann", "cy")
    assert sent == ["ann", "bob", "cy"]


def test_the_ledger_that_was_copied_continues_unasked(store: str) -> None:
    begun(store)
    nt.backup("copy", store=store, by="ann")
    agent(store, "ann", "bob")
    (entry,) = ledger_of(store).store.audit("")
    assert (entry.who, entry.action) == ("ann", "backup")
    assert entry.subject.endswith("copy")


def test_a_run_that_begins_in_the_copy_is_not_held(store: str) -> None:
    begun(store)
    nt.backup("copy", store=store)
    for _ in range(2):
        agent(copy_of(store), "dan", run_id="new")
    assert sent == ["ann", "dan"]


def test_a_plain_run_that_had_ended_is_held_too_for_it_may_have_had_another_turn(
    store: str,
) -> None:
    agent(store, "ann")
    nt.backup("copy", store=store)
    agent(store, "ann", "bob")
    with pytest.raises(nt.RunBlocked):
        agent(copy_of(store), "ann", "bob")
    assert sent == ["ann", "bob"]


def test_what_was_in_doubt_is_not_settled_before_a_person_has_decided(store: str) -> None:
    pid = os.fork()
    if pid == 0:
        dies.append("pay")
        with nt.run("run", store=store):
            pay(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    nt.backup("copy", store=store)
    with pytest.raises(nt.RunBlocked, match="is a copy") as blocked:
        with nt.run("run", store=copy_of(store)):
            pay(7)
    assert sent == []
    decide(copy_of(store), review_of(blocked), "accept")
    with nt.run("run", store=copy_of(store)):
        assert pay(7) == 7
    assert sent == ["order 7"]


def test_a_graph_of_a_copy_waits_and_continues_from_its_checkpoint_when_it_may(store: str) -> None:
    flow: nt.Graph[dict[str, str]] = nt.Graph("backup-flow", version="1.0.0")

    @flow.node
    def first(state: dict[str, str]) -> dict[str, str]:
        return {"first": mail("ann")}

    @flow.node
    def then(state: dict[str, str]) -> dict[str, str]:
        return {"size": nt.receive("size"), "second": mail("bob")}

    assert flow.run("run", {}, store=store).status == "waiting"
    nt.backup("copy", store=store)
    for place in (store, copy_of(store)):
        nt.send("run", "size", "large", store=place)
    assert flow.run("run", store=store).status == "completed"
    held = flow.run("run", store=copy_of(store))
    assert (held.status, [review.kind.value for review in held.reviews]) == (
        "waiting",
        ["restored"],
    )
    assert sent == ["ann", "bob"]
    decide(copy_of(store), held.reviews[0].review_id, "accept")
    assert flow.run("run", store=copy_of(store)).state["size"] == "large"
    assert sent == ["ann", "bob", "bob"], "a person has said that it may"


def test_a_held_run_can_be_aborted(store: str) -> None:
    begun(store)
    nt.backup("copy", store=store)
    with pytest.raises(nt.RunBlocked) as blocked:
        agent(copy_of(store), "ann")
    decide(copy_of(store), review_of(blocked), "abort")
    with pytest.raises(nt.errors.RunAborted):
        agent(copy_of(store), "ann")
    assert sent == ["ann"]


def test_a_person_can_account_for_the_whole_copy_and_a_copy_of_it_asks_again(store: str) -> None:
    begun(store)
    nt.backup("copy", store=store)
    with pytest.raises(nt.RunBlocked):
        agent(copy_of(store), "ann", "bob")
    ledger = ledger_of(copy_of(store))
    account_for(ledger, by="ann", why="nothing ran since")
    agent(copy_of(store), "ann", "bob")
    assert sent == ["ann", "bob"]
    assert ledger.store.open_reviews() == []
    with pytest.raises(nt.errors.UsageError, match="is not a copy"):
        account_for(ledger, by="ann", why="nothing ran since")
    nt.backup("again", store=copy_of(store))
    with pytest.raises(nt.RunBlocked):
        agent(copy_of(store).replace("copy", "again"), "ann")


def test_a_ledger_that_was_restored_by_other_means_can_be_held(store: str) -> None:
    begun(store)
    ledger = ledger_of(store)
    with pytest.raises(nt.errors.UsageError, match="reason"):
        hold_restored(ledger, by="ann", why=" ")
    hold_restored(ledger, by="ann", why="a snapshot of the volume")
    with pytest.raises(nt.RunBlocked):
        agent(store, "ann")
    assert sent == ["ann"]


def test_the_workers_of_a_ledger_are_not_those_of_its_copy(store: str) -> None:
    """P380."""
    with nt.Ledger(store) as ledger:
        Presence(ledger, ["order@1.0.0"], concurrency=8).renew()
        assert len(ledger.store.workers(now=ledger.clock.now())) == 1
        nt.backup("copy", store=store)
    with nt.Ledger(copy_of(store)) as copy:
        assert copy.store.workers(now=copy.clock.now()) == []


def test_nothing_is_overwritten(store: str, tmp_path: Path) -> None:
    begun(store)
    (tmp_path / "copy").write_text("mine")
    with pytest.raises(nt.errors.UsageError, match="already exists"):
        nt.backup("copy", store=store)
    assert (tmp_path / "copy").read_text() == "mine"
    with pytest.raises(nt.errors.UsageError, match="no folder"):
        nt.backup("nowhere/copy", store=store)
    for path in ("", "postgresql://db/copy"):
        with pytest.raises(nt.errors.UsageError, match="not a path"):
            nt.backup(path, store=store)
    with pytest.raises(nt.errors.NoLedger):
        nt.backup("copy-2", store="gone.db")
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


def test_a_ledger_whose_name_is_not_utf_8_can_be_copied(store: str) -> None:
    odd = store + os.fsdecode(b"\xff")
    agent(odd, "ada")
    nt.backup(copy_of(store) + os.fsdecode(b"\xfe"), store=odd)
    assert [entry.action for entry in ledger_of(odd).store.audit()] == ["backup"]


def test_the_log_of_another_ledger_is_not_taken_for_the_copy_s_own(tmp_path: Path) -> None:
    ledger = str(tmp_path / "agent.db")
    agent(ledger, "ann")
    (tmp_path / "copy.db-wal").write_bytes(b"old")
    with pytest.raises(nt.errors.UsageError, match=r"copy\.db-wal"):
        nt.backup(tmp_path / "copy.db", store=ledger)


def test_a_store_that_cannot_copy_itself_says_what_can() -> None:
    with pytest.raises(nt.errors.UsageError, match="pg_dump"):
        nt.backup("copy", store=MemoryStore())


def test_a_copy_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    ledger = str(tmp_path / "agent.db")
    agent(ledger, "ann")
    nt.backup(tmp_path / "copy.db", store=ledger)
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "copy.db-wal").exists()


def test_a_copy_shows_one_moment_while_others_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_copy, "PAGES_AT_ONCE", 1)
    ledger = str(tmp_path / "agent.db")
    agent(ledger, *(f"to {number}" for number in range(30)), run_id="before")
    steps: list[int] = []

    def write_meanwhile(done: int, total: int) -> None:
        steps.append(done)
        if len(steps) in (2, 5, 9):
            writer = threading.Thread(
                target=agent, args=(ledger, "late"), kwargs={"run_id": f"late-{done}"}
            )
            writer.start()
            writer.join()

    nt.backup(tmp_path / "copy.db", store=ledger, on_progress=write_meanwhile)
    assert steps == sorted(set(steps)), "it began again"
    with contextlib.closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert copy.execute("SELECT workflow_id FROM nottwice_runs").fetchall() == [("before",)]
        assert copy.execute("SELECT count(*) FROM tool_call_results").fetchone() == (30,)
    assert len(ledger_of(ledger).store.runs()) == 4


def test_a_damaged_ledger_gives_no_copy(tmp_path: Path) -> None:
    ledger = tmp_path / "agent.db"
    agent(str(ledger), *(f"to {number}" for number in range(200)))
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    with ledger.open("r+b") as file:
        file.seek((pages - 3) * 4096)
        file.write(b"\xff" * 8192)
    with pytest.raises(nt.errors.StoreError):
        nt.backup(tmp_path / "copy.db", store=str(ledger))
    assert not list(tmp_path.glob("*copy*"))


PROGRAM = """
import sys, time
import nottwice as nt
from nottwice.store.sqlite import copy as sqlite_copy
sqlite_copy.PAGES_AT_ONCE = 1
def told(done, total):
    print(done, flush=True)
    time.sleep(0.01)
nt.backup(sys.argv[2], store=sys.argv[1], on_progress=told)
"""


def test_a_backup_that_is_killed_leaves_no_copy_and_the_next_one_is_whole(tmp_path: Path) -> None:
    ledger = tmp_path / "agent.db"
    agent(str(ledger), *(f"to {number}" for number in range(100)))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(ledger), str(tmp_path / "copy.db")],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT / "src")},
    ) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "copy.db").exists()
    made = nt.backup(tmp_path / "copy.db", store=str(ledger))
    assert made.bytes > 0
    assert len(ledger_of(tmp_path / "copy.db").store.calls("run")) == 100
    assert not list(tmp_path.glob(".copy*"))
