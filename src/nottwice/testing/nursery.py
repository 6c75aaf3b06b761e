"""How are many short-lived processes started without paying for their imports each time?

A nursery is a Python process that has imported everything once. For every errand it forks a child,
waits until it ends, and reports how it ended. The child is a real process with a real pid, so a
SIGKILL to it is a real SIGKILL. Nursery and child form their own process group, so that one signal
ends both. A nursery whose owner dies ends itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import NoReturn

from nottwice.errors import NottwiceError
from nottwice.model.data.records import frozen_record


class NurseryFailed(NottwiceError):
    """A nursery could not report how its child ended."""


@frozen_record(frozen=True, slots=True)
class Ended:
    """A child that has ended. A negative ``returncode`` is the signal that killed it."""

    pid: int
    returncode: int
    output: str
    complaints: str


class Nursery:
    """The owner's side: it runs one errand at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        """``command`` starts a process that calls :func:`serve`."""
        # Open as long as the nursery lives.
        self._complaints = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            # Only the owner receives Ctrl-C. It then stops its nurseries.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id of the nursery, and the id of the group it forms with its child."""
        return self._process.pid

    def run(self, errand: str, *, limit_seconds: float) -> Ended:
        """Run one child and return how it ended. ``errand`` is one line of text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(errand + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._failed("has ended") from error
        answered, _, _ = select.select([self._process.stdout], [], [], limit_seconds)
        if not answered:
            self.stop()
            raise self._failed(f"gave no answer within {limit_seconds:g} s and was ended")
        answer = self._process.stdout.readline()
        if not answer:
            raise self._failed("has ended")
        return Ended(**json.loads(answer))

    def stop(self) -> None:
        """End the nursery and its child, if it has one. Harmless if they have ended."""
        # Until it is waited for, its pid cannot be reused.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop it and release its resources."""
        self.stop()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._complaints.close()

    def _failed(self, how: str) -> NurseryFailed:
        self._complaints.seek(0)
        said = self._complaints.read().strip() or "nothing"
        return NurseryFailed(
            f"Process {self._process.pid}, which starts the agents, {how}. Its output: {said}"
        )


def serve(run: Callable[[str], int]) -> None:
    """The nursery's side: fork a child for every line of standard input, one at a time.

    ``run`` performs an errand in the child and returns its exit code.
    """
    for line in sys.stdin:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
            pid = os.fork()
            if pid == 0:
                _live(run, line, output.fileno(), complaints.fileno())
            _, status = os.waitpid(pid, 0)
            ended = Ended(
                pid,
                os.waitstatus_to_exitcode(status),
                _text_of(output.fileno()),
                _text_of(complaints.fileno()),
            )
        print(json.dumps(asdict(ended)), flush=True)


def _live(run: Callable[[str], int], errand: str, output: int, complaints: int) -> NoReturn:
    """The child's whole life. It must never return into the nursery's loop."""
    returncode = 1
    try:
        os.dup2(output, 1)
        os.dup2(complaints, 2)
        returncode = run(errand)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(returncode)


def _text_of(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode(errors="replace")
