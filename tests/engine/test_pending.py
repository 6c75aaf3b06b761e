"""Pending writes: none is lost, and none is written in an outdated form."""

from __future__ import annotations

from nottwice.engine.pending import PendingWrites
from nottwice.model.run import CheckpointRecord, Fence
from nottwice.store.interface import CallWrite, Commit
from tests.store.samples import NOW, RESULT, pending


def test_checkpoints_are_rewritten_only_while_no_commit_writes_them_as_they_were() -> None:
    plain, packed = (CheckpointRecord("r", 1, snapshot, "/", "[]", 0.0) for snapshot in (0, 2))
    writes = PendingWrites()
    writes.add_checkpoint(plain)
    assert writes.take().checkpoints == (plain,)
    assert writes.take().checkpoints == (plain,)
    writes.over()
    # The other commit may end after the one that writes what is packed, and undo it.
    assert not writes.rewrite([packed])
    writes.over()
    assert writes.rewrite([packed])
    assert writes.take().checkpoints == (packed,)


def test_what_changes_while_a_commit_writes_it_is_written_by_the_next_one() -> None:
    writes = PendingWrites()
    first = pending()
    writes.add_call(CallWrite(first))
    carried = Commit("run", Fence("holder", 1), calls=writes.take().calls)
    second = first.done(RESULT, now=NOW + 1)
    writes.add_call(CallWrite(second))
    writes.written(carried)
    writes.over()
    (left,) = writes.take().calls
    assert (left.row, left.after) == (second, first.state)
