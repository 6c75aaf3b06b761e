"""Is the checkpoint that led to a call durable yet? (P256)

With LangGraph's default, ``durability="async"``, a tool runs while the checkpoint with the model's
reply is still being saved, or before anything has begun to save it. If the process dies then, the
next one does not know the reply, asks the model again, and gets another answer. So the intent of a
call waits, bounded, until the checkpoints that its own config names are durable.

A saved checkpoint wakes the calls that wait. A checkpoint that another process has saved is found
in the ledger. If a checkpoint could not be saved, LangGraph saves none after it, so everything that
waits in that graph fails, until the graph is invoked again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable

from nottwice.errors import StoreError, UsageError
from nottwice.langchain.rows import CheckpointKey

MOST_REMEMBERED = 4096

Waiter = concurrent.futures.Future[None]
_sharing = threading.RLock()


class Durable:
    """The checkpoints that this process knows to be durable, and the calls that wait for others."""

    def __init__(self, look: Callable[[CheckpointKey], bool]) -> None:
        """``look``: whether the ledger has a checkpoint."""
        self._look = look
        self._begin()

    def _begin(self) -> None:
        self._guard = threading.Lock()
        self._saved: OrderedDict[CheckpointKey, None] = OrderedDict()
        self._broken: OrderedDict[tuple[str, str], BaseException] = OrderedDict()
        """Why the checkpoints of a graph could not be saved, by thread and namespace."""
        self._waiting: dict[CheckpointKey, list[Waiter]] = {}
        self._pid = os.getpid()

    def saved(self, key: CheckpointKey) -> None:
        """Record that a checkpoint is durable."""
        self._in_this_process()
        with self._guard:
            self._broken.pop(key[:2], None)
            self._saved[key] = None
            self._saved.move_to_end(key)
            if len(self._saved) > MOST_REMEMBERED:
                self._saved.popitem(last=False)
            waiting = self._waiting.pop(key, [])
        for waiter in waiting:
            _tell(waiter, key, None)

    def failed(self, key: CheckpointKey, error: BaseException) -> None:
        """Record that a checkpoint could not be saved."""
        self._in_this_process()
        with self._guard:
            self._broken[key[:2]] = error
            if len(self._broken) > MOST_REMEMBERED:
                self._broken.popitem(last=False)
            graph = [each for each in self._waiting if each[:2] == key[:2]]
            waiting = [(each, waiter) for each in graph for waiter in self._waiting.pop(each)]
        for each, waiter in waiting:
            _tell(waiter, each, error)

    def begins(self, thread_id: str, checkpoint_ns: str) -> None:
        """Record that a graph is read, as it is before it runs: what failed before is over."""
        self._in_this_process()
        with self._guard:
            self._broken.pop((thread_id, checkpoint_ns), None)

    def forget(self) -> None:
        """Forget everything, because checkpoints were removed."""
        self._in_this_process()
        with self._guard:
            self._saved.clear()

    def wait(self, keys: Iterable[CheckpointKey], *, wait_seconds: float) -> None:
        """Return when all of these are durable. StoreError if they are not, in time."""
        waiters = self._waiters(keys)
        if all(waiter.done() for waiter in waiters.values()):
            self._conclude(waiters, wait_seconds)
            return
        if _in_event_loop():
            self._leave(waiters)
            raise UsageError(
                "An event loop cannot wait for a checkpoint that it has to save itself. The call "
                "was not made. Write: await saver.await_until_durable(config)"
            )
        try:
            concurrent.futures.wait(
                waiters.values(),
                timeout=wait_seconds,
                return_when=concurrent.futures.FIRST_EXCEPTION,
            )
        finally:
            self._leave(waiters)
        self._conclude(waiters, wait_seconds)

    async def wait_in_loop(self, keys: Iterable[CheckpointKey], *, wait_seconds: float) -> None:
        """The same without blocking the event loop. Looking into the ledger takes a moment."""
        waiters = self._waiters(keys)
        try:
            if not all(waiter.done() for waiter in waiters.values()):
                await asyncio.wait(
                    [asyncio.wrap_future(waiter) for waiter in waiters.values()],
                    timeout=wait_seconds,
                    return_when=asyncio.FIRST_EXCEPTION,
                )
        finally:
            self._leave(waiters)
        self._conclude(waiters, wait_seconds)

    def _waiters(self, keys: Iterable[CheckpointKey]) -> dict[CheckpointKey, Waiter]:
        """A waiter for each, done if its checkpoint is durable now.

        It is registered before the ledger is asked, or a checkpoint that is saved in between would
        be missed.
        """
        self._in_this_process()
        waiters: dict[CheckpointKey, Waiter] = {}
        for key in keys:
            waiter = waiters[key] = Waiter()
            with self._guard:
                known = key in self._saved
                error = None if known else self._broken.get(key[:2])
                if not known and error is None:
                    self._waiting.setdefault(key, []).append(waiter)
            if known or self._look(key):
                _tell(waiter, key, None)
            elif error is not None:
                _tell(waiter, key, error)
        return waiters

    def _leave(self, waiters: dict[CheckpointKey, Waiter]) -> None:
        with self._guard:
            for key, waiter in waiters.items():
                others = self._waiting.get(key, [])
                if waiter in others:
                    others.remove(waiter)
                if key in self._waiting and not others:
                    del self._waiting[key]

    def _conclude(self, waiters: dict[CheckpointKey, Waiter], wait_seconds: float) -> None:
        self._leave(waiters)
        for key, waiter in waiters.items():
            if waiter.done() and not waiter.cancelled():
                waiter.result()
            elif not self._look(key):
                raise StoreError(
                    f"The checkpoint {key.checkpoint_id} of thread {key.thread_id!r}"
                    + (f", subgraph {key.checkpoint_ns!r}," if key.checkpoint_ns else "")
                    + f" is not durable after {wait_seconds:g} s. The call that it led to was not "
                    "made. If the subgraph was compiled with checkpointer=False, remove that: "
                    "LangGraph never saves its checkpoints."
                )

    def _in_this_process(self) -> None:
        """Start again after a fork: another thread of the parent may have held the lock."""
        if self._pid != os.getpid():
            self._begin()


_shared: weakref.WeakValueDictionary[str, Durable] = weakref.WeakValueDictionary()


def durable_at(location: str, look: Callable[[CheckpointKey], bool]) -> Durable:
    """What the savers of this process share about one ledger."""
    with _sharing:
        found = _shared.get(location)
        if found is None:
            found = _shared[location] = Durable(look)
        return found


def _tell(waiter: Waiter, key: CheckpointKey, error: BaseException | None) -> None:
    try:
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(
                StoreError(
                    f"The checkpoint {key.checkpoint_id} of thread {key.thread_id!r} could not be "
                    f"saved ({error}). The call that it led to was not made. Repair that, then "
                    "invoke the graph again with the same thread."
                )
            )
    except concurrent.futures.InvalidStateError:
        # It was saved, and found in the ledger, at the same moment; or its waiter was cancelled.
        pass


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
