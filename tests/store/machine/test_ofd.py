"""Do byte locks exclude other processes, and does no other descriptor drop them (P115)?"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.store.machine import ofd
from nottwice.store.machine.ofd import ByteLocks

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has OFD locks")
PLACE = (1 << 62) + 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def descriptor(path: Path) -> Iterator[int]:
    found = os.open(path, os.O_RDWR | os.O_CREAT)
    yield found
    os.close(found)


def seen_by_another(path: Path, place: int = PLACE) -> bool:
    """Whether a byte is free for another process."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        free = ByteLocks(os.open(path, os.O_RDWR)).is_free(place)
        os.write(writer, b"1" if free else b"0")
        os._exit(0)
    os.wait()
    answer = os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    return answer == b"1"


@pytest.fixture(params=["OFD", "POSIX"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With OFD locks, and as on macOS."""
    if request.param == "POSIX":
        monkeypatch.setattr(ofd, "SET", -1)
    elif sys.platform != "linux":
        pytest.skip("only Linux has OFD locks")
    return str(request.param)


def test_a_locked_byte_is_taken_for_others_until_it_is_unlocked(
    kind: str, path: Path, descriptor: int
) -> None:
    locks = ByteLocks(descriptor)
    assert locks.outlive_other_descriptors is (kind == "OFD")
    assert seen_by_another(path)
    locks.take(PLACE)
    assert not seen_by_another(path)
    assert seen_by_another(path, PLACE + 1)
    assert seen_by_another(path, PLACE - 1)
    assert locks.is_free(PLACE)
    locks.unlocking(PLACE)()
    assert seen_by_another(path)


@linux_only
def test_a_byte_that_is_taken_is_refused_and_not_waited_for(path: Path, descriptor: int) -> None:
    ByteLocks(descriptor).take(PLACE)
    other = os.open(path, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        ByteLocks(other).take(PLACE)
    os.close(other)


@linux_only
def test_no_close_of_another_descriptor_drops_a_lock(path: Path, descriptor: int) -> None:
    ByteLocks(descriptor).take(PLACE)
    path.read_bytes()
    os.close(os.open(path, os.O_RDWR))
    assert not seen_by_another(path)


@linux_only
def test_a_posix_lock_is_respected_and_respects_back(path: Path, descriptor: int) -> None:
    locks = ByteLocks(descriptor)
    other = os.open(path, os.O_RDWR)
    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, PLACE)
    assert not locks.is_free(PLACE)
    with pytest.raises(BlockingIOError):
        locks.take(PLACE)
    fcntl.lockf(other, fcntl.LOCK_UN, 1, PLACE)
    locks.take(PLACE)
    with pytest.raises(BlockingIOError):
        fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, PLACE)
    os.close(other)


@linux_only
def test_looking_takes_no_lock(path: Path, descriptor: int) -> None:
    other = os.open(path, os.O_RDWR)
    assert ByteLocks(other).is_free(PLACE)
    ByteLocks(descriptor).take(PLACE)
    os.close(other)


def test_where_the_kernel_refuses_ofd_locks_posix_locks_are_used(
    path: Path, descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ofd, "SET", 9999)
    monkeypatch.setattr(ofd, "_GET", 9998)
    locks = ByteLocks(descriptor)
    assert locks.outlive_other_descriptors is False
    locks.take(PLACE)
    assert not seen_by_another(path)


def test_a_descriptor_that_was_forgotten_is_not_used(descriptor: int) -> None:
    locks = ByteLocks(descriptor)
    locks.forget()
    with pytest.raises(ValueError, match="negative"):
        locks.take(PLACE)
