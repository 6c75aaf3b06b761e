"""How does a test run hundreds of Python programs without paying for the imports of each?

`run` is `subprocess.run` for a Python program that uses nottwice. The first call starts an
interpreter that imports nottwice (interpreter.py); it forks a child for every program. A child is a
real process: its pid, exit code, signals, locks and files are its own. One interpreter serves one
test process and ends with it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self

INTERPRETER = Path(__file__).with_name("interpreter.py")
START_SECONDS = 60.0
# Settings of an interpreter that a child can take over after its fork.
KNOWN_SETTINGS = {"PYTHONPATH", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}


def run(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    timeout: float = 60.0,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end, with its output captured as text."""
    with contextlib.ExitStack() as files:
        stdin, stdout, stderr = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write((input or "").encode())
        stdin.seek(0)
        program = start(command, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr)
        with program:
            returncode = program.wait(timeout)
        said, complained = (_text_of(file) for file in (stdout, stderr))
    done = subprocess.CompletedProcess(list(command), returncode, said, complained)
    if check:
        done.check_returncode()
    return done


def start(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: IO[bytes] | int = 0,
    stdout: IO[bytes] | int = 1,
    stderr: IO[bytes] | int = 2,
) -> Program:
    """Start a Python program and do not wait for it. Its files are ours unless others are named."""
    environment = dict(os.environ if env is None else env)
    assert can_be_forked(command, environment), f"only a new interpreter can run {command}"
    order = {
        "words": list(command[1:]),
        "options": _options_of(command),
        "cwd": os.path.abspath(cwd or os.getcwd()),
        "env": environment,
    }
    files = [one if isinstance(one, int) else one.fileno() for one in (stdin, stdout, stderr)]
    return Program(command, _interpreter().start(order, files))


class Program:
    """A program that was started, as seen from the test: what `subprocess.Popen` is to others."""

    def __init__(self, command: Sequence[str], connection: socket.socket) -> None:
        self.command = list(command)
        self._connection = connection
        self._answers = connection.makefile("r", encoding="utf-8")
        self.pid: int = json.loads(self._answers.readline())["pid"]
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended, if it has."""
        if self.returncode is None and self._has_ended(0):
            return self.wait()
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        """Wait until it has ended."""
        if self.returncode is None:
            if not self._has_ended(timeout):
                self.kill()
                raise subprocess.TimeoutExpired(self.command, timeout)
            self.returncode = int(json.loads(self._answers.readline())["exit"])
        return self.returncode

    def _has_ended(self, timeout: float) -> bool:
        # Not select(), which cannot wait for a descriptor over 1,023.
        waiting = select.poll()
        waiting.register(self._connection, select.POLLIN)
        return bool(waiting.poll(timeout * 1000))

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        # After its end the pid may be another process's.
        if self.poll() is None:
            os.kill(self.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """It does not outlive its block."""
        self.kill()
        self.wait()
        self._answers.close()
        self._connection.close()


def can_be_forked(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether `run` can do it: no options of the interpreter are asked for."""
    # PYTHON itself is none: `make test PYTHON=...` puts it there.
    settings = {name for name in environment if name.startswith("PYTHON") and name != "PYTHON"}
    return bool(_options_of(command)) and settings <= KNOWN_SETTINGS


def _options_of(command: Sequence[str]) -> int:
    """How many words say what Python runs; none: only a new interpreter can run it."""
    match list(command):
        case [sys.executable, "-c" | "-m", _, *_]:
            return 2
        case [sys.executable, file, *_] if not file.startswith("-"):
            return 1
    return 0


def _text_of(file: IO[bytes]) -> str:
    # A child may share its place in the file with a process that lives on.
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode()


@functools.cache
def _interpreter() -> _Interpreter:
    return _Interpreter()


class _Interpreter:
    """The process that programs are forked from."""

    def __init__(self) -> None:
        # Not in pytest's own folder: the path of a socket must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="nottwice-"))
        atexit.register(self._end)
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-X", "utf8", str(INTERPRETER), str(self._folder / "socket")],
            env=inherited,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        with self._process.stdout as ready:
            assert ready.readline() == b"ready\n", "the interpreter did not start"

    def start(self, order: Mapping[str, object], files: Sequence[int]) -> socket.socket:
        """Have a program started. The connection says its pid, and when it has ended, how."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(START_SECONDS)
        connection.connect(str(self._folder / "socket"))
        line = json.dumps(order).encode() + b"\n"
        sent = socket.send_fds(connection, [line], list(files))
        if rest := line[sent:]:
            # Not without a rest: the program may have ended, and sending nothing would fail.
            connection.sendall(rest)
        return connection

    def _end(self) -> None:
        with contextlib.suppress(AttributeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(timeout=START_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)
