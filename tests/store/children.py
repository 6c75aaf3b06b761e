"""How does a test talk to a process that it started, stop it, kill it, and notice its end?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tests.store.abilities import ROOT


class Child:
    """A process that says JSON lines and can be told lines. Gone at the end of its block."""

    def __init__(self, command: Sequence[str], **environment: str) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def hear(self) -> dict[str, Any]:
        """The next thing it says; empty when it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        facts: dict[str, Any] = json.loads(line) if line else {}
        return facts

    def hear_all(self) -> list[dict[str, Any]]:
        """Everything it still says."""
        assert self._process.stdout is not None
        # A line that a SIGKILL cut in two was not said.
        lines = [line for line in self._process.stdout if line.endswith("\n")]
        return [json.loads(line) for line in lines]

    def tell(self, line: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def ask(self, line: str) -> dict[str, Any]:
        self.tell(line)
        return self.hear()

    def stop(self) -> None:
        """SIGSTOP, and return when it has come to a stop."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def kill_unreaped(self) -> None:
        """SIGKILL, and return when it is dead but still in the process table."""
        self.signal(signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self) -> tuple[int, str]:
        """Close its input, wait for its end: its exit code and its complaints."""
        _, complaints = self._process.communicate(timeout=60)
        return self._process.returncode, complaints

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.returncode is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                stream.close()
