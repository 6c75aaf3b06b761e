"""Tools in a child: the function is replaced, and the parent answers in its stead.

This happens after the fork, so nothing of it leaks into the process that runs the tests. Results
come back in the declared type, as from the real tool. Pure tools that the scenario does not name
run for real; an effectful one that it does not name never runs at all.
"""

from __future__ import annotations

import builtins
import os
import uuid
from collections.abc import Callable
from typing import Any, NoReturn

import nottwice.errors
from nottwice.engine.session import current_attempt
from nottwice.errors import NottwiceError
from nottwice.guard import recorded, registry
from nottwice.model import values
from nottwice.model.call import Call, ReplayClass
from nottwice.model.tool import Tool, Verification, did_not_happen, happened
from nottwice.testing.crash.link import Link
from nottwice.testing.crash.points import Points
from nottwice.testing.crash.scenario import Scenario
from nottwice.testing.world import WorldRefused


class Stubs:
    """Replaces what tools do, those that exist and those that are declared later."""

    def __init__(self, scenario: Scenario, link: Link, points: Points) -> None:
        self._named = frozenset(scenario.tools)
        self._link = link
        self._points = points
        self.used: set[str] = set()

    def install(self) -> None:
        """Replace every tool that is declared in this process, now or later."""
        for protected in registry.declared_tools():
            self._replace(protected.tool)  # type: ignore[attr-defined]
        register = registry.register

        def register_replaced(protected: Callable[..., Any], tool: Tool) -> None:
            register(protected, tool)
            self._replace(tool)

        registry.register = register_replaced
        # What a resume must see again is the same in every process of an examination, so that a
        # value that was not durable yet is no difference.
        _set(recorded._UUID, function=_same_uuid)
        _set(recorded._RANDOM, function=_same_number)

    def _replace(self, tool: Tool) -> None:
        if tool.name in self._named:
            function = self._effect if tool.replay_class.effectful else self._read
        elif tool.replay_class.effectful:
            function = self._not_answered
        else:
            return
        _set(tool, function=_like(tool, function))
        if tool.verify is not None:
            _set(tool, verify=self._verifier(tool))

    def _effect(self, tool: Tool) -> Any:
        call = _call()
        self.used.add(tool.name)
        with self._points.around(f"the effect of {tool.name}"):
            reply = self._link.ask("effect", window=tool.window_seconds, **_order(tool, call))
        return self._result(tool, reply)

    def _read(self, tool: Tool) -> Any:
        self.used.add(tool.name)
        return self._result(tool, self._link.ask("read", **_order(tool, _call())))

    def _not_answered(self, tool: Tool) -> Any:
        self._refuse(
            f"Tool {tool.name!r} changes the world, and the crash test was given no answer for it. "
            f"Its function was not run. Say what it returns: tools={{{tool.name!r}: ...}}, a "
            "result as plain data or a function of its arguments."
        )

    def _result(self, tool: Tool, reply: dict[str, Any]) -> Any:
        if reply.get("error") is not None:
            raise error_from(reply["error"])
        try:
            return _typed(tool, reply["result_json"])
        except NottwiceError as error:
            self._refuse(
                f"The answer for tool {tool.name!r} is not what the tool returns: {error} The tool "
                "was not run."
            )

    def _refuse(self, text: str) -> NoReturn:
        """This work cannot be examined; the parent says so."""
        self._link.tell("refused", text=text)
        os._exit(0)

    def _verifier(self, tool: Tool) -> Callable[[Call], Any]:
        def verify(call: Call) -> Verification:
            with self._points.around(f"asking whether {tool.name} happened"):
                reply = self._link.ask("verify", call_id=call.id)
            if reply["result_json"] is None:
                return did_not_happen()
            return happened(_typed(tool, reply["result_json"]))

        async def verify_async(call: Call) -> Verification:
            return verify(call)

        return verify_async if tool.is_async else verify


def _like(tool: Tool, function: Callable[[Tool], Any]) -> Callable[..., Any]:
    """The stub as the engine calls it: async where the tool is."""

    def stub(*args: Any, **kwargs: Any) -> Any:
        return function(tool)

    async def stub_async(*args: Any, **kwargs: Any) -> Any:
        return function(tool)

    return stub_async if tool.is_async else stub


def _call() -> Call:
    attempt = current_attempt.get()
    call = attempt.call if attempt is not None else None
    assert call is not None, "a stub is only called by the engine"
    return call


def _order(tool: Tool, call: Call) -> dict[str, Any]:
    keyed = tool.replay_class is ReplayClass.IDEMPOTENT_WITH_KEY
    return {
        "tool": tool.name,
        "args": call.args,
        "key": call.key if keyed else None,
        "call_id": call.id,
        "attempt": call.attempt,
    }


def _typed(tool: Tool, result_json: str) -> Any:
    """A canned result as the tool itself would return it."""
    return tool.decode_result(tool.adopt_result(values.decode(result_json)))


def error_to_plain(error: Exception) -> dict[str, str]:
    """An error on its way to the child: what it is called and what it says."""
    return {"type": type(error).__name__, "text": str(error)}


def error_from(plain: dict[str, str]) -> Exception:
    """The error that a tool raises: ours or Python's by its name, else one of a stranger."""
    for place in (nottwice.errors, builtins):
        kind = getattr(place, plain["type"], None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind(plain["text"])
    return WorldRefused(500, f"{plain['type']}: {plain['text']}")


def _same_uuid(clock: Any) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, _place())


def _same_number(clock: Any) -> float:
    return _same_uuid(clock).int / 2**128


def _place() -> str:
    attempt = current_attempt.get()
    return attempt.identity.call_id if attempt is not None else ""


def _set(tool: Tool, **changes: Any) -> None:
    """Change a frozen record. Nobody but this child, which is about to die, can see it."""
    for name, value in changes.items():
        object.__setattr__(tool, name, value)
