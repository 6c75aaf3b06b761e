"""What do the server processes of the testing room have in common?

Each serves a free loopback port, tells it to its starter on standard output, and never outlives
its starter. Like the servers themselves this file imports the standard library only (see
``loopback.py``, which starts them).
"""

from __future__ import annotations

import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STARTER_CHECK_SECONDS = 0.2


class LoopbackHTTPServer(ThreadingHTTPServer):
    """Threads for requests, and an eye on the starter between them."""

    daemon_threads = True
    # The default backlog of five makes a crowd of clients wait a second for a second SYN.
    request_queue_size = 512

    def __init__(self, handler: type[BaseHTTPRequestHandler], starter_pid: int) -> None:
        self._starter_pid = starter_pid
        super().__init__(("127.0.0.1", 0), handler)

    def server_bind(self) -> None:
        """Bind without the reverse name look-up of the base class, which can take seconds."""
        super(ThreadingHTTPServer, self).server_bind()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def service_actions(self) -> None:
        """End when the starter has died, even if a child it forked keeps our input open."""
        if os.getppid() != self._starter_pid:
            os._exit(0)

    def serve(self) -> None:
        """Say the port on standard output, and serve until the starter ends or closes our input."""
        # Ctrl-C is for the process under test; the server has to be there afterwards, to count.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
        os.write(1, f"{self.server_address[1]}\n".encode())
        self.serve_forever(poll_interval=STARTER_CHECK_SECONDS)


def _exit_at_end_of_input() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)
