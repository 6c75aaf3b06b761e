"""What happens to a request that reaches the fake model APIs?

This is their own process, started by ``loopback.py``; it imports the standard library and its
neighbours only. It survives the death of the agent under test, counts every request, and never
outlives its starter. A scripted reply belongs to a turn of the conversation, so a process that was
killed and asks once more gets the same words.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler
from types import ModuleType
from typing import Any

from nottwice.testing.loopback_server import LoopbackHTTPServer
from nottwice.testing.models import anthropic_rules, openai_rules
from nottwice.testing.models.wire import Limits, PrefixCache, RejectedRequest, Reply, Tokens, digest

APIS: dict[str, ModuleType] = {
    anthropic_rules.PATH: anthropic_rules,
    openai_rules.PATH: openai_rules,
}
MOST_BYTES = 32 * 1024 * 1024


def main(starter_pid: str) -> None:
    """Serve on a free loopback port, and say which on standard output."""
    ModelServer(int(starter_pid)).serve()


class Models:
    """The script, the faults, the cache, and what was asked."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reset({})

    def reset(self, limits: dict[str, Any]) -> None:
        """Forget everything, and count from zero."""
        self.limits = Limits(**limits)
        self.scripts: dict[str, dict[str, Any]] = {}
        self.faults: list[dict[str, Any]] = []
        self.seen: list[dict[str, Any]] = []
        self.cache = PrefixCache()
        self.thoughts = {path: api.new_thoughts() for path, api in APIS.items()}

    def tell(self, order: dict[str, Any]) -> Any:
        """Carry out what the test says."""
        match order:
            case {"reset": limits}:
                self.reset(limits)
            case {"script": turns, "model": model, "by": by}:
                script = {"turns": turns, "by": by, "given": {}}
                self.scripts[model or ""] = script
            case {"faults": faults, "model": model}:
                self.faults += [{**fault, "model": model} for fault in faults]
            case {"seen": first}:
                return self.seen[first:]
        return {}

    def ask(self, path: str, headers: dict[str, str], content: bytes) -> dict[str, Any]:
        """What one request gets: a status, headers, a body, and how to misbehave."""
        api = APIS[path]
        number = len(self.seen) + 1
        body, rejected = _read(content)
        seen: dict[str, Any] = {
            "number": number,
            "path": path,
            "headers": headers,
            "body": body,
            "model": str(body.get("model")) if isinstance(body, dict) else "",
            "turn": 0,
            "status": 200,
            "rejected": None,
            "tokens": list(Tokens()),
        }
        self.seen.append(seen)
        try:
            if rejected is not None:
                raise rejected
            if self.limits.strict:
                api.check_headers(headers)
                api.check(body, self.limits, self.thoughts[path])
            seen["turn"] = api.turn_of(body)
            answer = self._answered(path, seen)
        except RejectedRequest as refused:
            seen["rejected"] = refused.message
            answer = {"status": refused.status, "body": api.error(refused, number)}
        seen["status"] = answer.get("status", 200)
        return answer

    def _answered(self, path: str, seen: dict[str, Any]) -> dict[str, Any]:
        api, model = APIS[path], seen["model"]
        fault = next((each for each in self.faults if each["model"] in (None, model)), None)
        if fault is None:
            return {"body": self._reply(path, seen)}
        self.faults.remove(fault)
        if fault.get("body") is not None:
            said = fault["body"]
            if isinstance(said, dict):
                # What was said in whatever way may come back in the next question.
                content = said.get("content", said.get("output"))
                known = [each for each in content or () if isinstance(each, dict)]
                self.thoughts[path].keep(seen["body"], known)
            return fault
        if fault.get("drop"):
            return {**fault, "body": {}}
        status = fault.get("status", 200)
        if status == 200:
            return {**fault, "body": self._reply(path, seen)}
        kind = fault.get("kind") or api.KINDS.get(status, "invalid_request_error")
        raised = RejectedRequest(
            fault.get("message") or "it did not work", kind=kind, code=fault.get("code")
        )
        if fault.get("too_long"):
            raised = api.TOO_LONG
        return {**fault, "body": api.error(raised, seen["number"])}

    def _reply(self, path: str, seen: dict[str, Any]) -> dict[str, Any]:
        api, body, number = APIS[path], seen["body"], seen["number"]
        index, turn = self._turn(seen)
        if "body" in turn:
            said: dict[str, Any] = turn["body"]
            self.thoughts[path].keep(body, said.get("content", said.get("output")) or [])
            return said
        reply = Reply(**turn)
        content, stop, output = api.spoken(body, reply, index)
        self.thoughts[path].keep(body, content)
        find = self.cache.marked if api is anthropic_rules else self.cache.automatic
        took = find(api.cache_scope(body), api.prompt(body), self.limits.least_cached_tokens)
        took = took._replace(output=output)
        seen["tokens"] = list(took)
        answered: dict[str, Any] = api.answer(body, reply, content, stop, took, number)
        return answered

    def _turn(self, seen: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The reply that this question gets, and its number in the script."""
        script = self.scripts.get(seen["model"]) or self.scripts.get("")
        turns = [] if script is None else script["turns"]
        index = seen["turn"] - 1
        if script is not None and script["by"] == "order":
            asked = digest(json.dumps(seen["body"], sort_keys=True))
            index = script["given"].setdefault(asked, len(script["given"]))
        if index >= len(turns):
            raise RejectedRequest(
                f"The script of the fake model {seen['model']!r} has {len(turns)} replies, and is "
                f"asked for reply {index + 1}. Write one more: will_say(..., '...')."
            )
        return index + 1, turns[index]


def _read(content: bytes) -> tuple[Any, RejectedRequest | None]:
    if len(content) > MOST_BYTES:
        too_large = "Request exceeds the maximum size"
        return {}, RejectedRequest(too_large, status=413, kind="request_too_large")
    try:
        return json.loads(content), None
    except ValueError:
        return {}, RejectedRequest("The request body is not valid JSON")


class ModelServer(LoopbackHTTPServer):
    """Serves both APIs from one script."""

    def __init__(self, starter_pid: int) -> None:
        super().__init__(ModelHandler, starter_pid)
        self.models = Models()


class ModelHandler(BaseHTTPRequestHandler):
    """One request of an agent, or one order of a test."""

    protocol_version = "HTTP/1.1"
    server: ModelServer

    def do_POST(self) -> None:
        """Answer as the script says."""
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        models = self.server.models
        if self.path == "/nottwice":
            with models.lock:
                self._say(200, {}, models.tell(json.loads(content)))
            return
        if self.path not in APIS:
            missing = {
                "type": "error",
                "error": {"type": "not_found_error", "message": "Not Found"},
            }
            self._say(404, {}, missing)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        with models.lock:
            answer = models.ask(self.path, headers, content)
        time.sleep(answer.get("delay_seconds") or 0)
        if answer.get("drop"):
            self.close_connection = True
            return
        headers = answer.get("headers") or {}
        self._say(answer.get("status", 200), headers, answer["body"], cut=bool(answer.get("cut")))

    def _say(self, status: int, headers: dict[str, str], body: Any, *, cut: bool = False) -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)
        except ConnectionError:
            # The client is dead, which is what it is here for.
            self.close_connection = True
        if cut:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
