"""How does a trial call a tool from another process, wait for it, and kill it in mid-call?

A caller is a separate process that makes single attempts. No ledger remembers them and nothing is
retried, so the upstream counts exactly what it was sent. It reports when it is about to enter the
tool, and how the call ended. In between, it can be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.session import current_attempt, current_scope
from nottwice.errors import NottwiceError, UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.data.records import frozen_record

START_SECONDS = 60.0
LAST_WORDS_SECONDS = 1.0
MOST_CHARACTERS = 300


class CallerFailed(NottwiceError):
    """A process that should call the tool did not start, or did not answer."""


@frozen_record(frozen=True, slots=True)
class TrialOrder:
    """One attempt to make."""

    run_id: str
    arguments: dict[str, Any]
    key: str


@frozen_record(frozen=True, slots=True)
class TrialReport:
    """How an attempt ended."""

    returned: str | None = None
    raised: str | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.raised is not None:
            return f"raised {self.raised}"
        return f"returned {self.returned}"


def key_of(tool: Any, run_id: str, arguments: dict[str, Any]) -> str:
    """Return the key that a call would have. Nothing is called."""
    with Ledger(":memory:") as ledger, ledger.run(run_id):
        key = tool.requests.make((), arguments).key
    if not isinstance(key, str):
        raise UsageError(f"Tool {tool.tool.name!r} has no key. Nothing was called.")
    return key


# In the other process


def serve(tool: Any, *, orders: IO[str], answers: IO[str]) -> None:
    """Make attempts as they are requested, one per line, until the input ends."""

    def say(**words: Any) -> None:
        answers.write(json.dumps(words) + "\n")
        answers.flush()

    say(ready=os.getpid())
    for line in orders:
        order = TrialOrder(**json.loads(line))
        try:
            value = _attempt(tool, order, lambda: say(calling=True))
        except Exception as error:
            say(raised=f"{type(error).__name__}: {error}"[:MOST_CHARACTERS])
        else:
            say(returned=repr(value)[:MOST_CHARACTERS])


def _attempt(tool: Any, order: TrialOrder, begin: Callable[[], None]) -> Any:
    """Enter the tool once, in its own run, as the current call with the key of the order."""
    with Ledger(":memory:") as ledger, ledger.run(order.run_id):
        request = tool.requests.make((), order.arguments)
        scope, now = current_scope.get(), ledger.clock.now()
        assert scope is not None
        row = CallRow(
            identity=request.identity,
            call_id=request.identity.call_id,
            status=CallStatus.PENDING,
            replay_class=tool.tool.replay_class,
            attempt=1,
            attempt_id=scope.session.new_attempt_id(),
            holder_id=scope.session.holder.holder_id,
            args_json=request.args_json,
            created_at=now,
            started_at=now,
            key=order.key,
        )
        token = current_attempt.set(InFlight(request.identity, None, row))
        try:
            begin()
            value = tool.tool.function(*request.args, **request.kwargs)
            return asyncio.run(_awaited(value)) if tool.tool.is_async else value
        finally:
            current_attempt.reset(token)


async def _awaited(value: Any) -> Any:
    return await value


# In the process of the trial


class Caller:
    """A process that calls the tool on request."""

    def __init__(self, command: Sequence[str], *, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Killing it must not affect processes that share its terminal, and vice versa.
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self._hear("ready", START_SECONDS)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def call(self, order: TrialOrder) -> TrialReport:
        """Make one attempt and wait for its end."""
        self.begin(order)
        return self.end()

    def begin(self, order: TrialOrder) -> None:
        """Start one attempt. Return when the tool is about to be entered."""
        self.send(order)
        self.entered()

    def send(self, order: TrialOrder) -> None:
        """Request an attempt, without waiting for anything."""
        assert self._process.stdin is not None
        words = {"run_id": order.run_id, "arguments": order.arguments, "key": order.key}
        try:
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise CallerFailed("The process that calls the tool has ended.") from None

    def entered(self) -> None:
        """Wait until the tool is about to be entered."""
        told = self._hear("calling", self._limit_seconds)
        self._began = time.monotonic()
        if "calling" not in told:
            raise CallerFailed(f"The tool could not be called: {told.get('raised')}.")

    def end(self) -> TrialReport:
        """Wait for the end of the attempt."""
        told = self._hear("returned", self._limit_seconds)
        seconds = time.monotonic() - self._began
        return TrialReport(told.get("returned"), told.get("raised"), seconds)

    def kill(self) -> TrialReport | None:
        """Kill it with SIGKILL. Return its result if it had already finished."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        while (told := self._lines.get(timeout=START_SECONDS)) is not None:
            if "returned" in told or "raised" in told:
                return TrialReport(told.get("returned"), told.get("raised"))
        return None

    def close(self) -> None:
        """End it, whatever it is doing."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._lines.put(json.loads(line))
        except ValueError:
            # It was closed, or it printed something that is not ours.
            pass
        self._lines.put(None)

    def _hear(self, what: str, limit_seconds: float) -> dict[str, Any]:
        try:
            told = self._lines.get(timeout=limit_seconds)
        except queue.Empty:
            self.close()
            raise CallerFailed(
                f"The process that calls the tool said nothing for {limit_seconds:g} s, while "
                f"{what!r} was expected. It was killed, but what it sent may still arrive."
            ) from None
        if told is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LAST_WORDS_SECONDS)
            code = self._process.returncode
            ended = "sent no valid answer" if code is None else f"ended with exit code {code}"
            self.close()
            raise CallerFailed(
                f"The process that calls the tool {ended}, while {what!r} was expected. Its "
                "output is above."
            )
        return told


def take_over_streams() -> tuple[IO[str], IO[str]]:
    """Take over our input and output, and redirect to stderr whatever other code prints."""
    orders = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = sys.stderr
    return orders, answers
