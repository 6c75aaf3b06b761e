"""Are the checkpoints that come next at hand, and never more than fit into memory?"""

from __future__ import annotations

import os

import pytest

from nottwice.langchain import recent as recent_module
from nottwice.langchain.pieces import Body, PiecePlace, Stored
from nottwice.langchain.recent import Channel, Channels, Recent
from nottwice.langchain.rows import CheckpointKey


def key(number: int) -> CheckpointKey:
    return CheckpointKey("thread", "", str(number))


def channels(size: int) -> Channels:
    place = PiecePlace("root", 0, "mark")
    stored = Stored(place, Body("list", b"x" * size), size)
    return {"messages": Channel(1, place, stored), "small": Channel(1, None)}


def test_a_checkpoint_takes_the_place_of_the_one_that_it_follows() -> None:
    recent = Recent()
    recent.keep(key(1), channels(10))
    recent.keep(key(2), channels(20), instead_of=key(1))
    assert recent.get(key(1)) is None
    assert recent.get(key(2)) == channels(20)


def test_the_oldest_leave_when_there_are_too_many_or_too_large_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent_module, "MOST_BYTES", 100)
    monkeypatch.setattr(recent_module, "MOST_CHECKPOINTS", 3)
    recent = Recent()
    for number in range(5):
        recent.keep(key(number), channels(10))
    assert [number for number in range(5) if recent.get(key(number))] == [2, 3, 4]
    recent.keep(key(5), channels(85))
    assert [number for number in range(6) if recent.get(key(number))] == [4, 5]
    recent.keep(key(6), channels(101))
    assert [number for number in range(7) if recent.get(key(number))] == []
    recent.keep(key(7), channels(100))
    assert recent.get(key(7)) is not None


def test_a_forked_child_begins_with_nothing() -> None:
    recent = Recent()
    recent.keep(key(1), channels(10))
    recent._guard.acquire()  # As if another thread had it when the process was forked.
    pid = os.fork()
    if pid == 0:
        os._exit(0 if recent.get(key(1)) is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    recent._guard.release()
    recent.forget()
    assert recent.get(key(1)) is None
