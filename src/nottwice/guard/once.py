"""One call as a run of its own: ``ledger.once(group, name, tool, arguments)`` (P300, P301, P304).

For hosts: an activity of a workflow engine, a task of a queue, a job. Each makes one call, in any
process, and is called again when it was lost. The run is ``group/name``, with ``%2F`` for a slash
in the name; calls of one group may run in parallel, on any machine.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls.dispatch import perform
from nottwice.engine.calls.single import (
    close_single,
    find_receipt,
    open_single,
    refuse_another,
)
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.host import Host
from nottwice.engine.opening import Opening
from nottwice.engine.session import AlreadyBegun, Session
from nottwice.errors import NottwiceError, UsageError
from nottwice.guard.attached.binding import entered
from nottwice.guard.attached.calling import (
    AnyTool,
    CallResult,
    ModelCall,
    asked,
    result_of,
)
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.declare import call_async
from nottwice.guard.frames import without_our_frames
from nottwice.model.call import check_id
from nottwice.model.run import RunStatus
from nottwice.model.runs.labels import Labels

log = logging.getLogger("nottwice")
_under_way: set[asyncio.Future[Any]] = set()
"""Calls in event loops, which do not keep their tasks alive."""
_left: set[asyncio.Future[Any]] = set()
"""Those that continue without their callers."""


def opening_of(
    host: Host,
    place: tuple[str, str],
    *,
    acquire_seconds: float,
    settle_seconds: float,
    within_seconds: float | None,
) -> Opening:
    """Return how to open the run of a call, from this moment on. ``place``: its group and name."""
    until = None
    if within_seconds is not None:
        until = host.clock.now() + within_seconds
        acquire_seconds = min(acquire_seconds, within_seconds)
    return Opening(
        host=host,
        run_id=run_id_of(*place),
        acquire_seconds=acquire_seconds,
        settle_seconds=settle_seconds,
        until=until,
        plain=True,
        labels=Labels((), place[0]),
        is_single=True,
    )


def run_id_of(group: str, name: str) -> str:
    """Return the id of the run that a call of a group is.

    The last slash divides them: ``c`` of ``a/b`` and ``b/c`` of ``a`` are two runs.
    """
    check_id(group, what="The group")
    name = check_id(name, what="The name of the call").replace("%", "%25").replace("/", "%2F")
    return check_id(f"{group}/{name}", what="The run id, made of the group and the name,")


def once(opening: Opening, call: ModelCall) -> CallResult[Any]:
    """Make the call in this thread, or return its receipt.

    Durable: the receipt of an effect, when this returns.
    """
    check_not_importing(f"Run {opening.run_id!r} is opened")
    host = opening.host
    try:
        while True:
            found = drive(_known(opening, call), host)
            if found is not None:
                return found
            session = drive(open_single(opening), host)
            try:
                return _made(session, call)
            except AlreadyBegun:
                # Another process was faster. It has the run, or has ended it by now.
                continue
    except NottwiceError as error:
        raise without_our_frames(error) from error.__cause__


def _made(session: Session, call: ModelCall) -> CallResult[Any]:
    failed: BaseException | None = None
    try:
        request = drive(asked(call, session), session.host)
        drive(refuse_another(session, request), session.host)
        with entered(request.scope):
            receipt = drive(perform(request, None), session.host)
        return drive(result_of(session, request, receipt), session.host)
    except BaseException as error:
        failed = error
        raise
    finally:
        drive(close_single(session, failed), session.host)


async def once_async(opening: Opening, call: ModelCall) -> CallResult[Any]:
    """Do the same in an event loop.

    Cancelling the caller ends what has not begun. A call that has begun continues without its
    caller, so that its outcome is recorded and nothing is left in doubt (P304).
    """
    check_not_importing(f"Run {opening.run_id!r} is opened")
    driven = _Driven(opening, call)
    task = asyncio.ensure_future(driven.run())
    for old in [one for one in _under_way if one.get_loop().is_closed()]:
        # An interrupt closed its loop, so its done callbacks will never run.
        _under_way.discard(old)
        _left.discard(old)
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            if driven.has_begun():
                task.add_done_callback(_log_unseen)
                task.add_done_callback(_left.discard)
                _left.add(task)
            else:
                task.cancel()
        raise
    except NottwiceError as error:
        raise without_our_frames(error) from error.__cause__


async def left_calls_ended() -> None:
    """Wait for the calls of this event loop that continue without their callers.

    The end of the loop would cancel them and leave them in doubt.
    """
    loop = asyncio.get_running_loop()
    while mine := [one for one in _left if one.get_loop() is loop]:
        await asyncio.wait(mine)


class _Driven:
    """One call in an event loop, in its own task."""

    def __init__(self, opening: Opening, call: ModelCall) -> None:
        self._opening, self._call = opening, call
        self._session: Session | None = None

    def has_begun(self) -> bool:
        """Whether the intent is on record, or is being written."""
        session = self._session
        if session is None:
            return False
        return session.is_over or any(one.begun for one in session.in_flight.under_way())

    async def run(self) -> CallResult[Any]:
        host = self._opening.host
        while True:
            found = await drive_async(_known(self._opening, self._call), host)
            if found is not None:
                return found
            self._session = await drive_async(open_single(self._opening), host)
            try:
                return await self._made(self._session)
            except AlreadyBegun:
                continue

    async def _made(self, session: Session) -> CallResult[Any]:
        failed: BaseException | None = None
        try:
            request = await drive_async(asked(self._call, session), session.host)
            await drive_async(refuse_another(session, request), session.host)
            with entered(request.scope):
                receipt = await call_async(request)
            return await drive_async(result_of(session, request, receipt), session.host)
        except BaseException as error:
            failed = error
            raise
        finally:
            await drive_async(close_single(session, failed), session.host)


def _known(opening: Opening, call: ModelCall) -> Doing[CallResult[Any] | None]:
    """Return the result of a call that is done. The run is not claimed, so nothing is written."""
    run_id = opening.run_id
    run = yield Read(lambda store: store.load_run(run_id))
    if run is None or run.status is not RunStatus.COMPLETED or not call.is_recorded:
        return None
    holder = yield Read(lambda store: store.holder())
    # This session holds nothing. It only says which run the call belongs to.
    onlooker = Session(opening, run=run, holder=holder, found=run)
    request = call.request(onlooker)
    receipt = yield from find_receipt(request, run)
    if receipt is None:
        return None
    return (yield from result_of(onlooker, request, receipt))


def _log_unseen(task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a call whose caller was cancelled ended with %s: %s", type(error), error)


def check_effect(tool: AnyTool) -> None:
    """Refuse a tool without effects: it needs no run of its own."""
    if not tool.tool.replay_class.effectful:
        raise UsageError(
            f"Tool {tool.tool.name!r} is pure, and ledger.once is for effects. Nothing was done. "
            "Call it as it is: running it twice changes nothing."
        )
