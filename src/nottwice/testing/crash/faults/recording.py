"""A recording of one uninterrupted life of the work: every change of the disk, every request.

The calls that strace saw are followed one by one: which file a descriptor leads to, where its next
write goes, what a sync makes safe. The work's requests to the world are in the same list. So at
every step it is known what was safe on the disk when the world saw something.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nottwice.model.data.records import frozen_record
from nottwice.testing.crash.course import MOST_ROUNDS, Lab, Moment
from nottwice.testing.crash.faults.disk import (
    FOLDER,
    Disk,
    DiskState,
    DiskWrite,
    Named,
    Resized,
    Unnamed,
)
from nottwice.testing.crash.faults.tracing import Called, Tracer, bytes_of
from nottwice.testing.crash.inside.child import LEDGERS, ChildErrand
from nottwice.testing.crash.scenario import CrashTestRefused
from nottwice.testing.crash.stage import Begin, Child, Examining, Until, Wake
from nottwice.testing.crash.upstream import CountingUpstream

SHARED_MEMORY = "-shm"
"""SQLite recreates this file when no process has the ledger open, so power loss cannot spoil it."""
_TRACED = (
    "trace=openat,?open,?creat,close,?dup,?dup2,?dup3,write,pwrite64,lseek,ftruncate,fallocate,"
    "fsync,fdatasync,?rename,?renameat,?renameat2,?unlink,?unlinkat,?mkdir,?mkdirat,?rmdir,"
    "sendto,?readlink,?readlinkat"
)
_OPTIONS = ("-xx", "-s", "100000000", "-e", _TRACED, "-e", "signal=none")


@frozen_record(frozen=True, slots=True)
class Step:
    """Something that happened, with the state of the disk and the world at that time."""

    text: str
    round: int
    thread: int
    call: str
    """The call to the operating system: ``pwrite64``, ``fsync``, ``sendto`` ..."""
    disk: DiskState
    world: CountingUpstream
    reported: bool = False
    """The work had ended and reported it, and not only the end of a round."""


@frozen_record(frozen=True, slots=True)
class Recording:
    """All steps, in order."""

    steps: tuple[Step, ...]
    paths: frozenset[str]
    """Every name below the folder of the ledgers that was used."""
    largest_bytes: int
    """The length of the largest file."""

    @property
    def rounds(self) -> int:
        """How many processes, one after the other, the work needed."""
        return max((step.round for step in self.steps), default=0)


@dataclass(slots=True)
class Remembering(CountingUpstream):
    """A world that remembers its state at every request and every call of a pure tool."""

    moments: list[CountingUpstream] = field(default_factory=list)

    def mark(self) -> None:
        self.moments.append(self.copy())


def record(lab: Lab, *, work_only: bool) -> Examining[Recording]:
    """Run the work to its end and record what it did.

    With ``work_only``, leave out what happens around the work: reading the state and deciding.
    """
    folder, world = lab.new_moment().folder, Remembering()
    follower = _Follower(folder / LEDGERS, world)
    turn = None
    for number in range(1, MOST_ROUNDS):
        tracer = Tracer(folder, _OPTIONS)
        tracer.output.unlink(missing_ok=True)
        errand = ChildErrand(
            folder=folder,
            rulings=() if turn is None else turn.rulings,
            messages=() if turn is None else turn.messages,
            prepare=None if work_only else tracer.await_attached,
            before_work=tracer.await_attached if work_only else None,
            after_work=tracer.mark_end if work_only else None,
        )
        world.mark()
        child = yield from watched(errand, world, tracer)
        if child.broken is not None or child.after is None:
            raise CrashTestRefused(f"The work could not be recorded: {child.broken}")
        turn = lab.next_turn(child.after, world)
        follower.follow_round(number, tracer.finish(), last=turn.idle)
        if turn.idle or turn.stuck:
            break
    lab.discard(Moment(folder, world))
    return Recording(tuple(follower.steps), frozenset(follower.paths), follower.largest_bytes)


def watched(errand: ChildErrand, upstream: CountingUpstream, tracer: Tracer) -> Examining[Child]:
    """Run one errand under strace, until it has ended."""
    child: Child = yield Begin(errand, upstream)
    yield Until(child)
    if child.over:
        return child
    child.met_at = None
    try:
        tracer.attach(child.pid)
        yield Wake(child)
        yield Until(child)
    finally:
        if not child.over:
            tracer.give_up()
    return child


class _Follower:
    """Follows the calls of one life and keeps the disk and the world up to date."""

    def __init__(self, root: Path, world: Remembering) -> None:
        self._root = str(root) + os.sep
        self._world = world
        self._disk = Disk()
        self._open: dict[int, _Opened] = {}
        self._asked = -1
        self._said: dict[int, bytes] = {}
        self._reported = False
        self._last = False
        self.steps: list[Step] = []
        self.paths: set[str] = set()
        self.largest_bytes = 0

    def follow_round(self, number: int, calls: list[Called], *, last: bool) -> None:
        """Follow one round. A round is a new process, so it starts without descriptors."""
        self._last = last
        self._open.clear()
        self._said.clear()
        self._asked += 1
        for call in calls:
            if call.failed:
                continue
            for text in self._follow(call):
                self.steps.append(
                    Step(
                        text,
                        number,
                        call.thread,
                        call.name,
                        self._disk.state,
                        self._world.moments[self._asked],
                        self._reported,
                    )
                )

    def _follow(self, call: Called) -> Iterator[str]:
        """Yield what a call means, or nothing if it does not concern the ledgers."""
        given = call.arguments
        match call.name:
            case "openat":
                yield from self._opened(given[1], given[2], call.result)
            case "open":
                yield from self._opened(given[0], given[1], call.result)
            case "close":
                self._open.pop(int(given[0]), None)
            case "dup" | "dup2" | "dup3":
                self._open.pop(call.result, None)
            case "mkdir" | "mkdirat":
                yield from self._named(given[-2], FOLDER)
            case "unlink" | "rmdir":
                yield from self._unnamed(given[0])
            case "unlinkat":
                yield from self._unnamed(given[1])
            case "rename" | "renameat" | "renameat2":
                old, new = (given[0], given[1]) if call.name == "rename" else (given[1], given[3])
                yield from self._renamed(old, new)
            case "sendto":
                yield from self._sent(int(given[0]), bytes_of(given[1]))
            case _ if given[0].isdigit() and int(given[0]) in self._open:
                yield from self._changed(call, self._open[int(given[0])])

    def _opened(self, quoted: str, flags: str, descriptor: int) -> Iterator[str]:
        self._open.pop(descriptor, None)
        path = self._path(quoted)
        if path is None:
            return
        file = self._disk.names.get(path)
        if path == "":
            file = FOLDER
        text = f"{path or 'the folder'} was opened"
        if file is None:
            file = self._disk.new_file(path, forgotten=path.endswith(SHARED_MEMORY))
            text = f"{path} was created"
        elif "O_TRUNC" in flags:
            self._disk.change(Resized(file, 0))
        self._open[descriptor] = _Opened(path, file, "O_APPEND" in flags)
        yield text

    def _changed(self, call: Called, opened: _Opened) -> Iterator[str]:
        path, file, given = opened.path, opened.file, call.arguments
        match call.name:
            case "fsync" | "fdatasync" if file == FOLDER:
                self._disk.sync_folder(path)
                yield f"{path or 'the folder'} was synced"
                return
            case "fsync" | "fdatasync":
                self._disk.sync_file(file)
            case "lseek":
                opened.place = call.result
                return
            case "ftruncate":
                self._disk.change(Resized(file, int(given[1])))
            case "fallocate":
                size = max(self._disk.size(file), int(given[2]) + int(given[3]))
                self._disk.change(Resized(file, size))
            case "pwrite64":
                data = bytes_of(given[1])[: call.result]
                self._disk.change(DiskWrite(file, int(given[3]), data))
            case "write":
                data = bytes_of(given[1])[: call.result]
                at = self._disk.size(file) if opened.appends else opened.place
                self._disk.change(DiskWrite(file, at, data))
                opened.place = at + len(data)
        self.largest_bytes = max(self.largest_bytes, self._disk.size(file))
        yield f"{call.name} of {path}"

    def _named(self, quoted: str, file: int) -> Iterator[str]:
        path = self._path(quoted)
        if path:
            self._disk.change(Named(path, file))
            yield f"{path} was made"

    def _unnamed(self, quoted: str) -> Iterator[str]:
        path = self._path(quoted)
        if path:
            self._disk.change(Unnamed(path))
            yield f"{path} was removed"

    def _renamed(self, old: str, new: str) -> Iterator[str]:
        before, after = self._path(old), self._path(new)
        if before and after:
            self._disk.change(Named(after, self._disk.names[before], instead_of=before))
            yield f"{before} became {after}"

    def _sent(self, descriptor: int, data: bytes) -> Iterator[str]:
        """Follow what the child sends to the world. From here on, the parent has it."""
        *lines, self._said[descriptor] = (self._said.get(descriptor, b"") + data).split(b"\n")
        for line in lines:
            if not line.startswith((b'{"ask"', b'{"tell"')):
                # Event loops wake themselves through their own sockets.
                continue
            message = json.loads(line)
            if "ask" in message:
                self._asked += 1
                yield f"the world was asked: {message['ask']} {message.get('tool', '')}".strip()
            elif message["tell"] == "invoking":
                self._asked += 1
                yield f"{message['tool']} was called"
            elif message["tell"] == "ended":
                self._reported = self._last
                yield "the work had ended"

    def _path(self, quoted: str) -> str | None:
        """Return a path below the folder of the ledgers, "" for the folder itself, else None."""
        path = os.path.normpath(os.fsdecode(bytes_of(quoted)))
        if not (path + os.sep).startswith(self._root):
            return None
        found = (path + os.sep).removeprefix(self._root).rstrip(os.sep)
        if found:
            self.paths.add(found)
        return found


@dataclass(slots=True)
class _Opened:
    """What a descriptor leads to."""

    path: str
    file: int
    appends: bool
    place: int = 0
