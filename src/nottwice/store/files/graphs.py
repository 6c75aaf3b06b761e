"""Which graphs does a folder of runs know, without reading every file?

Every run keeps a copy of its graph, so the files themselves have the answer. An index beside them
says which files were read before, and in which of them each graph was found. It is a cache. A file
that it does not name is read, a graph is always taken from a run's file, and an index that is
missing, damaged or wrong is rebuilt. Only a process that has the ledger's lock writes it. Before a
file that it names gains a graph, the file is durably removed from the index. So after a crash the
index may know too little, but it never hides a graph. Promise kept here: P186.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from nottwice.errors import LedgerCorrupt, StoreError
from nottwice.model.data.records import frozen_record
from nottwice.model.run import GraphRecord
from nottwice.model.sealing.seal import Seals
from nottwice.store.files import disk
from nottwice.store.files.document import RunFile
from nottwice.store.files.search import bytes_of, may_say

FILE = "graphs.json"
MOST_UNREAD = 64
"""How many files may be new since the index was written."""
_SEALED_AS = "graphs"

Load = Callable[[str], RunFile | LedgerCorrupt | None]


@frozen_record(frozen=True, slots=True)
class Index:
    """What was read so far."""

    read: frozenset[str] = frozenset()
    """The names of files whose graphs are all included here."""
    graphs: Mapping[str, str] = field(default_factory=dict)
    """For each graph id, the name of a file that holds it."""


class KnownGraphs:
    """The graphs of a folder. ``load`` reads one of its runs, or returns why it cannot be read."""

    def __init__(self, folder: Path, own: Path, load: Load, seals: Seals | None) -> None:
        self._folder = folder
        self._path = own / FILE
        self._load = load
        self._seals = seals

    def find(self, graph_id: str) -> GraphRecord | None:
        """One graph. All runs that have it keep a copy of the same record."""
        index = self._index()
        if graph_id in index.graphs:
            found = self._taken(index.graphs[graph_id], graph_id)
            if found is not None:
                return found
            index = Index()
        for name in self._unread(index):
            if may_say(bytes_of(self._folder, name), graph_id):
                found = self._taken(name, graph_id)
                if found is not None:
                    return found
        return None

    def all(self) -> dict[str, GraphRecord]:
        """Every graph, by its id."""
        index = self._index()
        taken = {one: self._taken(name, one) for one, name in index.graphs.items()}
        found = {graph_id: graph for graph_id, graph in taken.items() if graph is not None}
        if len(found) < len(taken):
            # A file was removed or edited by hand, so the index is not trusted at all.
            found, index = {}, Index()
        for name in self._unread(index):
            file = self._load(name)
            if isinstance(file, RunFile):
                found.update(file.data.graphs)
        return found

    def expect(self, graph: GraphRecord, file: RunFile) -> None:
        """Prepare for writing a file with a graph. The caller has the lock.

        Durable: when it returns.
        """
        self._refresh()
        index, name = self._index(), disk.name_of(file.workflow_id)
        if name in index.read and graph.graph_id not in file.data.graphs:
            self._write(Index(index.read - {name}, index.graphs))

    def _refresh(self) -> None:
        """Read the new files, if there are many."""
        index = self._index()
        unread = self._unread(index)
        if len(unread) <= max(MOST_UNREAD, len(index.read) // 8):
            return
        read, graphs = set(index.read), dict(index.graphs)
        for name in unread:
            file = self._load(name)
            if isinstance(file, RunFile):
                read.add(name)
                graphs.update((graph_id, name) for graph_id in file.data.graphs)
        # Without the index the next lookup reads more files, but no commit fails.
        with contextlib.suppress(OSError, StoreError):
            self._write(Index(frozenset(read), graphs))

    def _unread(self, index: Index) -> list[str]:
        return [name for name in disk.names_in(self._folder) if name not in index.read]

    def _taken(self, name: str, graph_id: str) -> GraphRecord | None:
        file = self._load(name)
        return file.data.graphs.get(graph_id) if isinstance(file, RunFile) else None

    def _index(self) -> Index:
        """The index; empty if it does not exist, or nottwice did not write it like this."""
        try:
            said, _, seal = (disk.read(self._path) or b"").decode().rstrip("\n").partition("\n")
            return _read(json.loads(said)) if self._fits(said, seal) else Index()
        except (OSError, ValueError, RecursionError):
            return Index()

    def _fits(self, said: str, seal: str) -> bool:
        if self._seals is None:
            return seal == _sum_of(said)
        return self._seals.flaw(_SEALED_AS, (said,), seal) is None

    def _write(self, index: Index) -> None:
        plain = {"graphs": dict(index.graphs), "read": sorted(index.read)}
        said = json.dumps(plain, sort_keys=True)
        seal = _sum_of(said) if self._seals is None else self._seals.seal(_SEALED_AS, (said,))
        disk.replace(self._path, f"{said}\n{seal}\n".encode())


def _sum_of(said: str) -> str:
    return hashlib.sha256(said.encode()).hexdigest()


def _read(plain: Any) -> Index:
    if type(plain) is not dict or type(plain.get("graphs")) is not dict:
        raise ValueError("it is no index")
    read, graphs = plain.get("read"), plain["graphs"]
    if type(read) is not list or any(type(one) is not str for one in (*read, *graphs.values())):
        raise ValueError("it names something else than files")
    return Index(frozenset(read), graphs)
