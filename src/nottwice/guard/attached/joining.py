"""Which runs do parts of this process share, and when is such a run released? (P241)

The first part that attaches claims the run, and the others join it. A framework attaches for each
tool call, from any thread or task. So the run is not released with the last detach but a few
seconds later, unless something attaches again meanwhile.
"""

from __future__ import annotations

import atexit
import enum
import logging
import os
import threading
from concurrent.futures import Future

from nottwice import lazy
from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.opening import Opening
from nottwice.engine.session import Session
from nottwice.errors import NottwiceError, OwnershipLost, RunBusy
from nottwice.model.run import HolderRecord
from nottwice.store.interface import Store

LINGER_SECONDS = 3.0
"""How long a run is held after its last part has detached."""
log = logging.getLogger("nottwice")


class _State(enum.Enum):
    OPENING = "opening"
    OPEN = "open"
    RELEASING = "releasing"
    GONE = "gone"


class Joined:
    """One run that parts of this process are attached to, or were a moment ago."""

    session: Session

    def __init__(self, key: tuple[str, str], loop: lazy.asyncio.AbstractEventLoop | None) -> None:
        self.key = key
        self.state = _State.OPENING
        self.parts = 0
        self.visits = 0
        """How often the last part has detached. A planned release belongs to one of them."""
        self.loop = loop
        """The event loop in which the run is being claimed; None: in a thread."""
        self.changed: Future[None] = Future()
        """Done when the claim or the release that is in progress has ended."""

    @property
    def is_usable(self) -> bool:
        """Whether a part may join. Another process may have taken the run, or it was closed."""
        return self.state is _State.OPEN and not self.session.closed

    def detach(self, *, linger: bool = True) -> None:
        """Note that a part has detached. The last one starts the time until the release."""
        with _guard:
            self.parts -= 1
            if self.parts or self.state is not _State.OPEN:
                return
            self.visits += 1
            visit = self.visits
        if not linger or self.session.stops.ended is not None:
            # If a policy stopped the run, it is asked again when the run is opened again.
            _release(self, visit)
        else:
            self.session.clock.later(LINGER_SECONDS, lambda: _release(self, visit))

    def drop(self) -> None:
        """Forget a run that another process has taken over, or that a person ended."""
        with _guard:
            if self.state is not _State.OPEN:
                return
            self._forget()
        ownership.let_go(self.session)

    def opened(self, session: Session) -> None:
        """Let the waiting parts join."""
        with _guard:
            self.session, self.state, self.parts = session, _State.OPEN, 1
            ended, self.changed = self.changed, Future()
        ended.set_result(None)

    def ended(self) -> None:
        """The claim failed, or the run is released: the next part claims it."""
        with _guard:
            self._forget()
        self.changed.set_result(None)

    def _forget(self) -> None:
        self.state = _State.GONE
        if _joined.get(self.key) is self:
            del _joined[self.key]


_joined: dict[tuple[str, str], Joined] = {}
_guard = threading.Lock()
_claims: set[lazy.asyncio.Future[None]] = set()
"""Claims in progress, kept here because an event loop does not keep its tasks alive."""


def join(opening: Opening) -> Joined:
    """Attach to a run from a thread: join it if this process has it, else claim it.

    Durable: the claim, when this returns. Raises RunBusy if another process drives the run.
    """
    host = opening.host
    holder = drive(_holder(), host)
    while True:
        joined, wait_for = _enter((holder.holder_id, opening.run_id), None)
        if wait_for is not None:
            _check_not_stuck(joined, opening)
            wait_for.result()
        elif joined.state is _State.OPEN:
            return joined
        else:
            try:
                joined.opened(drive(ownership.claim(opening), host))
            except BaseException:
                joined.ended()
                raise
            return joined


async def join_async(opening: Opening) -> Joined:
    """Do the same without blocking the event loop."""
    holder = await drive_async(_holder(), opening.host)
    while True:
        loop = lazy.asyncio.get_running_loop()
        joined, wait_for = _enter((holder.holder_id, opening.run_id), loop)
        if wait_for is not None:
            await lazy.asyncio.shield(lazy.asyncio.wrap_future(wait_for))
        elif joined.state is _State.OPEN:
            return joined
        else:
            await _claim_async(joined, opening)
            return joined


def release_all(store: Store | None = None) -> None:
    """Release the runs of a store, or of all, that no part is attached to, without waiting.

    Durable: their release, when this returns.
    """
    with _guard:
        found = [one for one in _joined.values() if one.state is _State.OPEN]
    for one in found:
        if store is None or one.session.store is store:
            _release(one, None)


def _holder() -> Doing[HolderRecord]:
    holder: HolderRecord = yield Read(lambda store: store.holder())
    return holder


def _enter(
    key: tuple[str, str], loop: lazy.asyncio.AbstractEventLoop | None
) -> tuple[Joined, Future[None] | None]:
    """Return the shared run, and what to wait for before looking again.

    Nothing to wait for: the caller is attached if the run is open, and else must claim it.
    """
    with _guard:
        known = _joined.get(key)
        if known is None or (known.state is _State.OPEN and not known.is_usable):
            _joined[key] = known = Joined(key, loop)
            return known, None
        if known.state is not _State.OPEN:
            return known, known.changed
        known.parts += 1
        return known, None


async def _claim_async(joined: Joined, opening: Opening) -> None:
    """Claim the run in its own task, so that cancelling one part takes the run from no other."""
    claiming = lazy.asyncio.ensure_future(_claimed(joined, opening))
    for task in [one for one in _claims if one.get_loop().is_closed()]:
        # An interrupt closed its loop, so its done callback will never run.
        _claims.discard(task)
    _claims.add(claiming)
    claiming.add_done_callback(_claims.discard)
    try:
        await lazy.asyncio.shield(claiming)
    except lazy.asyncio.CancelledError:
        claiming.add_done_callback(lambda task: _detach_if_claimed(joined, task))
        raise


async def _claimed(joined: Joined, opening: Opening) -> None:
    try:
        joined.opened(await drive_async(ownership.claim(opening), opening.host))
    except BaseException:
        joined.ended()
        raise


def _detach_if_claimed(joined: Joined, task: lazy.asyncio.Future[None]) -> None:
    """Detach for a part that was cancelled while it waited for its claim."""
    if not task.cancelled() and task.exception() is None:
        joined.detach()


def _check_not_stuck(joined: Joined, opening: Opening) -> None:
    """Refuse to block the event loop that the claim needs."""
    here = lazy.running_loop()
    if here is not None and joined.loop is here and joined.state is _State.OPENING:
        raise RunBusy(
            f"Run {opening.run_id!r} is being opened in this event loop, which a sync attach would "
            "block forever. Nothing was done. Attach with: async with ledger.attach(...)",
            run_id=opening.run_id,
        )


def _release(joined: Joined, visit: int | None) -> None:
    """Release a run that no part is attached to. ``visit``: only if none has attached since.

    Durable: when this returns, if it was released.
    """
    session = joined.session
    if session.pid != os.getpid():
        return
    with _guard:
        if joined.state is not _State.OPEN or joined.parts or visit not in (None, joined.visits):
            return
        if session.in_flight.under_way() and visit is not None:
            # A caller stopped waiting for its call. The run is held until that call has ended.
            session.clock.later(LINGER_SECONDS, lambda: _release(joined, visit))
            return
        joined.state = _State.RELEASING
    try:
        drive(ownership.leave(session, None, None), session.host)
    except NottwiceError as error:
        # The next process that opens the run finds it as if this one had been killed. If another
        # one has taken it over already, there is nothing to release.
        level = logging.DEBUG if isinstance(error, OwnershipLost) else logging.WARNING
        log.log(level, "run=%r could not be released: %r", session.run_id, str(error))
        ownership.let_go(session)
    finally:
        joined.ended()


def _renew_after_fork() -> None:
    """Forget what the parent has: its runs, and locks that its threads may have held."""
    global _guard
    _guard = threading.Lock()
    _joined.clear()
    _claims.clear()


os.register_at_fork(after_in_child=_renew_after_fork)
# Registered after the stores have registered their own end, so this runs before they close.
atexit.register(release_all)
