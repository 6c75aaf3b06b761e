"""How does the suite get a holder that is not this process, and how does that one die?

A store that is durable is opened by a real child process, which a real SIGKILL ends. A store in
memory has no other processes: a second store on the same data stands for one, and closing it for
its death.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from nottwice.errors import NottwiceError
from nottwice.store.interface import Store
from nottwice.testing.conformance.samples import claim, note


class OtherFailed(NottwiceError):
    """The other holder did not do what it was told."""


class Other(Protocol):
    """A holder that is not this process."""

    holder_id: str

    def claim(self, run: str) -> None:
        """Claim a run that is new."""

    def note(self, number: int, run: str) -> None:
        """Commit a note, and return when it is durable."""

    def kill(self) -> None:
        """Die without a word, and return when it is dead."""

    def end(self) -> None:
        """Be gone, if it is not; harmless to repeat."""


class OtherStore:
    """Another store on the same data: what stands for a process where there is only one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.holder_id = store.holder().holder_id

    def claim(self, run: str) -> None:
        claim(self._store, run)

    def note(self, number: int, run: str) -> None:
        self._store.commit(note(number, run))

    def kill(self) -> None:
        self._store.close()

    def end(self) -> None:
        self._store.close()


class OtherProcess:
    """A child process that opens the store as the author's class says.

    The class is found again by the file that defines it, so it must stand at the top of a module.
    """

    def __init__(self, author: type[Any], place: Path) -> None:
        file = _file_of(author)
        if file is None or "." in author.__qualname__:
            raise OtherFailed(
                f"{author.__qualname__} cannot be found by another process. Nothing was tested. "
                "Define it at the top of a module, or define start_other."
            )
        words = ["-m", "nottwice.testing.conformance.child", file, author.__name__, str(place)]
        self._process = subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.holder_id = self._hear()["holder_id"]

    def claim(self, run: str) -> None:
        self._ask(do="claim", run=run)

    def note(self, number: int, run: str) -> None:
        self._ask(do="note", number=number, run=run)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGSTOP, and return when it has come to a stop."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def end(self) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def _ask(self, **errand: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(errand) + "\n")
        self._process.stdin.flush()
        self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OtherFailed("The other process ended unexpectedly; what it said is on stderr.")
        heard: dict[str, Any] = json.loads(line)
        return heard


def _file_of(author: type[Any]) -> str | None:
    try:
        return inspect.getsourcefile(author)
    except TypeError:
        # It was typed into an interpreter, or made by other code.
        return None
