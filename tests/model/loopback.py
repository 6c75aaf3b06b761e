"""How does a server on this machine refuse, drop, stall or answer, for tests of real clients?"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

LONG = 20.0  # Seconds; only a test that fails waits this long.

# What a server does with one connection; the event is set when the test has ended.
Script = Callable[[socket.socket, threading.Event], None]


@contextmanager
def serving(*scripts: Script) -> Iterator[int]:
    """Give each connection the next script; once the last has begun, further ones are refused."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)

    def serve() -> None:
        for number, script in enumerate(scripts, start=1):
            connection = accept()
            if connection is None:
                break
            if number == len(scripts):
                listener.close()
            # The client may be gone by now; what it saw is for the test to judge.
            with connection, suppress(OSError):
                connection.settimeout(LONG)
                script(connection, over)
        listener.close()

    def accept() -> socket.socket | None:
        while not over.is_set():
            try:
                return listener.accept()[0]
            except TimeoutError:
                continue
        return None

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        thread.join()


@contextmanager
def refusing() -> Iterator[int]:
    """A port that is bound, so that no other process gets it, and on which nothing listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@contextmanager
def never_accepting() -> Iterator[int]:
    """A port whose queue is full: the system lets further connections wait."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def read_request(connection: socket.socket) -> None:
    """Read one request with its body, or what there is of it when the client goes away."""
    head, received, length = b"", b"", 0
    while not head or len(received) < length:
        more = connection.recv(65_536)
        if not more:
            return
        received += more
        if not head and b"\r\n\r\n" in received:
            head, _, received = received.partition(b"\r\n\r\n")
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])


def saying(text: str) -> Script:
    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(text.replace("\n", "\r\n").encode())

    return script


def answering(status: int, *headers: str, keep: bool = False) -> Script:
    lines = [f"HTTP/1.1 {status} Status", "Content-Length: 2", *headers]
    if not keep:
        lines.append("Connection: close")
    return saying("\n".join(lines) + "\n\nno")


def redirecting(port: int, status: int = 302) -> Script:
    return answering(status, f"Location: http://127.0.0.1:{port}/elsewhere")


def drop(connection: socket.socket, over: threading.Event) -> None:
    read_request(connection)


def reset(connection: socket.socket, over: threading.Event) -> None:
    read_request(connection)
    # Lingering for zero seconds makes close() send a reset.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def stall(connection: socket.socket, over: threading.Event) -> None:
    read_request(connection)
    over.wait(LONG)


def read_nothing(connection: socket.socket, over: threading.Event) -> None:
    over.wait(LONG)


def speak_no_tls(connection: socket.socket, over: threading.Event) -> None:
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


cut_the_body = saying("HTTP/1.1 200 OK\nContent-Length: 100\n\nno")
talk_nonsense = saying("this is not http\n\n")


def mail_server(**replies: str) -> Script:
    """Answer each command; the reply "drop" closes, and "stall" says nothing."""
    script = {
        "HELLO": "220 ready",
        "EHLO": "250-here\r\n250 AUTH PLAIN",
        "HELO": "250 here",
        "AUTH": "235 welcome",
        "MAIL": "250 ok",
        "RCPT": "250 ok",
        "DATA": "354 go on",
        "BODY": "250 queued",
        "RSET": "250 ok",
        "QUIT": "221 bye",
        **replies,
    }

    def serve(connection: socket.socket, over: threading.Event) -> None:
        lines = connection.makefile("rb")
        command = "HELLO"
        with lines:
            while command:
                # Several replies to one command are given one after another.
                reply, _, later = script[command].partition("|")
                script[command] = later or reply
                if reply == "drop":
                    return
                if reply == "stall":
                    over.wait(LONG)
                    return
                connection.sendall(reply.encode() + b"\r\n")
                if command == "DATA" and reply.startswith("354"):
                    while lines.readline() not in (b".\r\n", b""):
                        pass
                    command = "BODY"
                else:
                    command = lines.readline()[:4].decode().strip().upper()

    return serve
