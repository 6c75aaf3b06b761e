"""What a checkpoint of a graph's run contains: its state and its position.

Versions are rebuilt as plain data (`checkpoint.py`). Continuing from a version needs more: a state
that is an object, and a position that can be read. Without both, nottwice did not write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nottwice.errors import LedgerCorrupt
from nottwice.model.graphs.position import Position
from nottwice.model.run import CheckpointRecord
from nottwice.model.saving import checkpoint
from nottwice.model.saving.checkpoint import Saved
from nottwice.model.saving.delta import Plain


def load_image(chain: Sequence[CheckpointRecord]) -> dict[str, Any]:
    """Return the contents of the version of a chain: ``state`` and ``position`` as plain data."""
    return _image(checkpoint.restore(chain), chain)


def resume_image(chain: Sequence[CheckpointRecord]) -> tuple[dict[str, Any], Saved]:
    """Return the same with everything needed to save the next version."""
    image, saved = checkpoint.resume(chain)
    return _image(image, chain), saved


def _image(plain: Plain, chain: Sequence[CheckpointRecord]) -> dict[str, Any]:
    if type(plain) is not dict or type(plain.get("state")) is not dict:
        last = checkpoint.path_of(chain)[-1]
        raise LedgerCorrupt(
            f"Version {last.version} of run {last.workflow_id!r} holds no state. It was not "
            "loaded, and nothing was changed. Restore the ledger from a backup, or load an "
            "earlier version."
        )
    Position.from_plain(plain.get("position"))
    return plain
