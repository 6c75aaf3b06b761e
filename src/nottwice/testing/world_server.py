"""What happens to a request that reaches the World?

This file is the World's own process, started by ``loopback.py``. Besides ``loopback_server.py`` it
imports the standard library only: importing the package would triple its start-up time, and an
upstream must not share code with what it judges.

It keeps two promises. An effect is one line of ``effects.jsonl``, written by a single append before
any answer leaves, so the file is the truth whichever process dies. And the process never outlives
its starter.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qs, urlsplit

from nottwice.testing.loopback_server import LoopbackHTTPServer

# A predecessor on the same folder may still be on its way out when its successor starts.
PREDECESSOR_SECONDS = 1.0


def main(starter_pid: str, folder: str, hold_limit_seconds: str) -> None:
    """Serve on a free loopback port, and say which on standard output."""
    WorldServer(Upstream(Path(folder), float(hold_limit_seconds)), int(starter_pid)).serve()


class WorldRefusal(Exception):
    """The request is answered with an error status. It had no effect, unless the text says so."""

    def __init__(self, status: int, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_after = retry_after


class LostResponse(Exception):
    """The request was handled, but its connection is closed without an answer."""


class WorldOrder(NamedTuple):
    """One ``POST /do``: an effect, and the faults to wrap around it."""

    # A tuple, because importing dataclasses would be an eighth of the start-up time.
    tool: str
    args: dict[str, Any]
    key: str | None = None
    call_id: str | None = None
    result: Any = None
    lose_response: bool = False
    apply_after: float = 0.0
    delay_before: float = 0.0
    delay_after: float = 0.0
    fail_with: int | None = None
    retry_after: float | None = None
    hold: str | None = None
    hold_before: str | None = None


class Journal:
    """An append-only file of JSON lines, with a single writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._become_the_only_writer()
        # A world that starts on the log of an earlier one continues it: same keys, next number.
        content = path.read_bytes()
        if content and not content.endswith(b"\n"):
            raise SystemExit(f"{path} ends in the middle of a line. Start in another folder.")
        self.entries: list[dict[str, Any]] = [json.loads(line) for line in content.splitlines()]

    def append(self, entry: dict[str, Any]) -> None:
        """Number the entry and write it by a single append.

        Durable: against the death of any process, once this returns. A power loss is not survived.
        """
        numbered = {"seq": len(self.entries) + 1, "at": time.time(), **entry}
        line = json.dumps(numbered).encode() + b"\n"
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            self._give_up(str(error))
        if written != len(line):
            self._give_up(f"{written} of {len(line)} bytes fitted")
        self.entries.append(numbered)

    def _become_the_only_writer(self) -> None:
        give_up_at = time.monotonic() + PREDECESSOR_SECONDS
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > give_up_at:
                    raise SystemExit(
                        f"Another world is writing {self._path}. Stop it, or use another folder."
                    ) from None
                time.sleep(0.02)

    def _give_up(self, reason: str) -> NoReturn:
        # A world that cannot count must not answer. The client sees a dropped connection.
        os.write(2, f"{self._path} could not be written: {reason}. The world ends.\n".encode())
        os._exit(1)


class Gates:
    """Named places where requests wait until a test lets them go.

    A released gate stays open: the process that resumes the work passes where its predecessor was
    held and killed.
    """

    def __init__(self, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self._changed = threading.Condition()
        self._held: Counter[str] = Counter()
        self._released: set[str] = set()

    def hold(self, name: str, *, outcome: str) -> None:
        """Wait at the gate. If it is not opened in time, that is an error, not a way through."""
        with self._changed:
            self._held[name] += 1
            self._changed.notify_all()
            try:
                released = self._changed.wait_for(
                    lambda: name in self._released, self._limit_seconds
                )
            finally:
                self._held[name] -= 1
        if not released:
            raise WorldRefusal(
                504,
                f"Held at {name!r} for {self._limit_seconds:g} s and never released. {outcome} "
                f"Call release({name!r}).",
            )

    def wait_until_held(self, name: str, count: int, timeout_seconds: float) -> None:
        """Wait until ``count`` requests are waiting at the gate."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._held[name] >= count or name in self._released, timeout_seconds
            )
            held, released = self._held[name], name in self._released
        if released:
            raise WorldRefusal(
                409, f"{name!r} was released: nothing is held there. Use a new name."
            )
        if held < count:
            raise WorldRefusal(408, f"{held} of {count} requests were held at {name!r} in time.")

    def release(self, name: str) -> None:
        """Open the gate permanently."""
        with self._changed:
            self._released.add(name)
            self._changed.notify_all()

    def held(self) -> dict[str, int]:
        """Return how many requests wait at each gate."""
        with self._changed:
            return {name: count for name, count in self._held.items() if count}


class Upstream:
    """What the world remembers: effects, keys, verifications and scripted lies."""

    def __init__(self, folder: Path, hold_limit_seconds: float) -> None:
        self.gates = Gates(hold_limit_seconds)
        self._lock = threading.Lock()
        self._effects = Journal(folder / "effects.jsonl")
        self._verifications = Journal(folder / "verifications.jsonl")
        self._scripts: dict[str, list[str | int]] = {}
        self._counters: Counter[str] = Counter()
        self._pending: list[dict[str, Any]] = []
        # Each tool is a separate upstream: equal keys of two tools do not meet.
        self._keyed: dict[tuple[str, str], dict[str, Any]] = {
            (entry["tool"], entry["key"]): entry
            for entry in self._effects.entries
            if entry["key"] is not None
        }

    def do(self, order: WorldOrder) -> tuple[int, Any]:
        """Carry out the order with its faults, in the order in which a real one meets them."""
        self._add("requests")
        time.sleep(order.delay_before)
        if order.hold_before is not None:
            self.gates.hold(order.hold_before, outcome="Nothing was applied.")
        if order.fail_with is not None:
            self._add("refused")
            raise WorldRefusal(order.fail_with, "Nothing was applied.", order.retry_after)
        status, result = self._apply(order)
        time.sleep(order.delay_after)
        if order.hold is not None:
            outcome = "It was applied." if status == 200 else "It will be applied later."
            self.gates.hold(order.hold, outcome=outcome)
        if order.lose_response:
            self._add("lost_responses")
            raise LostResponse
        return status, {"result": result}

    def find(
        self, tool: str, *, call_id: str | None, key: str | None, args: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Look for an effect, or answer as scripted. The question is recorded first."""
        asked = {"tool": tool, "call_id": call_id, "key": key, "args": args}
        with self._lock:
            effect = next((e for e in self._effects.entries if _matches(e, asked)), None)
            script = self._scripts.get(tool)
            answer: str | int = "found" if effect else "not found"
            scripted = bool(script)
            if script:
                answer = script.pop(0)
            self._verifications.append({**asked, "answer": answer, "scripted": scripted})
        if isinstance(answer, int):
            raise WorldRefusal(answer, "The verification failed, as scripted.")
        if answer == "lost":
            raise LostResponse
        if answer == "found":
            return effect or {**asked, "seq": 0, "at": time.time(), "result": None}
        return None

    def script_verify(self, tool: str, answers: list[Any]) -> None:
        """Define the answers to the next verifications of this tool."""
        for answer in answers:
            if answer not in ("found", "not found", "lost") and not _is_error_status(answer):
                raise WorldRefusal(
                    400,
                    f"{answer!r} is not an answer. Nothing was scripted. "
                    "Use 'found', 'not found', 'lost' or an error status.",
                )
        with self._lock:
            self._scripts[tool] = list(answers)

    def stats(self) -> dict[str, Any]:
        """Return what the logs do not contain: how often it was asked, and what is pending."""
        with self._lock:
            names = ("requests", "answered_from_key", "refused", "lost_responses")
            return {
                **{name: self._counters[name] for name in names},
                "effects": len(self._effects.entries),
                "verifications": len(self._verifications.entries),
                "pending": len(self._pending),
                "held": self.gates.held(),
            }

    def _apply(self, order: WorldOrder) -> tuple[int, Any]:
        """Log the effect now or later, unless its key has been used already."""
        effect = {
            "tool": order.tool,
            "args": order.args,
            "key": order.key,
            "call_id": order.call_id,
            "result": order.result,
        }
        with self._lock:
            if order.key is not None:
                first = self._keyed.setdefault((order.tool, order.key), effect)
                if first is not effect:
                    return self._answer_from_key(first, order)
            if not order.apply_after:
                self._effects.append(effect)
                return 200, order.result
            self._pending.append(effect)
        timer = threading.Timer(order.apply_after, self._apply_pending, [effect])
        timer.daemon = True
        timer.start()
        return 202, order.result

    def _answer_from_key(self, first: dict[str, Any], order: WorldOrder) -> tuple[int, Any]:
        if first["args"] != order.args:
            self._counters["refused"] += 1
            raise WorldRefusal(
                409,
                f"The key {order.key!r} of {order.tool} belongs to other arguments. "
                "Nothing was applied.",
            )
        self._counters["answered_from_key"] += 1
        still_pending = any(first is effect for effect in self._pending)
        return 202 if still_pending else 200, first["result"]

    def _apply_pending(self, effect: dict[str, Any]) -> None:
        with self._lock:
            self._effects.append(effect)
            self._pending = [other for other in self._pending if other is not effect]

    def _add(self, counter: str) -> None:
        with self._lock:
            self._counters[counter] += 1


def _is_error_status(value: object) -> bool:
    return isinstance(value, int) and 400 <= value <= 599


def _matches(effect: dict[str, Any], asked: dict[str, Any]) -> bool:
    named = all(
        asked[name] is None or effect[name] == asked[name] for name in ("tool", "call_id", "key")
    )
    args = effect["args"]
    return named and all(
        name in args and args[name] == value for name, value in asked["args"].items()
    )


class WorldServer(LoopbackHTTPServer):
    """Serves one upstream."""

    def __init__(self, upstream: Upstream, starter_pid: int) -> None:
        self.upstream = upstream
        super().__init__(WorldHandler, starter_pid)


class WorldHandler(BaseHTTPRequestHandler):
    """Translates HTTP to the upstream and back. One connection carries one request."""

    server: WorldServer
    # Headers and body are sent in two parts, and neither waits for the other.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer ``/do``, ``/release`` and ``/script_verify``."""
        # An incomplete request, from a client that died while sending, is not JSON and is refused.
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def do_GET(self) -> None:
        """Answer ``/find``, ``/held`` and ``/stats``."""
        self._answer(b"")

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: the logs are the journals."""

    def _answer(self, body: bytes) -> None:
        try:
            status, payload = self._route(body)
            retry_after = None
        except WorldRefusal as refusal:
            status, payload = refusal.status, {"error": refusal.text}
            retry_after = refusal.retry_after
        except LostResponse:
            return
        text = json.dumps(payload).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if retry_after is not None:
                self.send_header("Retry-After", f"{retry_after:g}")
            self.end_headers()
            self.wfile.write(text)
        except ConnectionError:
            self.close_connection = True  # The client is dead, which the world is there to survive.

    def _route(self, body: bytes) -> tuple[int, Any]:
        address = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(address.query, True).items()}
        upstream = self.server.upstream
        match (self.command, address.path):
            case ("POST", "/do"):
                return upstream.do(_read_order(body))
            case ("POST", "/release"):
                upstream.gates.release(_required(query, "name"))
                return 200, {}
            case ("POST", "/script_verify"):
                script = _read_object(body)
                upstream.script_verify(_required(script, "tool"), _required(script, "answers"))
                return 200, {}
            case ("GET", "/held"):
                count, timeout = query.get("count", "1"), query.get("timeout", "30")
                upstream.gates.wait_until_held(_required(query, "name"), int(count), float(timeout))
                return 200, {}
            case ("GET", "/find"):
                effect = upstream.find(
                    _required(query, "tool"),
                    call_id=query.get("call_id"),
                    key=query.get("key"),
                    args=_read_object(query.get("args", "{}").encode()),
                )
                return 200, {"effect": effect}
            case ("GET", "/stats"):
                return 200, upstream.stats()
        raise WorldRefusal(404, f"There is no {self.command} {address.path}. Nothing was applied.")


def _read_order(body: bytes) -> WorldOrder:
    values = _read_object(body)
    if not {"tool", "args"} <= set(values) <= set(WorldOrder._fields):
        text = f"An order has tool, args and any of {WorldOrder._fields[2:]}. Nothing was applied."
        raise WorldRefusal(400, text)
    order = WorldOrder(**values)
    seconds = (order.apply_after, order.delay_before, order.delay_after, order.retry_after or 0)
    names = (order.key, order.call_id, order.hold, order.hold_before)
    usable = (
        isinstance(order.tool, str)
        and isinstance(order.args, dict)
        and isinstance(order.lose_response, bool)
        and all(isinstance(number, int | float) and number >= 0 for number in seconds)
        and all(name is None or isinstance(name, str) for name in names)
        and (order.fail_with is None or _is_error_status(order.fail_with))
    )
    if not usable:
        raise WorldRefusal(400, f"This order cannot be carried out: {order}. Nothing was applied.")
    return order


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except ValueError as error:
        raise WorldRefusal(400, f"This is not JSON: {error}. Nothing was applied.") from None
    if not isinstance(values, dict):
        raise WorldRefusal(400, "The body must be a JSON object. Nothing was applied.")
    return values


def _required(values: dict[str, Any], name: str) -> Any:
    if name not in values:
        raise WorldRefusal(400, f"{name} is missing. Nothing was applied.")
    return values[name]
