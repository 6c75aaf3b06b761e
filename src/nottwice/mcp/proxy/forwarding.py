"""HTTP clients in front of the URL of a server: everything is forwarded but protected calls.

Headers, sessions, authorization, streams and their resumption stay between client and server. A
protected call is sent with the same headers and the same id. If the server closes its stream in the
middle, so that the client continues it with GET, the answer is recorded when it arrives there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from nottwice.mcp.connection import ClientConnection
from nottwice.mcp.guard import NotSent, RpcFailed, ToolGuard
from nottwice.mcp.proxy import messages
from nottwice.mcp.proxy.exchange import (
    EVENTS,
    SESSION,
    EventReader,
    Exchange,
    event_of,
    event_with,
    has_id,
    message_in,
)
from nottwice.mcp.proxy.messages import Message, id_key
from nottwice.mcp.proxy.wanted import RequestedCall

RESUME_SECONDS = 60.0
"""How long a client may take to continue a stream that its server has closed."""
_MOST_CONNECTIONS = 1000
_HOP = (b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"accept-encoding")
_SERVER_ERROR = 500
_CANCELLED = {"code": -32000, "message": "The client cancelled the call before it was sent."}


class _Refused(RpcFailed):
    """The server refused the HTTP request: the call did not begin."""

    def __init__(self, status: int, pairs: list[tuple[bytes, bytes]], body: bytes) -> None:
        super().__init__({"code": -32000, "message": f"HTTP status {status}"})
        self.status, self.pairs, self.body = status, pairs, body


class UrlFront:
    """Answers HTTP requests with those of a server at a URL."""

    def __init__(self, guard: ToolGuard, url: str, *, say: Callable[[str], None]) -> None:
        import httpx2

        self._guard, self._url, self._say = guard, url, say
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        self._http = httpx2.AsyncClient(timeout=None, limits=limits, follow_redirects=False)
        self._connections: OrderedDict[str, ClientConnection] = OrderedDict()
        self._resumed: dict[tuple[str, str], asyncio.Future[Message]] = {}
        self._making: set[asyncio.Task[None]] = set()
        self._calls: dict[tuple[str, str], _HttpCall] = {}
        """The calls that the server may not know yet, by client and id."""
        self._said = ""

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request."""
        body = await exchange.body()
        connection = self._connection(exchange)
        await connection.heard()
        found: list[Message] = []
        if exchange.method == "POST":
            with contextlib.suppress(ValueError):
                found = messages.read_line(body)
        first = found[0] if len(found) == 1 else {}
        if first.get("method") == messages.CALL and messages.is_request(first):
            await self._tool_call(_HttpCall(exchange, first, connection), body)
            return
        if first.get("method") == messages.CANCELLED and self._cancel(exchange, first):
            await exchange.answer(b"", status=202)
            return
        lists = {id_key(one["id"]) for one in found if one.get("method") == messages.LIST}
        await self._forward(exchange, body, lists)
        if exchange.method == "DELETE":
            await connection.closed(orderly=True)

    async def close(self) -> None:
        """Finish the calls under way."""
        if self._making:
            await asyncio.wait(self._making, timeout=RESUME_SECONDS)
        await self._http.aclose()

    def _connection(self, exchange: Exchange) -> ClientConnection:
        key = _client_of(exchange)
        known = self._connections.get(key)
        if known is None:
            known = self._connections[key] = self._guard.connect()
            if len(self._connections) > _MOST_CONNECTIONS:
                self._connections.popitem(last=False)
        return known

    # Everything but protected calls

    async def _forward(self, exchange: Exchange, body: bytes, lists: set[str]) -> None:
        gone = asyncio.create_task(exchange.wait_until_gone())
        passing = asyncio.create_task(self._pass(exchange, body, lists))
        done, _ = await asyncio.wait({gone, passing}, return_when=asyncio.FIRST_COMPLETED)
        if passing not in done:
            passing.cancel()
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await passing

    async def _pass(self, exchange: Exchange, body: bytes, lists: set[str]) -> None:
        try:
            async with self._ask(exchange, body) as answer:
                pairs = _passed_on(answer)
                if EVENTS in answer.headers.get("content-type", ""):
                    await exchange.begin(status=answer.status_code, pairs=pairs)
                    await self._pass_events(exchange, answer, lists)
                    await exchange.end()
                    return
                content = await answer.aread()
                if lists:
                    content = self._listed_in(content)
                pairs.append((b"content-length", str(len(content)).encode()))
                await exchange.raw(answer.status_code, pairs, content)
        except _network_errors() as error:
            if exchange.is_streaming:
                await exchange.end()
            else:
                await exchange.refuse(502, f"The MCP server cannot be reached: {error!r}")

    async def _pass_events(self, exchange: Exchange, answer: Any, lists: set[str]) -> None:
        reader = EventReader()
        async for chunk in answer.aiter_raw():
            for event in reader.feed(chunk):
                message = message_in(event)
                if message is not None:
                    changed = await self._seen(exchange, message, lists)
                    event = event if changed is message else event_with(event, changed)
                await exchange.write(event)

    async def _seen(self, exchange: Exchange, message: Message, lists: set[str]) -> Message:
        """Look at a message of the server, and return it as the client gets it."""
        if message.get("method") == messages.LIST_CHANGED:
            self._guard.plans.forget()
        if not messages.is_answer(message):
            return message
        key = id_key(message.get("id"))
        resumed = self._resumed.get((self._session(exchange), key))
        if resumed is not None and not resumed.done():
            resumed.set_result(message)
            # The receipt is durable before the client gets the answer.
            await asyncio.wait([task for task in self._making if task.get_name() == key] or [_no()])
        return self._listed(message) if key in lists else message

    def _listed_in(self, content: bytes) -> bytes:
        try:
            message = json.loads(content)
        except ValueError:
            return content
        changed = self._listed(message) if isinstance(message, dict) else message
        return content if changed is message else json.dumps(changed).encode()

    def _listed(self, message: Message) -> Message:
        """Return a list of tools with ``nottwice_repeat`` where a person classed a tool."""
        result = message.get("result")
        tools = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(tools, list) or not isinstance(result, dict):
            return message
        plans = self._guard.plans
        plans.learn(tools)
        if not result.get("nextCursor"):
            self._say_plans()
        shown = [plans.shown(one) if isinstance(one, dict) else one for one in tools]
        return message if shown == tools else {**message, "result": {**result, "tools": shown}}

    def _say_plans(self) -> None:
        summary = self._guard.plans.summary()
        if summary != self._said:
            self._said = summary
            self._say(summary)

    # Calls

    async def _tool_call(self, call: _HttpCall, body: bytes) -> None:
        """Make a call if it is protected, else forward it."""
        key = (_client_of(call.exchange), id_key(call.message["id"]))
        self._calls[key] = call
        try:
            params = messages.params_of(call.message)
            if not self._guard.plans.knows(str(params.get("name"))):
                await self._learn(call.exchange, params)
            if not self._guard.is_passed(params):
                await self._protected(call)
            elif call.is_cancelled:
                failed = messages.failure(call.message["id"], _CANCELLED)
                await call.exchange.answer(messages.written(failed).strip())
            else:
                call.is_sent = True
                await self._forward(call.exchange, body, set())
        finally:
            if self._calls.get(key) is call:
                del self._calls[key]

    def _cancel(self, exchange: Exchange, message: Message) -> bool:
        """Cancel a call that was not sent. False: the server knows it, and must be told."""
        request_id = messages.params_of(message).get("requestId")
        call = self._calls.get((_client_of(exchange), id_key(request_id)))
        if call is None or call.is_sent:
            return False
        call.is_cancelled = True
        return True

    async def _protected(self, call: _HttpCall) -> None:
        task = asyncio.create_task(self._call(call), name=id_key(call.message["id"]))
        self._making.add(task)
        task.add_done_callback(self._making.discard)
        gone = asyncio.create_task(call.exchange.wait_until_gone())
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if task.done():
            await task
        else:
            call.dropped()
            await asyncio.wait({task})

    async def _call(self, call: _HttpCall) -> None:
        request_id, exchange, connection = call.message["id"], call.exchange, call.connection
        answered = None
        try:
            answered = await self._guard.call(
                messages.params_of(call.message),
                lambda params: self._send(call, params),
                connection=connection,
                begun=call.begun,
            )
            reply = messages.answer(request_id, answered.result)
        except _Refused as refused:
            length = (b"content-length", str(len(refused.body)).encode())
            await exchange.raw(refused.status, [*refused.pairs, length], refused.body)
            return
        except RpcFailed as failed:
            reply = messages.failure(request_id, failed.error)
        except NotSent:
            reply = messages.failure(request_id, _CANCELLED)
        if exchange.is_streaming:
            final = event_of(reply) if call.last is None else event_with(call.last, reply)
            written = await exchange.write(final)
            await exchange.end()
        else:
            written = await exchange.answer(messages.written(reply).strip(), headers=call.headers)
        if answered is not None and written:
            connection.written(answered)
        elif answered is not None and not call.is_resumed:
            connection.lost(answered.occurrence)

    async def _send(self, call: _HttpCall, params: dict[str, Any]) -> dict[str, Any]:
        """Send a call to the server and return its result; other messages go to the client."""
        call.check_wanted()
        call.is_sent = True
        exchange = call.exchange
        body = json.dumps({**call.message, "params": params}).encode()
        async with self._ask(exchange, body) as answer:
            if answer.status_code >= _SERVER_ERROR:
                raise ConnectionError(f"the server answered with status {answer.status_code}")
            if not answer.is_success:
                raise _Refused(answer.status_code, _passed_on(answer), await answer.aread())
            if session := answer.headers.get(SESSION):
                call.headers[SESSION] = session
            if EVENTS not in answer.headers.get("content-type", ""):
                return _result_of(json.loads(await answer.aread()))
            await exchange.begin(pairs=_passed_on(answer))
            reader, can_resume = EventReader(), False
            async for chunk in answer.aiter_raw():
                for event in reader.feed(chunk):
                    message = message_in(event)
                    if message is not None and messages.is_answer(message):
                        if message.get("id") == call.message["id"]:
                            call.last = event
                            return _result_of(message)
                    can_resume = can_resume or has_id(event)
                    await exchange.write(event)
        if not can_resume:
            raise ConnectionError("the stream ended before an answer came")
        return await self._resumed_result(call)

    async def _resumed_result(self, call: _HttpCall) -> dict[str, Any]:
        """Wait for the answer in the stream with which the client continues."""
        key = (self._session(call.exchange), id_key(call.message["id"]))
        resumed = self._resumed[key] = asyncio.get_running_loop().create_future()
        call.is_resumed = True
        await call.exchange.end()
        try:
            return _result_of(await asyncio.wait_for(resumed, RESUME_SECONDS))
        finally:
            del self._resumed[key]

    async def _learn(self, exchange: Exchange, params: Mapping[str, Any]) -> None:
        """Ask the server for its tools, with the headers and the envelope of the client."""
        meta = params.get("_meta")
        asked: dict[str, Any] = {"_meta": meta} if isinstance(meta, dict) else {}
        with contextlib.suppress(*_network_errors(), ValueError, RpcFailed):
            while True:
                message = messages.request(f"{messages.OWN}list", messages.LIST, asked)
                body = json.dumps(message).encode()
                headers = {"mcp-method": messages.LIST, "mcp-name": None}
                async with self._ask(exchange, body, headers) as answer:
                    content = await answer.aread()
                read = _answer_in(content, EVENTS in answer.headers.get("content-type", ""))
                result = _result_of(read)
                self._guard.plans.learn(result.get("tools", ()))
                if not result.get("nextCursor"):
                    self._say_plans()
                    return
                asked = {**asked, "cursor": result["nextCursor"]}

    def _ask(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str | None] | None = None
    ) -> Any:
        changed = {name.encode(): one for name, one in (headers or {}).items()}
        given = dict(exchange.pairs)
        pairs = [
            (name, changed[name].encode() if changed.get(name) else one)  # type: ignore[union-attr]
            for name, one in given.items()
            if name not in _HOP and not (name in changed and changed[name] is None)
        ]
        pairs.append((b"accept-encoding", b"identity"))
        url = self._url + (f"?{exchange.query.decode('latin-1')}" if exchange.query else "")
        return self._http.stream(exchange.method, url, headers=pairs, content=body or None)

    def _session(self, exchange: Exchange) -> str:
        return exchange.headers.get(SESSION, "")


class _HttpCall(RequestedCall):
    """A call that came in one HTTP request."""

    def __init__(self, exchange: Exchange, message: Message, connection: ClientConnection) -> None:
        super().__init__(connection)
        self.exchange, self.message = exchange, message
        self.headers: dict[str, str] = {}
        self.last: bytes | None = None
        """The event with the server's answer."""
        self.is_resumed = self.is_sent = False

    def dropped(self) -> None:
        """Note that the client has closed the request.

        A call that was sent continues, because its effect may have begun, and its receipt is kept.
        Without a session, a closed request is how a client cancels (protocol 2026-07-28).
        """
        self.is_dropped = True
        self.is_cancelled = self.is_cancelled or SESSION not in self.exchange.headers
        self.connection.lost(self.occurrence)


def _client_of(exchange: Exchange) -> str:
    return exchange.headers.get(SESSION) or exchange.peer


def _passed_on(answer: Any) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), one) for name, one in answer.headers.raw if name.lower() not in _HOP]


def _result_of(message: Any) -> dict[str, Any]:
    if not isinstance(message, dict) or not messages.is_answer(message):
        raise ConnectionError("the server sent something that is not an answer")
    if "error" in message:
        raise RpcFailed(message["error"] if isinstance(message["error"], dict) else {})
    result = message["result"]
    return result if isinstance(result, dict) else {}


def _answer_in(content: bytes, is_stream: bool) -> Any:
    if not is_stream:
        return json.loads(content)
    found = [message_in(event) for event in EventReader().feed(content + b"\n\n")]
    return next((one for one in found if one is not None and messages.is_answer(one)), None)


def _network_errors() -> tuple[type[Exception], ...]:
    import httpx2

    return (httpx2.HTTPError, OSError)


def _no() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
