"""If a disk is full or fails, or the process dies, is exactly what was reported durable there?

A child commits notes and says of each what it was told: durable, failed, or unknown. Then it dies
without a clean end, the ledger is opened again, and every note is looked for: what was told durable
must be there, what was told to have failed must not, and no half of a commit may be anywhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from nottwice.errors import StoreError
from nottwice.store.sqlite.store import SqliteStore
from tests.store.abilities import mounted, needs_strace, python, traced
from tests.store.children import Child
from tests.store.samples import NOW, note, noted


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


class Told:
    """What a child was told about its commits."""

    def __init__(self, said: Iterable[dict[str, Any]]) -> None:
        self.said = list(said)
        self.durable = {facts["durable"] for facts in self.said if "durable" in facts}
        self.failed = {facts["failed"] for facts in self.said if "failed" in facts}
        self.unknown = {facts["unknown"] for facts in self.said if "unknown" in facts}
        self.over = {"over": True} in self.said
        self.errors = " ".join(str(facts.get("error", "")) for facts in self.said)

    def check(self, path: Path) -> None:
        """Open the ledger and compare, note by note."""
        store = SqliteStore(path, now=NOW, create=False)
        there = noted(store)
        weights = noted(store, action="weigh")
        store.close()
        assert len(there) == len(set(there))
        assert self.durable - set(there) == set(), "told durable, and not there"
        assert self.failed & set(there) == set(), "told to have failed, and there"
        assert sorted(weights) == sorted(there), "half a commit"


def listen(command: list[str], **environment: str) -> Told:
    """Let a child commit until its end."""
    with Child(command, **environment) as child:
        if "starve" not in command:
            assert child.hear() == {"ready": True}, child.end()
            child.tell("go")
        return Told(child.hear_all())


# Full disks


@pytest.mark.parametrize("threads", [1, 12])
@pytest.mark.parametrize("kilobytes", [220, 400])
def test_a_file_that_may_not_grow_costs_no_told_commit(
    path: Path, kilobytes: int, threads: int
) -> None:
    command = python("starve", path, str(kilobytes * 1000), "300", str(threads), "3000")
    told = listen(command)
    assert told.over
    starved = told.failed | told.unknown
    assert starved, "the limit was never reached"
    assert len(told.durable) > 5, "nothing fitted in"
    assert {10_000, 10_001, 10_002, 10_003, 10_004} <= told.durable, "it did not recover"
    assert "could not be used" in told.errors or "may or may not be durable" in told.errors
    told.check(path)


@pytest.mark.parametrize("threads", [1, 12])
def test_a_full_disk_costs_no_told_commit_and_heals_when_there_is_space(
    tmp_path: Path, threads: int
) -> None:
    with mounted(tmp_path / "disk", options="size=700k") as disk:
        command = python("acknowledge", disk / "ledger.db", "300", str(threads), "3000")
        told = listen(command)
        assert told.over
        assert told.failed, "the disk was never full"
        assert len(told.durable) > 5, "nothing fitted in"
        assert "Free some disk space" in told.errors
        subprocess.run(["mount", "-o", "remount,size=9m", str(disk)], check=True)
        told.check(disk / "ledger.db")
        store = SqliteStore(disk / "ledger.db", now=NOW)
        store.commit(note(20_000, weight=3000))
        assert 20_000 in noted(store)
        store.close()


def test_one_process_continues_when_its_full_disk_has_space_again(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", options="size=700k") as disk:
        store = SqliteStore(disk / "ledger.db", now=NOW)
        number = 0
        with pytest.raises(StoreError, match="Free some disk space"):
            while number < 1000:
                store.commit(note(number, weight=3000))
                number += 1
        subprocess.run(["mount", "-o", "remount,size=9m", str(disk)], check=True)
        store.commit(note(number, weight=3000))
        assert noted(store) == list(range(number + 1))
        store.close()


# Disks that fail


def listen_with_fault(path: Path, fault: str, *, count: int, threads: int) -> Told:
    """Let a child commit while system calls fail. The kernel's answer is replaced, not ours.

    The ledger is there already, so that the first writes are those of the commits. The counts of
    strace are per thread, and commits are made by threads.
    """
    SqliteStore(path, now=NOW).close()
    log = path.with_name("log")
    options = ["-qq", "-e", f"trace={fault.partition(':')[0]}", "-e", f"inject={fault}"]
    command = python("acknowledge", path, str(count), str(threads), "500")
    told = listen(traced(command, log, *options))
    assert told.over
    assert "INJECTED" in log.read_text()
    assert len(told.durable | told.failed | told.unknown) == count
    return told


@needs_strace
@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize(
    "fault",
    [
        "fdatasync:error=EIO:when=2",
        "fdatasync:error=EIO:when=2+3",
        "fdatasync:error=EIO:when=3+",
        "pwrite64:error=EIO:when=9+13",
        "pwrite64:error=ENOSPC:when=9+7",
        "fdatasync,ftruncate:error=EIO:when=2+2",
    ],
)
def test_an_error_at_any_write_or_sync_is_never_told_wrongly(
    path: Path, fault: str, threads: int
) -> None:
    """The faults strike commits, and the repairs after them."""
    listen_with_fault(path, fault, count=60, threads=threads).check(path)


@needs_strace
def test_one_failed_sync_is_repeated_and_the_commit_succeeds(path: Path) -> None:
    told = listen_with_fault(path, "fdatasync:error=EIO:when=5", count=20, threads=1)
    assert told.durable == set(range(20))
    told.check(path)


@needs_strace
def test_a_sync_that_keeps_failing_is_told_as_unknown_and_not_as_failed(path: Path) -> None:
    """The commit is in the log, and comes back after a crash: 'nothing was written' is a lie."""
    told = listen_with_fault(path, "fdatasync:error=EIO:when=5+", count=10, threads=1)
    assert told.durable
    assert told.unknown == set(range(10)) - told.durable
    assert told.failed == set()
    assert "may or may not be durable" in told.errors
    told.check(path)


@needs_strace
@pytest.mark.parametrize("every", [1, 2, 3, 4, 5, 6])
def test_a_repair_that_fails_in_turn_is_never_told_wrongly(path: Path, every: int) -> None:
    """One commit only, so that nothing comes after it that could cover up what is in the log."""
    fault = f"fdatasync:error=EIO:when=1+{every}"
    listen_with_fault(path, fault, count=1, threads=1).check(path)


@needs_strace
def test_after_a_failed_sync_what_is_visible_is_written_again(path: Path) -> None:
    """A failed sync may have dropped pages that reads still see; the next one would not say so.

    Each repair ends with an emptied log, whether one commit is in doubt or a whole batch.
    """
    store = SqliteStore(path, now=NOW)
    store.commit(note(90_000, weight=10))
    log = path.with_name("log")
    options = ["-qq", "-e", "trace=fdatasync,ftruncate", "-e", "inject=fdatasync:error=EIO:when=1"]
    told = listen(traced(python("acknowledge", path, "80", "8", "500"), log, *options))
    store.close()
    assert told.durable == set(range(80))
    seen = log.read_text()
    assert seen.count("INJECTED") > 1
    assert seen.count("ftruncate(") >= seen.count("INJECTED")
    told.check(path)


# Death


@pytest.mark.parametrize("kills", [4])
def test_whatever_was_acknowledged_survives_a_kill_in_the_middle_of_commits(
    path: Path, kills: int
) -> None:
    durable: set[int] = set()
    for round_number in range(kills):
        first = round_number * 10_000
        with Child(python("acknowledge", path, "10000", "6", "200", str(first))) as child:
            assert child.hear() == {"ready": True}
            child.tell("go")
            heard = [child.hear() for _ in range(20 + 30 * round_number)]
            os.kill(child.pid, signal.SIGKILL)
            told = Told([*heard, *child.hear_all()])
        assert not told.over
        assert len(told.durable) >= len(heard)
        durable |= told.durable
        told.check(path)
    store = SqliteStore(path, now=NOW)
    assert durable <= set(noted(store))
    store.close()
