"""Checkpoints without LangGraph, for the tests of the rooms that do not know it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from nottwice.langchain.pieces import (
    Piece,
    PiecePlace,
    Stored,
    compose,
    flatten,
    next_piece,
    restore,
)
from nottwice.langchain.rows import CheckpointHead, CheckpointKey, Placed, Rows, TaskWrite


def dump(value: Any) -> tuple[str, bytes]:
    return "json", json.dumps(value).encode()


def load(dumped: tuple[str, bytes]) -> Any:
    assert dumped[0] == "json"
    return json.loads(dumped[1])


def placed(value: Any, before: Stored | None) -> tuple[Placed, Stored]:
    """The piece for a value, and what the next one builds upon."""
    body = flatten(value, dump)
    piece = next_piece(body, before)
    root = before.place.root if before is not None and piece.links else secrets.token_hex(4)
    place = PiecePlace(root, piece.links, secrets.token_hex(4))
    return Placed(place, piece, "plain"), Stored(place, body, piece.chain_bytes)


def save(
    rows: Rows,
    key: CheckpointKey,
    values: Mapping[str, Any],
    *,
    parent_id: str | None = None,
    before: Mapping[str, Stored] | None = None,
    run_id: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Stored]:
    """Save a checkpoint with all its values in pieces."""
    before = before or {}
    made = {name: placed(value, before.get(name)) for name, value in values.items()}
    bases = [before[name].place for name, (one, _) in made.items() if one.piece.links]
    rows.put(
        CheckpointHead(
            key,
            parent_id,
            {name: one.place for name, (one, _) in made.items()},
            metadata or {},
            "head",
            key.checkpoint_id.encode(),
        ),
        [one for one, _ in made.values()],
        builds_upon=bases,
        run_id=run_id,
    )
    return {name: stored for name, (_, stored) in made.items()}


def values_of(rows: Rows, key: CheckpointKey) -> dict[str, Any]:
    """The values of a checkpoint, read back from the ledger."""
    head = rows.one(key)
    assert head is not None
    return {
        name: restore(compose(one.piece for one in rows.chain(key.thread_id, place)), load)
        for name, place in head.places.items()
    }


def ids(heads: Sequence[CheckpointHead]) -> list[str]:
    return [head.key.checkpoint_id for head in heads]


def write(task_id: str, index: int = 0, *, path: str = "", data: bytes = b"1") -> TaskWrite:
    return TaskWrite(task_id, index, path, "messages", "json", data)


def chained(values: Sequence[Any]) -> list[Piece]:
    """The pieces of versions of one value."""
    before, pieces = None, []
    for value in values:
        one, before = placed(value, before)
        pieces.append(one.piece)
    return pieces
