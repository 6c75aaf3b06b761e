"""The process of the protected server: started, spoken to line by line, started again if it dies.

A server that dies before it ever said anything is not started again: its command is wrong, and the
client learns about it as it would without a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

_CHUNK_BYTES = 1 << 16
_STOP_SECONDS = 2.0
OnLine = Callable[[bytes], Awaitable[None]]


class UpstreamGone(ConnectionError):
    """The server's process has ended."""


class CommandFailed(Exception):
    """The server's command cannot be started, or ended before it said anything."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ServerProcess:
    """One server process at a time. ``on_line`` gets each line, ``on_end`` learns of its end."""

    def __init__(
        self,
        command: Sequence[str],
        on_line: OnLine,
        on_end: Callable[[], Awaitable[None]],
        *,
        say: Callable[[str], None],
    ) -> None:
        self._command = list(command)
        self._say = say
        self._on_line, self._on_end = on_line, on_end
        self._process: asyncio.subprocess.Process | None = None
        self._started: list[asyncio.subprocess.Process] = []
        self._reading: asyncio.Task[None] | None = None
        self._closing = False
        self._spoke = False
        self.starts = 0
        """How often it was started."""

    def is_running(self) -> bool:
        return self._process is not None

    @property
    def spoke(self) -> bool:
        """Whether a process of this command has ever said anything."""
        return self._spoke

    async def start(self) -> None:
        """Start the server. CommandFailed if that is not possible, UpstreamGone after ``close``."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise CommandFailed(
                f"{self._command[0]!r} cannot be started: {error.strerror}.", 127
            ) from error
        self.starts += 1
        self._started.append(process)
        if self._closing:
            # A call that needed the server again was made while this was closed.
            await self._end(process)
            getattr(process, "_transport").close()  # noqa: B009
            raise UpstreamGone("the server is not started any more")
        self._process = process
        self._reading = asyncio.create_task(self._read(process))

    async def write(self, line: bytes) -> None:
        """Write a line to the server. UpstreamGone if its process has ended."""
        process = self._process
        if process is None or process.stdin is None:
            raise UpstreamGone("the server is not running")
        try:
            process.stdin.write(line)
            await process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise UpstreamGone("the server has ended") from error

    async def close(self) -> None:
        """End the server: close its input, then ask it to stop, then stop it."""
        self._closing = True
        try:
            if self._process is not None:
                await self._end(self._process)
        finally:
            # Also if this was cancelled, or if a process that the server has started holds its
            # pipes open. asyncio has no public name for it.
            for process in self._started:
                getattr(process, "_transport").close()  # noqa: B009

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        for stop in (None, process.terminate):
            if stop is not None:
                with contextlib.suppress(ProcessLookupError):
                    stop()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _STOP_SECONDS)
                break
        else:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reading is not None:
            # Its output ends with it, unless a process that it started holds the pipe open.
            await asyncio.wait({self._reading}, timeout=_STOP_SECONDS)
            self._reading.cancel()

    async def exit_code(self) -> int:
        """Return the exit code of the last process, as a shell would."""
        process = self._process
        code = 1 if process is None else await process.wait()
        return code if code >= 0 else 128 - code

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            return
        rest = b""
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    self._spoke = True
                    await self._on_line(line + b"\n")
        if self._closing:
            return
        if process.stdin is not None:
            process.stdin.close()
        code = await process.wait()
        if self._spoke:
            self._say(f"the server ended with code {code}. It is started again when it is needed.")
            self._process = None
        else:
            # The process is kept for its exit code.
            self._say(f"the server ended with code {code}.")
        await self._on_end()
