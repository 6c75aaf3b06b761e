"""How does a process fork a child for every request, and report how each child ended?

A child is a real process with its own pid, locks and connections, and dies of a real SIGKILL. The
server opens no ledger and starts no thread, so a child inherits neither. It reports two lines on
the connection of a request: the child's pid, and its exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import sys
from dataclasses import dataclass
from types import ModuleType

_found_imported: dict[str, ModuleType] = {}
"""The modules that every child has from this process, except those of the tests themselves."""


@atexit.register
def _spare_modules() -> None:
    """Do not free the modules that a child found imported: it would take longer than the rest.

    They leave the list of modules, and a reference to them is never given back. Otherwise a child
    ends as every interpreter does: its threads are joined, the functions for its end are called,
    this one last because it was registered first, and what its program made is freed.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_found_imported))
    for name, module in _found_imported.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]


@dataclass(frozen=True)
class Request:
    """What one child is asked to do."""

    connection: socket.socket
    line: str
    descriptors: tuple[int, ...]
    """Files that came with the request; they are the child's."""


def listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    return listener


def serve(listener: socket.socket) -> Request | None:
    """Fork a child for every request. Returns in each child, with its request; None: it is over."""
    for name, module in sys.modules.items():
        if name.split(".")[0] not in ("sys", "builtins", "__main__", "tests"):
            _found_imported[name] = module
    waker, woken = socket.socketpair()
    for end in (waker, woken, listener):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    children: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector, waker, woken, listener:
        for source in (listener, woken, sys.stdin):
            selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    _end_all(children)
                    return None
                if key.fileobj is woken:
                    woken.recv(1000)
                    _report_the_dead(children)
                    continue
                request = _accept(listener)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for connection in children.values():
                        connection.close()
                    return request
                for descriptor in request.descriptors:
                    os.close(descriptor)
                children[pid] = request.connection
                _send(request.connection, {"pid": pid})


def _accept(listener: socket.socket) -> Request:
    connection, _ = listener.accept()
    connection.setblocking(True)
    text, descriptors, _, _ = socket.recv_fds(connection, 65536, 3)
    while not text.endswith(b"\n"):
        text += connection.recv(65536)
    return Request(connection, text.decode(), tuple(descriptors))


def _report_the_dead(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        connection = children.pop(pid)
        _send(connection, {"exit": os.waitstatus_to_exitcode(status)})
        connection.close()


def _send(connection: socket.socket, line: dict[str, int]) -> None:
    # A test that has failed does not listen any more.
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(line).encode() + b"\n")


def _end_all(children: dict[int, socket.socket]) -> None:
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
