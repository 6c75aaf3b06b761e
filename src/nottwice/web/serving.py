"""How is the page served by a process of its own? ``nottwice serve``.

Only this machine can reach it, unless a proxy that authenticates people is in front of it. Promise
kept here: P320.
"""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.views.commands import CommandLine
from nottwice.web.app import page
from nottwice.web.rendering import check_trace_url
from nottwice.web.visitors import TOKEN, LinkTokens


@frozen_record(frozen=True, slots=True, kw_only=True)
class Serving:
    """How the page is to be reached, and by whom."""

    by: str
    """The name on record for those who come with a link."""
    address: str = "127.0.0.1"
    port: int = 8765
    """0: any that is free."""
    hosts: Sequence[str] = ()
    """Other names that it answers to, as browsers send them: ``ops.example.com``."""
    token_file: Path | None = None
    user_header: str | None = None
    deciders: Sequence[str] = ()
    read_only: bool = False
    trace_url: str | None = None
    """Where a trace is shown: an address with ``{trace_id}`` in it."""


@frozen_record(frozen=True, slots=True)
class Links:
    """Where the page is."""

    decide: str | None
    """None: no visitor may decide, or a proxy says who they are."""
    look: str


def serve(
    ledgers: Sequence[Ledger],
    wanted: Serving,
    commands: Sequence[CommandLine],
    *,
    announce: Callable[[Links], None],
) -> None:
    """Serve the page until the process is told to stop. ``announce`` is told where it is."""
    check(wanted)
    with _listening(wanted) as listening:
        port = listening.getsockname()[1]
        tokens = LinkTokens(
            _token(wanted.token_file),
            name=wanted.by,
            # Cookies are not kept apart by port, so the port is in the name.
            cookie=f"nottwice-{port}",
            user_header=wanted.user_header,
            deciders=wanted.deciders,
        )
        app = page(
            list(ledgers),
            user=tokens.visitor,
            read_only=wanted.read_only,
            hosts=own_names(wanted, port),
            secret=LinkTokens.derived(tokens.decide_token, "forms"),
            commands=commands,
            tokens=None if wanted.user_header else tokens,
            trace_url=wanted.trace_url,
        )
        announce(_links(wanted, tokens, port))
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            # An access log would hold the tokens of links.
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        # The server has ended well when it passes Ctrl-C on.
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


def check(wanted: Serving) -> None:
    """Refuse a port that is open to a network without a proxy in front of it."""
    if wanted.trace_url is not None:
        check_trace_url(wanted.trace_url)
    if not _is_loopback(wanted.address) and wanted.user_header is None:
        raise UsageError(
            f"{wanted.address} can be reached from a network, and the page would be open to it. "
            "Nothing was started. Leave --bind out and use a tunnel: ssh -L "
            f"{wanted.port}:127.0.0.1:{wanted.port} HOST. Or put a proxy in front that "
            "authenticates people, and name the header that it sends: --user-header "
            "X-Forwarded-User"
        )
    if wanted.user_header is not None and wanted.token_file is None:
        raise UsageError(
            "With --user-header, the proxy proves itself with a token. Nothing was started. Write "
            "one to a file, name it with --token-file, and let the proxy send it: Authorization: "
            "Bearer TOKEN"
        )
    if wanted.deciders and wanted.user_header is None:
        raise UsageError(
            "--decider names people, and only a proxy says who they are: --user-header. Nothing "
            "was started. Without a proxy, share the link that is only for looking."
        )


def own_names(wanted: Serving, port: int) -> list[str]:
    """Return what a browser may write into the Host header, so that no other name leads here."""
    names = [wanted.address, *wanted.hosts]
    if _is_loopback(wanted.address):
        names += ["localhost", "127.0.0.1", "[::1]"]
    names = [f"[{name}]" if _is_v6(name) else name for name in names]
    return [*(f"{name}:{port}" for name in names), *wanted.hosts]


def _links(wanted: Serving, tokens: LinkTokens, port: int) -> Links:
    host = f"[{wanted.address}]" if _is_v6(wanted.address) else wanted.address
    start = f"http://{host}:{port}/"
    if wanted.user_header is not None:
        return Links(None, start)
    decide = None if wanted.read_only else f"{start}?{TOKEN}={tokens.decide_token}"
    return Links(decide, f"{start}?{TOKEN}={tokens.look_token}")


def _token(file: Path | None) -> str:
    if file is None:
        return secrets.token_urlsafe(32)
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The token could not be read from {file}: {error}. Nothing was started."
        ) from None


def _listening(wanted: Serving) -> socket.socket:
    family = socket.AF_INET6 if _is_v6(wanted.address) else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((wanted.address, wanted.port))
        # From here on a browser that opens the link waits, and is not refused.
        made.listen()
    except OSError as error:
        made.close()
        raise UsageError(
            f"{wanted.address}:{wanted.port} cannot be used: {error.strerror or error}. Nothing "
            "was started. Choose another port: --port 0 takes one that is free."
        ) from None
    return made


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _is_v6(address: str) -> bool:
    return ":" in address and not address.startswith("[")
