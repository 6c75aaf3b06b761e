"""A model API in a process of its own: it says what a test tells it to, misbehaves, and counts.

    python -m tests.agent.wire_server

It speaks the wire format of ``POST /v1/messages`` (Anthropic) and ``POST /v1/responses`` (OpenAI).
Each request takes the next answer from a list: a status, headers, a body; or a fault around it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import tests

ROOT = Path(tests.__file__).parent.parent


class Wire:
    """The server as a test sees it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def will_answer(self, *answers: dict[str, Any]) -> None:
        """What the next requests get, and begin to count anew.

        ``status``, ``headers``, ``body``: the answer. ``drop``: close instead of answering.
        ``cut``: close in the middle of the body. ``delay``: seconds before the answer.
        """
        self._ask("/answers", list(answers))

    def will_converse(self, *bodies: dict[str, Any]) -> None:
        """The body of each turn, whoever asks for it and however often; begin to count anew."""
        self._ask("/turns", list(bodies))

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What was asked since then: path, headers and body of each request."""
        found: list[dict[str, Any]] = self._ask("/requests")
        return found

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}{path}", data=data, timeout=20) as answer:
            return json.load(answer)


@contextlib.contextmanager
def started() -> Iterator[Wire]:
    """The server in its process."""
    command = [sys.executable, "-m", "tests.agent.wire_server"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield Wire(int(process.stdout.readline()))
        finally:
            process.kill()


class Handler(BaseHTTPRequestHandler):
    """Takes the next answer for every request."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    answers: list[dict[str, Any]]
    turns: list[dict[str, Any]]
    requests: list[dict[str, Any]]

    def do_GET(self) -> None:
        with self.lock:
            self.say(200, {}, Handler.requests)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        with self.lock:
            if self.path in ("/answers", "/turns"):
                Handler.answers = body if self.path == "/answers" else []
                Handler.turns = body if self.path == "/turns" else []
                Handler.requests = []
                self.say(200, {}, {})
                return
            seen = {"path": self.path, "headers": dict(self.headers.items()), "body": body}
            Handler.requests.append(seen)
            answer = self.next_answer(body)
        time.sleep(answer.get("delay", 0))
        if answer.get("drop"):
            self.close_connection = True
            return
        headers = answer.get("headers", {})
        self.say(answer.get("status", 200), headers, answer["body"], cut=answer.get("cut", False))

    def next_answer(self, body: Any) -> dict[str, Any]:
        if Handler.turns:
            return {"body": Handler.turns[turns_in(body)]}
        return Handler.answers.pop(0) if Handler.answers else {"status": 500, "body": {}}

    def say(self, status: int, headers: dict[str, str], body: Any, *, cut: bool = False) -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def turns_in(body: Any) -> int:
    """How many replies of the model a question contains, in either format."""
    items = body.get("messages") or body["input"]
    replies = [each for each in items if each.get("role") == "assistant"]
    return len(replies) or sum(each.get("type") == "function_call" for each in items)


def main() -> None:
    Handler.answers, Handler.requests, Handler.turns = [], [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
