"""Which rows hold LangGraph's checkpoints, and which of them change together?

Every change is one visit to the ledger's file or database (store/visits.py), so it is durable as a
whole or not at all (P255). Pieces of values are only ever added. A checkpoint that would build on
a piece which another process has removed meanwhile is not written: the saver learns about it
(``PiecesGone``) and saves that checkpoint with complete values (P257).

Nothing here knows LangGraph.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from nottwice.errors import InvalidId, LedgerCorrupt, StoreError, UsageError
from nottwice.langchain import statements as sql
from nottwice.langchain.pieces import Piece, PiecePlace, damaged, read_place
from nottwice.model.data.records import light_record
from nottwice.store.visits import Ask, VisitCommit, Visited

PAGE = 50
_SET_UP = (
    "{} has no tables for LangGraph's checkpoints yet, and this user may not create them. Nothing "
    "was written. Call NottwiceSaver(url).setup() once as the user who owns the ledger, and run "
    "the roles script again."
)
_LAST = "\U0010ffff"
ADAPTER = "langgraph"


class CheckpointKey(NamedTuple):
    """The checkpoint of a thread in a namespace: a graph, or a subgraph of it."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str


@light_record(frozen=True, slots=True)
class CheckpointHead:
    """A checkpoint without the values of its large channels."""

    key: CheckpointKey
    parent_id: str | None
    places: dict[str, PiecePlace]
    """Where the value of each large channel is."""
    metadata: dict[str, Any]
    type: str
    data: bytes


@light_record(frozen=True, slots=True)
class Placed:
    """A piece and its place. The data may be encrypted, ``type`` says how."""

    place: PiecePlace
    piece: Piece
    type: str


@light_record(frozen=True, slots=True)
class TaskWrite:
    """One value that a task wrote to a channel."""

    task_id: str
    index: int
    task_path: str
    channel: str
    type: str
    data: bytes


class PiecesGone(StoreError):
    """The pieces that a checkpoint was going to build on are not there. Nothing was written."""


class Rows:
    """LangGraph's checkpoints in one ledger."""

    def __init__(self, store: Visited) -> None:
        self._store = store
        self._dialect = "postgres" if store.location.startswith("postgresql:") else "sqlite"
        self._spellings: dict[str, str] = {}
        self._ready_at = ""
        self._guard = threading.Lock()

    @property
    def location(self) -> str:
        return self._store.location

    def set_up(self) -> None:
        """Create the tables if they do not exist yet. Durable: when it returns."""
        # A ledger that a process is redirected to has to be set up, too.
        if self._ready_at == self._store.location:
            return
        with self._guard:
            ((existing,),) = self._store.look_up(self._spelled(sql.EXISTING[self._dialect]), {})
            if existing < len(sql.NAMES):
                try:
                    self._visit(self._create, set_up=False)
                except StoreError as error:
                    if "may not" not in str(error):
                        raise
                    raise StoreError(_SET_UP.format(self._store.location)) from error
            self._ready_at = self._store.location

    # Reading

    def newest(self, thread_id: str, checkpoint_ns: str) -> CheckpointHead | None:
        given = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns}
        return next(map(_head, self._look_up(sql.NEWEST, given)), None)

    def one(self, key: CheckpointKey) -> CheckpointHead | None:
        return next(map(_head, self._look_up(sql.ONE, key._asdict())), None)

    def exists(self, key: CheckpointKey) -> bool:
        return bool(self._look_up(sql.EXISTS, key._asdict()))

    def heads(
        self, thread_id: str | None, checkpoint_ns: str | None, before_id: str | None
    ) -> Iterator[CheckpointHead]:
        """Checkpoints, newest first, a page at a time. None: of all threads, of all namespaces."""
        given: dict[str, Any] = {"most": PAGE}
        statement = sql.OF_ALL
        if thread_id is not None:
            given["thread_id"], statement = thread_id, sql.OF_THREAD
            if checkpoint_ns is not None:
                given["checkpoint_ns"], statement = checkpoint_ns, sql.OF_NAMESPACE
        after = ("", "", before_id) if before_id is not None else (_LAST, _LAST, _LAST)
        while True:
            thread, namespace, checkpoint_id = after
            start = {"before_thread": thread, "before_ns": namespace, "before_id": checkpoint_id}
            found = [_head(row) for row in self._look_up(statement, {**given, **start})]
            yield from found
            if len(found) < PAGE:
                return
            after = found[-1].key

    def chain(self, thread_id: str, place: PiecePlace) -> list[Placed]:
        """The pieces of a value, in the order in which they are composed."""
        given = {"thread_id": thread_id, "root": place.root, "links": place.links}
        found = [_placed(place.root, row) for row in self._look_up(sql.CHAIN, given)]
        if not found or found[-1].place != place:
            raise damaged("a piece of it is missing")
        return found

    def writes(self, key: CheckpointKey) -> list[TaskWrite]:
        """What the tasks of a step wrote, in the order in which LangGraph applies it."""
        found = [
            TaskWrite(task_id, index, task_path, channel, kind, bytes(value))
            for task_id, channel, kind, value, task_path, index in self._look_up(
                sql.PENDING, key._asdict()
            )
        ]
        return sorted(found, key=lambda write: (write.task_path, write.task_id, write.index))

    # Writing

    def put(
        self,
        head: CheckpointHead,
        pieces: Sequence[Placed],
        *,
        builds_upon: Collection[PiecePlace],
        run_id: str | None,
    ) -> None:
        """Save a checkpoint. PiecesGone if what it builds on does not exist any more, or if
        another checkpoint already builds on that: then this one is a fork.

        Durable: when it returns.
        """
        thread_id = head.key.thread_id
        new = {one.place for one in pieces}
        needed = sorted({*builds_upon, *head.places.values()} - new)
        saved = {
            **head.key._asdict(),
            "parent_id": head.parent_id,
            "run_id": run_id,
            "places": json.dumps(
                {name: str(place) for name, place in head.places.items()}, separators=(",", ":")
            ),
            "metadata": json.dumps(head.metadata, separators=(",", ":")),
            "type": head.type,
            "head": head.data,
        }
        added = [_columns(thread_id, one) for one in pieces]

        def write(ask: Ask) -> None:
            self._lock(ask, sql.TOGETHER, thread_id)
            self._check(ask, thread_id, needed)
            for columns in added:
                ask(self._spelled(sql.PUT_PIECE), columns)
            self._check(ask, thread_id, sorted(new))
            ask(self._spelled(sql.PUT), saved)

        self._visit(write)

    def _lock(self, ask: Ask, statement: str, thread_id: str) -> None:
        """Keep others from removing the pieces of a thread, and from building on them."""
        self._lock_name(ask, statement, f"nottwice langgraph {thread_id}")

    def _lock_name(self, ask: Ask, statement: str, name: str) -> None:
        if self._dialect == "postgres":
            ask(self._spelled(statement), {"name": name})

    def _check(self, ask: Ask, thread_id: str, places: Iterable[PiecePlace]) -> None:
        for place in places:
            given = {"thread_id": thread_id, **place._asdict()}
            if not ask(self._spelled(sql.HAS_PIECE), given):
                raise PiecesGone(
                    f"What a checkpoint of thread {thread_id!r} depends on was removed or "
                    "continued meanwhile. Nothing was written."
                )

    def put_writes(self, key: CheckpointKey, writes: Iterable[TaskWrite], *, replace: bool) -> None:
        """Save what a task wrote. A write that is already there stays, unless ``replace``.

        Durable: when it returns.
        """
        statement = sql.REPLACE_WRITE if replace else sql.ADD_WRITE
        rows = [
            {
                **key._asdict(),
                "task_id": write.task_id,
                "idx": write.index,
                "task_path": write.task_path,
                "channel": write.channel,
                "type": write.type,
                "value": write.data,
            }
            for write in writes
        ]

        def add(ask: Ask) -> None:
            for row in rows:
                ask(self._spelled(statement), row)

        if rows:
            self._visit(add)

    # Removing and copying

    def remove_thread(self, thread_id: str) -> None:
        """Remove everything of a thread. Durable: when it returns."""
        self._visit(lambda ask: self._remove_thread(ask, thread_id))

    def remove_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of these runs of LangGraph's server. Durable: when it returns."""

        def remove(ask: Ask) -> None:
            found = [
                CheckpointKey(*row)
                for run_id in run_ids
                for row in ask(self._spelled(sql.OF_RUN), {"run_id": run_id})
            ]
            self._remove(ask, found)

        self._visit(remove)

    def prune(self, thread_ids: Sequence[str], *, keep_latest: bool) -> None:
        """Keep only the newest checkpoint of each namespace, or none. Durable: when it returns."""

        def prune(ask: Ask) -> None:
            for thread_id in sorted(thread_ids):
                if keep_latest:
                    self._lock(ask, sql.ALONE, thread_id)
                    lineage = ask(self._spelled(sql.LINEAGE), {"thread_id": thread_id})
                    self._remove(
                        ask, [CheckpointKey(thread_id, *one) for one in _dispensable(lineage)]
                    )
                else:
                    self._remove_thread(ask, thread_id)

        self._visit(prune)

    def copy_thread(self, source_id: str, target_id: str) -> None:
        """Copy everything of a thread. Durable: when it returns."""

        def copy(ask: Ask) -> None:
            self._lock(ask, sql.ALONE, source_id)
            for statement in sql.COPY:
                given = {"thread_id": source_id, "target_id": target_id}
                ask(self._spelled(statement), given)

        self._visit(copy)

    def _remove_thread(self, ask: Ask, thread_id: str) -> None:
        self._lock(ask, sql.ALONE, thread_id)
        for statement in sql.REMOVE_THREAD:
            ask(self._spelled(statement), {"thread_id": thread_id})

    def _remove(self, ask: Ask, keys: Sequence[CheckpointKey]) -> None:
        thread_ids = sorted({key.thread_id for key in keys})
        for thread_id in thread_ids:
            self._lock(ask, sql.ALONE, thread_id)
        for key in keys:
            for statement in sql.REMOVE_CHECKPOINT:
                ask(self._spelled(statement), key._asdict())
        for thread_id in thread_ids:
            self._sweep(ask, thread_id)

    def _sweep(self, ask: Ask, thread_id: str) -> None:
        """Remove the pieces that no checkpoint of a thread needs any more."""
        given = {"thread_id": thread_id}
        needed: dict[str, int] = {}
        for (places,) in ask(self._spelled(sql.PLACES), given):
            for place in map(read_place, json.loads(places).values()):
                needed[place.root] = max(place.links, needed.get(place.root, 0))
        for (root,) in ask(self._spelled(sql.ROOTS), given):
            links = needed.get(root, -1) + 1
            ask(self._spelled(sql.REMOVE_PIECES), {**given, "root": root, "links": links})

    # The store

    def _look_up(self, statement: str, given: dict[str, Any]) -> list[Any]:
        self.set_up()
        return self._store.look_up(self._spelled(statement), given)

    def _visit(self, work: Any, *, set_up: bool = True) -> None:
        if set_up:
            self.set_up()
        self._store.commit(VisitCommit(ADAPTER, work=work))

    def _create(self, ask: Ask) -> None:
        # IF NOT EXISTS is not enough on PostgreSQL: a table that another process commits between
        # the look and the creation is an error. So they take turns.
        self._lock_name(ask, sql.ALONE, "nottwice tables of langgraph")
        for statement in sql.CREATE:
            for word, meaning in sql.TYPES[self._dialect].items():
                statement = statement.replace(word, meaning)
            ask(self._spelled(statement), {})

    def _spelled(self, statement: str) -> str:
        if statement not in self._spellings:
            self._spellings[statement] = self._store.spell(statement)
        return self._spellings[statement]


def visited(store: object) -> Visited:
    """A store that checkpoints can be kept in. UsageError for any other."""
    if isinstance(store, Visited):
        return store
    where = getattr(store, "location", type(store).__name__)
    raise UsageError(
        f"{where} cannot keep LangGraph's checkpoints: only ledgers on SQLite and PostgreSQL can. "
        "Nothing was opened. Name the path of a SQLite file, or postgresql://…"
    )


def check_name(what: str, text: str) -> str:
    """Refuse an id that a database cannot store as it is."""
    if "\0" in text or text.encode(errors="replace").decode() != text:
        raise InvalidId(
            f"{what} {text!r} cannot be stored: it contains a character that is not text. Nothing "
            "was written. Choose another one."
        )
    return text


def _dispensable(lineage: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """The checkpoints of a thread that its newest ones do not need, by namespace and id.

    A channel of the kind DeltaChannel is rebuilt from the writes since the last checkpoint that
    has its value. Those checkpoints are kept, or the channel would silently be empty.
    """
    by_id = {(row[0], row[1]): row for row in lineage}
    kept: set[tuple[str, str]] = set()
    for namespace in {row[0] for row in lineage}:
        newest = next(row for row in lineage if row[0] == namespace)
        at: Any = newest
        wanted = set(json.loads(newest[4]).get("counters_since_delta_snapshot") or ())
        while at is not None:
            kept.add((at[0], at[1]))
            wanted -= json.loads(at[3]).keys()
            at = by_id.get((namespace, at[2])) if wanted else None
    return (key for key in by_id if key not in kept)


def _head(row: Sequence[Any]) -> CheckpointHead:
    thread_id, checkpoint_ns, checkpoint_id, parent_id, places, metadata, kind, data = row
    key = CheckpointKey(thread_id, checkpoint_ns, checkpoint_id)
    try:
        at = {name: read_place(text) for name, text in json.loads(places).items()}
        return CheckpointHead(key, parent_id, at, json.loads(metadata), kind, bytes(data))
    except ValueError as error:
        raise LedgerCorrupt(
            f"The checkpoint {checkpoint_id} of thread {thread_id!r} cannot be read ({error}). "
            "Nothing was changed. Restore the ledger from a backup, or delete the thread."
        ) from error


def _placed(root: str, row: Sequence[Any]) -> Placed:
    links, mark, kind, kept_start, kept_end, chain_bytes, how, data = row
    piece = Piece(kind, bytes(data), kept_start, kept_end, links, chain_bytes)
    return Placed(PiecePlace(root, links, mark), piece, how)


def _columns(thread_id: str, one: Placed) -> dict[str, Any]:
    piece = one.piece
    return {
        "thread_id": thread_id,
        **one.place._asdict(),
        "kind": piece.kind,
        "kept_start": piece.kept_start,
        "kept_end": piece.kept_end,
        "chain_bytes": piece.chain_bytes,
        "type": one.type,
        "data": piece.data,
    }
