"""What do the processes do that these tests start, stop, kill and starve?

Each program is one function; a child runs it by name and says what came of it, one JSON line at a
time, written straight to the descriptor so that a SIGKILL loses nothing that was said.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.errors import CommitUnknown, StoreError
from nottwice.store.machine import locks
from nottwice.store.machine.ofd import ByteLocks
from nottwice.store.shared import SharedCommits
from nottwice.store.sqlite.store import SqliteStore
from tests.fakes import UnhurriedClock
from tests.store.samples import NOW, note, noted


def say(**facts: Any) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


def open_ledger(path: str, **options: Any) -> SqliteStore:
    return SqliteStore(path, now=NOW, **options)


# Holders


def become_holder(store: SqliteStore) -> str:
    """Write something, and so be on record; returns the holder's id."""
    store.commit(note(0))
    return store.holder().holder_id


def hold(path: str) -> None:
    """Be a holder until the end of the input; each line of it is something to do meanwhile."""
    store = open_ledger(path)
    say(holder=become_holder(store))
    for line in sys.stdin:
        if line.strip() == "reopen":
            store.close()
            open_ledger(path).close()
            store = open_ledger(path)
        elif line.strip() == "commit":
            store.commit(note(1))
        say(did=line.strip(), holder=store.holder().holder_id)


def probe(path: str, holder_id: str, count: str) -> None:
    """Look at a holder many times and say everything that was seen."""
    store = open_ledger(path)
    say(ready=True)
    sys.stdin.readline()
    seen = {store.life_of(holder_id).value}
    # The look at the lock alone, so that two who look meet often.
    record, lock = store.load_holder(holder_id), store._lock
    seen |= {lock.life_of(record).value for _ in range(int(count))}
    say(seen=sorted(seen))


def replace_itself(path: str) -> None:
    """Be a holder, and then another program in the same process."""
    holder_id = become_holder(open_ledger(path))
    words = ["-m", "tests.store.programs", "probe", path, holder_id, "1"]
    os.execv(sys.executable, [sys.executable, *words])


def exclude(lock_path: str, place: str) -> None:
    """Keep all other processes out until the end of the input."""
    lock = locks.hold(Path(lock_path), now=NOW)

    def stay() -> None:
        say(excluding=True)
        sys.stdin.read()

    lock.exclusively(int(place), stay, wait_seconds=30)


def is_free(lock_path: str, place: str) -> None:
    """Say whether a byte of a lock file is free for this process."""
    descriptor = os.open(lock_path, os.O_RDWR)
    say(free=ByteLocks(descriptor).is_free(int(place)))


# Opening


def crowd(path: str, size: str) -> None:
    """Several processes open one new file at the same moment, and each leaves a note."""
    os.umask(0)
    reader, writer = os.pipe()
    children = []
    for number in range(int(size)):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(_open_and_note(path, number))
        children.append(child)
    os.close(reader)
    os.close(writer)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    say(started=statuses.count(0), statuses=statuses)


def _open_and_note(path: str, number: int) -> int:
    try:
        store = open_ledger(path)
        store.commit(note(number))
        store.close()
    except BaseException as error:
        say(number=number, error=repr(error))
        return 1
    return 0


# Forks


def outlive_parent(path: str) -> None:
    """A child that was forked from a user of the ledger continues when its parent is gone."""
    store = open_ledger(path)
    parent = store.holder().holder_id
    store.commit(note(1))
    noted(store)
    gone, tell = os.pipe()
    if os.fork() != 0:
        os._exit(0)
    os.close(tell)
    os.read(gone, 1)
    store.commit(note(2))
    say(
        told_durable=[1, 2],
        is_new_holder=store.holder().holder_id != parent,
        parent=store.life_of(parent).value,
        # SQLite's lock on the main file: without it others may clean up under this process.
        holds_sqlite_lock=_has_lock_on(path),
    )
    query = "SELECT * FROM nottwice_audit"
    other = f"import sys, sqlite3; sqlite3.connect(sys.argv[1]).execute({query!r})"
    os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", other, path)
    store.commit(note(3))
    say(told_durable=[1, 2, 3], shown=noted(store))


def _has_lock_on(path: str) -> bool:
    wanted = f":{os.stat(path).st_ino} "
    table = Path("/proc/locks").read_text().splitlines()
    return any(wanted in line and f" {os.getpid()} " in line for line in table)


def fork_and_return(path: str) -> None:
    """Child and parent use one store in turn; both are right, and neither hurts the other."""
    store = open_ledger(path)
    parent = store.holder().holder_id
    store.commit(note(1))
    child = os.fork()
    if child == 0:
        _in_all_threads(lambda: say(holder=store.holder().holder_id))
        store.commit(note(2))
        say(child_sees=noted(store), parent=store.life_of(parent).value)
        store.close()
        sys.exit(0)
    os.waitpid(child, 0)
    store.commit(note(3))
    say(parent_sees=noted(store), same_holder=store.holder().holder_id == parent)
    sys.stdin.read()


def _in_all_threads(action: Callable[[], None]) -> None:
    start = threading.Barrier(4)

    def act() -> None:
        start.wait()
        action()

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fork_among_threads(path: str, forks: str) -> None:
    """Fork again and again while other threads read and write; every child does both, too."""
    store = open_ledger(path)
    over = threading.Event()
    written = []

    def write(first: int) -> None:
        number = first
        while not over.is_set():
            store.commit(note(number))
            written.append(number)
            noted(store)
            number += 10

    threads = [threading.Thread(target=write, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    statuses = []
    for number in range(int(forks)):
        child = os.fork()
        if child == 0:
            os._exit(_open_and_note_in_child(store, 100_000 + number))
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    over.set()
    for thread in threads:
        thread.join()
    missing = set(written) - set(noted(store))
    say(statuses=statuses, missing=sorted(missing), written=len(written))


def _open_and_note_in_child(store: SqliteStore, number: int) -> int:
    try:
        store.commit(note(number))
        return 0 if number in noted(store) else 2
    except BaseException as error:
        say(error=repr(error))
        return 1


def fork_inside_a_read(path: str) -> None:
    """A signal handler forks while its own thread is in the middle of reading."""
    store = open_ledger(path, busy_seconds=0.2)
    store.commit(note(1))
    slot = store._connections.writer

    with slot.guard:
        child = os.fork()
        if child == 0:
            try:
                store.commit(note(2))
            except StoreError as error:
                say(refused=str(error))
            os._exit(0)
        os.waitpid(child, 0)
    store.commit(note(3))
    say(parent_sees=noted(store))


# Commits under bad conditions


def acknowledge(path: str, count: str, threads: str, weight: str, first: str = "0") -> None:
    """Commit notes from several threads and say of each what this process was told about it."""
    store = open_ledger(path)
    say(ready=True)
    sys.stdin.readline()
    numbers = range(int(first), int(first) + int(count))
    _commit_all(store, numbers, threads=int(threads), weight=int(weight))
    say(over=True)
    # No clean end: what is on the disk now is what counts.
    os.kill(os.getpid(), signal.SIGKILL)


def starve(path: str, limit: str, count: str, threads: str, weight: str) -> None:
    """The same under a limit on file sizes, and then once more without it."""
    # Without this the limit kills instead of giving an error.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = open_ledger(path)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), hard))
    _commit_all(store, range(int(count)), threads=int(threads), weight=int(weight))
    say(starved=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    _commit_all(store, range(10_000, 10_005), threads=1, weight=int(weight))
    say(over=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _commit_all(store: SqliteStore, numbers: range, *, threads: int, weight: int) -> None:
    def commit(number: int) -> None:
        try:
            store.commit(note(number, weight=weight))
            say(durable=number)
        except CommitUnknown as error:
            say(unknown=number, error=str(error))
        except StoreError as error:
            say(failed=number, error=str(error))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(commit, numbers))


def commit_at_exit() -> None:
    """Commit when the interpreter starts no more threads."""
    shared = SharedCommits(lambda commits: [None] * len(commits))

    def last_words() -> None:
        shared.commit_soon(note(1)).result(timeout=30)
        say(durable=1)

    atexit.register(last_words)


# The public API, for counting


def guarded(path: str, *calls: str) -> None:
    """Calls of protected tools in one run, in numbers: ``effects=5 replays=3``."""
    counts = {name: int(count) for name, _, count in (word.partition("=") for word in calls)}
    send = nt.tool("unsafe_on_replay", name="send")(_tool)
    look_up = nt.tool("pure", name="look up")(_tool)
    effects = counts.get("effects", 0)
    ledger = nt.Ledger(path, clock=UnhurriedClock())
    with ledger.run("run"):
        for number in range(effects):
            send(number)
        for number in range(counts.get("replays", 0)):
            assert send.receipt(number % effects).replayed
        for number in range(counts.get("pure", 0)):
            look_up(number)
    for number in range(counts.get("onces", 0)):
        assert not ledger.once("group", str(number), send, {"number": number}).replayed
    for _ in range(counts.get("onces_again", 0)):
        assert ledger.once("group", "0", send, {"number": 0}).replayed
    if "async_effects" in counts:
        asyncio.run(_guarded_async(ledger, counts["async_effects"]))


async def _guarded_async(ledger: nt.Ledger, count: int) -> None:
    @nt.tool("unsafe_on_replay")
    async def send_later(number: int) -> str:
        return _tool(number)

    async with ledger.run("async run"):
        for number in range(count):
            await send_later(number)


def _tool(number: int) -> str:
    return f"{number:>500}"


PROGRAMS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        acknowledge,
        commit_at_exit,
        crowd,
        exclude,
        fork_among_threads,
        fork_and_return,
        fork_inside_a_read,
        guarded,
        hold,
        is_free,
        outlive_parent,
        probe,
        replace_itself,
        starve,
    )
}

if __name__ == "__main__":
    # Newer Pythons warn of every fork among threads, which is what some programs are about.
    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
