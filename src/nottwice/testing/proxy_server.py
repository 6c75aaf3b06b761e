"""What happens to a request that passes the proxy?

This file is the proxy's own process. Like the world's it is started by ``loopback.py`` and imports
the standard library only. Every request that reaches it is numbered
and written down before its answer leaves, so the log is the truth whichever process dies.
"""

from __future__ import annotations

import json
import os
import threading
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from nottwice.testing.loopback_server import LoopbackHTTPServer

UPSTREAM_SECONDS = 60.0
# They speak of one connection, and there are two (RFC 9110, 7.6.1).
_OF_ONE_CONNECTION = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding "
    "upgrade content-length".split()
)


def main(
    starter_pid: str, upstream: str, log: str, lost_responses: str, lost_requests: str
) -> None:
    """Serve on a free loopback port, and say which on standard output."""
    ProxyServer(
        upstream,
        log,
        int(starter_pid),
        lost_responses=frozenset(json.loads(lost_responses)),
        lost_requests=frozenset(json.loads(lost_requests)),
    ).serve()


class ProxyServer(LoopbackHTTPServer):
    """Forwards to one upstream; loses what it was told to lose."""

    def __init__(
        self,
        upstream: str,
        log: str,
        starter_pid: int,
        *,
        lost_responses: frozenset[int],
        lost_requests: frozenset[int],
    ) -> None:
        super().__init__(ProxyHandler, starter_pid)
        self.upstream = urlsplit(upstream)
        self.lost_responses = lost_responses
        self.lost_requests = lost_requests
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._guard = threading.Lock()
        self._count = 0

    def next_number(self) -> int:
        with self._guard:
            self._count += 1
            return self._count

    def note(self, entry: dict[str, Any]) -> None:
        os.write(self._log, json.dumps(entry).encode() + b"\n")


class ProxyHandler(BaseHTTPRequestHandler):
    """One connection. It is closed after every answer, so that no client can reuse it."""

    server: ProxyServer
    protocol_version = "HTTP/1.1"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._pass_on
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the proxy writes its own log."""

    def _pass_on(self) -> None:
        self.close_connection = True
        number = self.server.next_number()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        entry = {"number": number, "method": self.command, "path": self.path}
        if number in self.server.lost_requests:
            self.server.note({**entry, "status": None, "lost": "request"})
            return
        try:
            status, headers, content = self._ask_upstream(body)
        except (OSError, HTTPException) as error:
            self.server.note({**entry, "status": None, "lost": f"upstream: {error}"})
            self._answer(502, [("Content-Type", "text/plain")], f"{error}".encode())
            return
        lost = "response" if number in self.server.lost_responses else None
        self.server.note({**entry, "status": status, "lost": lost})
        if lost is None:
            self._answer(status, headers, content)

    def _ask_upstream(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = self.server.upstream
        kind = HTTPSConnection if upstream.scheme == "https" else HTTPConnection
        connection = kind(upstream.netloc, timeout=UPSTREAM_SECONDS)
        try:
            connection.putrequest(
                self.command,
                upstream.path.rstrip("/") + self.path,
                skip_host=True,
                skip_accept_encoding=True,
            )
            connection.putheader("Host", upstream.netloc)
            for name, value in self.headers.items():
                if name.lower() not in _OF_ONE_CONNECTION and name.lower() != "host":
                    connection.putheader(name, value)
            if body or self.headers.get("Content-Length"):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        kept = [
            (name, value)
            for name, value in response.getheaders()
            if name.lower() not in _OF_ONE_CONNECTION
        ]
        return response.status, kept, content

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
