"""What was in the checkpoint that the next one will follow?

Usually this process has just saved or read it. Then its values are still here as bytes, and the
next checkpoint is compared with them without reading anything. They are an aid, never an answer: if
one is missing, it is read from the ledger.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from nottwice.langchain.pieces import PiecePlace, Stored
from nottwice.langchain.rows import CheckpointKey
from nottwice.model.data.records import light_record

MOST_BYTES = 64 << 20
MOST_CHECKPOINTS = 512

Version = str | int | float | None


@light_record(frozen=True, slots=True)
class Channel:
    """A channel in a checkpoint: its version, and where its value is if it is large."""

    version: Version
    place: PiecePlace | None
    stored: Stored | None = None
    """The value as bytes, if it is at hand."""


Channels = dict[str, Channel]


class Recent:
    """The channels of the checkpoints that were saved or read last."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._guard = threading.Lock()
        self._kept: OrderedDict[CheckpointKey, tuple[Channels, int]] = OrderedDict()
        self._bytes = 0
        self._pid = os.getpid()

    def get(self, key: CheckpointKey) -> Channels | None:
        self._in_this_process()
        with self._guard:
            found = self._kept.get(key)
            return None if found is None else found[0]

    def keep(
        self, key: CheckpointKey, channels: Channels, *, instead_of: CheckpointKey | None = None
    ) -> None:
        """Keep a checkpoint, usually in place of the one that it follows."""
        self._in_this_process()
        size = sum(len(one.stored.body.data) for one in channels.values() if one.stored is not None)
        with self._guard:
            if instead_of is not None:
                self._drop(instead_of)
            self._drop(key)
            self._kept[key] = (channels, size)
            self._bytes += size
            while self._kept and (self._bytes > MOST_BYTES or len(self._kept) > MOST_CHECKPOINTS):
                self._drop(next(iter(self._kept)))

    def forget(self) -> None:
        """Forget everything, because checkpoints were removed."""
        self._begin()

    def _drop(self, key: CheckpointKey) -> None:
        _, size = self._kept.pop(key, (None, 0))
        self._bytes -= size

    def _in_this_process(self) -> None:
        """Start again after a fork: another thread of the parent may have held the lock."""
        if self._pid != os.getpid():
            self._begin()
