"""How does a test know what really happened outside the process it killed?

``World`` is an upstream in a process of its own: it survives the death of the agent under test,
applies effects, loses responses, applies late, and writes down every effect in an append-only log
before it answers. ``WorldClient`` talks to it from any process that knows its address. The client
never retries: one call is one request, so what the log counts is what the agent did.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from nottwice.errors import NottwiceError
from nottwice.testing.loopback import LoopbackServer, start_server

SERVER = "nottwice.testing.world_server"
Entry = TypeVar("Entry", "Effect", "WorldVerification")


@dataclass(frozen=True)
class Effect:
    """Something that happened in the world. ``seq`` 0 is an effect that a script invented."""

    seq: int
    tool: str
    args: dict[str, Any]
    key: str | None
    call_id: str | None
    at: float
    result: Any


@dataclass(frozen=True)
class WorldVerification:
    """A question whether an effect had happened, and its answer."""

    seq: int
    tool: str
    args: dict[str, Any]
    key: str | None
    call_id: str | None
    at: float
    answer: str | int
    scripted: bool


class WorldNotStarted(NottwiceError):
    """The world's process did not start. No effect was applied."""

    stderr: str = ""


class WorldRefused(Exception):
    """The world answered with an error status, as a real upstream would.

    It represents a third-party error, so it is not a ``NottwiceError``: code under test has to
    classify it like any other exception of a client library.
    """

    def __init__(self, status: int, text: str, retry_after: float | None = None) -> None:
        # All three go to the base class, so that the exception can travel between processes.
        super().__init__(status, text, retry_after)
        self.status = status
        self.text = text
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"The world answered {self.status}: {self.text}"


class World(LoopbackServer):
    """An upstream in a process of its own, so that it survives the agent's death and can count.

    It ends with ``stop``, with its ``with`` block, or with the process that started it. Its logs
    stay readable afterwards; without a folder of your own they live as long as this object.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], port: int, folder: Path, *, temporary: bool
    ) -> None:
        super().__init__(process, port, folder if temporary else None)
        self.folder = folder
        self.log_path = folder / "effects.jsonl"

    @classmethod
    def start(cls, folder: str | Path | None = None, *, hold_limit_seconds: float = 60.0) -> World:
        """Start a world and wait until it listens; a folder with a log is carried on.

        A request that is held longer than ``hold_limit_seconds`` is answered with status 504.
        """
        temporary = folder is None
        place = Path(tempfile.mkdtemp(prefix="nottwice-world-") if folder is None else folder)
        place = place.absolute()
        try:
            place.mkdir(parents=True, exist_ok=True)
            process, port = _launch(place, hold_limit_seconds)
        except (OSError, WorldNotStarted) as error:
            if temporary:
                shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, WorldNotStarted):
                raise
            raise WorldNotStarted(f"The world could not be started: {error}.") from error
        return cls(process, port, place, temporary=temporary)

    @property
    def pid(self) -> int:
        """The process id of the world."""
        return self._process.pid

    def client(self, *, timeout_seconds: float = 65.0) -> WorldClient:
        """Return a client. Another process creates its own with ``WorldClient(url)``."""
        return WorldClient(self.url, timeout_seconds=timeout_seconds)

    def effects(self, tool: str | None = None) -> list[Effect]:
        """Return every effect so far, in order, from the log. The world need not be alive."""
        return _read_journal(self.log_path, Effect, tool)

    def count(self, tool: str | None = None) -> int:
        """Return how many effects the log contains."""
        return len(self.effects(tool))

    def duplicates(self, tool: str | None = None) -> list[list[Effect]]:
        """Return groups of effects with equal tool and arguments, which must not happen."""
        groups: dict[Any, list[Effect]] = {}
        for effect in self.effects(tool):
            groups.setdefault((effect.tool, _identity(effect.args)), []).append(effect)
        return [group for group in groups.values() if len(group) > 1]

    def verifications(self, tool: str | None = None) -> list[WorldVerification]:
        """Return every question asked through ``find``, in order, with its answer."""
        return _read_journal(self.folder / "verifications.jsonl", WorldVerification, tool)

    def wait_until_count(
        self, count: int, tool: str | None = None, *, timeout_seconds: float = 60.0
    ) -> None:
        """Wait until the log contains this many effects, for effects that are applied later."""
        give_up_at = time.monotonic() + timeout_seconds
        while (seen := self.count(tool)) < count:
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{seen} of {count} effects after {timeout_seconds:g} s.")
            time.sleep(0.005)

    def stop(self) -> None:
        """End the world; effects still to be applied later never happen.

        In a forked child of the starter this does nothing.
        """
        super().stop()


class WorldClient:
    """One request per call, one connection per request, no proxy, and never a retry.

    A dropped connection is a ``ConnectionError``, an error status a ``WorldRefused``, and silence
    a ``TimeoutError``.
    """

    def __init__(self, url: str, *, timeout_seconds: float = 65.0) -> None:
        self.url = url
        self.timeout_seconds = timeout_seconds

    def do(
        self,
        tool: str,
        /,
        *,
        key: str | None = None,
        call_id: str | None = None,
        result: Any = None,
        lose_response: bool = False,
        apply_after: float = 0.0,
        delay_before: float = 0.0,
        delay_after: float = 0.0,
        fail_with: int | None = None,
        retry_after: float | None = None,
        hold: str | None = None,
        hold_before: str | None = None,
        **args: Any,
    ) -> Any:
        """Request one effect and return its result. The other parameters are faults around it.

        A ``key`` that this tool has seen returns the first result and adds no effect. With other
        arguments it is refused with 409. In the order in which a request meets them:
        ``delay_before`` and ``hold_before`` (a gate, see ``release``) come before the effect.
        ``fail_with`` answers that status instead of it. ``apply_after`` answers 202 immediately
        and applies it that many seconds later. ``delay_after`` and ``hold`` come between effect and
        response. ``lose_response`` closes the connection without one. The world carries out
        whatever it has received, even if the client is dead by then.
        """
        order = {
            "tool": tool,
            "args": args,
            "key": key,
            "call_id": call_id,
            "result": result,
            "lose_response": lose_response,
            "apply_after": apply_after,
            "delay_before": delay_before,
            "delay_after": delay_after,
            "fail_with": fail_with,
            "retry_after": retry_after,
            "hold": hold,
            "hold_before": hold_before,
        }
        return self._request("POST", "/do", body=order)["result"]

    def find(
        self, tool: str, /, *, call_id: str | None = None, key: str | None = None, **args: Any
    ) -> Effect | None:
        """Return the first effect that matches everything given, or None: the verify endpoint."""
        query = {"tool": tool, "args": json.dumps(args, allow_nan=False)}
        if call_id is not None:
            query["call_id"] = call_id
        if key is not None:
            query["key"] = key
        effect = self._request("GET", "/find", query=query)["effect"]
        return None if effect is None else Effect(**effect)

    def script_verify(self, tool: str, *, answers: Sequence[str | int]) -> None:
        """Define what the next ``find`` calls for this tool return, true or not.

        Each answer is used once: ``"found"``, ``"not found"``, ``"lost"`` (a dropped connection) or
        an error status such as 503. After the last one, the world answers truthfully again.
        """
        script = {"tool": tool, "answers": list(answers)}
        self._request("POST", "/script_verify", body=script)

    def wait_until_held(self, name: str, *, count: int = 1, timeout_seconds: float = 30.0) -> None:
        """Return as soon as ``count`` requests wait at the gate ``name``."""
        query = {"name": name, "count": str(count), "timeout": str(timeout_seconds)}
        try:
            self._request("GET", "/held", query=query, timeout_seconds=timeout_seconds + 5)
        except WorldRefused as refused:
            if refused.status == 408:
                raise TimeoutError(refused.text) from None
            raise

    def release(self, name: str) -> None:
        """Let every request at this gate continue, now and in the future."""
        self._request("POST", "/release", query={"name": name})

    def stats(self) -> dict[str, Any]:
        """Return counters since the world's start, and what is pending or held now."""
        statistics: dict[str, Any] = self._request("GET", "/stats")
        return statistics

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        timeout_seconds: float | None = None,
    ) -> Any:
        payload = None if body is None else json.dumps(body, allow_nan=False).encode()
        target = f"{path}?{urlencode(query)}" if query else path
        # This class uses no proxies and follows no redirects, unlike urllib.request.
        connection = HTTPConnection(
            urlsplit(self.url).netloc, timeout=timeout_seconds or self.timeout_seconds
        )
        try:
            connection.request(method, target, payload, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
        except ConnectionError:
            raise
        except HTTPException as error:
            raise ConnectionResetError(f"The response broke off: {error!r}.") from error
        finally:
            connection.close()
        answer = json.loads(text)
        if response.status >= 400:
            retry_after = response.getheader("Retry-After")
            raise WorldRefused(
                response.status,
                answer["error"],
                None if retry_after is None else float(retry_after),
            )
        return answer


def _launch(folder: Path, hold_limit_seconds: float) -> tuple[subprocess.Popen[bytes], int]:
    complaints = folder / "world-errors.txt"
    with complaints.open("wb") as errors:
        started = start_server(SERVER, str(folder), str(hold_limit_seconds), stderr=errors)
    if started is None:
        stderr = complaints.read_text(errors="replace").strip()
        raise WorldNotStarted(
            "The world's process did not come up, and was ended. No effect was applied. "
            f"Fix what it complained about: {stderr or 'nothing at all'}",
            stderr=stderr,
        )
    return started


def _read_journal(path: Path, kind: type[Entry], tool: str | None) -> list[Entry]:
    # A reader may catch an append half-way, so ignore what does not end in a newline.
    lines = path.read_bytes().split(b"\n")[:-1]
    entries = [kind(**json.loads(line)) for line in lines]
    return [entry for entry in entries if tool is None or entry.tool == tool]


def _identity(value: Any) -> Any:
    """Make plain data hashable so that key order and 10 against 10.0 make no difference."""
    match value:
        case dict():
            return dict, frozenset((name, _identity(part)) for name, part in value.items())
        case list():
            return list, tuple(_identity(part) for part in value)
        case _:
            return isinstance(value, bool), value
