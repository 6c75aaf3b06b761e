"""A client on standard input and output in front of a server's command.

Standard output belongs to the protocol; what we say goes to standard error. When the client closes
our input, the calls under way are finished before the server is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import stat
import struct
import termios
import threading
from collections.abc import Callable, Sequence

from nottwice.engine.clock import Clock
from nottwice.mcp.guard import ToolGuard
from nottwice.mcp.proxy.relay import Relay
from nottwice.mcp.proxy.upstream import CommandFailed

_INPUT, _OUTPUT = 0, 1
_DEATH_SECONDS = 0.2
"""How long the kernel may take to close all pipes of a client that was killed."""
_LOOKS = 5


async def serve(guard: ToolGuard, command: Sequence[str], *, say: Callable[[str], None]) -> int:
    """Serve one client until it closes. Returns the exit code."""
    output = _Output()
    relay = Relay(guard, command, output.write, say=say)
    try:
        await relay.start()
    except CommandFailed as failed:
        say(str(failed))
        return failed.exit_code
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(lines, loop), daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lines.put_nowait, None)
    ended = asyncio.create_task(relay.ended.wait())
    while True:
        following = asyncio.create_task(lines.get())
        await asyncio.wait({following, ended}, return_when=asyncio.FIRST_COMPLETED)
        if relay.failed is not None:
            following.cancel()
            return relay.failed.exit_code
        line = following.result()
        if line is None:
            break
        await relay.from_client(line)
    ended.cancel()
    # A client that ends in order closes our input and reads until our end. One that was killed has
    # closed both: what it read last may not have been saved.
    await guard.ledger.clock.pause_async(_DEATH_SECONDS)
    await relay.drain(client_reads=_is_read())
    await relay.close(orderly=await _has_read_everything(guard.ledger.clock))
    return 0


class _Output:
    """Writes whole lines, one at a time, without blocking the event loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def write(self, line: bytes) -> bool:
        """Write a line. False: the client is gone."""
        async with self._lock:
            try:
                await asyncio.to_thread(_write_all, line)
            except OSError:
                return False
            return True


def _write_all(line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[os.write(_OUTPUT, rest) :]
        except BlockingIOError:
            select.select([], [_OUTPUT], [])


def _read(lines: asyncio.Queue[bytes | None], loop: asyncio.AbstractEventLoop) -> None:
    """Read lines in a thread: standard input may be anything, and may not be pollable."""
    with contextlib.suppress(RuntimeError), open(_INPUT, "rb", closefd=False) as stream:
        # RuntimeError: the event loop has ended meanwhile.
        for line in stream:
            if line.strip():
                loop.call_soon_threadsafe(
                    lines.put_nowait, line if line.endswith(b"\n") else line + b"\n"
                )
        loop.call_soon_threadsafe(lines.put_nowait, None)


async def _has_read_everything(clock: Clock) -> bool:
    """Whether the client still reads our output, and has read all of it."""
    for _ in range(_LOOKS):
        if not _is_read():
            return False
        if _unread_bytes() == 0:
            return True
        await clock.pause_async(_DEATH_SECONDS)
    return False


def _is_read() -> bool:
    poll = select.poll()
    poll.register(_OUTPUT, 0)
    return not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _unread_bytes() -> int:
    # Some clients connect sockets instead of pipes.
    is_socket = stat.S_ISSOCK(os.fstat(_OUTPUT).st_mode)
    try:
        asked = termios.TIOCOUTQ if is_socket else termios.FIONREAD
        unread = fcntl.ioctl(_OUTPUT, asked, struct.pack("i", 0))
    except OSError:
        # It is a file, so nothing is known to be unread.
        return 0
    return int(struct.unpack("i", unread)[0])
