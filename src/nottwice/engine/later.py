"""Calls a function soon, in a thread beside the run, so that pending writes get committed (D14).

There is one daemon thread per clock, and so one per ledger and process. It starts when the first
call is scheduled. It pauses before a fork, because a child would inherit a half-done commit and no
thread to finish it. It stops when the interpreter exits. Promise kept here: P150.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import logging
import os
import threading
import weakref
from collections.abc import Callable

FORK_SECONDS = 5.0
"""How long a fork waits for a call that is running."""

log = logging.getLogger("nottwice")


class Later:
    """Calls that are due soon. One thread makes them in turn."""

    _thread: threading.Thread | None

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._begin()
        _all.add(self)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Schedule a call in about ``seconds``. It is not made if the process ends first."""
        with self._changed:
            entry = (self._monotonic() + seconds, next(self._numbers), call)
            heapq.heappush(self._due, entry)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="nottwice-later", daemon=True
                )
                self._thread.start()
            elif self._due[0] is entry:
                self._changed.notify()

    def still(self) -> bool:
        """Let the running call end, and start none until ``under_way`` is released."""
        return self.under_way.acquire(timeout=FORK_SECONDS)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self.under_way = threading.Lock()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._thread = None
        self._stopped = False

    def stop(self) -> None:
        """Start no more calls, and wait for the one that is running."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(FORK_SECONDS)

    def forked(self) -> None:
        """In a forked child: the thread and the scheduled calls belong to the parent."""
        self._begin()

    def _work(self) -> None:
        while (call := self._next()) is not None:
            with self.under_way:
                if self._stopped:
                    return
                try:
                    call()
                except Exception:
                    # A call handles its own errors, so this is a bug in nottwice.
                    log.exception("a scheduled call failed")

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._stopped:
                left = self._due[0][0] - self._monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left)
        return None


_all: weakref.WeakSet[Later] = weakref.WeakSet()
_held: list[Later] = []


def _before_fork() -> None:
    _held[:] = [one for one in list(_all) if one.still()]


def _after_in_parent() -> None:
    for one in _held:
        one.under_way.release()
    _held.clear()


def _after_in_child() -> None:
    for one in list(_all):
        one.forked()
    _held.clear()


def _at_exit() -> None:
    for one in list(_all):
        one.stop()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
atexit.register(_at_exit)
