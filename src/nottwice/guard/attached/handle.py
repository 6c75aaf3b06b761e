"""A part of a program that is attached to a run, and makes its calls there (P241, P242).

A handle carries the run with it. It works in any thread, task or generator, whether or not the
context of that code knows the run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.host import Host
from nottwice.engine.opening import Opening
from nottwice.engine.session import Scope, Session, current_scope
from nottwice.errors import NotInRun, NottwiceError, OwnershipLost, RunAborted, UsageError
from nottwice.guard.attached import calling
from nottwice.guard.attached.binding import bound, entered, is_coroutine_function, scope_in
from nottwice.guard.attached.calling import AnyTool, CallResult, CallState, ModelCall
from nottwice.guard.attached.joining import Joined, join, join_async
from nottwice.guard.attached.spec import Body
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.frames import without_our_frames
from nottwice.guard.recorded import recorded
from nottwice.guard.stand_ins import opened_here
from nottwice.model.call import check_id

P = ParamSpec("P")
R = TypeVar("R")


class Handle:
    """One attachment to a run: ``with ledger.attach("ticket-7") as handle:``, or ``async with``.

    Many handles of one process share a run, in any threads and tasks. The run is released a few
    seconds after the last of them was left, and is then idle: the next turn attaches again.
    """

    def __init__(self, opening: Opening | None) -> None:
        """``opening``: None means the run that encloses the code."""
        self._opening = opening
        self._joined: Joined | None = None
        self._session: Session | None = None

    def __repr__(self) -> str:
        where = "an enclosing run" if self._opening is None else repr(self._opening.run_id)
        return f"<Handle of {where}{'' if self._session is None else ', attached'}>"

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._opening.run_id if self._opening is not None else self.session.run_id

    @property
    def location(self) -> str:
        """Where the ledger is."""
        return self.session.store.location

    @property
    def now(self) -> float:
        """The time by the clock of the ledger, in seconds since the epoch."""
        return self.session.clock.now()

    @property
    def session(self) -> Session:
        """The run as the engine knows it, for ``nottwice``'s own modules."""
        if self._session is None:
            raise NotInRun(
                "This handle is not attached to its run. Nothing was done. Use it inside its "
                "block: with ledger.attach('ticket-7') as handle: ..."
            )
        return self._session

    def __enter__(self) -> Handle:
        try:
            opening = self._begin()
            if opening is None:
                return self
            return self._attached(join(opening), opening)
        except NottwiceError as error:
            raise without_our_frames(error) from error.__cause__

    async def __aenter__(self) -> Handle:
        try:
            opening = self._begin()
            if opening is None:
                return self
            return self._attached(await join_async(opening), opening)
        except NottwiceError as error:
            raise without_our_frames(error) from error.__cause__

    def __exit__(self, *raised: object) -> None:
        self.detach()

    async def __aexit__(self, *raised: object) -> None:
        self.detach()

    def detach(self) -> None:
        """Leave the run, as the end of the block does. Leaving twice is harmless."""
        joined, self._joined, self._session = self._joined, None, None
        if joined is not None:
            joined.detach()

    def release(self) -> None:
        """Leave the run and release it now if no other part is attached, for other processes.

        For a run of one call, which no part will attach to again soon. Durable: the release, when
        it returns.
        """
        joined, self._joined, self._session = self._joined, None, None
        if joined is not None:
            joined.detach(linger=False)

    def call(
        self,
        tool: AnyTool,
        arguments: Mapping[str, Any],
        body: Body | None = None,
        *,
        label: str | None = None,
        replies: int | None = None,
        retry: bool | None = None,
        ask: str | None = None,
    ) -> CallResult[Any]:
        """Make a call that a model asked for, once, and return its result.

        ``tool``: a ``ToolSpec`` with its ``body``, a function of the arguments; or a function
        protected by ``nt.tool``, which has its own. An effect is made once per run and arguments;
        ``label`` names a deliberate repeat. A pure tool runs each time, unrecorded, unless
        ``replies`` says how many model replies the conversation has: then a resume gets the same
        answer. ``retry``: whether a call that failed without effect is tried again; None: yes,
        unless a person or a policy refused it. ``ask``: why a person must approve this call.
        Raises the review of this call (RunBlocked), never that of another one.
        Durable: the receipt of an effect, when it returns.
        """
        session = self._usable()
        wanted = ModelCall(tool, arguments, body, label, replies, retry, ask)
        try:
            if self._passes(wanted, session):
                return self._bare(wanted, session)
            return calling.make(wanted, session)
        except NottwiceError as error:
            raise self._shown(error) from error.__cause__

    async def acall(
        self,
        tool: AnyTool,
        arguments: Mapping[str, Any],
        body: Body | None = None,
        *,
        label: str | None = None,
        replies: int | None = None,
        retry: bool | None = None,
        ask: str | None = None,
    ) -> CallResult[Any]:
        """Do the same as ``call`` without blocking the event loop; async bodies run in it.

        Cancelling the caller cancels no effect that has begun.
        """
        session = self._usable()
        wanted = ModelCall(tool, arguments, body, label, replies, retry, ask)
        try:
            if self._passes(wanted, session):
                return await self._bare_async(wanted, session)
            return await calling.make_async(wanted, session)
        except NottwiceError as error:
            raise self._shown(error) from error.__cause__

    def look(
        self,
        tool: AnyTool,
        arguments: Mapping[str, Any],
        *,
        label: str | None = None,
        replies: int | None = None,
    ) -> CallState:
        """Say what ``call`` would do, without doing it: nothing is made and nothing is written."""
        session = self._usable()
        wanted = ModelCall(tool, arguments, None, label, replies)
        return drive(calling.look(wanted, session), session.host)

    async def alook(
        self,
        tool: AnyTool,
        arguments: Mapping[str, Any],
        *,
        label: str | None = None,
        replies: int | None = None,
    ) -> CallState:
        """Do the same as ``look`` without blocking the event loop."""
        session = self._usable()
        wanted = ModelCall(tool, arguments, None, label, replies)
        return await drive_async(calling.look(wanted, session), session.host)

    def recorded(
        self,
        label: str,
        ask: Callable[[], Any],
        *,
        replies: int | None = None,
        returns: Any = None,
    ) -> Any:
        """Ask a model once, and get the same reply in every resume: ``nt.recorded`` in this run.

        ``replies``: how many model replies the conversation has so far. Durable: the reply, before
        it is returned.
        """
        if is_coroutine_function(ask):
            raise UsageError(
                f"The question {label!r} is async. Nothing was asked. Use: "
                "await handle.arecorded(...)"
            )
        with entered(Scope(self._usable())):
            return recorded(label, ask, replies=replies, returns=returns)

    async def arecorded(
        self,
        label: str,
        ask: Callable[[], Awaitable[Any]],
        *,
        replies: int | None = None,
        returns: Any = None,
    ) -> Any:
        """Do the same as ``recorded`` with an ``async def``."""
        with entered(Scope(self._usable())):
            found = recorded(label, ask, replies=replies, returns=returns)
            return await found if inspect.isawaitable(found) else found

    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function with this run around it, for code whose context does not know it.

        Sync functions, ``async def`` and async generators work alike, in any thread or task.
        """
        return bound(function, self._usable)

    def _begin(self) -> Opening | None:
        """Return how to open the run. None: it is open around this code, and is used from now."""
        if self._session is not None:
            raise UsageError(
                f"This handle is attached already, to run {self._session.run_id!r}. Nothing "
                "happened. Make a new one with ledger.attach(...) for every with-statement."
            )
        check_not_importing("A run is attached to")
        scope, opening = current_scope.get(), self._opening
        if opening is not None:
            opening = opened_here(opening)
        if opening is None and scope is not None:
            scope.session.check_usable()
            self._session = scope.session
            return None
        if opening is not None and scope is not None and _is_around(scope.session, opening):
            _check_policies(scope.session, opening)
            self._session = scope.session
            return None
        if opening is None:
            raise NotInRun(
                "There is no run to attach to. Nothing was done. Name it, "
                "ledger.attach('ticket-7'), or open one around the code: with "
                "nt.run('ticket-7', store='agent.db'): ..."
            )
        return opening

    def _attached(self, joined: Joined, opening: Opening) -> Handle:
        self._joined, self._session = joined, joined.session
        try:
            _check_policies(joined.session, opening)
        except UsageError:
            self.detach()
            raise
        return self

    def _usable(self) -> Session:
        session = self.session
        session.check_usable()
        return session

    def _passes(self, wanted: ModelCall, session: Session) -> bool:
        """Whether a call is simply made: it has no effect, and nothing needs to know of it."""
        return not wanted.is_recorded and not session.host.policies

    def _bare(self, wanted: ModelCall, session: Session) -> CallResult[Any]:
        bare = wanted.bare()
        if bare.is_async:
            raise UsageError(
                f"Tool {wanted.tool.tool.name!r} was not run: its body is async. Use: "
                "await handle.acall(...)"
            )
        with entered(scope_in(session)):
            value = bare.function()
        return CallResult(value, False, None, session.clock.now())

    async def _bare_async(self, wanted: ModelCall, session: Session) -> CallResult[Any]:
        bare = wanted.bare()
        with entered(scope_in(session)):
            if bare.is_async:
                value = await bare.function()
            else:
                value = await asyncio.to_thread(bare.function)
        return CallResult(value, False, None, session.clock.now())

    def _shown(self, error: NottwiceError) -> NottwiceError:
        if isinstance(error, OwnershipLost | RunAborted) and self._joined is not None:
            # Another process has the run, or a person ended it. The next attach finds out.
            self._joined.drop()
        return without_our_frames(error)


def attached(
    host: Host, run_id: str | None, acquire_seconds: float, settle_seconds: float
) -> Handle:
    """Return a handle of a run of this host. ``run_id``: None means the run around the code."""
    if run_id is None:
        return Handle(None)
    return Handle(
        Opening(
            host=host,
            run_id=check_id(run_id, what="The run id"),
            acquire_seconds=acquire_seconds,
            settle_seconds=settle_seconds,
            plain=True,
            joins=True,
        )
    )


def _is_around(session: Session, opening: Opening) -> bool:
    """Whether the code is in the run that it wants to attach to."""
    if session.closed or session.run_id != opening.run_id:
        return False
    ours, wanted = session.store, opening.host.store
    return ours is wanted or (ours.location == wanted.location and ours.location != ":memory:")


def _check_policies(session: Session, opening: Opening) -> None:
    """Refuse policies that would not be asked: an open run keeps the policies it has."""
    if any(policy not in session.host.policies for policy in opening.host.policies):
        raise UsageError(
            f"Run {session.run_id!r} is open already, without the policy that this attachment "
            "names, and would continue without it. Nothing happened. Give the policy to the ledger."
        )
