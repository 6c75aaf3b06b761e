"""One run as a block: ``with nt.run("ticket-7"):`` or ``async with`` (D5, E1)."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import wait
from types import TracebackType
from typing import ParamSpec, TypeVar

from nottwice import lazy
from nottwice.engine import bodies, events, ownership
from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls.in_flight import DRAIN_SECONDS
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.hiding import classify
from nottwice.engine.host import Host
from nottwice.engine.opening import Opening
from nottwice.engine.plain_version import check_version
from nottwice.engine.session import Scope, Session, current_scope
from nottwice.errors import NotInRun, NottwiceError, UsageError
from nottwice.guard.attached.binding import bound
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.frames import without_our_frames
from nottwice.guard.stand_ins import opened_here
from nottwice.model.call import check_id
from nottwice.model.failure import Failure
from nottwice.model.graphs.graph import Version
from nottwice.model.run import RunStatus
from nottwice.model.runs.labels import NO_LABELS, Labels, check_group
from nottwice.model.saving.cadence import AT_EFFECTS, Cadence

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger("nottwice")
_claims: set[lazy.asyncio.Future[Session]] = set()
"""Claims in progress, kept here because an event loop does not keep its tasks alive."""


class Run:
    """A run to enter. Entering starts or resumes it; leaving waits for calls in progress."""

    def __init__(
        self,
        host: Host,
        run_id: str,
        *,
        acquire_seconds: float,
        settle_seconds: float,
        version: Version | None = None,
        cadence: Cadence | None = None,
        labels: Labels = NO_LABELS,
    ) -> None:
        """``cadence``: None means that of the enclosing block of the run, if there is one."""
        self.id = check_id(run_id, what="The run id")
        self._named = Opening(
            host=host,
            run_id=self.id,
            acquire_seconds=acquire_seconds,
            settle_seconds=settle_seconds,
            cadence=cadence or AT_EFFECTS,
            plain=True,
            version=version,
            labels=labels,
        )
        self._opening = self._named
        self._cadence = cadence
        self._token: contextvars.Token[Scope | None] | None = None
        self._session: Session | None = None

    def __repr__(self) -> str:
        return f"<Run {self.id!r}{'' if self._session is None else ', open'}>"

    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function with this run around it, for code whose context does not know it.

        Sync functions, ``async def`` and async generators work alike, in any thread or task (P246).
        """
        return bound(function, self._bound_session)

    def _bound_session(self) -> Session:
        if self._session is None:
            raise NotInRun(
                f"The block of run {self.id!r} is not open. Nothing was done. Call what bind "
                "returned inside the block."
            )
        self._session.check_usable()
        return self._session

    def __enter__(self) -> Run:
        outer = current_scope.get()
        try:
            self._check_fresh()
            self._opening = opened_here(self._named)
            session = drive(self._again(), self._opening.host)
            self._enter(session or drive(ownership.claim(self._opening), self._opening.host))
        except NottwiceError as error:
            raise without_our_frames(error) from error.__cause__
        except BaseException as interrupt:
            # A block whose entering fails is never left.
            if self._session is not None:
                self._release_after(interrupt, self._session, interrupt)
            current_scope.set(outer)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session = self._session
        assert session is not None
        try:
            if self._left(session):
                _drain_and_leave(session, error)
        except BaseException as raised:
            self._release_after(raised, session, error)
            raise

    async def __aenter__(self) -> Run:
        try:
            self._check_fresh()
            self._opening = opened_here(self._named)
            session = await drive_async(self._again(), self._opening.host)
            self._enter(session or await self._claim_async())
        except NottwiceError as error:
            raise without_our_frames(error) from error.__cause__
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session = self._session
        assert session is not None
        leaving: lazy.asyncio.Future[None] | None = None
        try:
            if not self._left(session):
                return
            # In its own task, so that a block that is cancelled while it drains still releases the
            # run.
            leaving = lazy.asyncio.ensure_future(_leave_async(session, error))
            session.in_flight.keep(leaving)
            leaving.add_done_callback(session.in_flight.drop)
            await lazy.asyncio.shield(leaving)
        except BaseException as raised:
            if leaving is None or not isinstance(raised, lazy.asyncio.CancelledError):
                self._release_after(raised, session, error)
            raise

    async def _claim_async(self) -> Session:
        """Claim the run in its own task, so that cancelling a waiter cancels no reconciliation."""
        claiming = lazy.asyncio.ensure_future(
            drive_async(ownership.claim(self._opening), self._opening.host)
        )
        for task in [one for one in _claims if one.get_loop().is_closed()]:
            # An interrupt closed its loop, so its done callback will never run.
            _claims.discard(task)
        _claims.add(claiming)
        claiming.add_done_callback(_claims.discard)
        try:
            return await lazy.asyncio.shield(claiming)
        except lazy.asyncio.CancelledError:
            claiming.add_done_callback(_release_unwanted)
            raise

    def _check_fresh(self) -> None:
        check_not_importing(f"Run {self.id!r} is opened")
        if self._session is not None:
            raise UsageError(
                f"This block of run {self.id!r} is entered already. Nothing happened. Make a new "
                "one with nt.run(...) for every with-statement."
            )

    def _again(self) -> Doing[Session | None]:
        """Return the session of an enclosing block of the same run, which may be entered again."""
        scope = current_scope.get()
        if scope is None or scope.session.run_id != self.id:
            return None
        session = scope.session
        same = session.holder == (yield Read(lambda store: store.holder()))
        if same and not session.closed and session.thread_id == threading.get_ident():
            self._check_policies(session)
            if self._opening.version is not None:
                location = self._opening.host.store.location
                check_version(session.run, self._opening.version, location=location)
            self._check_cadence(session)
            self._check_labels(session)
            session.enter_block(self._opening)
            return session
        return None

    def _check_policies(self, session: Session) -> None:
        """Refuse policies that would not be asked: an open run keeps the policies it has."""
        if any(policy not in session.host.policies for policy in self._opening.host.policies):
            raise UsageError(
                f"Run {self.id!r} is open already, without the policy that this block names, and "
                "would continue without it. Nothing happened. Name it in the outermost block."
            )

    def _check_cadence(self, session: Session) -> None:
        if self._cadence is not None and self._cadence != session.opening.cadence:
            raise UsageError(
                f"Run {self.id!r} is open already, with other checkpoints than this block names, "
                "and would keep those. Nothing happened. Name them in the outermost block."
            )

    def _check_labels(self, session: Session) -> None:
        """Refuse tags that would not be recorded: they are written when a run is claimed."""
        labels, run = self._opening.labels, session.run
        check_group(self.id, run.group, labels.group)
        if labels.over(run.labels) != run.labels:
            raise UsageError(
                f"Run {self.id!r} is open already, without the tags or the group that this block "
                "names, and would continue without them. Nothing happened. Name them in the "
                "outermost block."
            )

    def _enter(self, session: Session) -> None:
        self._session = session
        self._token = current_scope.set(Scope(session))
        if events.listeners:
            bodies.run_began(session)

    def _left(self, session: Session) -> bool:
        """Leave the block. Whether the run is to be released: no other block still needs it.

        After an interrupt it is called again, and answers the same.
        """
        self._session = None
        token = self._token
        if token is not None:
            if events.listeners:
                bodies.run_returned(session)
            try:
                current_scope.reset(token)
            except ValueError:
                # An async generator may be closed in another context, which has no scope to reset.
                log.debug("run %r was left in another context than it was entered in", self.id)
            except RuntimeError:
                log.debug("run %r was interrupted right after its scope was reset", self.id)
            self._token = None
        is_last = session.leave_block(self._opening)
        # A forked child leaves a block of its parent. It must not release the parent's run.
        return is_last and session.pid == os.getpid()

    def _release_after(
        self, raised: BaseException, session: Session, error: BaseException | None
    ) -> None:
        """Release the run if an interrupt has struck before the release was written (P118)."""
        if not isinstance(raised, Exception | GeneratorExit) and self._left(session):
            _leave_again(session, error)


def _drain_and_leave(session: Session, error: BaseException | None) -> None:
    session.in_flight.drop_what_was_interrupted()
    futures = [one.over for one in session.in_flight.under_way() if one.over is not None]
    try:
        if futures and lazy.running_loop() is None:
            wait(futures, timeout=DRAIN_SECONDS)
    finally:
        # A second Ctrl-C ends the waiting, but the run is still released.
        drive(ownership.leave(session, error, _failure(error, session)), session.host)


def _leave_again(session: Session, error: BaseException | None) -> None:
    # If the release was written after all, the run is not ours any more, and that is no error.
    with contextlib.suppress(NottwiceError):
        drive(ownership.leave(session, error, _failure(error, session)), session.host)


async def _leave_async(session: Session, error: BaseException | None) -> None:
    try:
        futures = [one.over for one in session.in_flight.under_way() if one.over is not None]
        if futures:
            waiting = [lazy.asyncio.wrap_future(future) for future in futures]
            await lazy.asyncio.wait(waiting, timeout=DRAIN_SECONDS)
        await drive_async(ownership.leave(session, error, _failure(error, session)), session.host)
    except BaseException as raised:
        if not isinstance(raised, Exception | GeneratorExit):
            _leave_again(session, error)
        raise


def _release_unwanted(claiming: lazy.asyncio.Future[Session]) -> None:
    """Release a run that has no waiter left, so that another process can claim it."""
    if claiming.cancelled() or claiming.exception() is not None:
        return
    session = claiming.result()
    drive(ownership.release(session, None, status=RunStatus.RUNNING), session.host)


def _failure(error: BaseException | None, session: Session) -> Failure | None:
    if error is None:
        return None
    return classify(error, effectful=False, now=session.clock.now())
