"""How does a test get a new process without paying for its imports every time?

This file is a process of its own. It imports the agents once and opens no file; for every plan
that arrives it forks a child that carries the plan out and then leaves like any interpreter does,
joining its threads. The nursery itself only reports: the child's pid, and how the child ended. A
child is a real process with its own pid, locks and connections, and dies of a real SIGKILL.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys

import nottwice as nt
from tests.kill import fleet as fleet
from tests.kill import graphs as graphs
from tests.kill import soak as soak
from tests.kill.agents import carry_out
from tests.kill.programs import PROGRAMS


def serve(listener: socket.socket) -> tuple[socket.socket, str] | None:
    """Fork a child for every plan. Returns in each child, with its plan; None: it has ended."""
    waker, woken = socket.socketpair()
    for end in (waker, woken, listener):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    children: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
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
                line = _accept(listener)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    return line
                children[pid] = line[0]
                _send(line[0], {"pid": pid})


def _accept(listener: socket.socket) -> tuple[socket.socket, str]:
    connection, _ = listener.accept()
    connection.setblocking(True)
    text = b""
    while not text.endswith(b"\n"):
        text += connection.recv(65536)
    return connection, text.decode()


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


def warm_up() -> None:
    """Make one call in memory: what is imported at the first call is imported here, once."""

    @nt.tool("pure", name="warm up")
    def act(order: int, cents: int = 1) -> dict[str, str]:
        return {}

    with nt.Ledger(":memory:").run("warm up"):
        act(order=1)


def main(path: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    warm_up()
    gc.collect()
    gc.freeze()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    work = serve(listener)
    if work is not None:
        listener.close()
        connection, plan = work
        carry_out(plan, connection.fileno(), PROGRAMS)


if __name__ == "__main__":
    main(sys.argv[1])
