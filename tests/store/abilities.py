"""What does this machine let a test do: watch system calls, make them fail, mount a small disk?

Where it does not, the test is skipped and says so. With ``NOTTWICE_STRACE=required``, as in
continuous integration, the tests that watch system calls are run anyway, and fail without strace.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.nursery import starting

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def can_trace() -> bool:
    """Whether strace is here and may trace a child."""
    strace = shutil.which("strace")
    if strace is None:
        return False
    tried = subprocess.run([strace, "-o", os.devnull, "true"], capture_output=True, check=False)
    return tried.returncode == 0


def may_skip_tracing() -> bool:
    """Whether tests are skipped for want of strace, and do not fail."""
    return os.environ.get("NOTTWICE_STRACE") != "required"


needs_strace = pytest.mark.skipif(
    may_skip_tracing() and not can_trace(), reason="strace is missing, or may not trace"
)


def python(*words: str | Path) -> list[str]:
    """The command for one of the programs in `programs.py`."""
    return [sys.executable, "-m", "tests.store.programs", *map(str, words)]


def run(
    command: Sequence[str], *, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a child to its end; what it prints is the test's to judge."""
    variables = {**os.environ, **environment}
    if starting.can_be_forked(command, variables):
        return starting.run(command, cwd=ROOT, env=variables, timeout=timeout)
    return subprocess.run(
        command,
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def traced(command: Sequence[str], log: Path, *options: str) -> list[str]:
    """The command under strace, with its threads; what strace sees goes into ``log``."""
    return ["strace", "-f", "-o", str(log), *options, *command]


def syncs_of(log: Path) -> int:
    """How many fsyncs and fdatasyncs a log holds."""
    return _syncs_in(log.read_text())


def syncs_between(log: Path, mark: str) -> list[int]:
    """How many there are after each call of ``mark``, up to the next one."""
    return [_syncs_in(part) for part in re.split(rf"(?m)^\d+ +{mark}\(", log.read_text())[1:]]


def _syncs_in(text: str) -> int:
    # A call that another thread interrupts takes two lines; the second says "resumed".
    return len(re.findall(r"^\d+ +f(?:data)?sync\(", text, re.MULTILINE))


@contextlib.contextmanager
def mounted(point: Path, *, kind: str = "tmpfs", options: str = "") -> Iterator[Path]:
    """A file system of its own for a test, where root is allowed to mount."""
    point.mkdir()
    words = ["mount", "-t", kind, *(["-o", options] if options else []), "none", str(point)]
    try:
        tried = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if tried.returncode:
        pytest.skip(f"mounting is not allowed here: {tried.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", "--lazy", str(point)], capture_output=True, check=True)
