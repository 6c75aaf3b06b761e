"""The driver of a child: instead of invoking a tool, it asks the parent for an answer.

Results come back in the declared type, as from the real tool. Pure tools that the scenario does not
name run for real. An effectful tool that it does not name never runs. The usual driver does
everything else that the engine asks for.
"""

from __future__ import annotations

import builtins
import os
import uuid
from collections.abc import Callable
from typing import Any, NoReturn

import nottwice.errors
from nottwice.engine.asks import Ask, Fire, Invoked, Verify
from nottwice.engine.drivers import USUAL
from nottwice.engine.host import Host
from nottwice.errors import NottwiceError
from nottwice.model import values
from nottwice.model.call import Call
from nottwice.model.tool import OWN_PREFIX, Tool, did_not_happen, happened
from nottwice.testing.crash.inside.link import ChildLink
from nottwice.testing.crash.inside.points import Points
from nottwice.testing.crash.repeating import tell_invoking
from nottwice.testing.crash.scenario import Scenario
from nottwice.testing.world import WorldRefused


class StubDriver:
    """Answers for the tools that the scenario names, and reports other invocations."""

    def __init__(self, scenario: Scenario, link: ChildLink, points: Points) -> None:
        self._named = frozenset(scenario.tools)
        self._link = link
        self._points = points
        self.used: set[str] = set()

    def answer(self, ask: Ask, host: Host) -> Any:
        stub = self._stub_for(ask)
        return USUAL.answer(ask, host) if stub is None else stub()

    async def answer_async(self, ask: Ask, host: Host) -> Any:
        stub = self._stub_for(ask)
        return (await USUAL.answer_async(ask, host)) if stub is None else stub()

    def _stub_for(self, ask: Ask) -> Callable[[], Invoked] | None:
        """Return what answers in place of the usual driver, or None."""
        if isinstance(ask, Fire):
            tell_invoking(ask, self._link)
            answer = self._answer_for(ask.tool)
            return None if answer is None else lambda: _invoked(ask, answer)
        if isinstance(ask, Verify) and (
            ask.tool.replay_class.effectful or ask.tool.name in self._named
        ):
            return lambda: self._verify(ask.tool, ask.call)
        return None

    def _answer_for(self, tool: Tool) -> Callable[[Tool, Call], Any] | None:
        if tool.name in _SAME_IN_EVERY_PROCESS:
            return _SAME_IN_EVERY_PROCESS[tool.name]
        if tool.name in self._named:
            return self._effect if tool.replay_class.effectful else self._read
        if tool.replay_class.effectful and not tool.name.startswith(OWN_PREFIX):
            return self._not_answered
        return None

    def _effect(self, tool: Tool, call: Call) -> Any:
        self.used.add(tool.name)
        with self._points.around(f"the effect of {tool.name}"):
            reply = self._link.ask("effect", window=tool.window_seconds, **_order(tool, call))
        return self._result(tool, reply)

    def _read(self, tool: Tool, call: Call) -> Any:
        self.used.add(tool.name)
        return self._result(tool, self._link.ask("read", **_order(tool, call)))

    def _not_answered(self, tool: Tool, call: Call) -> Any:
        self._refuse(
            f"Tool {tool.name!r} changes the world, and the crash test has no answer for it. "
            f"Its function was not run. Define what it returns: tools={{{tool.name!r}: ...}}, a "
            "result as plain data or a function of its arguments. On the command line: "
            f"--tools '{{\"{tool.name}\": ...}}'."
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
        """Report to the parent that this work cannot be examined, and end."""
        self._link.tell("refused", text=text)
        os._exit(0)

    def _verify(self, tool: Tool, call: Call) -> Invoked:
        with self._points.around(f"asking whether {tool.name} happened"):
            reply = self._link.ask("verify", call_id=call.id)
        if reply["result_json"] is None:
            return Invoked(value=did_not_happen(), invoked=True)
        return Invoked(value=happened(_typed(tool, reply["result_json"])), invoked=True)


def _invoked(fire: Fire, answer: Callable[[Tool, Call], Any]) -> Invoked:
    """Return the outcome of a tool whose function is not called."""
    call = fire.in_flight.call
    assert call is not None
    try:
        return Invoked(value=answer(fire.tool, call), invoked=True)
    except Exception as error:
        return Invoked(error=error)
    finally:
        fire.in_flight.body_ended()


def _order(tool: Tool, call: Call) -> dict[str, Any]:
    return {
        "tool": tool.name,
        "args": call.args,
        "key": call.key if tool.replay_class.keyed else None,
        "call_id": call.id,
        "attempt": call.attempt,
    }


def _typed(tool: Tool, result_json: str) -> Any:
    """Return a canned result as the tool itself would return it."""
    return tool.decode_result(tool.adopt_result(values.decode(result_json)))


def error_to_plain(error: Exception) -> dict[str, str]:
    """Convert an error for the child: its type and its text."""
    return {"type": type(error).__name__, "text": str(error)}


def error_from(plain: dict[str, str]) -> Exception:
    """Return the error that a tool raises: ours or Python's by name, else WorldRefused."""
    for place in (nottwice.errors, builtins):
        kind = getattr(place, plain["type"], None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind(plain["text"])
    return WorldRefused(500, f"{plain['type']}: {plain['text']}")


def _same_uuid(tool: Tool, call: Call) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, call.id)


# These values are the same in every process of an examination, so that a value that was not yet
# durable makes no difference after a resume.
_SAME_IN_EVERY_PROCESS: dict[str, Callable[[Tool, Call], Any]] = {
    f"{OWN_PREFIX}uuid": _same_uuid,
    f"{OWN_PREFIX}random": lambda tool, call: _same_uuid(tool, call).int / 2**128,
}
