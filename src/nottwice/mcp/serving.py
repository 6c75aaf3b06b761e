"""How does a server protect its own tools? What the SDK's extension and FastMCP's middleware share.

A server sees its client only through the SDK. An answer of the SDK is written when the task of its
request has ended. On a pipe it has arrived when the client calls another tool afterwards (P284). An
HTTP client may never come back on the same connection, so there an answer has arrived when it was
written and the client was still connected. This imports no SDK.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from nottwice import adapters
from nottwice.errors import NottwiceError
from nottwice.guard.ledger import AnyStore, ledger_of
from nottwice.mcp import results
from nottwice.mcp.connection import ClientConnection, ToolAnswer
from nottwice.mcp.guard import AskClient, Send, ToolGuard
from nottwice.mcp.plans import OwnTool, ToolPlans
from nottwice.mcp.settings import read_tools
from nottwice.model.data.records import frozen_record

NAME = "mcp"
log = logging.getLogger("nottwice")


@frozen_record(frozen=True, slots=True)
class ServedRequest:
    """One ``tools/call``, as a framework's hook sees it."""

    params: Mapping[str, Any]
    """As JSON has them."""
    send: Send
    """Runs the tool."""
    ask: AskClient | None = None
    """Asks a client of an older protocol. None: it cannot be asked."""
    is_disconnected: Callable[[], Awaitable[bool]] | None = None
    """For HTTP: whether the client is gone. None: the client is at the other end of a pipe."""


class ToolServer:
    """The tools of one server, on a ledger that is opened with the first call.

    The options are those of ``nottwice.mcp.Nottwice``.
    """

    def __init__(
        self,
        store: AnyStore,
        *,
        tools: Mapping[str, Any] | None,
        name: str,
        trust_annotations: bool,
        let_client_decide: bool,
        shows_repeat: bool,
    ) -> None:
        self.plans = ToolPlans(
            name,
            read_tools(tools),
            trust_annotations=trust_annotations,
            shows_repeat=shows_repeat,
        )
        self._store = store
        self._let_client_decide = let_client_decide
        self._guard: ToolGuard | None = None
        self._pipe: _Pipe | None = None

    async def call(self, request: ServedRequest) -> dict[str, Any]:
        """Make a call once, and return its result for the client."""
        guard, pipe = await self._opened()
        if request.is_disconnected is None:
            await pipe.heard()
        plan = self.plans.plan_of(str(request.params.get("name")))
        if plan.own is not None and plan.kind == "passed":
            return await _read(plan.own, request.params.get("arguments"))
        if request.is_disconnected is None:
            answered = await _made(guard, request, pipe.connection)
            pipe.returned(answered)
            return answered.result
        connection = guard.connect()
        answered = await _made(guard, request, connection)
        if await request.is_disconnected():
            await connection.closed(orderly=False)
        else:
            _HttpAnswer(connection, answered).watch()
        return answered.result

    async def heard(self) -> None:
        """Note that the client at the other end of the pipe sent something else than a call."""
        if self._pipe is not None:
            await self._pipe.heard()

    async def _opened(self) -> tuple[ToolGuard, _Pipe]:
        if self._guard is None or self._pipe is None:
            ledger = await asyncio.to_thread(ledger_of, self._store)
            # Another call may have opened it meanwhile; the first one counts.
            if self._guard is None or self._pipe is None:
                decides = self._let_client_decide
                self._guard = ToolGuard(ledger, self.plans, decide_in_client=decides)
                self._pipe = _Pipe(self._guard.connect())
        return self._guard, self._pipe


async def _read(own: OwnTool, arguments: Any) -> dict[str, Any]:
    """Call a function without effects. The server would call it outside of a run, and fail."""
    function, given = own.function.fn, arguments if isinstance(arguments, Mapping) else {}
    try:
        if own.function.tool.is_async:
            return own.result_of(await function(**given))
        return own.result_of(await asyncio.to_thread(function, **given))
    except Exception as error:
        return results.told(adapters.text_for_model(error))


async def _made(
    guard: ToolGuard, request: ServedRequest, connection: ClientConnection
) -> ToolAnswer:
    return await guard.call(request.params, request.send, connection=connection, ask=request.ask)


class _Pipe:
    """The answers to the client at the other end of a pipe, or in this process."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._returned: list[tuple[ToolAnswer, asyncio.Task[Any] | None]] = []

    def returned(self, answered: ToolAnswer) -> None:
        """Note that the SDK has an answer. It writes it before the task of the request ends."""
        if answered.occurrence is not None:
            self._returned.append((answered, asyncio.current_task()))

    async def heard(self) -> None:
        """Note that the client sent something: what was written before has arrived."""
        current = asyncio.current_task()
        returned, self._returned = self._returned, []
        for answered, task in returned:
            if task is not None and task.cancelled():
                self.connection.lost(answered.occurrence)
            elif task is None or task.done() or task is current:
                # In one process with its client, a request runs in the task of the client: if that
                # task asks for something else, it has the answer.
                self.connection.written(answered)
            else:
                self._returned.append((answered, task))
        await self.connection.heard()


class _HttpAnswer:
    """One answer to an HTTP client. It has arrived when it was written."""

    _marking: ClassVar[set[asyncio.Task[None]]] = set()

    def __init__(self, connection: ClientConnection, answered: ToolAnswer) -> None:
        self._connection, self._answered = connection, answered

    def watch(self) -> None:
        """Wait for the end of the request's task, without holding up the answer."""
        task = asyncio.current_task()
        if task is not None and self._answered.occurrence is not None:
            task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._connection.lost(self._answered.occurrence)
            return
        self._connection.written(self._answered)
        marking = asyncio.get_running_loop().create_task(self._mark())
        # A loop keeps no task alive by itself.
        self._marking.add(marking)
        marking.add_done_callback(self._marking.discard)

    async def _mark(self) -> None:
        try:
            await self._connection.heard()
        except NottwiceError:
            # The next equal call gets the receipt and the note that its answer was lost.
            log.warning("an answer arrived and that could not be recorded", exc_info=True)
