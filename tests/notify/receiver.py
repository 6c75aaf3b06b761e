"""A real web server on loopback that gets webhooks, and judges signatures with code of its own."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "a secret of the receiver, long enough"
BLOCK = 64


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document["data"]
        return found

    @property
    def type(self) -> str:
        return str(self.document["type"])


@dataclass
class Receiver:
    """What came, and what it answers."""

    url: str
    received: list[Received] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    """The statuses of the next answers; then 204."""
    location: str = ""
    before_answer: Callable[[Received], None] = lambda received: None
    arrived: threading.Event = field(default_factory=threading.Event)

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.received]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive webhooks as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            got = Received(self.path, headers, self.rfile.read(length))
            receiver.received.append(got)
            receiver.arrived.set()
            receiver.before_answer(got)
            self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
            if receiver.location:
                self.send_header("location", receiver.location)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *said: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *said: Any) -> None:
            """The sender was killed while it waited for the answer."""

    server = Server(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hook")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def is_signed(received: Received, secret: bytes) -> bool:
    """Whether the signature fits, by RFC 2104 and the text of Standard Webhooks alone."""
    headers = received.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + received.body
    key = hashlib.sha256(secret).digest() if len(secret) > BLOCK else secret
    key = key.ljust(BLOCK, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + signed).digest()
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).digest()
    return headers["webhook-signature"] == "v1," + base64.b64encode(outer).decode()
