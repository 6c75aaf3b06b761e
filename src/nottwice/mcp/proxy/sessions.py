"""HTTP clients in front of a server's command.

A client that begins with ``initialize`` gets a session and a server process of its own. Clients of
protocol 2026-07-28 have no sessions: they share one process, and their ids are made unique.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nottwice.mcp.connection import ClientConnection
from nottwice.mcp.guard import MODERN, ToolGuard
from nottwice.mcp.proxy import messages
from nottwice.mcp.proxy.exchange import SESSION, Exchange, event_of
from nottwice.mcp.proxy.messages import Message, id_key
from nottwice.mcp.proxy.relay import Relay
from nottwice.mcp.proxy.upstream import CommandFailed

IDLE_SECONDS = 3600.0
"""After how long a session ends that its client neither uses nor ends."""
_MOST_PEERS = 1000
_MOST_KEPT = 1000
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class CommandFront:
    """Answers HTTP requests with the processes of a command."""

    def __init__(
        self, guard: ToolGuard, command: Sequence[str], *, say: Callable[[str], None]
    ) -> None:
        self._guard, self._command, self._say = guard, command, say
        self._sessions: dict[str, _HttpClient] = {}
        self._shared: _SharedClients | None = None
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()
        """Sessions that end while other requests are answered."""

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request."""
        session_key = exchange.headers.get(SESSION)
        session = self._sessions.get(session_key or "")
        if session_key is not None and session is None:
            await exchange.refuse(404, "There is no such session. Begin with initialize.")
        elif exchange.method == "POST":
            await self._post(exchange, session)
        elif session is None:
            await exchange.refuse(405, "This is for sessions, which begin with initialize.")
        elif exchange.method == "GET":
            await session.listen(exchange)
        elif exchange.method == "DELETE":
            self._sessions.pop(session_key or "", None)
            self._end(session, orderly=True)
            await exchange.answer(b"", status=204)
        else:
            await exchange.refuse(405, "Use POST, GET or DELETE.")

    async def close(self) -> None:
        """Finish the calls under way, and end the servers."""
        clients = [*self._sessions.values(), *([self._shared] if self._shared else [])]
        for one in clients:
            self._end(one, orderly=False)
        await asyncio.gather(*self._ending)

    async def _post(self, exchange: Exchange, session: _HttpClient | None) -> None:
        body = await exchange.body()
        try:
            (message,) = messages.read_line(body)
        except ValueError:
            error = {"code": -32700, "message": "The body is not one message."}
            failed = messages.written(messages.failure(None, error))
            await exchange.answer(failed, status=400)
            return
        try:
            if session is not None:
                await session.post(exchange, message)
            elif message.get("method") == "initialize":
                await self._begin_session(exchange, message)
            elif MODERN in (messages.params_of(message).get("_meta") or {}):
                await (await self._shared_clients()).post(exchange, message)
            else:
                await exchange.refuse(400, "The header Mcp-Session-Id is missing.")
        except CommandFailed as failed_start:
            await exchange.refuse(502, str(failed_start))

    async def _begin_session(self, exchange: Exchange, message: Message) -> None:
        session_key = uuid.uuid4().hex
        session = _HttpClient(self._guard, self._command, self._say, session_key)
        await session.relay.start()
        self._sessions[session_key] = session
        loop = asyncio.get_running_loop()
        loop.call_later(IDLE_SECONDS, self._look_at, session_key, session.used)
        await session.post(exchange, message)

    def _look_at(self, session_key: str, used_before: int) -> None:
        """End a session that was not used for long."""
        client = self._sessions.get(session_key)
        if client is None:
            return
        loop = asyncio.get_running_loop()
        if client.used == used_before and not client.is_busy:
            del self._sessions[session_key]
            self._end(client, orderly=False)
        else:
            loop.call_later(IDLE_SECONDS, self._look_at, session_key, client.used)

    def _end(self, client: _HttpClient, *, orderly: bool) -> None:
        task = asyncio.get_running_loop().create_task(client.close(orderly=orderly))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _shared_clients(self) -> _SharedClients:
        async with self._starting:
            if self._shared is None:
                shared = _SharedClients(self._guard, self._command, self._say, "")
                await shared.relay.start()
                self._shared = shared
            return self._shared


class _HttpClient:
    """A session: its server process, and the HTTP requests that wait for it."""

    def __init__(
        self,
        guard: ToolGuard,
        command: Sequence[str],
        say: Callable[[str], None],
        session_key: str,
    ) -> None:
        self.relay = Relay(guard, command, self._to_client, say=say)
        self.used = 0
        self._headers = [(SESSION.encode(), session_key.encode())] if session_key else []
        self._waiting: OrderedDict[str, Exchange] = OrderedDict()
        self._tokens: dict[str, str] = {}
        self._listening: Exchange | None = None
        self._kept: list[bytes] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting) or self._listening is not None

    async def post(self, exchange: Exchange, message: Message) -> None:
        """Pass a message of the client on, and answer when the server does."""
        self.used += 1
        connection = self._connection(exchange)
        if not messages.is_request(message):
            await self.relay.from_client(messages.written(message), connection)
            await exchange.answer(b"", status=202)
            return
        message = self._outwards(message)
        key = id_key(message["id"])
        self._waiting[key] = exchange
        token = (messages.params_of(message).get("_meta") or {}).get("progressToken")
        if token is not None:
            self._tokens[id_key(token)] = key
        pairs = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await exchange.begin(pairs=[*pairs, *self._headers])
        await self.relay.from_client(messages.written(message), connection)
        await exchange.wait_until_gone()
        self._tokens.pop(id_key(token), None)
        if self._waiting.pop(key, None) is not None:
            await self._left(message, connection)

    async def listen(self, exchange: Exchange) -> None:
        """Send what belongs to no request, for as long as the client listens."""
        if self._listening is not None:
            await exchange.refuse(409, "This session has a stream already.")
            return
        self.used += 1
        await exchange.body()
        await exchange.begin()
        self._listening = exchange
        kept, self._kept = self._kept, []
        for line in kept:
            await exchange.write(event_of(line))
        await exchange.wait_until_gone()
        self._listening = None

    async def close(self, *, orderly: bool) -> None:
        try:
            await self.relay.drain(client_reads=False)
        finally:
            await self.relay.close(orderly=orderly)
        for exchange in [*self._waiting.values(), self._listening]:
            if exchange is not None:
                await exchange.end()

    def _connection(self, exchange: Exchange) -> ClientConnection:
        return self.relay.connection

    def _outwards(self, message: Message) -> Message:
        return message

    def _inwards(self, message: Message, key: str | None) -> Message:
        return message

    async def _left(self, message: Message, connection: ClientConnection) -> None:
        """The client closed its request. A call continues, and its receipt is kept."""
        self.relay.dropped(message["id"])

    async def _to_client(self, line: bytes) -> bool:
        (message,) = messages.read_line(line)
        if messages.is_answer(message):
            key = id_key(message.get("id"))
            exchange = self._waiting.pop(key, None)
            if exchange is None:
                return False
            written = await exchange.write(event_of(self._inwards(message, key)))
            await exchange.end()
            return written
        found, exchange = self._stream_for(message)
        if exchange is not None:
            return await exchange.write(event_of(self._inwards(message, found)))
        if len(self._kept) < _MOST_KEPT:
            self._kept.append(line)
        return True

    def _stream_for(self, message: Message) -> tuple[str | None, Exchange | None]:
        """Return the stream that a message of the server belongs to, as far as it says so."""
        params = messages.params_of(message)
        key = self._tokens.get(id_key(params.get("progressToken")))
        meta = params.get("_meta")
        if isinstance(meta, Mapping) and _SUBSCRIPTION in meta:
            key = id_key(meta[_SUBSCRIPTION])
        if key is not None and key in self._waiting:
            return key, self._waiting[key]
        if self._waiting:
            newest = next(reversed(self._waiting))
            return newest, self._waiting[newest]
        return None, self._listening


class _SharedClients(_HttpClient):
    """Clients without sessions: one process, unique ids, a connection for each TCP connection."""

    def __init__(
        self,
        guard: ToolGuard,
        command: Sequence[str],
        say: Callable[[str], None],
        session_key: str,
    ) -> None:
        super().__init__(guard, command, say, session_key)
        self._guard = guard
        self._numbers = itertools.count(1)
        self._given: dict[str, tuple[Any, Any]] = {}
        """The id and the progress token that a client gave, by our id."""
        self._peers: OrderedDict[str, ClientConnection] = OrderedDict()

    def _connection(self, exchange: Exchange) -> ClientConnection:
        known = self._peers.get(exchange.peer)
        if known is None:
            known = self._peers[exchange.peer] = self._guard.connect()
            if len(self._peers) > _MOST_PEERS:
                self._peers.popitem(last=False)
        return known

    def _outwards(self, message: Message) -> Message:
        own = f"http-{next(self._numbers)}"
        params = messages.params_of(message)
        meta = dict(params.get("_meta") or {})
        self._given[id_key(own)] = (message["id"], meta.get("progressToken"))
        if "progressToken" in meta:
            meta["progressToken"] = own
        return {**message, "id": own, "params": {**params, "_meta": meta}}

    def _inwards(self, message: Message, key: str | None) -> Message:
        if key is None or key not in self._given:
            return message
        given_id, token = self._given[key]
        if messages.is_answer(message):
            del self._given[key]
            return {**message, "id": given_id}
        params = messages.params_of(message)
        if "progressToken" in params:
            params = {**params, "progressToken": token}
        meta = params.get("_meta")
        if isinstance(meta, Mapping) and _SUBSCRIPTION in meta:
            params = {**params, "_meta": {**meta, _SUBSCRIPTION: given_id}}
        return {**message, "params": params}

    async def _left(self, message: Message, connection: ClientConnection) -> None:
        """A closed stream cancels a request, unless it is a call that was sent (P274)."""
        self._given.pop(id_key(message["id"]), None)
        if self.relay.dropped(message["id"], is_cancelled=True) is None:
            params = {"requestId": message["id"], "reason": "The client closed the stream."}
            cancelled = {"jsonrpc": "2.0", "method": messages.CANCELLED, "params": params}
            await self.relay.from_client(messages.written(cancelled), self._guard.connect())
