"""The connection between a child and its parent: one JSON object per line, over a socket pair.

A child asks (and waits for the reply) or tells (and continues). What was sent before the child died
is still read: a request that is on its way is carried out, as in a real network.

A child asks ``effect``, ``read``, ``verify``, ``pause``. It tells ``writing`` and ``wrote`` (a
commit starts, and was accepted), ``invoking`` and ``over`` (a call), ``seen`` (the durable state),
``dying`` and ``stopping`` (it met its fault), ``refused``, ``ended``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from typing import Any

_PIECE = 65536


class ChildLink:
    """One end of the connection."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._guard = threading.Lock()
        self._pending = b""
        self._noted = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def note(self, subject: str, **facts: Any) -> None:
        """Send something along with the next message, because sending is the expensive part."""
        with self._guard:
            self._noted += _line({"tell": subject, **facts})

    def tell(self, subject: str, **facts: Any) -> None:
        """Send something that needs no reply."""
        with self._guard:
            self._send({"tell": subject, **facts})

    def stop(self, **facts: Any) -> None:
        """Report that this process stops, and stop it until it is woken.

        No other thread may send in between. A thread that is about to write would be heard only
        after the wake, as if it had started to write then.
        """
        with self._guard:
            self._send({"tell": "stopping", **facts})
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    def ask(self, subject: str, **facts: Any) -> dict[str, Any]:
        """Ask something and wait for the reply. Without a parent, end this process."""
        with self._guard:
            self._send({"ask": subject, **facts})
            while b"\n" not in self._pending:
                piece = self._socket.recv(_PIECE)
                if not piece:
                    os._exit(1)
                self._pending += piece
            line, _, self._pending = self._pending.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def reply(self, message: dict[str, Any]) -> None:
        """Send the parent's answer. A child that died while it waited needs none."""
        try:
            self._send(message)
        except OSError:
            return

    def read(self) -> list[dict[str, Any]] | None:
        """Return what the other end has sent, or None once it is gone and everything was read."""
        try:
            piece = self._socket.recv(_PIECE)
        except ConnectionResetError:
            return None
        if not piece:
            return None
        *lines, self._pending = (self._pending + piece).split(b"\n")
        return [json.loads(line) for line in lines]

    def _send(self, message: dict[str, Any]) -> None:
        noted, self._noted = self._noted, b""
        self._socket.sendall(noted + _line(message))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def make_link() -> tuple[ChildLink, ChildLink]:
    """Return both ends of a new connection: the parent's, the child's."""
    ours, theirs = socket.socketpair()
    return ChildLink(ours), ChildLink(theirs)
