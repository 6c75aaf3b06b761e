"""Forward the messages between one client and one server, and protect its calls (P270, P274).

Every message is forwarded as it is, except these: a call of a protected tool goes through the
guard, the answer to ``tools/list`` gets ``nottwice_repeat`` where a person classed a tool, and what
we ask ourselves is not shown to the other side. If the server dies, it is started again with the
handshake and the subscriptions of the client; the requests that it had not answered get an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from nottwice.mcp.connection import ClientConnection, ToolAnswer
from nottwice.mcp.guard import MODERN, NotSent, RpcFailed, ToolGuard
from nottwice.mcp.proxy import messages
from nottwice.mcp.proxy.messages import Message, id_key
from nottwice.mcp.proxy.upstream import CommandFailed, ServerProcess, UpstreamGone
from nottwice.mcp.proxy.wanted import RequestedCall

DRAIN_SECONDS = 60.0
"""How long calls under way may take after the client has closed its side."""
ANSWER_SECONDS = 5.0
"""How long the server may take to answer other requests after that."""
_LOOK_SECONDS = 0.02
CANCEL_SECONDS = 10.0
"""How long a server may take to answer a call that the client has cancelled."""
_REPLAYED = ("logging/setLevel", "resources/subscribe")
_ENDED = {
    "code": messages.SERVER_ENDED,
    "message": "The MCP server ended before it answered. It is started again.",
}
ToClient = Callable[[bytes], Awaitable[bool]]
"""Writes a line to the client. False: it was not written."""


class _ClientCall(RequestedCall):
    """A call that came as a line."""

    def __init__(self, message: Message, line: bytes, connection: ClientConnection) -> None:
        super().__init__(connection)
        self.message, self.line = message, line
        self.sent_as: str | None = None
        """The id under which it was sent to the server."""


class Relay:
    """One client in front of one server process. ``to_client`` writes a line to the client."""

    def __init__(
        self,
        guard: ToolGuard,
        command: Sequence[str],
        to_client: ToClient,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._guard = guard
        self._to_client = to_client
        self._say = say
        self.connection = guard.connect()
        self._upstream = ServerProcess(command, self._from_server, self._server_ended, say=say)
        self._numbers = itertools.count(1)
        self._asked: dict[str, asyncio.Future[Message]] = {}
        """Our own requests to the server, by id."""
        self._forwarded: dict[str, Message] = {}
        """The requests of the client that the server has not answered."""
        self._calls: dict[str, _ClientCall] = {}
        """The calls that the client waits for."""
        self._making: set[asyncio.Task[None]] = set()
        """All calls under way, those that the client has cancelled included."""
        self._questions: dict[str, asyncio.Future[Message]] = {}
        self._hello: Message | None = None
        self._initialized: bytes | None = None
        self._kept: dict[str, Message] = {}
        self._starting = asyncio.Lock()
        self._said = ""
        self._client_gone = False
        self.failed: CommandFailed | None = None
        """Why the server cannot be used at all."""
        self.ended = asyncio.Event()
        """Set when there is nothing left to do."""

    async def start(self) -> None:
        """Start the server. CommandFailed if that is not possible."""
        await self._upstream.start()

    # From the client

    async def from_client(self, line: bytes, connection: ClientConnection | None = None) -> None:
        """Handle a line of a client. What was answered before on its connection has arrived."""
        connection = connection or self.connection
        await connection.heard()
        try:
            found = messages.read_line(line)
        except ValueError:
            await self._forward(line)
            return
        for message in found:
            one = line if len(found) == 1 else messages.written(message)
            await self._handle(message, one, connection)

    def dropped(self, request_id: Any, *, is_cancelled: bool = False) -> _ClientCall | None:
        """Note that the client does not wait for a call any more. None: it is no call of ours.

        ``is_cancelled``: the client does not want it made. A call that was sent continues all the
        same, because its effect may have begun, and its receipt is kept.
        """
        call = self._calls.pop(id_key(request_id), None)
        if call is not None:
            call.is_dropped, call.is_cancelled = True, is_cancelled
            call.connection.lost(call.occurrence)
        return call

    async def drain(self, *, client_reads: bool) -> None:
        """Finish what is under way, after the client has closed its side.

        ``client_reads``: it still reads, so it gets the answers.
        """
        self._client_gone = not client_reads
        if self._making:
            await asyncio.wait(self._making, timeout=DRAIN_SECONDS)
        if client_reads:
            loop = asyncio.get_running_loop()
            until = loop.time() + ANSWER_SECONDS
            while self._forwarded and self._upstream.is_running() and loop.time() < until:
                await self._guard.ledger.clock.pause_async(_LOOK_SECONDS)

    async def close(self, *, orderly: bool) -> None:
        """End the server. ``orderly``: the client has read everything."""
        self._client_gone = True
        try:
            await self.connection.closed(orderly=orderly)
        finally:
            await self._upstream.close()

    async def _handle(self, message: Message, line: bytes, connection: ClientConnection) -> None:
        method = message.get("method")
        if messages.is_answer(message):
            asked = self._questions.pop(str(message.get("id")), None)
            if asked is not None:
                if not asked.done():
                    asked.set_result(message)
                return
        elif method == messages.CANCELLED:
            cancelling = self._cancel(message, line)
            if cancelling is None:
                return
            line = cancelling
        elif method == messages.CALL and messages.is_request(message):
            self._calls[id_key(message["id"])] = call = _ClientCall(message, line, connection)
            task = asyncio.create_task(self._call(call))
            self._making.add(task)
            task.add_done_callback(self._making.discard)
            return
        self._remember(message, line)
        await self._forward(line, message)

    def _remember(self, message: Message, line: bytes) -> None:
        """Keep what another process of the server must be told, too."""
        method = message.get("method")
        if method == "initialize":
            self._hello = message
        elif method == "notifications/initialized":
            self._initialized = line
        elif method in _REPLAYED:
            self._kept[f"{method} {messages.params_of(message).get('uri', '')}"] = message
        elif method == "resources/unsubscribe":
            uri = messages.params_of(message).get("uri", "")
            self._kept.pop(f"resources/subscribe {uri}", None)

    async def _forward(
        self, line: bytes, message: Message | None = None, *, call: _ClientCall | None = None
    ) -> None:
        is_request = message is not None and messages.is_request(message)
        is_hello = message is not None and message.get("method") == "initialize"
        try:
            await self._ready(with_hello=not is_hello)
            if call is not None:
                if call.is_cancelled:
                    return
                # From here on the server knows it, by the client's own id.
                self._forget(call)
            if is_request and message is not None:
                self._forwarded[id_key(message["id"])] = message
            await self._upstream.write(line)
        except (UpstreamGone, CommandFailed) as error:
            if not is_request or message is None:
                return
            if self._forwarded.pop(id_key(message["id"]), None) is not None or isinstance(
                error, CommandFailed
            ):
                await self._tell(messages.failure(message["id"], _ENDED))

    def _cancel(self, message: Message, line: bytes) -> bytes | None:
        """Stop waiting for a call that the client cancels. Returns what to tell the server, if any.

        A call that was not sent is not sent later, and the server does not know it (P274).
        """
        params = messages.params_of(message)
        call = self.dropped(params.get("requestId"), is_cancelled=True)
        if call is None:
            return line
        if call.sent_as is None:
            return None
        asked = self._asked.get(call.sent_as)
        if asked is not None:
            asyncio.get_running_loop().call_later(CANCEL_SECONDS, _give_up, asked)
        return messages.written({**message, "params": {**params, "requestId": call.sent_as}})

    # Calls

    async def _call(self, call: _ClientCall) -> None:
        """Make one call of the client, and answer it."""
        params, request_id = messages.params_of(call.message), call.message["id"]
        answered: ToolAnswer | None = None
        try:
            if not self._guard.plans.knows(str(params.get("name"))):
                await self._learn(params)
            if self._guard.is_passed(params):
                await self._forward(call.line, call.message, call=call)
                return
            ask = self._ask_client if self._client_can_be_asked() else None
            answered = await self._guard.call(
                params,
                lambda sent: self._ask_server(messages.CALL, sent, call=call),
                connection=call.connection,
                ask=ask,
                begun=call.begun,
            )
            reply = messages.answer(request_id, answered.result)
        except RpcFailed as failed:
            reply = messages.failure(request_id, failed.error)
        except NotSent:
            # The client cancelled it, so it waits for no answer.
            return
        finally:
            self._forget(call)
        if call.is_dropped:
            return
        is_written = await self._tell(reply)
        if answered is not None and is_written:
            call.connection.written(answered)
        elif answered is not None:
            call.connection.lost(answered.occurrence)

    def _forget(self, call: _ClientCall) -> None:
        key = id_key(call.message["id"])
        if self._calls.get(key) is call:
            del self._calls[key]

    async def _learn(self, params: Mapping[str, Any]) -> None:
        """Ask the server for its tools, in the client's version of the protocol."""
        meta = params.get("_meta")
        meta = meta if isinstance(meta, Mapping) else {}
        prefix = MODERN.partition("/")[0]
        envelope = {name: one for name, one in meta.items() if name.startswith(f"{prefix}/")}
        asked: dict[str, Any] = {"_meta": envelope} if envelope else {}
        with contextlib.suppress(RpcFailed, NotSent, UpstreamGone):
            while True:
                listed = await self._ask_server(messages.LIST, asked)
                self._guard.plans.learn(listed.get("tools", ()))
                if not listed.get("nextCursor"):
                    break
                asked = {**asked, "cursor": listed["nextCursor"]}
            self._say_plans()

    async def _ask_server(
        self, method: str, params: Mapping[str, Any], *, call: _ClientCall | None = None
    ) -> dict[str, Any]:
        """Send our own request to the server and return its result."""
        try:
            await self._ready(with_hello=method != "initialize")
        except (CommandFailed, UpstreamGone) as error:
            raise NotSent(str(error)) from error
        if call is not None:
            call.check_wanted()
        own_id = f"{messages.OWN}{next(self._numbers)}"
        asked = self._asked[own_id] = asyncio.get_running_loop().create_future()
        if call is not None:
            call.sent_as = own_id
        try:
            await self._upstream.write(messages.written(messages.request(own_id, method, params)))
            said = await asked
        finally:
            self._asked.pop(own_id, None)
        if "error" in said:
            if call is not None and call.is_cancelled:
                # The server stopped in the middle of it.
                raise UpstreamGone("the client cancelled the call")
            raise RpcFailed(said["error"] if isinstance(said["error"], dict) else {})
        result = said.get("result")
        return result if isinstance(result, dict) else {}

    def _client_can_be_asked(self) -> bool:
        able = messages.params_of(self._hello or {}).get("capabilities")
        return isinstance(able, Mapping) and "elicitation" in able and not self._client_gone

    async def _ask_client(self, params: dict[str, Any]) -> object:
        own_id = f"{messages.OWN}ask-{next(self._numbers)}"
        asked = self._questions[own_id] = asyncio.get_running_loop().create_future()
        await self._tell(messages.request(own_id, "elicitation/create", params))
        try:
            return (await asked).get("result")
        finally:
            self._questions.pop(own_id, None)

    # From the server

    async def _from_server(self, line: bytes) -> None:
        try:
            found = messages.read_line(line)
        except ValueError:
            # Not a message: a client would only complain about it.
            self._say(f"the server wrote: {line.decode(errors='replace').rstrip()[:500]}")
            return
        for message in found:
            await self._pass_on(message, line if len(found) == 1 else messages.written(message))

    async def _pass_on(self, message: Message, line: bytes) -> None:
        if messages.is_answer(message):
            asked = self._asked.get(str(message.get("id")))
            if asked is not None:
                if not asked.done():
                    asked.set_result(message)
                return
            request = self._forwarded.pop(id_key(message.get("id")), None)
            if request is not None and request.get("method") == messages.LIST:
                line = self._listed(message, line)
        elif message.get("method") == messages.LIST_CHANGED:
            self._guard.plans.forget()
        elif messages.is_request(message) and self._client_gone:
            gone = {"code": messages.SERVER_ENDED, "message": "The client has closed."}
            with contextlib.suppress(UpstreamGone):
                await self._upstream.write(messages.written(messages.failure(message["id"], gone)))
            return
        await self._write(line)

    def _listed(self, message: Message, line: bytes) -> bytes:
        """Return a list of tools with ``nottwice_repeat`` where a person classed a tool."""
        result = message.get("result")
        tools = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(tools, list) or not isinstance(result, dict):
            return line
        self._guard.plans.learn(tools)
        if not result.get("nextCursor"):
            self._say_plans()
        shown = [self._guard.plans.shown(one) if isinstance(one, dict) else one for one in tools]
        if shown == tools:
            return line
        return messages.written({**message, "result": {**result, "tools": shown}})

    def _say_plans(self) -> None:
        summary = self._guard.plans.summary()
        if summary != self._said:
            self._said = summary
            self._say(summary)

    # The server's life

    async def _ready(self, *, with_hello: bool = True) -> None:
        """Start the server if it is not running, and repeat the client's handshake."""
        if self._upstream.is_running():
            return
        async with self._starting:
            if self._upstream.is_running():
                return
            await self._upstream.start()
            if self._hello is None or not with_hello:
                return
            own_id = f"{messages.OWN}{next(self._numbers)}"
            asked = self._asked[own_id] = asyncio.get_running_loop().create_future()
            await self._upstream.write(messages.written({**self._hello, "id": own_id}))
            await asked
            if self._initialized is not None:
                await self._upstream.write(self._initialized)
            for kept in self._kept.values():
                again = f"{messages.OWN}{next(self._numbers)}"
                self._asked[again] = asyncio.get_running_loop().create_future()
                await self._upstream.write(messages.written({**kept, "id": again}))

    async def _server_ended(self) -> None:
        """Fail what the server had not answered. Its calls are in doubt."""
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(UpstreamGone("the server ended"))
                # Some of our requests are not awaited.
                future.exception()
        if not self._upstream.spoke:
            self.failed = CommandFailed(
                "The server ended before it said anything.", await self._upstream.exit_code()
            )
            self.ended.set()
            return
        forwarded, self._forwarded = self._forwarded, {}
        for request in forwarded.values():
            await self._tell(messages.failure(request["id"], _ENDED))

    async def _tell(self, message: Message) -> bool:
        return await self._write(messages.written(message))

    async def _write(self, line: bytes) -> bool:
        return not self._client_gone and await self._to_client(line)


def _give_up(asked: asyncio.Future[Message]) -> None:
    if not asked.done():
        asked.set_exception(UpstreamGone("the call was cancelled, and the server did not answer"))
