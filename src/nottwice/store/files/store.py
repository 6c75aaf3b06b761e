"""A ledger of readable files: one JSON file per run, for small runs on one host (B2).

The holder of a run replaces the whole file with every commit. Other processes append to an inbox
beside it, one line per commit, and the holder folds the inbox in with its next commit. Readers see
both. Every writer has the ledger's lock, so preconditions are checked against the current files.
Promises kept here: P5, P6, P7, P10, P20 (what others write beside a run is folded in once), P117 (a
file that cannot be read stops its own run and no other), P118 (an interrupt leaves nothing locked).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from nottwice.errors import (
    KeyMissing,
    LedgerCorrupt,
    LedgerTampered,
    NoLedger,
    NottwiceError,
    StoreError,
)
from nottwice.model.call import CallRow
from nottwice.model.review import AuditEntry, Review
from nottwice.model.run import GraphRecord, HolderRecord, Life, RunRecord
from nottwice.model.runs.workers import WorkerRecord
from nottwice.model.sealing.seal import Seals
from nottwice.store import rules
from nottwice.store.base import StoreBase
from nottwice.store.files import disk, document
from nottwice.store.files.copy import OnProgress, copy_folder
from nottwice.store.files.document import RunFile
from nottwice.store.files.graphs import KnownGraphs
from nottwice.store.files.search import Glance, bytes_of, may_say, says
from nottwice.store.files.workers import WorkerFiles
from nottwice.store.interface import LEDGER, Blocked, Commit, Outdated
from nottwice.store.machine import locks, whereabouts
from nottwice.store.machine.filesystem import check_folder
from nottwice.store.memory import MemoryData, MemoryStore
from nottwice.store.sealing import Sealing
from nottwice.store.shared import SharedCommits
from nottwice.store.tables import HOLDERS

BUSY_SECONDS = 30.0
MOST_REMEMBERED = 512
SETTLED_SECONDS = 1.0
OWN_FOLDER = ".nottwice"
_WRITING_PLACE = (1 << 62) + 2

log = logging.getLogger("nottwice")


class JsonFileStore(whereabouts.OnDisk, StoreBase):
    """A ledger in one folder."""

    _pid: int
    _lock: locks.HolderLock
    _shared: SharedCommits
    _registered: bool
    _remembered: dict[str, list[tuple[disk.Content, RunFile]]]
    """The last contents of files that were parsed or written, and the ones before, as records."""
    _glanced: Glance | None
    _named: dict[str, str]
    """The last message about each file that cannot be read, by its name."""

    # Files are replaced as a whole, so a reader needs no lock.
    reads_can_block = False

    def __init__(
        self,
        directory: str | Path,
        *,
        now: float,
        create: bool = True,
        busy_seconds: float = BUSY_SECONDS,
        seals: Seals | None = None,
    ) -> None:
        """Open the ledger in a folder. ``busy_seconds``: how long to wait for other processes.
        ``seals``: the key to seal and check files with."""
        self._name(directory)
        self._now = now
        self._busy_seconds = whereabouts.busy_seconds(busy_seconds)
        self._seals = seals
        self._prepare(create=create)
        _stores.add(self)
        log.info("ledger opened at %s", self.location)
        log.info(Sealing(seals, location=self.location).describe())

    def commit(self, commit: Commit) -> None:
        self._in_this_process()
        self._shared.commit(commit)

    def commit_soon(self, commit: Commit) -> Future[None]:
        self._in_this_process()
        return self._shared.commit_soon(commit)

    def holder(self) -> HolderRecord:
        self._in_this_process()
        record = self._lock.record
        if not self._registered:
            line = document.plain_line(HOLDERS, record)
            self._exclusively(lambda: disk.append(self._own / "holders.jsonl", line))
            self._registered = True
        return record

    def load_holder(self, holder_id: str) -> HolderRecord | None:
        self._in_this_process()
        with self._reading():
            content = disk.read(self._own / "holders.jsonl") or b""
        where = str(self._own / "holders.jsonl")
        found = [document.read_holder(line, where=where) for line in disk.lines_of(content)]
        return next((record for record in found if record.holder_id == holder_id), None)

    def life_of(self, holder_id: str) -> Life:
        record = self.load_holder(holder_id)
        return self._lock.life_of(record)

    def records(self, workflow_id: str) -> MemoryData:
        self._in_this_process()
        with self._reading():
            return self._run(workflow_id).data

    def all_records(self) -> MemoryData:
        self._in_this_process()
        with self._reading():
            return self._everything()

    # Questions that do not have to read every file

    def load_review(self, review_id: str) -> Review | None:
        return self._mentioning(review_id).reviews.get(review_id)

    def last_use_of_key(self, tool_name: str, key: str) -> CallRow | None:
        return MemoryStore(self._mentioning(key)).last_use_of_key(tool_name, key)

    def charged(self, meter: str, *, since: float | None = None, besides: str = "") -> int:
        self._in_this_process()
        with self._reading():
            whole = self._everything(unless_unreadable=True)
        return rules.charged(whole, meter, since=since, besides=besides)

    def load_graph(self, graph_id: str) -> GraphRecord | None:
        self._in_this_process()
        with self._reading():
            return self._graphs.find(graph_id)

    def graphs(self) -> list[GraphRecord]:
        self._in_this_process()
        with self._reading():
            return sorted(self._graphs.all().values(), key=lambda graph: graph.graph_id)

    def ready_runs(
        self, *, begun: bool, now: float, limit: int, without: Collection[str] = ()
    ) -> list[RunRecord]:
        whole = self._glance(now)
        return whole.ready_runs(begun=begun, now=now, limit=limit, without=without)

    def holders_of_runs(self) -> list[str]:
        return self._glance().holders_of_runs()

    def runs_held_by(self, holder_id: str) -> list[RunRecord]:
        return self._glance().runs_held_by(holder_id)

    def announce(self, worker: WorkerRecord) -> None:
        self._in_this_process()
        self._exclusively(lambda: self._workers.write(worker))

    def workers(self, *, now: float) -> list[WorkerRecord]:
        self._in_this_process()
        with self._reading():
            return self._workers.read_all()

    def forget_workers(self, ids: Collection[str]) -> None:
        self._in_this_process()
        self._exclusively(lambda: self._workers.remove(ids))

    def unreadable(self) -> list[str]:
        """A message for each file that cannot be read. All other runs are not affected."""
        self._in_this_process()
        with self._reading():
            found = [self._readable(name) for name in disk.names_in(self._folder)]
        return [str(error) for error in found if isinstance(error, LedgerCorrupt)]

    def untrusted_runs(self) -> list[str]:
        self._in_this_process()
        with self._reading():
            found = {name: self._readable(name) for name in disk.names_in(self._folder)}
            names = [name for name, error in found.items() if isinstance(error, LedgerTampered)]
            files = [self._load(name, vouched=True) for name in names]
        return sorted(file.workflow_id for file in files if file and file.workflow_id != LEDGER)

    def flaws(self, workflow_id: str, *, thorough: bool = False) -> list[str]:
        if self._seals is None:
            return []
        if workflow_id == LEDGER and thorough:
            named = {flaw for run in self.untrusted_runs() for flaw in self.flaws(run)}
            return [flaw for flaw in self.unreadable() if flaw not in named]
        try:
            self.records(workflow_id)
        except LedgerCorrupt as error:
            return [str(error)]
        return []

    def adopt(self, workflow_id: str, *, entry: AuditEntry) -> None:
        if self._seals is None:
            raise KeyMissing(
                "Nothing can be sealed without a key. Nothing was changed. Make one: nottwice key"
            )
        self._in_this_process()

        def seal() -> None:
            file = self._load(disk.name_of(workflow_id), vouched=True) or RunFile(workflow_id)
            said = Commit(workflow_id=workflow_id, audit=(entry,))
            self._replace(document.as_stored(said), file)

        self._exclusively(seal)

    def copy_to(self, destination: Path, *, mark: AuditEntry, on_progress: OnProgress) -> None:
        """Make a complete copy while other writers wait. Durable: when it returns."""
        self._in_this_process()
        said = document.as_stored(Commit(workflow_id=mark.workflow_id, audit=(mark,)))

        def copy() -> None:
            number = self._run(mark.workflow_id).folded + 1
            journal = disk.name_of(mark.workflow_id) + disk.INBOX
            line = document.write_line(said, number, self._seals)
            copy_folder(
                self._folder,
                destination,
                own_folder=OWN_FOLDER,
                mark=(journal, line),
                on_progress=on_progress,
            )

        self._exclusively(copy)

    def close(self) -> None:
        """Release all resources. Everything that was reported durable stays durable."""
        if self._pid == os.getpid():
            self._shared.close()
            self._remembered.clear()

    # Opening

    def _prepare(self, *, create: bool) -> None:
        self._folder, self._own = self._path, self._path / OWN_FOLDER
        self._graphs = KnownGraphs(self._folder, self._own, self._readable, self._seals)
        self._workers = WorkerFiles(self._own / "workers")
        warning = check_folder(self._folder)
        if warning:
            log.warning(warning)
        with self._reading():
            mark = self._own / "format.json"
            if not mark.exists():
                self._create(create=create)
            document.check_mark(disk.read(mark) or b"", where=str(mark))
            self._lock = locks.hold(self._own / "holders.lock", now=self._now)
        self._remembered = {}
        self._named = {}
        self._glanced = None
        self._registered = False
        self._shared = SharedCommits(self._commit_many)
        # Set last: a thread that sees the number of this process here finds everything in place.
        self._pid = os.getpid()

    def _create(self, *, create: bool) -> None:
        if not create:
            raise self._no_ledger()
        if self._folder.is_dir() and disk.names_in(self._folder):
            raise StoreError(
                f"{self.location} holds other files that look like runs, and is not a nottwice "
                "ledger. Nothing was changed. Choose another folder."
            )
        disk.make_folder(self._own)
        lock = locks.hold(self._own / "holders.lock", now=self._now)
        lock.exclusively(
            _WRITING_PLACE,
            lambda: disk.replace(self._own / "format.json", document.write_mark()),
            wait_seconds=self._busy_seconds,
        )

    def _no_ledger(self) -> NoLedger:
        return NoLedger(
            f"There is no ledger in {self.location}. Nothing was created. Name another with "
            "--store file:FOLDER or NOTTWICE_STORE."
        )

    # Reading

    def _glance(self, now: float | None = None) -> MemoryStore:
        """All runs, for workers, which ask several times a second. Read again if a file changed.

        Two changes in one tick of the file system's clock may look the same, so a reading is reused
        only if nothing had changed for a while before it.
        """
        self._in_this_process()
        with self._reading():
            looks, last = disk.looks_of(self._folder), self._glanced
            if last is not None and last.looks == looks:
                if last.settled:
                    return last.view
                since = now if last.since is None else last.since
            else:
                since = now
            settled = now is not None and since is not None and now - since >= SETTLED_SECONDS
            view = MemoryStore(self._everything())
            self._glanced = Glance(looks, since, settled, view)
            return view

    def _run(self, workflow_id: str) -> RunFile:
        file = self._load(disk.name_of(workflow_id))
        if file is None:
            self._check_present()
            return RunFile(workflow_id)
        if file.workflow_id != workflow_id:
            where = str(self._folder / disk.name_of(workflow_id))
            raise document.corrupt(where, ValueError(f"it is of run {file.workflow_id!r}"))
        return file

    def _everything(self, *, unless_unreadable: bool = False) -> MemoryData:
        """All runs, from every file, which is fast enough for a few hundred.

        A file that cannot be read is logged and left out, unless its content could matter: then it
        is an error (P117).
        """
        whole = MemoryData()
        for name in disk.names_in(self._folder):
            file = self._readable(name)
            if isinstance(file, LedgerCorrupt):
                if unless_unreadable:
                    raise file
            elif file is not None:
                whole.update(file.data)
        return whole

    def _mentioning(self, *names: str) -> MemoryData:
        """The runs that can contain a key, a review or the like.

        Raises LedgerCorrupt if a file that names one of them cannot be read.
        """
        self._in_this_process()
        whole = MemoryData()
        with self._reading():
            for name in disk.names_in(self._folder):
                content = bytes_of(self._folder, name)
                if not any(may_say(content, one) for one in names):
                    continue
                file = self._readable(name)
                if isinstance(file, LedgerCorrupt):
                    if any(says(content, one) for one in names):
                        raise file
                elif file is not None:
                    whole.update(file.data)
        return whole

    def _readable(self, name: str) -> RunFile | LedgerCorrupt | None:
        """A run, or why it cannot be read. The reason is logged once."""
        try:
            return self._load(name)
        except LedgerCorrupt as error:
            found = error
        except OSError as error:
            found = document.corrupt(str(self._folder / (name + disk.RUN)), error)
        if self._named.get(name) != str(found):
            self._named[name] = str(found)
            log.warning("%s All other runs are not affected.", found)
        return found

    def _load(self, name: str, *, vouched: bool = False) -> RunFile | None:
        """A run as its file and its inbox show it together. ``vouched``: ignore its seals.

        The inbox is read first. If the holder folds it in meanwhile, its lines are in the file and
        known by their numbers, so none is missed or applied twice.
        """
        inbox = disk.read(self._folder / (name + disk.INBOX))
        file = self._parsed(name, vouched=vouched)
        where = str(self._folder / (name + disk.INBOX))
        for line in disk.lines_of(inbox or b""):
            number, commit = document.read_line(
                line, where=where, seals=self._seals, vouched=vouched
            )
            if file is None:
                file = RunFile(commit.workflow_id)
            if commit.workflow_id != file.workflow_id or disk.name_of(file.workflow_id) != name:
                raise document.corrupt(where, ValueError(f"it is about {commit.workflow_id!r}"))
            if number > file.folded:
                file = file.copy()
                rules.apply(file.data, commit)
                file.folded = number
        return file

    def _parsed(self, name: str, *, vouched: bool) -> RunFile | None:
        """The file as records. Content that was parsed or written before is not parsed again."""
        path = self._folder / (name + disk.RUN)
        for known, parsed in self._remembered.get(name, ()):
            if disk.holds(path, known):
                return parsed
        content = disk.read(path)
        if content is None:
            return None
        for known, parsed in self._remembered.get(name, ()):
            # Another thread has written it since.
            if b"".join(known) == content:
                return parsed
        file = document.read(content, where=str(path), seals=self._seals, vouched=vouched)
        if disk.name_of(file.workflow_id) != name:
            raise document.corrupt(str(path), ValueError(f"it is of run {file.workflow_id!r}"))
        if not vouched:
            self._remember(name, (content,), file)
        return file

    def _remember(self, name: str, content: disk.Content, file: RunFile) -> None:
        """Remember two contents: a thread may have read the old one just before it was replaced."""
        self._remembered[name] = [(content, file), *self._remembered.get(name, ())[:1]]
        while len(self._remembered) > MOST_REMEMBERED:
            # Another thread may have removed it first.
            self._remembered.pop(next(iter(self._remembered)), None)

    def _check_present(self) -> None:
        """A missing run is a new one, but a missing folder is an error."""
        if not self._own.exists():
            raise self._gone()

    def _gone(self) -> StoreError:
        return StoreError(
            f"The ledger {self.location} was deleted or replaced while it was in use. Nothing was "
            "written, and what this process has seen since is not on record. Put the folder back, "
            "or look up what happened before you run anything again."
        )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise disk.store_error(error, self.location) from error

    # Writing

    def _exclusively(self, write: Callable[[], None]) -> None:
        """Write while no other process or thread writes to this ledger."""

        def write_in_place() -> None:
            if not self._lock.is_in_place():
                # Another process may have created a new lock file, and both would write.
                raise self._gone()
            write()

        with self._reading():
            self._lock.exclusively(_WRITING_PLACE, write_in_place, wait_seconds=self._busy_seconds)

    def _commit_many(self, commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        return [self._commit(commit) for commit in commits]

    def _commit(self, commit: Commit) -> BaseException | None:
        try:
            commit = document.as_stored(commit)
            self._exclusively(lambda: self._write(commit))
        except (NottwiceError, Blocked, Outdated) as refusal:
            return refusal
        except (ValueError, OverflowError, RecursionError) as error:
            # A value that cannot be encoded as text was not written.
            return disk.store_error(error, self.location)
        return None

    def _write(self, commit: Commit) -> None:
        """Check every precondition, then write one file."""
        file = self._run(commit.workflow_id)
        rules.check(self._concerned(commit, file), commit)
        if commit.graph is not None:
            # Every run keeps a copy of its graph, always the version that was recorded first.
            known = self._graphs.find(commit.graph.graph_id) or commit.graph
            commit = replace(commit, graph=known)
            self._graphs.expect(known, file)
        if commit.fence is None and commit.claim is None and commit.removal is None:
            self._append(commit, file.folded + 1)
        else:
            self._replace(commit, file)

    def _concerned(self, commit: Commit, file: RunFile) -> MemoryData:
        """The records that a commit's preconditions need: its own run, and others if necessary."""
        if any(write.at_most is not None for write in commit.charges):
            return self._everything(unless_unreadable=True)
        names = [write.review.review_id for write in commit.reviews]
        new = [write.row.key for write in commit.calls if write.after is None]
        names += [key for key in new if key is not None]
        names += [commit.group] if commit.group is not None else []
        if not names:
            return file.data
        whole = self._mentioning(*names)
        whole.update(file.data)
        return whole

    def _append(self, commit: Commit, number: int) -> None:
        line = document.write_line(commit, number, self._seals)
        disk.append(self._folder / (disk.name_of(commit.workflow_id) + disk.INBOX), line)

    def _replace(self, commit: Commit, before: RunFile) -> None:
        name = disk.name_of(commit.workflow_id)
        file = before.copy()
        rules.apply(file.data, commit)
        content = document.write(file, self._seals)
        # Before the file is replaced, so that no other thread of this process parses it meanwhile.
        # If it is not replaced, this is the content of no file, and does no harm.
        self._remember(name, content, file)
        disk.replace(self._folder / (name + disk.RUN), *content)
        # Only now: until the new file is durable, the inbox is the only copy of its commits. If it
        # stays, or is back after a crash, the line numbers show that they were folded in.
        with contextlib.suppress(OSError):
            disk.remove(self._folder / (name + disk.INBOX))


_stores: weakref.WeakSet[JsonFileStore] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for store in list(_stores):
        # Another thread of the parent may have held the lock, and does not exist here.
        store._reopening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
