"""One ``tools/call`` of an MCP client: made once, answered from its receipt, or stopped (P270).

This knows no transport. A proxy, a server or a middleware passes the parameters of the call and a
function that makes it. What a call is: the tool and its arguments. Its run: the one that the client
names in ``_meta["nottwice/run"]``, else a run for each distinct call, so that clients do not wait
for each other and a doubt stops only itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from nottwice import adapters
from nottwice.adapters import REPEAT, CallResult, Handle
from nottwice.engine.asks import Doing, Read
from nottwice.engine.drivers import drive_async
from nottwice.engine.session import Session
from nottwice.errors import (
    Ambiguous,
    NottwiceError,
    Permanent,
    RunBlocked,
    RunBusy,
    RunRemoved,
    ToolFailure,
)
from nottwice.guard.ledger import Ledger
from nottwice.mcp import asking, results
from nottwice.mcp.arrivals import Arrivals
from nottwice.mcp.connection import ClientConnection, Occurrence, ToolAnswer
from nottwice.mcp.plans import ToolPlan, ToolPlans
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.run import Life

RUN = "nottwice/run"
"""Where a client names the run of a call, in ``_meta``."""
MODERN = "io.modelcontextprotocol/protocolVersion"
"""What requests since protocol 2026-07-28 carry in ``_meta``."""
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MOST_REASON_CHARACTERS = 100
Send = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Makes the call: gets the parameters of ``tools/call`` and returns its result. It raises RpcFailed
for an error of the protocol, NotSent if the call certainly did not begin, and any other exception
if it is not known what happened."""
AskClient = Callable[[dict[str, Any]], Awaitable[object]]
"""Sends ``elicitation/create`` with these parameters to the client and returns its result."""


class RpcFailed(Exception):
    """The server answered with an error of the protocol."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", "an error")))
        self.error = dict(error)


class NotSent(Exception):
    """The call did not begin: the server could not be reached."""


@frozen_record(frozen=True, slots=True)
class _Asked:
    """One call as the client asks for it."""

    given: Mapping[str, Any]
    """The parameters of the client."""
    params: dict[str, Any]
    """The parameters for the server, without what is ours."""
    arguments: dict[str, Any]
    run_id: str | None
    repeat: str | None
    is_modern: bool
    can_ask: bool
    """Whether the client can show a form, if the request says so itself."""

    def params_with(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters for the server with these arguments."""
        if not arguments and "arguments" not in self.params:
            return self.params
        return {**self.params, "arguments": arguments}


class ToolGuard:
    """The calls of one MCP server, on a ledger.

    ``decide_in_client``: ask the client's user about doubts. ``wait``: how long to wait for another
    process that is making exactly this call.
    """

    def __init__(
        self,
        ledger: Ledger,
        plans: ToolPlans,
        *,
        decide_in_client: bool = False,
        wait: str = "60s",
    ) -> None:
        self.ledger = ledger
        self.plans = plans
        self.arrivals = Arrivals(ledger.store)
        self._decide_in_client = decide_in_client
        self._wait = wait
        self._live: dict[tuple[str, int], set[int]] = {}

    def connect(self) -> ClientConnection:
        """Return what keeps track of the answers to one client."""
        return ClientConnection(self)

    def live(self, occurrence: Occurrence) -> None:
        """Note that a connected client waits for this occurrence, or may just have got it."""
        self._live.setdefault(_place(occurrence), set()).add(occurrence.number)

    def not_live(self, occurrence: Occurrence) -> None:
        """Note that it does not: an equal call may be its repetition."""
        numbers = self._live.get(_place(occurrence), set())
        numbers.discard(occurrence.number)
        if not numbers:
            self._live.pop(_place(occurrence), None)

    def is_passed(self, params: Mapping[str, Any]) -> bool:
        """Whether a call is forwarded as it is: it changes nothing, or is made as a task."""
        return "task" in params or self.plans.plan_of(str(params.get("name"))).kind == "passed"

    async def call(
        self,
        params: Mapping[str, Any],
        send: Send,
        *,
        connection: ClientConnection,
        ask: AskClient | None = None,
        begun: Callable[[Occurrence], None] | None = None,
    ) -> ToolAnswer:
        """Make a call of a client once, and return what to answer.

        ``params``: of ``tools/call``. ``ask``: how to ask a client of an older protocol. ``begun``
        gets the ticket of the answer before the call is made; if the client stops waiting, pass it
        to ``connection.lost``. If the client has cancelled the call, ``begun`` raises NotSent, and
        nothing is recorded. Raises RpcFailed with the server's own error. Durable: the receipt,
        when it returns.
        """
        if self.is_passed(params):
            return ToolAnswer(await send(dict(params)))
        plan = self.plans.plan_of(str(params.get("name")))
        asked = _read(params, plan)
        answered = await self._answered(asked, plan, send, connection, ask, begun)
        if asked.is_modern and "resultType" not in answered.result:
            return replace(answered, result={"resultType": "complete", **answered.result})
        return answered

    async def _answered(
        self,
        asked: _Asked,
        plan: ToolPlan,
        send: Send,
        connection: ClientConnection,
        ask: AskClient | None,
        begun: Callable[[Occurrence], None] | None,
    ) -> ToolAnswer:
        """Make a call. What stops it is told to the model."""
        while True:
            try:
                return await self._call(asked, plan, send, connection, ask, begun)
            except RunRemoved as error:
                if asked.run_id is not None:
                    return ToolAnswer(results.told(f"[nottwice] Nothing was done. {error.message}"))
                key = self._key(asked, plan)
                over = await asyncio.to_thread(self.arrivals.find, key)
                await asyncio.to_thread(self.arrivals.renew, key, over.generation)
            except RunBusy:
                return ToolAnswer(results.told(_BUSY))
            except NottwiceError as error:
                return ToolAnswer(results.told(_stopped(error)))

    async def _call(
        self,
        asked: _Asked,
        plan: ToolPlan,
        send: Send,
        connection: ClientConnection,
        ask: AskClient | None,
        begun: Callable[[Occurrence], None] | None,
    ) -> ToolAnswer:
        key = self._key(asked, plan)
        generation = (await asyncio.to_thread(self.arrivals.find, key)).generation
        run_id = asked.run_id or _own_run(self.plans.name, key, generation)
        handle = self.ledger.attach(run_id, acquire_timeout=self._wait)
        async with handle:
            try:
                occurrence = await self._begun(handle, asked, plan, key, connection)
                answered = None
                try:
                    if begun is not None:
                        begun(occurrence)
                    attempt = _Attempt(self, handle, asked, plan, occurrence, send, ask)
                    answered = await attempt.made()
                    return answered
                finally:
                    if answered is None or answered.occurrence is None:
                        connection.lost(occurrence)
            finally:
                if asked.run_id is None:
                    await asyncio.shield(asyncio.to_thread(handle.release))

    async def _begun(
        self, handle: Handle, asked: _Asked, plan: ToolPlan, key: str, connection: ClientConnection
    ) -> Occurrence:
        """Return which occurrence of the call this is: the first that is not over."""
        over = await asyncio.to_thread(self.arrivals.find, key)
        is_once, fresh = plan.kind == "once", plan.fresh_seconds
        place, elsewhere = (key, over.generation), set[int]()
        while True:
            number = over.first_open({*elsewhere, *self._live_in(place, plan)})
            label = _label(asked, number)
            state = await handle.alook(plan.callee, asked.arguments, label=label)
            if number in self._live_in(place, plan):
                # An equal call on another task was faster.
                continue
            if state.status == "receipt" and state.at is not None:
                if not is_once and await _is_waited_for(state.holder_id, handle.session):
                    elsewhere.add(number)
                    continue
                if is_once and fresh is not None and handle.now - state.at > fresh:
                    await asyncio.to_thread(self.arrivals.end, [(*place, number)])
                    over = over.with_over(number)
                    continue
            occurrence = Occurrence(*place, number, is_over_on_arrival=not is_once)
            connection.began(occurrence)
            return occurrence

    def _live_in(self, place: tuple[str, int], plan: ToolPlan) -> set[int]:
        """Return the occurrences that clients of this process wait for, or just got."""
        return set() if plan.kind == "once" else self._live.get(place, set())

    def _key(self, asked: _Asked, plan: ToolPlan) -> str:
        what = [plan.spec.name, plan.spec.identity_of(asked.arguments), asked.repeat, asked.run_id]
        return values.hash_of(what)

    @property
    def decides_in_client(self) -> bool:
        return self._decide_in_client


class _Attempt:
    """One call that is being made, with what the server answers."""

    def __init__(
        self,
        guard: ToolGuard,
        handle: Handle,
        asked: _Asked,
        plan: ToolPlan,
        occurrence: Occurrence,
        send: Send,
        ask: AskClient | None,
    ) -> None:
        self._guard, self._handle, self._asked, self._plan = guard, handle, asked, plan
        self._occurrence, self._send, self._ask = occurrence, send, ask
        self._result: dict[str, Any] | None = None
        self._error: RpcFailed | None = None
        self._was_asked = False

    async def made(self) -> ToolAnswer:
        """Make the call, as often as its review is decided on the way."""
        await self._use_answer()
        while True:
            try:
                return self._answered(await self._call())
            except RunBlocked as error:
                if adapters.verdict_of(error) != "pause":
                    raise
                waits = await self._pause(error)
                if waits is not None:
                    return waits
            except ToolFailure as error:
                if self._error is not None:
                    raise self._error from error
                if self._result is not None:
                    return ToolAnswer(self._result)
                return ToolAnswer(results.told(adapters.text_for_model(error)))

    async def _call(self) -> CallResult[Any]:
        plan = self._plan
        body = self._body if plan.own is None else None
        return await self._handle.acall(plan.callee, self._asked.arguments, body, label=self._label)

    async def _body(self, arguments: dict[str, Any]) -> Any:
        """Send the call to the server. What it answers is kept as it is, for the client."""
        self._result = self._error = None
        try:
            result = await self._send(self._asked.params_with(arguments))
        except RpcFailed as error:
            self._error = error
            raise Permanent(f"the server answered with an error: {error}") from error
        except NotSent as error:
            raise Permanent(f"it was not sent: {error}") from error
        except Exception as error:
            raise Ambiguous(f"the connection broke before an answer came: {error}") from error
        self._result = result
        if result.get("isError") is True:
            raise Permanent(results.text_in(result))
        if not results.is_complete(result):
            raise Permanent("it asks for input first, and has not been done")
        return results.value_of(result, self._plan.output_schema)

    def _answered(self, made: CallResult[Any]) -> ToolAnswer:
        if not made.replayed and self._result is not None:
            return ToolAnswer(self._result, self._occurrence)
        result = self._plan.result_of(made.value)
        if made.replayed and "content" in result:
            result = results.with_note(result, self._note(made))
        return ToolAnswer(result, self._occurrence)

    def _note(self, made: CallResult[Any]) -> str:
        if self._plan.kind == "once":
            parameter = REPEAT if self._plan.can_repeat else None
            return adapters.text_for_repeat(made, now=self._handle.now, parameter=parameter)
        return f"{adapters.text_for_lost_answer(made)} {_AGAIN}"

    async def _use_answer(self) -> None:
        """Decide the review that the client's user was asked about, if this is the answer."""
        review_id = asking.asked_review(self._asked.given)
        if review_id is None or not self._guard.decides_in_client:
            return
        self._was_asked = True
        given = self._asked.given.get("inputResponses")
        said = given.get(asking.NAME) if isinstance(given, Mapping) else None
        await self._decide(review_id, said)

    async def _pause(self, error: RunBlocked) -> ToolAnswer | None:
        """Ask the client's user, or stop the call. None: it is decided, make the call again."""
        question = None
        if self._guard.decides_in_client and not self._was_asked:
            question = asking.question_of(error, self._plan.spec.name, self._asked.arguments)
        if question is not None:
            self._was_asked = True
            if self._asked.is_modern and self._asked.can_ask:
                return ToolAnswer(question.as_result())
            if self._ask is not None:
                said = await self._ask(question.params)
                if await self._decide(question.review_id, said):
                    return None
        text = adapters.text_for_model(error)
        return ToolAnswer(results.told(text, review_id=getattr(error, "review_id", None)))

    async def _decide(self, review_id: str, said: object) -> bool:
        payload = asking.payload_of(review_id, said)
        if payload is None:
            return False
        return await adapters.aanswer(self._handle, review_id, payload) is not None

    @property
    def _label(self) -> str | None:
        return _label(self._asked, self._occurrence.number)


def _read(params: Mapping[str, Any], plan: ToolPlan) -> _Asked:
    """Read a call of a client, and take out what is ours."""
    arguments = params.get("arguments")
    arguments = dict(arguments) if isinstance(arguments, Mapping) else {}
    meta = params.get("_meta")
    meta = meta if isinstance(meta, Mapping) else {}
    run_id, repeat = meta.get(RUN), None
    if plan.can_repeat and isinstance(arguments.get(REPEAT, ""), str):
        repeat = " ".join(arguments.pop(REPEAT, "").split())[:MOST_REASON_CHARACTERS] or None
    able = meta.get(CAPABILITIES)
    return _Asked(
        given=params,
        params=asking.without_our_answer(params),
        arguments=arguments,
        run_id=run_id if isinstance(run_id, str) and run_id else None,
        repeat=repeat,
        is_modern=MODERN in meta,
        can_ask=isinstance(able, Mapping) and "elicitation" in able,
    )


async def _is_waited_for(holder_id: str | None, session: Session) -> bool:
    """Whether another process made the call and still lives, so that its client has it."""
    if holder_id is None or holder_id == session.holder.holder_id:
        return False
    return await drive_async(_lives(holder_id), session.host)


def _lives(holder_id: str) -> Doing[bool]:
    life: Life = yield Read(lambda store: store.life_of(holder_id))
    return life is Life.ALIVE


def _label(asked: _Asked, number: int) -> str | None:
    """Return what tells this occurrence of a call from the others in its run."""
    if asked.repeat is None:
        return None if number == 0 else f"call {number + 1}"
    return asked.repeat if number == 0 else f"{asked.repeat} ({number + 1})"


def _own_run(name: str, key: str, generation: int) -> str:
    """Return the run of one distinct call. Its name is the same after a restart."""
    base = f"mcp/{name}/{key[:_KEY_CHARACTERS]}"
    return base if generation == 0 else f"{base}/{generation + 1}"


def _place(occurrence: Occurrence) -> tuple[str, int]:
    return occurrence.call_key, occurrence.generation


_KEY_CHARACTERS = 24
_AGAIN = "If it must be done a second time, call again."
_BUSY = (
    "[nottwice] Nothing was done: another client is making exactly this call, and it has not "
    "ended. Wait, then call again."
)


def _stopped(error: NottwiceError) -> str:
    if adapters.verdict_of(error) == "told_to_model":
        return adapters.text_for_model(error)
    return (
        f"[nottwice] STOPPED: nottwice cannot record this call, so it was not made. "
        f"{type(error).__name__}. Do not retry it. Tell the user to look at the log of nottwice."
    )
