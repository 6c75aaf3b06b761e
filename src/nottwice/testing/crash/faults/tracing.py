"""Watching a child from outside with strace: what it asks of the operating system.

Two levels need it: one makes calls fail, one records what reached the disk and when. Production
code knows neither. strace exists on Linux only, and a container may forbid it. Those levels are
then skipped with a note.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nottwice.model.data.records import frozen_record
from nottwice.testing.crash.inside.link import ChildLink

ATTACH_SECONDS = 20.0
_LINE = re.compile(r"(\d+) +(.*)")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(.*)", re.DOTALL)
_UNFINISHED = " <unfinished ...>"
_ALLOW_ANY_TRACER = (0x59616D61, -1)


@functools.cache
def why_no_tracing() -> str | None:
    """Return why a child cannot be watched on this machine, or None if it can."""
    if sys.platform != "linux":
        return "it needs strace, which exists on Linux only"
    if shutil.which("strace") is None:
        return "it needs strace, which is not installed (Debian: apt install strace)"
    tried = subprocess.run(
        ["strace", "-o", os.devnull, "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        return f"strace is not allowed here ({tried.stderr.strip().splitlines()[-1:]})"
    return None


@frozen_record(frozen=True, slots=True)
class Called:
    """One call to the operating system, as strace recorded it."""

    thread: int
    name: str
    arguments: tuple[str, ...]
    result: int
    injected: bool = False

    @property
    def failed(self) -> bool:
        return self.result < 0


@dataclass(slots=True)
class Tracer:
    """One strace for one child."""

    folder: Path
    """Where it writes. Not where the ledgers are."""
    options: tuple[str, ...]
    paths: tuple[Path, ...] = ()
    """Watch only calls that concern these. If empty, watch all calls."""
    _process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def output(self) -> Path:
        return self.folder / "strace.txt"

    @property
    def _sign(self) -> Path:
        return self.folder / "watched"

    @property
    def _end(self) -> Path:
        return self.folder / "watched enough"

    def await_attached(self, link: ChildLink) -> None:
        """Stop, in the child, until strace was started, and continue when it is attached."""
        ctypes.CDLL(None).prctl(*_ALLOW_ANY_TRACER, 0, 0, 0)
        link.stop(at="for strace")
        give_up_at = time.monotonic() + ATTACH_SECONDS
        while not (self.output.exists() and self.output.stat().st_size):
            # This call does nothing, but strace records it once it is attached.
            with contextlib.suppress(OSError):
                os.readlink(self._sign)
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"strace did not attach within {ATTACH_SECONDS:g} s")
            time.sleep(0.001)

    def mark_end(self) -> None:
        """Mark, in the child, that what follows is of no interest."""
        with contextlib.suppress(OSError):
            os.readlink(self._end)

    def attach(self, pid: int) -> None:
        """Start to watch, in the parent, a child that has stopped for that."""
        paths = [word for path in (*self.paths, self._sign) for word in ("-P", str(path))]
        self._process = subprocess.Popen(
            ["strace", "-f", "-q", "-o", str(self.output), *self.options]
            + (paths if self.paths else [])
            + ["-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def finish(self) -> list[Called]:
        """Return, in the parent after the child has ended, all calls recorded before the end."""
        assert self._process is not None
        self._process.wait()
        calls = read_calls(self.output.read_text(errors="replace"))
        return list(itertools.takewhile(lambda call: not self._is_end(call), calls))

    def _is_end(self, call: Called) -> bool:
        end = os.fsencode(self._end)
        # Only recordings, which use hexadecimal strings, are ended by the child.
        return call.name.startswith("readlink") and any(
            argument.startswith('"\\x') and bytes_of(argument) == end for argument in call.arguments
        )

    def give_up(self) -> None:
        """End strace if it still runs. The watched process continues."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def read_calls(text: str) -> Iterator[Called]:
    """Yield the calls in the order in which they ended. Those of several threads may overlap."""
    begun: dict[str, str] = {}
    for line in text.splitlines():
        matched = _LINE.fullmatch(line)
        if matched is None:
            continue
        thread, said = matched.groups()
        if said.endswith(_UNFINISHED):
            begun[thread] = said.removesuffix(_UNFINISHED)
            continue
        resumed = _RESUMED.fullmatch(said)
        if resumed is not None:
            said = begun.pop(thread, "") + resumed.group(1)
        call = _CALL.fullmatch(said)
        if call is None:
            continue
        name, arguments, result, rest = call.groups()
        yield Called(
            thread=int(thread),
            name=name,
            arguments=tuple(arguments.split(", ")),
            result=-1 if result == "?" else int(result),
            injected="(INJECTED)" in rest,
        )


def bytes_of(argument: str) -> bytes:
    """Decode a string argument, which strace writes in hexadecimal digits."""
    return bytes.fromhex(argument.strip('"').replace("\\x", ""))
