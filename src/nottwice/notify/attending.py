"""Who sends, and when? The process in which it happened, without ever making its caller wait.

A listener hears that a review was opened, and a daemon thread passes it on, so the caller gets its
error at the same moment as without notifications. At exit the process waits for that thread, two
seconds at most. What is not sent by then is left in the outbox for the next sender: ``nottwice
worker``, ``serve`` or ``notify``, which look every few seconds. Promise kept here: P333.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Iterator

from nottwice.engine.clock import Clock, SystemClock
from nottwice.engine.events import Event, ReviewDecided, ReviewOpened, RunOver, listen
from nottwice.errors import NottwiceError
from nottwice.model.run import RunStatus
from nottwice.notify.sender import Sender
from nottwice.notify.settings import Notify, NotifyUnready
from nottwice.store.interface import Store

INLINE_LIMIT_SECONDS = 2.0
LOOK_SECONDS = 5.0

log = logging.getLogger("nottwice")


class Attendant:
    """Passes on what happens to the runs of one store in this process."""

    def __init__(self, store: Store, settings: Notify, clock: Clock) -> None:
        self.settings = settings
        self.store, self._clock = store, clock
        self._guard = threading.Lock()
        self._waiting: set[str] = set()
        """The runs about which there is something to report."""
        self._thread: threading.Thread | None = None
        self._told_unready = False
        self._stop = listen(self._hear, of=store)

    def stop(self) -> None:
        """Hear nothing from now on."""
        self._stop()

    def wait(self, seconds: float) -> None:
        """Wait until everything was tried once, or this long."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def forget_threads(self) -> None:
        """In a forked child: the thread exists only in the parent, which also sends."""
        self._guard = threading.Lock()
        self._waiting, self._thread = set(), None

    def _hear(self, event: Event) -> None:
        if isinstance(event, RunOver):
            if event.status != RunStatus.FAILED.value:
                return
        elif not isinstance(event, ReviewOpened | ReviewDecided):
            return
        with self._guard:
            self._waiting.add(event.run_id)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._work, name="nottwice-notify", daemon=True)
            self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            # The interpreter is about to end. The outbox has it.
            with self._guard:
                self._thread = None

    def _work(self) -> None:
        while True:
            with self._guard:
                runs, self._waiting = self._waiting, set()
                if not runs:
                    self._thread = None
                    return
            self._send(runs)

    def _send(self, runs: set[str]) -> None:
        try:
            sender = Sender(
                self.store, self.settings, self._clock, limit_seconds=INLINE_LIMIT_SECONDS
            )
            report = sender.send_due(runs=runs)
        except NotifyUnready as error:
            if not self._told_unready:
                self._told_unready = True
                log.warning("notifications are off in this process: %s", error)
        except NottwiceError as error:
            log.warning("a notification stays in the outbox: %s", error)
        except Exception:
            log.exception("a notification stays in the outbox")
        else:
            for problem in report.problems:
                log.warning("a notification was not delivered and will be tried again: %s", problem)


_attendants: dict[str, Attendant] = {}
"""By the place of the ledger, which may be open several times in this process."""
_IN_MEMORY = ":memory:"


def attend(store: Store, settings: Notify, clock: Clock) -> None:
    """Tell people of what happens in this ledger, in this process, from now on."""
    place = store.location if store.location != _IN_MEMORY else f"{_IN_MEMORY} {id(store)}"
    known = _attendants.get(place)
    if known is not None and known.settings == settings:
        # The one that was opened last, because others may be closed.
        known.store = store
        return
    if known is not None:
        known.stop()
    _attendants[place] = Attendant(store, settings, clock)


def dismiss_all() -> None:
    """Stop telling people of what happens, in this process."""
    while _attendants:
        _, attendant = _attendants.popitem()
        attendant.stop()


def wait_for_all(seconds: float) -> None:
    """Wait until every attendant has tried once, this long altogether."""
    clock = SystemClock()
    until = clock.now() + seconds
    for attendant in list(_attendants.values()):
        attendant.wait(max(0.0, min(seconds, until - clock.now())))


@contextlib.contextmanager
def watching(store: Store, settings: Notify, clock: Clock) -> Iterator[None]:
    """Look into the outbox every few seconds, in a thread, as long as the block lasts."""
    over = threading.Event()
    try:
        sender = Sender(store, settings, clock)
    except NotifyUnready as error:
        log.warning("notifications are off in this process: %s", error)
        yield
        return

    def watch() -> None:
        while True:
            _look(sender)
            if over.wait(LOOK_SECONDS):
                return

    thread = threading.Thread(target=watch, name="nottwice-notify", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(INLINE_LIMIT_SECONDS)


def _look(sender: Sender) -> None:
    try:
        for problem in sender.send_due().problems:
            log.warning("a notification was not delivered: %s", problem)
    except NottwiceError as error:
        log.warning("notifications wait in the outbox: %s", error)
    except Exception:
        log.exception("notifications wait in the outbox")


def _renew_after_fork() -> None:
    for attendant in list(_attendants.values()):
        attendant.forget_threads()


atexit.register(lambda: wait_for_all(INLINE_LIMIT_SECONDS))
os.register_at_fork(after_in_child=_renew_after_fork)
