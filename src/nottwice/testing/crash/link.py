"""The line between a child and its parent: one JSON object a line, over a socket pair.

A child asks (and waits for the reply) or tells (and goes on). What was sent before the child died
is read all the same: a request that is on its way is carried out, as in a real network.

What a child asks: ``effect``, ``read``, ``verify``, ``pause``. What it tells: ``writing`` and
``wrote`` (a commit begins, and was accepted), ``invoking`` and ``over`` (a call), ``seen`` (the
durable state), ``dying`` and ``stopping`` (it met its fault), ``refused``, ``ended``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from typing import Any

_PIECE = 65536


class Link:
    """One end of the line."""

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
        """Say something with the next message: sending costs more than all the rest."""
        with self._guard:
            self._noted += _line({"tell": subject, **facts})

    def tell(self, subject: str, **facts: Any) -> None:
        """Say something that needs no reply."""
        with self._guard:
            self._send({"tell": subject, **facts})

    def stop(self, **facts: Any) -> None:
        """Say that this process stops, and stop it, until somebody wakes it.

        Nobody gets a word in between: another thread that is about to write would be heard only
        after the wake, as if it had begun to write then.
        """
        with self._guard:
            self._send({"tell": "stopping", **facts})
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    def ask(self, subject: str, **facts: Any) -> dict[str, Any]:
        """Ask something and wait for the reply. A child without a parent has no reason to live."""
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
        """The parent's answer. A child that died while it waited needs none."""
        try:
            self._send(message)
        except OSError:
            return

    def read(self) -> list[dict[str, Any]] | None:
        """What the other end has said by now; None once it is gone and everything was read."""
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


def make_link() -> tuple[Link, Link]:
    """Both ends of a new line: the parent's, the child's."""
    ours, theirs = socket.socketpair()
    return Link(ours), Link(theirs)
