"""Watching a child from outside: what it asks of the operating system, by strace.

Two levels need it: one lets calls fail, one writes down what reached the disk and when. Production
code knows nothing of either. strace exists on Linux only, and a container may forbid it; then those
levels are skipped, and say so.
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

from nottwice.model.records import frozen_record
from nottwice.testing.crash.link import Link

ATTACH_SECONDS = 20.0
_LINE = re.compile(r"(\d+) +(.*)")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(.*)", re.DOTALL)
_UNFINISHED = " <unfinished ...>"
_ALLOW_ANY_TRACER = (0x59616D61, -1)


@functools.cache
def why_no_tracing() -> str | None:
    """Why a child cannot be watched on this machine; None: it can."""
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
    """One call to the operating system, as strace has written it down."""

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
    """Where it writes; not where the ledgers are."""
    options: tuple[str, ...]
    paths: tuple[Path, ...] = ()
    """Only calls about these; none: all calls."""
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

    def await_attached(self, link: Link) -> None:
        """In the child: stop until strace was started, go on when it sees what happens here."""
        ctypes.CDLL(None).prctl(*_ALLOW_ANY_TRACER, 0, 0, 0)
        link.stop(at="for strace")
        give_up_at = time.monotonic() + ATTACH_SECONDS
        while not (self.output.exists() and self.output.stat().st_size):
            # Nothing happens by this call; but strace writes it down as soon as it is there.
            with contextlib.suppress(OSError):
                os.readlink(self._sign)
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"strace has not come within {ATTACH_SECONDS:g} s")
            time.sleep(0.001)

    def mark_end(self) -> None:
        """In the child: what follows is not of interest."""
        with contextlib.suppress(OSError):
            os.readlink(self._end)

    def attach(self, pid: int) -> None:
        """In the parent: begin to watch a child, which has stopped for that."""
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
        """In the parent, when the child is over: all that was written down before the end."""
        assert self._process is not None
        self._process.wait()
        calls = read_calls(self.output.read_text(errors="replace"))
        return list(itertools.takewhile(lambda call: not self._is_end(call), calls))

    def _is_end(self, call: Called) -> bool:
        end = os.fsencode(self._end)
        # Only a recording, which is written in digits, is ever ended by the child.
        return call.name.startswith("readlink") and any(
            argument.startswith('"\\x') and bytes_of(argument) == end for argument in call.arguments
        )

    def give_up(self) -> None:
        """End strace if it is still there; whoever is watched goes on."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def read_calls(text: str) -> Iterator[Called]:
    """The calls in the order in which they ended; those of several threads may overlap."""
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
    """A string argument, which strace was told to write in hexadecimal digits."""
    return bytes.fromhex(argument.strip('"').replace("\\x", ""))
