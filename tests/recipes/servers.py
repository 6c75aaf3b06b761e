"""Upstreams for recipes, in separate processes: a small tracker over HTTP, and a mail server.

    python -m tests.recipes.servers http
    python -m tests.recipes.servers smtp FOLDER  # and imap FOLDER, to look into it

Each prints its port. They remember what was done to them whatever becomes of the client, and
misbehave when told to: the tracker over HTTP at ``/faults``, the mail server by a recipient's name.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import tests

ROOT = Path(tests.__file__).parent.parent
PAGE = 2


class Tracker:
    """A tracker as a test sees it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}{path}", data=data, timeout=20) as answer:
            return json.load(answer)

    def forget(self) -> None:
        """Begin again."""
        self.ask("/forget")

    def next_answers(self, *faults: dict[str, Any]) -> None:
        """What happens to the next requests that are no reading: see ``Handler.misbehave``."""
        self.ask("/faults", list(faults))

    @property
    def seen(self) -> list[dict[str, Any]]:
        """Every request that arrived, control aside."""
        found: list[dict[str, Any]] = self.ask("/seen")
        return found

    @property
    def orders(self) -> list[Any]:
        found: list[Any] = self.ask("/orders")
        return found


@contextlib.contextmanager
def started(*words: str) -> Iterator[int]:
    """One of the servers, and its port."""
    command = [sys.executable, "-m", "tests.recipes.servers", *words]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


# ---- The tracker --------------------------------------------------------------------------------


class State:
    """What the tracker remembers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.faults: list[dict[str, Any]] = []
        self.seen: list[dict[str, Any]] = []
        self.orders: list[Any] = []
        self.by_key: dict[str, Any] = {}
        self.comments: dict[str, list[dict[str, Any]]] = {}


class Handler(BaseHTTPRequestHandler):
    """Orders with keys, comments in pages."""

    protocol_version = "HTTP/1.1"
    state: State

    def do_GET(self) -> None:
        self.handle_one()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def handle_one(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        with self.state.lock:
            control = {"/seen": self.state.seen, "/orders": self.state.orders}
            if self.command == "GET" and self.path in control:
                self.say(200, control[self.path])
            elif self.path == "/forget":
                Handler.state = State()
                self.say(200, {})
            elif self.path == "/faults":
                self.state.faults = body or []
                self.say(200, {})
            else:
                self.note(body)
                self.serve(body)

    def note(self, body: Any) -> None:
        self.state.seen.append(
            {
                "method": self.command,
                "path": self.path,
                "body": body,
                "key": self.headers.get("Idempotency-Key"),
                "authorization": self.headers.get("Authorization"),
            }
        )

    def serve(self, body: Any) -> None:
        fault: dict[str, Any] = {}
        if self.command != "GET" and self.state.faults:
            fault = self.state.faults.pop(0)
        if "refuse" in fault:
            self.say(
                fault["refuse"], fault.get("body", {"error": "no"}), **fault.get("headers", {})
            )
            return
        status, answer, headers = self.act(body)
        if fault.get("drop"):
            # It took effect, and the client gets no answer.
            self.close_connection = True
            return
        if "drip" in fault:
            self.drip(fault["drip"])
            return
        if "raw" in fault:
            self.say_raw(fault["raw"], fault.get("type", "text/plain"))
            return
        self.say(status, answer, **headers)

    def act(self, body: Any) -> tuple[int, Any, dict[str, str]]:
        path, _, query = self.path.partition("?")
        if path.endswith("/comments"):
            return self.serve_comments(path, query, body)
        key = self.headers.get("Idempotency-Key")
        if key in self.state.by_key:
            return 200, self.state.by_key[key], {}
        order = {"number": len(self.state.orders) + 1, "body": body}
        self.state.orders.append(order)
        if key is not None:
            self.state.by_key[key] = order
        return 201, order, {"ETag": '"7"'}

    def serve_comments(self, path: str, query: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        found = self.state.comments.setdefault(path, [])
        if self.command == "POST":
            found.append({"id": len(found) + 1, "body": body["body"]})
            return 201, found[-1], {}
        page = int(query.removeprefix("page=") or 1)
        headers = {}
        if len(found) > page * PAGE:
            headers["Link"] = f'<{path}?page={page + 1}>; rel="next", <{path}?page=9>; rel="last"'
        return 200, found[(page - 1) * PAGE : page * PAGE], headers

    def drip(self, count: int) -> None:
        """Answer a byte at a time."""
        self.send_response(200)
        self.send_header("Content-Length", str(count))
        self.end_headers()
        for _ in range(count):
            time.sleep(0.05)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(b"x")

    def say(self, status: int, answer: Any, **headers: str) -> None:
        self.say_raw(json.dumps(answer), "application/json", status, **headers)

    def say_raw(self, text: str, kind: str, status: int = 200, **headers: str) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


# ---- The mail server ----------------------------------------------------------------------------


async def take_mail(
    folder: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Accept mail for all addresses but nobody@, and store it. For lost@, do not answer."""
    recipients: list[str] = []

    def say(text: str) -> None:
        writer.write(text.encode() + b"\r\n")

    say("220 ready")
    while line := (await reader.readline()).decode().strip():
        match line.upper().partition(" ")[0]:
            case "EHLO" | "HELO" | "RSET" | "NOOP":
                say("250 here")
            case "MAIL":
                recipients.clear()
                say("250 ok")
            case "RCPT" if "nobody@" in line:
                say("550 no such mailbox")
            case "RCPT" if "later@" in line and not list(folder.glob("came-before")):
                (folder / "came-before").touch()
                say("450 come back")
            case "RCPT":
                recipients.append(line)
                say("250 ok")
            case "DATA":
                say("354 go on")
                content = (await reader.readuntil(b"\r\n.\r\n")).removesuffix(b"\r\n.\r\n")
                number = len(list(folder.glob("*.eml")))
                (folder / f"{number}.eml").write_bytes(content)
                if any("lost@" in each for each in recipients):
                    break
                say("250 queued")
            case "QUIT":
                say("221 bye")
                break
            case _:
                say("502 what?")
    writer.close()


async def serve_mail(folder: Path, converse: Conversation) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await converse(folder, reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def show_mail(
    folder: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Let ann, with the right password, search the folder Sent over IMAP; it is never written."""

    def say(text: str) -> None:
        writer.write(text.encode() + b"\r\n")

    say("* OK ready")
    while line := (await reader.readline()).decode().strip():
        tag, _, rest = line.partition(" ")
        words = rest.split()
        match words[0].upper():
            case "CAPABILITY":
                say("* CAPABILITY IMAP4rev1")
                say(f"{tag} OK done")
            case "LOGIN" if words[1:] == ["ann", '"s3cret"']:
                say(f"{tag} OK welcome")
            case "EXAMINE" if rest.endswith('"Sent"'):
                say("* 1 EXISTS")
                say(f"{tag} OK [READ-ONLY] opened")
            case "UID":
                wanted = words[-1].strip('"').encode()
                mails = sorted(folder.glob("*.eml"))
                found = [n for n, each in enumerate(mails, 1) if wanted in each.read_bytes()]
                say(f"* SEARCH {' '.join(map(str, found))}".rstrip())
                say(f"{tag} OK done")
            case "LOGOUT":
                say("* BYE")
                say(f"{tag} OK done")
                break
            case _:
                say(f"{tag} NO not here")
    writer.close()


Conversation = Callable[[Path, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def main(kind: str, *folder: str) -> None:
    if kind in ("smtp", "imap"):
        asyncio.run(serve_mail(Path(folder[0]), take_mail if kind == "smtp" else show_mail))
        return
    Handler.state = State()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
