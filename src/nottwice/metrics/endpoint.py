"""How does a process that serves no pages answer ``/metrics`` and ``/healthz``?

A separate thread answers, with Python's own HTTP server. It answers with figures and names of
tools, and accepts no data. Only this machine can reach it, unless you name an address. Requests
must use its address or one of its names, so a web page whose name points to this machine learns
nothing. Promise kept here: P343.
"""

from __future__ import annotations

import contextlib
import http.server
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from nottwice.errors import NottwiceError, UsageError
from nottwice.guard.ledger import Ledger
from nottwice.metrics.exposition import CONTENT_TYPE
from nottwice.metrics.figures import Figures

LOOPBACK = "127.0.0.1"
TEXT = "text/plain; charset=utf-8"
_PATIENCE_SECONDS = 10.0
_WRONG_NAME = "This server does not answer to that name. Start it with --metrics-host NAME.\n"


class MetricsAnswer(NamedTuple):
    """What is answered to a GET."""

    status: int
    kind: str
    text: str


def health(ledger: Ledger) -> MetricsAnswer:
    """Say whether a process is there and can read its ledger."""
    try:
        ledger.store.load_run("nottwice.health")
    except NottwiceError as error:
        return MetricsAnswer(503, TEXT, f"the ledger cannot be read: {error}\n")
    return MetricsAnswer(200, TEXT, "ok\n")


def read_place(text: str) -> tuple[str, int]:
    """Return the address and the port that ``9464`` or ``0.0.0.0:9464`` names."""
    address, _, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]") or LOOPBACK
    try:
        if address != "localhost":
            ipaddress.ip_address(address)
        if port.isascii() and port.isdecimal() and int(port) <= 65535:
            return address, int(port)
    except ValueError:
        pass
    raise UsageError(
        f"{text!r} is not an address to listen on. Nothing was started. Give a port, as in 9464, "
        "or an address and a port, as in 0.0.0.0:9464."
    )


@contextlib.contextmanager
def answering(
    place: tuple[str, int], figures: Figures, ledger: Ledger, *, hosts: Collection[str] = ()
) -> Iterator[str]:
    """Answer until the block ends. It gets the address of ``/metrics``.

    ``hosts``: the names under which other machines ask.
    """

    def metrics() -> MetricsAnswer:
        return MetricsAnswer(200, CONTENT_TYPE, figures.text())

    pages = {"/metrics": metrics, "/healthz": lambda: health(ledger)}
    try:
        server = _server(place, pages, {"localhost", *map(str.lower, hosts)})
    except OSError as error:
        raise UsageError(
            f"{place[0]}:{place[1]} cannot be used: {error.strerror or error}. Nothing was "
            "started. Choose another port; 0 takes one that is free."
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="nottwice-metrics", daemon=True)
    thread.start()
    host = f"[{place[0]}]" if ":" in place[0] else place[0]
    try:
        yield f"http://{host}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _leads_here(host: str, names: Collection[str]) -> bool:
    """Whether a Host header names this server. No other site can own an address."""
    name = re.sub(r":[0-9]*$", "", host.strip().lower())
    if name in names:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _server(
    place: tuple[str, int], pages: dict[str, Callable[[], MetricsAnswer]], names: Collection[str]
) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _PATIENCE_SECONDS
        server_version, sys_version = "nottwice", ""

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            if not _leads_here(self.headers.get("host", ""), names):
                found = MetricsAnswer(421, TEXT, _WRONG_NAME)
            elif page is None:
                found = MetricsAnswer(404, TEXT, "There are /metrics and /healthz.\n")
            else:
                try:
                    found = page()
                except NottwiceError as error:
                    found = MetricsAnswer(503, TEXT, f"{error}\n")
            body = found.text.encode("utf-8", "replace")
            self.send_response(found.status)
            self.send_header("content-type", found.kind)
            self.send_header("content-length", str(len(body)))
            self.send_header("x-content-type-options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log no requests: a probe asks every few seconds."""

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A reader that went away is no error."""

    return Server(place, Handler)
