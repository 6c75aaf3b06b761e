"""Calls a function soon, in a thread beside the run, so that pending writes get committed (D14).

There is one daemon thread per process, for all ledgers. It starts when the first call is scheduled.
It pauses before a fork, because a child would inherit a half-done commit and no thread to finish
it. When the interpreter exits, it makes the calls that are still scheduled. Promise kept here:
P150.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import logging
import os
import threading
from collections.abc import Callable

LONGEST_WAIT_SECONDS = 5.0
"""How long a fork waits for the call that is running, and an exit for all calls."""

log = logging.getLogger("nottwice")


class Later:
    """Calls that are due soon. One thread makes them in turn. There is one for each process."""

    _thread: threading.Thread | None

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._begin()
        os.register_at_fork(
            before=self._pause, after_in_parent=self._continue, after_in_child=self._begin
        )

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Schedule a call in about ``seconds``, or at the exit of the process if that is sooner.

        After a kill it is not made, nor if the process is exiting already.
        """
        with self._changed:
            if self._stopped:
                return
            entry = (self._monotonic() + seconds, next(self._numbers), call)
            heapq.heappush(self._due, entry)
            if self._thread is None:
                self._start()
            elif self._due[0] is entry:
                self._changed.notify()

    def _begin(self) -> None:
        """Start with nothing, also in a forked child: thread and calls belong to its parent."""
        self._changed = threading.Condition()
        self._under_way = threading.Lock()
        self._is_paused = False
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._thread = None
        self._stopped = False

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="nottwice-later", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # No work depends on it: what is pending is also written with the next commit of its
            # run. The next call that is scheduled tries again.
            log.info("pending writes wait for the next commit of their run: %s", error)
        else:
            self._thread = thread
            # The last that is registered runs first: now, stores that have something to write are
            # open, and close after this.
            atexit.register(self._stop)

    def _pause(self) -> None:
        """Let the running call end, and begin none until ``_continue``."""
        self._is_paused = self._under_way.acquire(timeout=LONGEST_WAIT_SECONDS)

    def _continue(self) -> None:
        if self._is_paused:
            self._under_way.release()

    def _stop(self) -> None:
        """Make the scheduled calls now, accept no more, and wait a while for their end."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(LONGEST_WAIT_SECONDS)

    def _work(self) -> None:
        while (call := self._next()) is not None:
            with self._under_way:
                try:
                    call()
                except BaseException:
                    # A call handles its own errors, so this is a bug in nottwice or in a listener.
                    log.exception("a scheduled call failed")

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next call. None: the process exits, and no call is left."""
        with self._changed:
            while not self._stopped:
                left = self._due[0][0] - self._monotonic() if self._due else None
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            return heapq.heappop(self._due)[2] if self._due else None
