"""Do concurrent commits share a transaction, get their own outcomes, and survive any interrupt?"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import pytest

from nottwice.errors import CommitUnknown, OwnershipLost, SelfWait
from nottwice.store.interface import Commit
from nottwice.store.shared import MOST_IN_A_BATCH, SharedCommits
from nottwice.store.soon import awaitable
from tests.store.abilities import python
from tests.store.children import Child
from tests.store.samples import note

SECONDS = 30


class Disk:
    """Plays the store under the commits: it can be made to wait, and keeps what it was given.

    It is the other side of the seam, not a copy of ours: a function that commits a batch.
    """

    def __init__(self) -> None:
        self.batches: list[list[Commit]] = []
        self.threads: list[threading.Thread] = []
        self.free = threading.Event()
        self.free.set()
        self.busy = threading.Event()
        self.errors: dict[Commit, BaseException] = {}
        self.breaks: BaseException | None = None
        self.seconds = 0.0
        self.turns: threading.Semaphore | None = None

    def __call__(self, commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        self.batches.append(list(commits))
        self.threads.append(threading.current_thread())
        self.busy.set()
        assert self.free.wait(SECONDS)
        assert self.turns is None or self.turns.acquire(timeout=SECONDS)
        if self.seconds:
            threading.Event().wait(self.seconds)
        if self.breaks is not None:
            raise self.breaks
        return [self.errors.get(commit) for commit in commits]

    @property
    def commits(self) -> list[Commit]:
        return [commit for batch in self.batches for commit in batch]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is committed inside the block."""
        self.free.clear()
        try:
            yield
        finally:
            self.free.set()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def shared(disk: Disk) -> Iterator[SharedCommits]:
    commits = SharedCommits(disk)
    yield commits
    commits.close()


def in_thread(action: Callable[[], None]) -> Future[None]:
    """What becomes of an action in a thread of its own."""
    future: Future[None] = Future()

    def act() -> None:
        try:
            action()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=act, daemon=True).start()
    return future


def commit_in_thread(shared: SharedCommits, number: int) -> Future[None]:
    return in_thread(lambda: shared.commit(note(number)))


def wait_for_queue(shared: SharedCommits, length: int) -> None:
    """Return when this many wait for the next batch: nothing else shows that a thread sleeps."""
    wait_for(lambda: len(shared._waiting) >= length)


def wait_for(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(SECONDS * 1000):
        if condition():
            return
        pause.wait(0.001)
    pytest.fail("it did not come to that")


# Alone and together


def test_a_caller_that_is_alone_commits_in_its_own_thread(
    shared: SharedCommits, disk: Disk
) -> None:
    shared.commit(note(1))
    assert disk.threads == [threading.current_thread()]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(shared.commit, note(2)).result(SECONDS)
        assert disk.threads[1:] == list(pool._threads)
    assert disk.batches == [[note(1)], [note(2)]]


def test_those_who_arrive_during_a_commit_share_the_next(shared: SharedCommits, disk: Disk) -> None:
    with disk.held():
        first = commit_in_thread(shared, 0)
        assert disk.busy.wait(SECONDS)
        others = [commit_in_thread(shared, number) for number in range(1, 20)]
        wait_for_queue(shared, 19)
        assert not any(one.done() for one in (first, *others))
    for one in (first, *others):
        one.result(SECONDS)
    assert [len(batch) for batch in disk.batches] == [1, 19]


def test_a_batch_is_bounded_and_what_is_left_over_is_led_too(
    shared: SharedCommits, disk: Disk
) -> None:
    with disk.held():
        first = commit_in_thread(shared, 0)
        assert disk.busy.wait(SECONDS)
        soon = [shared.commit_soon(note(number)) for number in range(1, 2 * MOST_IN_A_BATCH + 10)]
        waiting = commit_in_thread(shared, 9_999)
        wait_for_queue(shared, len(soon) + 1)
    for one in (first, waiting, *soon):
        one.result(SECONDS)
    assert [len(batch) for batch in disk.batches] == [1, MOST_IN_A_BATCH, MOST_IN_A_BATCH, 10]
    assert disk.commits[1:-1] == [note(number) for number in range(1, len(soon) + 1)]


def test_a_thread_that_did_not_fit_in_is_not_told_before_its_turn(
    shared: SharedCommits, disk: Disk
) -> None:
    disk.errors = {note(9_999): OwnershipLost("late")}
    with disk.held():
        first = commit_in_thread(shared, 0)
        assert disk.busy.wait(SECONDS)
        soon = [shared.commit_soon(note(number)) for number in range(1, MOST_IN_A_BATCH + 1)]
        late = commit_in_thread(shared, 9_999)
        wait_for_queue(shared, MOST_IN_A_BATCH + 1)
    for one in (first, *soon):
        one.result(SECONDS)
    assert isinstance(late.exception(SECONDS), OwnershipLost)
    assert disk.batches[2] == [note(9_999)]


def test_a_leader_whose_own_commit_did_not_fit_in_waits_for_the_next_leader(
    shared: SharedCommits, disk: Disk
) -> None:
    disk.errors = {note(10_000): OwnershipLost("late")}
    disk.turns = threading.Semaphore(0)
    soon = [shared.commit_soon(note(number)) for number in range(3 * MOST_IN_A_BATCH + 90)]
    # One batch is at the disk, one is requested, and no thread is asked twice.
    assert shared._pool is not None
    assert shared._pool._work_queue.qsize() <= 1
    disk.turns.release()
    wait_for(lambda: len(disk.batches) == 2)
    leader = commit_in_thread(shared, 10_000)
    wait_for(lambda: shared._next is not None)
    disk.turns.release()
    wait_for(lambda: len(disk.batches) == 3)
    assert note(10_000) not in disk.commits
    following = commit_in_thread(shared, 10_001)
    wait_for(lambda: shared._next is not None)
    disk.turns.release()
    wait_for(lambda: len(disk.batches) == 4)
    assert not leader.done()
    disk.turns.release(10)
    assert isinstance(leader.exception(SECONDS), OwnershipLost)
    for one in (following, *soon):
        one.result(SECONDS)


def test_threads_that_do_not_fit_into_one_batch_are_all_led(
    shared: SharedCommits, disk: Disk
) -> None:
    count = MOST_IN_A_BATCH + 20
    with disk.held():
        first = commit_in_thread(shared, 0)
        assert disk.busy.wait(SECONDS)
        others = [commit_in_thread(shared, number) for number in range(1, count)]
        wait_for_queue(shared, count - 1)
    for one in (first, *others):
        one.result(SECONDS)
    assert [len(batch) for batch in disk.batches] == [1, MOST_IN_A_BATCH, 19]


def test_each_member_hears_its_own_outcome(shared: SharedCommits, disk: Disk) -> None:
    disk.errors = {note(number): OwnershipLost(f"{number}") for number in (2, 5)}
    with disk.held():
        first = commit_in_thread(shared, 0)
        assert disk.busy.wait(SECONDS)
        soon = [shared.commit_soon(note(number)) for number in range(1, 4)]
        threads = [commit_in_thread(shared, number) for number in range(4, 7)]
        wait_for_queue(shared, 6)
    errors = [one.exception(SECONDS) for one in (first, *soon, *threads)]
    assert [error if error is None else str(error) for error in errors] == [
        None, None, "2", None, None, "5", None,
    ]  # fmt: skip


def test_a_commit_that_fails_alone_raises_and_the_next_one_works(
    shared: SharedCommits, disk: Disk
) -> None:
    disk.errors = {note(1): OwnershipLost("no")}
    with pytest.raises(OwnershipLost, match="no"):
        shared.commit(note(1))
    with pytest.raises(OwnershipLost, match="no"):
        commit_in_thread(shared, 1).result(SECONDS)
    shared.commit(note(2))


def test_when_a_batch_breaks_no_caller_believes_in_success_or_failure(
    shared: SharedCommits, disk: Disk
) -> None:
    disk.breaks = MemoryError("too much")
    with disk.held():
        members = [commit_in_thread(shared, 0)]
        assert disk.busy.wait(SECONDS)
        members += [commit_in_thread(shared, 1), shared.commit_soon(note(2))]
        wait_for_queue(shared, 2)
    errors = [one.exception(SECONDS) for one in members]
    assert [type(error) for error in errors] == [CommitUnknown] * 3
    assert len({id(error) for error in errors}) == 3
    disk.breaks = None
    commit_in_thread(shared, 3).result(SECONDS)


def test_an_event_loop_looks_for_a_leader_once_for_all_its_tasks(
    shared: SharedCommits, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def main() -> None:
        loop = asyncio.get_running_loop()
        call = loop.call_soon

        def counted(callback: Callable[..., object], *args: Any, **more: Any) -> asyncio.Handle:
            nonlocal looks
            looks += callback == shared._find_leader
            return call(callback, *args, **more)

        monkeypatch.setattr(loop, "call_soon", counted)
        for _ in range(3):
            soon = [awaitable(shared.commit_soon(note(number))) for number in range(20)]
            await asyncio.gather(*soon)

    asyncio.run(asyncio.wait_for(main(), SECONDS))
    assert [len(batch) for batch in disk.batches] == [20, 20, 20]
    # One look for each batch, and one in reserve.
    assert looks == 6


# Interrupts: only the main thread is struck by them


class Interrupt(KeyboardInterrupt):
    """What Ctrl-C raises, told apart from a real one."""


class MainThread:
    """The main thread, which others can interrupt wherever it is, once each time it is armed."""

    def __init__(self) -> None:
        self.armed = False

    def interrupt(self) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    def interrupt_surely(self) -> None:
        """Until it was struck: a signal that comes just before a wait does not end the wait."""
        pause = threading.Event()
        while self.armed:
            self.interrupt()
            pause.wait(0.005)

    def strike(self, number: int, frame: FrameType | None) -> None:
        if self.armed:
            self.armed = False
            raise Interrupt


@pytest.fixture
def main_thread() -> Iterator[MainThread]:
    thread = MainThread()
    before = signal.signal(signal.SIGUSR1, thread.strike)
    yield thread
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.timeout(20)
def test_a_signal_handler_does_not_wait_for_the_commit_that_it_interrupted(disk: Disk) -> None:
    refused: list[SelfWait] = []

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            ours.commit(note(2))
        except SelfWait as error:
            refused.append(error)

    def commit_under_a_signal(commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        signal.raise_signal(signal.SIGUSR1)
        return disk(commits)

    ours = SharedCommits(commit_under_a_signal)
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        ours.commit(note(1))
        assert disk.commits == [note(1)]
        assert "Let the handler set a flag" in str(refused.pop())
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        ours.commit(note(3))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert disk.commits == [note(1), note(3)]


def test_an_interrupt_while_committing_alone_concerns_no_other_thread(
    shared: SharedCommits, disk: Disk, main_thread: MainThread
) -> None:
    others: list[Future[None]] = []

    def arrive_and_interrupt() -> None:
        assert disk.busy.wait(SECONDS)
        others.extend(commit_in_thread(shared, number) for number in range(1, 4))
        others.append(shared.commit_soon(note(4)))
        wait_for_queue(shared, 4)
        main_thread.interrupt_surely()

    with disk.held():
        helper = in_thread(arrive_and_interrupt)
        with pytest.raises(Interrupt):
            main_thread.armed = True
            shared.commit(note(0))
    helper.result(SECONDS)
    for one in others:
        assert one.exception(SECONDS) is None
    assert sorted(map(str, disk.commits)) == sorted(str(note(number)) for number in range(5))


def test_an_interrupted_waiter_leaves_and_its_batch_continues(
    shared: SharedCommits, disk: Disk, main_thread: MainThread
) -> None:
    late: list[Future[None]] = []

    def arrive_and_interrupt() -> None:
        wait_for_queue(shared, 2)
        late.extend(commit_in_thread(shared, number) for number in (3, 4))
        wait_for_queue(shared, 4)
        main_thread.interrupt_surely()

    with disk.held():
        first = commit_in_thread(shared, 0)
        assert disk.busy.wait(SECONDS)
        second = commit_in_thread(shared, 1)
        wait_for_queue(shared, 1)
        helper = in_thread(arrive_and_interrupt)
        with pytest.raises(Interrupt):
            main_thread.armed = True
            shared.commit(note(2))
        helper.result(SECONDS)
    for one in (first, second, *late):
        one.result(SECONDS)
    assert len(disk.commits) == 5
    shared.commit(note(6))


def test_no_interrupt_at_any_instruction_loses_the_lead(
    shared: SharedCommits, disk: Disk, main_thread: MainThread
) -> None:
    """Threads commit all the time, and the main thread is struck wherever it happens to be."""
    # A disk as slow as a real one, so that most of the time a thread waits for it.
    disk.seconds = 0.0003
    over = threading.Event()
    done = [0] * 4

    def work(index: int) -> None:
        while not over.is_set():
            shared.commit(note(index))
            done[index] += 1

    def strike() -> None:
        pause, chance = threading.Event(), random.Random(7)
        while not over.is_set():
            pause.wait(chance.uniform(0, 0.0015))
            main_thread.interrupt()

    others = [in_thread(partial(work, index)) for index in range(4)]
    others.append(in_thread(strike))
    interrupts = 0
    while interrupts < 150 or min(done) < 150:
        assert not any(one.done() for one in others), "only the main thread is interrupted"
        try:
            main_thread.armed = True
            shared.commit(note(99))
            shared.commit_soon(note(100))
        except Interrupt:
            interrupts += 1
        main_thread.armed = False
    over.set()
    for one in others:
        assert one.exception(SECONDS) is None
    shared.commit(note(1))
    assert shared.commit_soon(note(2)).result(SECONDS) is None


# Event loops


def test_an_event_loop_is_not_blocked_and_its_commits_share(
    shared: SharedCommits, disk: Disk
) -> None:
    async def commit(number: int) -> None:
        await asyncio.wrap_future(shared.commit_soon(note(number)))

    async def main() -> None:
        with disk.held():
            first = asyncio.create_task(commit(0))
            while not disk.busy.is_set():
                await asyncio.sleep(0)
            others = [asyncio.create_task(commit(number)) for number in range(1, 50)]
            while len(shared._waiting) < 49:
                await asyncio.sleep(0)
        await asyncio.gather(first, *others)

    asyncio.run(asyncio.wait_for(main(), SECONDS))
    assert [len(batch) for batch in disk.batches] == [1, 49]
    assert threading.main_thread() not in disk.threads


def test_a_waiter_that_is_cancelled_does_not_cancel_the_commit(
    shared: SharedCommits, disk: Disk
) -> None:
    async def main() -> Future[None]:
        with disk.held():
            blocking = shared.commit_soon(note(0))
            future = shared.commit_soon(note(1))
            waiter = asyncio.ensure_future(asyncio.wrap_future(future))
            await asyncio.sleep(0)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            assert not future.cancel()
        await asyncio.wrap_future(blocking)
        return future

    future = asyncio.run(main())
    assert future.result(SECONDS) is None
    assert disk.commits == [note(0), note(1)]


def test_threads_and_event_loops_share_batches(shared: SharedCommits, disk: Disk) -> None:
    with disk.held():
        first = shared.commit_soon(note(0))
        assert disk.busy.wait(SECONDS)
        members = [shared.commit_soon(note(1)), commit_in_thread(shared, 2)]
        wait_for_queue(shared, 2)
    for one in (first, *members):
        one.result(SECONDS)
    assert [len(batch) for batch in disk.batches] == [1, 2]


def test_what_the_tasks_of_a_loop_commit_in_one_turn_is_one_batch(
    shared: SharedCommits, disk: Disk
) -> None:
    async def commit_twice(number: int) -> None:
        soon = shared.commit_soon(note(number))
        # Time enough for a leader, if there were one already.
        assert number or not disk.busy.wait(0.05)
        await awaitable(soon)
        await awaitable(shared.commit_soon(note(100 + number)))

    async def main() -> None:
        await asyncio.gather(*(commit_twice(number) for number in range(30)))

    asyncio.run(asyncio.wait_for(main(), SECONDS))
    assert [len(batch) for batch in disk.batches] == [30, 30]


def test_a_loop_that_never_runs_again_keeps_no_thread_waiting(
    shared: SharedCommits, disk: Disk
) -> None:
    """It asked for a commit, and is closed before it found a leader."""

    async def ask_and_stop() -> None:
        shared.commit_soon(note(1))
        asyncio.get_running_loop().stop()

    loop = asyncio.new_event_loop()
    task = loop.create_task(ask_and_stop())
    loop.run_forever()
    assert task.done()
    loop.close()
    assert disk.batches == []
    commit_in_thread(shared, 2).result(SECONDS)
    assert disk.batches == [[note(1), note(2)]]


def test_closing_commits_what_a_stopped_loop_has_asked_for(
    shared: SharedCommits, disk: Disk
) -> None:
    async def ask_and_close() -> Future[None]:
        future = shared.commit_soon(note(1))
        shared.close()
        assert future.done()
        return future

    assert asyncio.run(ask_and_close()).result(SECONDS) is None
    assert disk.commits == [note(1)]


# The end


def test_closing_waits_for_what_is_under_way_and_a_later_use_works(
    shared: SharedCommits, disk: Disk
) -> None:
    futures = [shared.commit_soon(note(number)) for number in range(50)]
    shared.close()
    assert all(future.done() for future in futures)
    assert len(disk.commits) == 50
    assert shared.commit_soon(note(51)).result(SECONDS) is None
    shared.close()
    shared.close()


def test_a_commit_still_works_when_the_interpreter_starts_no_more_threads() -> None:
    with Child(python("commit_at_exit")) as child:
        assert child.hear() == {"durable": 1}
        assert child.end() == (0, "")
