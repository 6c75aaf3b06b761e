"""``NottwiceSaver``: LangGraph's checkpoints and pending writes, kept in the ledger (E1).

A thin shell: LangGraph's types on one side, rows on the other (rows.py). A checkpoint is durable
when ``put`` returns (P255). It stores what has changed since the checkpoint before it (pieces.py,
P258). ``wait_until_durable`` gives the order that effects need: no intent before the checkpoint
that led to it (durable.py, P256).
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from nottwice.errors import LedgerCorrupt, UsageError
from nottwice.guard.ledger import Ledger, ledger_of
from nottwice.langchain.durable import durable_at
from nottwice.langchain.order import checkpoints_of
from nottwice.langchain.pieces import (
    Piece,
    PiecePlace,
    Stored,
    compose,
    flatten,
    next_piece,
    restore,
)
from nottwice.langchain.recent import Channel, Channels, Recent
from nottwice.langchain.rows import (
    CheckpointHead,
    CheckpointKey,
    PiecesGone,
    Placed,
    Rows,
    TaskWrite,
    check_name,
    visited,
)
from nottwice.model.tool import Duration, timeout_seconds
from nottwice.store.interface import Store

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
    from langgraph.checkpoint.serde.base import SerializerProtocol

T = TypeVar("T")
Pieces = list[Placed]
Chains = dict[tuple[str, str], Pieces]
"""The pieces of a chain, by thread and root."""
SMALL_BYTES = 128
"""Up to this size, a value is saved with its checkpoint: a row of its own would be larger."""
MOST_THREADS = 8

# Names that LangGraph puts into the config of a task.
_CHECKPOINTER = "__pregel_checkpointer"
_DURABILITY = "__pregel_durability"


class NottwiceSaver(BaseCheckpointSaver[int]):
    """A LangGraph checkpointer, sync and async, in a nottwice ledger on SQLite or PostgreSQL.

    ``store``: the path of the ledger, a ``postgresql://`` URL, or an open ``nt.Ledger``. The tables
    are created when they are first used. ``serde``: LangGraph's serializer for the values.
    """

    def __init__(
        self,
        store: str | Path | Ledger | Store | None = None,
        *,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._ledger = ledger_of(store)
        self._rows = Rows(visited(self._ledger.store))
        self._recent = Recent()
        self._durable = durable_at(self._rows.location, self._rows.exists)
        self._threads = _Threads()

    def setup(self) -> None:
        """Create the tables. On PostgreSQL, call it once as the user who owns the ledger."""
        self._rows.set_up()

    @staticmethod
    def in_use(config: RunnableConfig) -> NottwiceSaver | None:
        """The saver of the graph whose task has this config; None: the graph has another one."""
        found = config.get("configurable", {}).get(_CHECKPOINTER)
        return found if isinstance(found, NottwiceSaver) else None

    # The order of checkpoints and effects

    def wait_until_durable(
        self, config: RunnableConfig, *, timeout: Duration | None = "30s"
    ) -> None:
        """Wait until the checkpoints that led to a task are durable, given the task's own config.

        StoreError if they are not durable in time or could not be saved, UsageError if they never
        will be (``durability="exit"``). Then the call must not be made. ``timeout``: None means not
        to wait at all.
        """
        seconds = timeout_seconds(timeout, what="timeout")
        self._durable.wait(_led_to(config), wait_seconds=seconds)

    async def await_until_durable(
        self, config: RunnableConfig, *, timeout: Duration | None = "30s"
    ) -> None:
        """Do the same without blocking the event loop."""
        seconds = timeout_seconds(timeout, what="timeout")
        await self._durable.wait_in_loop(_led_to(config), wait_seconds=seconds)

    # Saving

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint. Durable: when it returns."""
        asked = config["configurable"]
        key = _key(asked, checkpoint["id"])
        try:
            said = dict(get_serializable_checkpoint_metadata(config, metadata))
            parent_id = asked.get("checkpoint_id")
            parent = key._replace(checkpoint_id=str(parent_id)) if parent_id else None
            before = None if parent is None else self._channels(parent)
            try:
                channels = self._put(key, parent, checkpoint, said, set(new_versions), before or {})
            except PiecesGone:
                # Another process removed them, for example with the rest of the thread.
                channels = self._put(key, parent, checkpoint, said, set(new_versions), {})
        except BaseException as error:
            self._durable.failed(key, error)
            raise
        self._recent.keep(key, channels, instead_of=parent)
        self._durable.saved(key)
        return _config(key)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote, before its step is over. Durable: when it returns."""
        asked = config["configurable"]
        rows = [
            TaskWrite(
                task_id,
                WRITES_IDX_MAP.get(channel, index),
                task_path,
                channel,
                *self.serde.dumps_typed(value),
            )
            for index, (channel, value) in enumerate(writes)
        ]
        replace = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        self._rows.put_writes(_key(asked, str(asked["checkpoint_id"])), rows, replace=replace)

    def _put(
        self,
        key: CheckpointKey,
        parent: CheckpointKey | None,
        checkpoint: Checkpoint,
        metadata: dict[str, Any],
        changed: set[str],
        before: Channels,
    ) -> Channels:
        versions = checkpoint["channel_versions"]
        channels: Channels = {}
        pieces: Pieces = []
        bases: set[PiecePlace] = set()
        small: dict[str, Any] = {}
        for name, value in checkpoint["channel_values"].items():
            version, known = versions.get(name), before.get(name)
            same = known is not None and version is not None and known.version == version
            if known is not None and same and name not in changed:
                channels[name] = known
            else:
                channels[name] = self._saved(key.thread_id, version, value, known, pieces, bases)
            if channels[name].place is None:
                small[name] = value
        kind, data = self.serde.dumps_typed({**checkpoint, "channel_values": small})
        places = {name: one.place for name, one in channels.items() if one.place is not None}
        parent_id = None if parent is None else parent.checkpoint_id
        run_id = metadata.get("run_id")
        self._rows.put(
            CheckpointHead(key, parent_id, places, metadata, kind, data),
            pieces,
            builds_upon=bases,
            run_id=None if run_id is None else str(run_id),
        )
        return channels

    def _saved(
        self,
        thread_id: str,
        version: Any,
        value: Any,
        known: Channel | None,
        pieces: Pieces,
        bases: set[PiecePlace],
    ) -> Channel:
        """Add the piece for a new version of a channel to those that will be written, and what it
        builds on."""
        body = flatten(value, self._plain.dumps_typed)
        if len(body.data) <= SMALL_BYTES:
            return Channel(version, None)
        stored = None
        if known is not None and known.place is not None:
            stored = known.stored or self._read(thread_id, known.place)
        piece = next_piece(body, stored)
        mark = secrets.token_hex(4)
        if stored is not None and piece.links:
            bases.add(stored.place)
            place = PiecePlace(stored.place.root, piece.links, mark)
        else:
            place = PiecePlace(secrets.token_hex(8), 0, mark)
        # Encrypted here, if the serializer does that.
        how, data = self.serde.dumps_typed(piece.data)
        pieces.append(Placed(place, _with_data(piece, data), how))
        return Channel(version, place, Stored(place, body, piece.chain_bytes))

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or the newest of its thread; None: there is none."""
        asked = config["configurable"]
        checkpoint_id = asked.get("checkpoint_id")
        key = _key(asked, "" if checkpoint_id is None else str(checkpoint_id))
        self._durable.begins(key.thread_id, key.checkpoint_ns)
        while True:
            if checkpoint_id:
                head = self._rows.one(key)
            else:
                head = self._rows.newest(key.thread_id, key.checkpoint_ns)
            try:
                return None if head is None else self._tuple(head, likely_next=True)
            except LedgerCorrupt:
                # Another process may have removed the checkpoint while it was read.
                if head is None or self._rows.exists(head.key):
                    raise

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first, read as you iterate."""
        asked: Mapping[str, Any] = {} if config is None else config["configurable"]
        if limit is not None and limit <= 0:
            return
        if asked.get("checkpoint_id"):
            found = self._rows.one(_key(asked, str(asked["checkpoint_id"])))
            heads: Iterator[CheckpointHead] = iter([] if found is None else [found])
        else:
            thread_id = None if config is None else check_name("Thread", str(asked["thread_id"]))
            before_id = None if before is None else before["configurable"].get("checkpoint_id")
            heads = self._rows.heads(thread_id, asked.get("checkpoint_ns"), before_id)
        count = 0
        chains: Chains = {}
        for head in heads:
            if any(head.metadata.get(name) != value for name, value in (filter or {}).items()):
                continue
            try:
                found_one = self._tuple(head, chains)
            except LedgerCorrupt:
                if self._rows.exists(head.key):
                    raise
                continue
            yield found_one
            count += 1
            if count == limit:
                return

    def get_next_version(self, current: int | None, channel: None) -> int:
        """Number the versions of a channel. A number may repeat in a fork, so none is a key."""
        return 1 if current is None else current + 1

    def _tuple(
        self, head: CheckpointHead, chains: Chains | None = None, *, likely_next: bool = False
    ) -> CheckpointTuple:
        """A checkpoint as LangGraph knows it. ``likely_next``: another will probably follow it."""
        checkpoint = self.serde.loads_typed((head.type, head.data))
        values = checkpoint["channel_values"]
        versions = checkpoint["channel_versions"]
        channels: Channels = {name: Channel(versions.get(name), None) for name in values}
        for name, place in head.places.items():
            stored = self._read(head.key.thread_id, place, chains)
            values[name] = restore(stored.body, self._plain.loads_typed)
            channels[name] = Channel(versions.get(name), place, stored)
        if likely_next:
            self._recent.keep(head.key, channels)
        writes = [
            (write.task_id, write.channel, self.serde.loads_typed((write.type, write.data)))
            for write in self._rows.writes(head.key)
        ]
        metadata = cast("CheckpointMetadata", head.metadata)
        parent = None
        if head.parent_id is not None:
            parent = _config(head.key._replace(checkpoint_id=head.parent_id))
        return CheckpointTuple(_config(head.key), checkpoint, metadata, parent, writes)

    def _channels(self, key: CheckpointKey) -> Channels | None:
        """The channels of a checkpoint, from memory or from the ledger; None: it is not there."""
        known = self._recent.get(key)
        if known is not None:
            return known
        head = self._rows.one(key)
        if head is None:
            return None
        saved = self.serde.loads_typed((head.type, head.data))
        versions = saved["channel_versions"]
        found = {name: Channel(versions.get(name), None) for name in saved["channel_values"]}
        places = {name: Channel(versions.get(name), at) for name, at in head.places.items()}
        return {**found, **places}

    def _read(self, thread_id: str, place: PiecePlace, chains: Chains | None = None) -> Stored:
        """The value at a place. ``chains``: what a list has read for its later checkpoints."""
        chain = (chains or {}).get((thread_id, place.root), [])[: place.links + 1]
        if not chain or chain[-1].place != place:
            chain = self._rows.chain(thread_id, place)
            if chains is not None:
                # The last one only: a long history has many chains, and reads one after the other.
                chains.clear()
                chains[thread_id, place.root] = chain
        body = compose(
            _with_data(one.piece, self.serde.loads_typed((one.type, one.piece.data)))
            for one in chain
        )
        return Stored(place, body, chain[-1].piece.chain_bytes)

    @property
    def _plain(self) -> SerializerProtocol:
        """The serializer without encryption: equal values have equal bytes. What it makes is
        encrypted before it is written."""
        return self.serde.serde if isinstance(self.serde, EncryptedSerializer) else self.serde

    # Removing and copying

    def delete_thread(self, thread_id: str) -> None:
        """Remove all checkpoints and writes of a thread. Receipts of its effects stay."""
        self._rows.remove_thread(str(thread_id))
        self._forget()

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that these runs of LangGraph's server made."""
        self._rows.remove_runs([str(run_id) for run_id in run_ids])
        self._forget()

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread to another one."""
        target = check_name("Thread", str(target_thread_id))
        self._rows.copy_thread(str(source_thread_id), target)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each namespace (``keep_latest``), or ``delete``."""
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(
                f"{strategy!r} is not a way to prune. Nothing was removed. Use 'keep_latest' or "
                "'delete'."
            )
        named = [str(thread_id) for thread_id in thread_ids]
        self._rows.prune(named, keep_latest=strategy == "keep_latest")
        self._forget()

    def _forget(self) -> None:
        self._recent.forget()
        self._durable.forget()

    # The same for event loops

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do the same as ``put``, without blocking the event loop."""
        return await self._threads.run(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Do the same as ``put_writes``, without blocking the event loop."""
        await self._threads.run(self.put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do the same as ``get_tuple``, without blocking the event loop."""
        return await self._threads.run(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do the same as ``list``, without blocking the event loop."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await self._threads.run(next, found, None)) is not None:
            yield one

    async def adelete_thread(self, thread_id: str) -> None:
        """Do the same as ``delete_thread``, without blocking the event loop."""
        await self._threads.run(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do the same as ``delete_for_runs``, without blocking the event loop."""
        await self._threads.run(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do the same as ``copy_thread``, without blocking the event loop."""
        await self._threads.run(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do the same as ``prune``, without blocking the event loop."""
        await self._threads.run(partial(self.prune, thread_ids, strategy=strategy))


class _Threads:
    """The threads in which a saver works for event loops.

    They are its own. The default threads of an event loop also run sync tools, and tools that wait
    for a checkpoint could occupy all of them, so that the checkpoint is never saved.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._pid = -1

    async def run(self, function: Callable[..., T], *given: Any) -> T:
        pool = self._pool
        if pool is None or self._pid != os.getpid():
            # A forked child has none of its parent's threads.
            pool = self._pool = ThreadPoolExecutor(MOST_THREADS, "nottwice-saver")
            self._pid = os.getpid()
        return await asyncio.get_running_loop().run_in_executor(pool, partial(function, *given))


def _with_data(piece: Piece, data: bytes) -> Piece:
    return Piece(piece.kind, data, piece.kept_start, piece.kept_end, piece.links, piece.chain_bytes)


def _led_to(config: RunnableConfig) -> Sequence[CheckpointKey]:
    """The checkpoints that led to a task: those of its graph, and of the graphs around it."""
    asked = config.get("configurable", {})
    if asked.get(_DURABILITY) == "exit":
        raise UsageError(
            'With durability="exit", LangGraph saves no checkpoint before the graph ends, so after '
            "a crash the model would be asked again and could ask for something else. The call was "
            'not made. Invoke the graph with durability="async" or "sync".'
        )
    named = checkpoints_of(asked)
    if asked.get("checkpoint_id"):
        named[asked.get("checkpoint_ns") or ""] = asked["checkpoint_id"]
    if not named or asked.get("thread_id") is None:
        raise UsageError(
            "This config names no checkpoint. The call was not made. Pass the config of the task "
            "itself, of a graph that was compiled with a NottwiceSaver and invoked with a "
            "thread_id."
        )
    thread_id = str(asked["thread_id"])
    return [CheckpointKey(thread_id, namespace, str(each)) for namespace, each in named.items()]


def _key(asked: Mapping[str, Any], checkpoint_id: str) -> CheckpointKey:
    key = CheckpointKey(str(asked["thread_id"]), asked.get("checkpoint_ns") or "", checkpoint_id)
    for what, text in zip(("Thread", "Namespace", "Checkpoint"), key, strict=True):
        check_name(what, text)
    return key


def _config(key: CheckpointKey) -> RunnableConfig:
    return {"configurable": key._asdict()}
