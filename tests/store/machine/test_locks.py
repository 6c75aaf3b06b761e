"""Is a live holder, stopped or not, never taken for dead, and a dead one immediately (P8)?"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nottwice.errors import StoreError
from nottwice.model.run import HolderRecord, Life
from nottwice.store.machine import locks
from nottwice.store.machine.locks import _place_of, hold
from nottwice.store.sqlite.store import SqliteStore
from tests.store.abilities import python, run
from tests.store.children import Child
from tests.store.programs import become_holder
from tests.store.samples import NOW

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs the Linux process table")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@contextmanager
def holder_of(path: Path) -> Iterator[tuple[Child, str]]:
    """A live process that holds the ledger."""
    with Child(python("hold", path)) as child:
        yield child, child.hear()["holder"]


@pytest.fixture
def witness(path: Path) -> Iterator[SqliteStore]:
    """This process, which looks at the others."""
    store = SqliteStore(path, now=NOW)
    yield store
    store.close()


# Life and death of real processes


def test_a_live_holder_is_alive(path: Path, witness: SqliteStore) -> None:
    with holder_of(path) as (child, holder):
        assert witness.life_of(holder) is Life.ALIVE
        assert child.ask("commit")["did"] == "commit"
        assert witness.life_of(holder) is Life.ALIVE


def test_a_stopped_holder_is_alive(path: Path, witness: SqliteStore) -> None:
    with holder_of(path) as (child, holder):
        child.stop()
        assert witness.life_of(holder) is Life.ALIVE


def test_a_killed_holder_is_dead_immediately_even_before_it_is_reaped(
    path: Path, witness: SqliteStore
) -> None:
    with holder_of(path) as (child, holder):
        child.kill_unreaped()
        assert witness.life_of(holder) is Life.DEAD


def test_a_holder_that_ended_is_dead(path: Path, witness: SqliteStore) -> None:
    with holder_of(path) as (child, holder):
        assert child.end()[0] == 0
        assert witness.life_of(holder) is Life.DEAD


@linux_only
@pytest.mark.parametrize("stopped", [False, True])
def test_a_live_holder_is_alive_though_its_lock_file_was_deleted(
    path: Path, *, stopped: bool
) -> None:
    with holder_of(path) as (child, holder):
        path.with_name("ledger.db.holders").unlink()
        if stopped:
            child.stop()
        witness = SqliteStore(path, now=NOW)
        assert witness.life_of(holder) is Life.ALIVE
        child.kill_unreaped()
        assert witness.life_of(holder) is Life.DEAD
        witness.close()


def test_closing_and_opening_the_ledger_again_keeps_the_holder_alive(
    path: Path, witness: SqliteStore
) -> None:
    with holder_of(path) as (child, holder):
        for _ in range(3):
            assert child.ask("reopen") == {"did": "reopen", "holder": holder}
            assert witness.life_of(holder) is Life.ALIVE


@pytest.mark.parametrize(
    "looks", [10_000, pytest.param(100_000, marks=pytest.mark.deep(part="sweeps"))]
)
def test_two_concurrent_checks_do_not_take_each_other_for_the_holder(
    looks: int, path: Path, witness: SqliteStore
) -> None:
    with holder_of(path) as (child, dead):
        child.kill_unreaped()
    with holder_of(path) as (_, alive):
        for holder, life in ((dead, "dead"), (alive, "alive")):
            command = python("probe", path, holder, str(looks))
            with Child(command) as one, Child(command) as other:
                for prober in (one, other):
                    assert prober.hear() == {"ready": True}
                for prober in (one, other):
                    prober.tell("go")
                assert [prober.hear() for prober in (one, other)] == [{"seen": [life]}] * 2


@linux_only
def test_a_process_that_replaced_its_program_is_not_its_own_rival(path: Path) -> None:
    """A service that restarts itself by exec keeps its pid and start time, but not its lock."""
    with Child(python("replace_itself", path)) as child:
        assert child.hear() == {"ready": True}
        assert child.ask("go") == {"seen": ["dead"]}


@linux_only
def test_an_earlier_lock_of_this_very_process_is_alive(path: Path) -> None:
    first = SqliteStore(path, now=NOW)
    holder = become_holder(first)
    path.with_name("ledger.db.holders").unlink()
    second = SqliteStore(path, now=NOW)
    assert second.holder().holder_id != holder
    assert second.life_of(holder) is Life.ALIVE
    for store in (first, second):
        store.close()


@linux_only
def test_a_holder_in_another_container_is_judged_by_its_lock_alone(
    path: Path, witness: SqliteStore
) -> None:
    """Its pid means nothing here: in its own pid namespace it is process 1, like many others."""
    container = ["unshare", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or run([*container, "true"]).returncode:
        pytest.skip("pid namespaces are not allowed here")
    with Child([*container, *python("hold", path)]) as child:
        holder = child.hear()["holder"]
        record = witness.load_holder(holder)
        assert record is not None
        assert record.pid == 1
        assert witness.life_of(holder) is Life.ALIVE
        child.kill_unreaped()
        # Its container dies with it, but not in the same instant.
        assert child.hear() == {}
        pause = threading.Event()
        for _ in range(1000):
            if witness.life_of(holder) is not Life.ALIVE:
                break
            pause.wait(0.005)
        assert witness.life_of(holder) is Life.DEAD


def test_programs_that_a_holder_starts_do_not_keep_it_alive(
    path: Path, witness: SqliteStore
) -> None:
    """A lock must not outlive its process in a child that inherited the descriptor."""
    code = (
        "import subprocess, sys; from tests.store.programs import become_holder, open_ledger\n"
        "print(become_holder(open_ledger(sys.argv[1])), flush=True)\n"
        "child = subprocess.Popen(['sleep', '60'], close_fds=False)\n"
        "print(child.pid, flush=True); sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        holder, grandchild = it.stdout.readline().strip(), int(it.stdout.readline())
        it.kill()
        it.wait()
        try:
            assert witness.life_of(holder) is Life.DEAD
        finally:
            os.kill(grandchild, 9)


# What is believed where the process table does not tell

HERE = HolderRecord("here", "ant", "machine", "boot", "pid:[1]", os.getpid(), "1", NOW)
THERE = replace(HERE, holder_id="there", pid=2**22 + 7)


@pytest.fixture
def lock(tmp_path: Path) -> locks.HolderLock:
    return hold(tmp_path / "lock", now=NOW)


ELSEWHERE: dict[str, Any] = {"pid_namespace": "pid:[another]"}


@linux_only
@pytest.mark.parametrize(
    ("differs", "life"),
    [
        ({}, Life.DEAD),
        ({"lock_file": "1:2"}, Life.NOT_PROVEN),
        ({"lock_file": None}, Life.NOT_PROVEN),
        ({"boot_id": "a new boot of this machine"}, Life.NOT_PROVEN),
        ({"boot_id": "other", "machine_id": "another"}, Life.NOT_PROVEN),
        ({"boot_id": "other", "machine_id": ""}, Life.NOT_PROVEN),
        ({"boot_id": ""}, Life.NOT_PROVEN),
        ({"host": "renamed"}, Life.DEAD),
    ],
)
def test_a_free_lock_proves_death_in_a_container_only_by_the_same_file_and_boot(
    lock: locks.HolderLock, differs: dict[str, Any], life: Life
) -> None:
    there = replace(lock.record, holder_id="there", **ELSEWHERE)
    assert lock.life_of(replace(there, **differs)) is life


@pytest.mark.parametrize(
    ("differs", "life"),
    [({}, Life.DEAD), ({"host": "bee"}, Life.NOT_PROVEN), ({"lock_file": "1:2"}, Life.NOT_PROVEN)],
)
def test_without_a_boot_id_the_host_and_the_file_decide(
    lock: locks.HolderLock, differs: dict[str, Any], life: Life
) -> None:
    """On macOS there is neither a boot id nor a process table to read."""
    lock.record = replace(lock.record, boot_id="", pid_namespace="", pid_started="")
    assert lock.life_of(replace(lock.record, holder_id="there", **differs)) is life


@linux_only
def test_the_process_table_outweighs_a_lock_that_a_child_has_inherited(
    path: Path, witness: SqliteStore
) -> None:
    """A fork outside of Python keeps the descriptor, and with it the lock of the dead."""
    code = (
        "import ctypes, os, sys; from tests.store.programs import become_holder, open_ledger\n"
        "print(become_holder(open_ledger(sys.argv[1])), flush=True)\n"
        "child = ctypes.CDLL(None).fork()\n"
        "if child == 0: os.read(0, 1); os._exit(0)\n"
        "print(child, flush=True); sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        holder, child = it.stdout.readline().strip(), int(it.stdout.readline())
        try:
            assert witness.life_of(holder) is Life.ALIVE
            it.kill()
            it.wait()
            assert not witness._lock._bytes.is_free(_place_of(holder))
            assert witness.life_of(holder) is Life.DEAD
        finally:
            os.kill(child, 9)


@linux_only
def test_a_living_holder_that_reads_its_lock_file_keeps_its_lock(tmp_path: Path) -> None:
    lock = hold(tmp_path / "lock", now=NOW)
    (tmp_path / "lock").read_bytes()
    place = str(_place_of(lock.record.holder_id))
    with Child(python("is_free", tmp_path / "lock", place)) as other:
        assert other.hear() == {"free": False}


def test_nothing_is_proven_without_a_record(tmp_path: Path) -> None:
    assert hold(tmp_path / "lock", now=NOW).life_of(None) is Life.NOT_PROVEN


@linux_only
def test_a_record_says_who_where_and_since_when(tmp_path: Path) -> None:
    record = hold(tmp_path / "lock", now=NOW).record
    assert (record.pid, record.since) == (os.getpid(), NOW)
    assert record.host
    assert record.pid_started.isdigit()
    assert record.pid_namespace.startswith("pid:[")
    status = (tmp_path / "lock").stat()
    assert record.lock_file == f"{status.st_dev}:{status.st_ino}"
    assert record.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


# The lock file


def test_a_process_has_one_lock_for_a_file_by_whatever_name(tmp_path: Path) -> None:
    lock = hold(tmp_path / "lock", now=NOW)
    (tmp_path / "alias").symlink_to(tmp_path / "lock")
    assert hold(tmp_path / "lock", now=NOW + 1) is lock
    assert hold(tmp_path / "alias", now=NOW + 1) is lock
    assert hold(tmp_path / "other", now=NOW) is not lock


def test_the_lock_file_is_private_and_empty(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        hold(tmp_path / "lock", now=NOW)
    finally:
        os.umask(before)
    status = (tmp_path / "lock").stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_size == 0


def test_every_place_is_a_file_offset_and_none_is_reserved() -> None:
    places = {_place_of(f"{number}") for number in range(10_000)}
    assert len(places) == 10_000
    assert max(places) < 1 << 62


# A section for one at a time

PLACE = (1 << 62) + 9


def nothing() -> None:
    pass


def fail() -> None:
    pytest.fail("two at a time")


def test_others_are_kept_out_of_a_section_and_do_not_wait_forever(tmp_path: Path) -> None:
    lock = hold(tmp_path / "lock", now=NOW)
    with Child(python("exclude", tmp_path / "lock", str(PLACE))) as child:
        assert child.hear() == {"excluding": True}
        child.stop()
        with pytest.raises(StoreError, match=r"locked for 0\.05 s.*Nothing was done"):
            lock.exclusively(PLACE, fail, wait_seconds=0.05)
        lock.exclusively(PLACE + 1, nothing, wait_seconds=0)
        child.kill_unreaped()
        lock.exclusively(PLACE, nothing, wait_seconds=0)


def test_other_threads_wait_until_a_section_is_left(tmp_path: Path) -> None:
    lock = hold(tmp_path / "lock", now=NOW)
    order: list[str] = []
    waiting = threading.Event()

    def intrude() -> None:
        waiting.set()
        lock.exclusively(PLACE, lambda: order.append("the other"), wait_seconds=0)

    thread = threading.Thread(target=intrude)

    def work() -> None:
        thread.start()
        waiting.wait()
        order.append("the first")

    lock.exclusively(PLACE, work, wait_seconds=0)
    thread.join()
    assert order == ["the first", "the other"]


def test_a_section_that_fails_is_left(tmp_path: Path) -> None:
    lock = hold(tmp_path / "lock", now=NOW)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            lock.exclusively(PLACE, lambda: 1 / 0, wait_seconds=0)


def test_a_lock_that_was_forgotten_after_a_fork_is_not_used_again(tmp_path: Path) -> None:
    """Its number may mean another file by then. `sqlite/test_connections.py` makes a real fork."""
    lock = locks.HolderLock(tmp_path / "lock", now=NOW)
    lock.forget_after_fork()
    with pytest.raises(ValueError, match="negative"):
        lock.life_of(replace(THERE, boot_id="another"))
