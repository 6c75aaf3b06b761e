"""Which tools does a model see, and what does its call of one mean (L5)?

A model asks again for what it has forgotten. So an effect that it asks for is one call of the whole
run, in whichever turn it asks: the earlier receipt answers, and the model is told so and how to
repeat on purpose. It can only add a label for that: class, key and verify belong to the tool. A
person approves a repeat first, unless the tool says otherwise. Reads are made again in every turn.
Promises kept here: P69, P201, P213.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nottwice.agent.calls.order import Lane
from nottwice.agent.calls.own_tools import OWN_TOOLS
from nottwice.agent.calls.wording import call_of, other_words
from nottwice.agent.messages import ToolCall
from nottwice.agent.provider import ToolSchema
from nottwice.agent.state import RunState
from nottwice.engine.calls.requests import Request
from nottwice.engine.doubts.blocking import written_call
from nottwice.engine.hiding import kept
from nottwice.engine.session import Scope, current_scope
from nottwice.errors import InvalidTool, UnclassifiedTool
from nottwice.graphs.declare import Graph
from nottwice.model.call import (
    FIRST_CHECKPOINT,
    ROOT_NODE,
    ResultKind,
    check_id,
    following,
    own_branch,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.tool import Tool

_REPEAT_TEXT = (
    "Leave this out. Only to do the very same thing a second time, although you did it before: "
    "a new short label for this repetition."
)
_ASK_TEXT = f"{_REPEAT_TEXT} A person is asked before it is done."


@frozen_record(frozen=True, slots=True)
class Offered:
    """One tool as the model sees it and as the harness calls it."""

    schema: ToolSchema
    tool: Tool | None
    """None: it is a worker, that is another agent."""
    make: Callable[..., Request] | None
    worker: Graph[Any] | None = None
    repeat: str | None = None
    """The parameter for a deliberate repeat; None: the tool needs or allows none."""

    @property
    def effectful(self) -> bool:
        return self.tool is None or self.tool.replay_class.effectful


@frozen_record(frozen=True, slots=True)
class Wanted:
    """A call that a model asks for, with its identity."""

    request: Request
    earlier: Mapping[str, Any] | None = None
    """What is on record if an earlier turn asked for it."""


class Toolbox:
    """The tools of one agent, by name."""

    def __init__(self, agent: str, tools: Iterable[Any]) -> None:
        self._given: dict[str, Any] = {}
        for each in tools:
            name = each.name if isinstance(each, Graph) else _checked_tool(agent, each).name
            if name in self._given or name in OWN_TOOLS:
                taken = "the harness has" if name in OWN_TOOLS else "it has"
                raise InvalidTool(
                    f"Agent {agent!r} cannot have a tool {name!r}: {taken} one of that name. "
                    "Nothing happened. Give yours another one: @nt.tool(..., name='...')."
                )
            self._given[name] = each

    @functools.cached_property
    def offered(self) -> dict[str, Offered]:
        """By name; built when first needed, when every class that an annotation names exists."""
        return {
            name: _worker(each) if isinstance(each, Graph) else _offered(each)
            for name, each in self._given.items()
        }

    @functools.cached_property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """The descriptions of all of them for the model."""
        return (*(one.schema for one in self.offered.values()), *OWN_TOOLS.values())

    def tools(self) -> list[Tool]:
        """The tools among them, without the workers."""
        return [each.tool for each in self._given.values() if not isinstance(each, Graph)]

    def lane_of(self, name: str) -> Lane:
        """Return how a call of this tool relates to the others of its reply."""
        if name in OWN_TOOLS:
            return Lane.READ
        offered = self.offered.get(name)
        if offered is None:
            # The tool is unknown, and later calls of the reply may depend on it.
            return Lane.EFFECT
        if offered.tool is None:
            return Lane.WORKER
        if not offered.effectful:
            return Lane.READ
        return Lane.ANY_TIME if offered.tool.parallel else Lane.EFFECT

    def want(self, scope: Scope, offered: Offered, call: ToolCall, state: RunState) -> Wanted:
        """Return the request for what a model asks; raises what is wrong with its arguments.

        Whether a label counts depends on what earlier turns asked for, which is on record. The
        ledger cannot decide this, because by now it may hold this very call.
        """
        arguments = dict(call.arguments)
        label = arguments.pop(offered.repeat, None) if offered.repeat else None
        assert offered.make is not None
        if not offered.effectful:
            return Wanted(_make_in(scope, offered.make, arguments, None))
        request = self._run_wide(scope, offered.make, arguments, None)
        request, earlier = _in_new_words(request, call, state)
        # A call that never happened is not repeated but tried again, under any label.
        was_there = earlier is not None and earlier["outcome"] != "unavailable"
        if earlier is not None and was_there and isinstance(label, str) and label.strip():
            label = check_id(label.strip(), what=f"The label in {offered.repeat!r}")
            request = self._run_wide(scope, offered.make, arguments, label)
            if request.tool.repeat == "ask":
                request = replace(request, ask=_why_ask(state, earlier, label))
            request, earlier = _in_new_words(request, call, state)
        # A call that was unavailable is tried again; a refused call stays refused.
        retry = earlier is not None and earlier["outcome"] == "unavailable"
        return Wanted(replace(request, retry=retry), earlier)

    def _run_wide(
        self, scope: Scope, make: Callable[..., Request], arguments: dict[str, Any], label: Any
    ) -> Request:
        request = _make_in(run_wide(scope), make, arguments, label)
        identity, key = own_branch(request.identity), request.key
        if key == request.identity.call_id:
            # The key is per call, and this is the call.
            key = identity.call_id
        return replace(request, identity=identity, key=key, scope=scope)


def _in_new_words(
    request: Request, call: ToolCall, state: RunState
) -> tuple[Request, Mapping[str, Any] | None]:
    """Return the call that answers a model, and what is on record about it (P213).

    A call that failed without effect keeps its recorded words. Other words for it make a new call
    that follows it, under the same key, so the upstream still recognises the same effect.
    """
    known = {one["receipt_id"]: one for one in state.plain["asked"]}
    while True:
        earlier = known.get(request.identity.call_id)
        if earlier is None or earlier["outcome"] not in ("failed", "unavailable"):
            return request, earlier
        identity = following(request.identity)
        if identity.call_id not in known and not other_words(
            request.tool, call_of(state, earlier), call
        ):
            return request, earlier
        key = request.key
        if key == request.identity.call_id:
            key = identity.call_id
        request = replace(request, identity=identity, key=key)


def _why_ask(state: RunState, earlier: Mapping[str, Any], label: str) -> str:
    """Tell the person who is asked about a repeat what was done before."""
    before = call_of(state, earlier)
    came = "was done" if earlier["outcome"] == "done" else "failed and took no effect"
    return (
        f"the model asks for it again, as {label!r}: {written_call(before.name, before.arguments)} "
        f"{came} in turn {earlier['turn']}, receipt {earlier['receipt_id'][:16]}"
    )


def run_wide(scope: Scope) -> Scope:
    """Return the scope of the whole run, seen from one of its beats.

    It is the same in all versions, so that a migrated run does not repeat what a model asked for.
    """
    return Scope(scope.session, ROOT_NODE, FIRST_CHECKPOINT)


def result_text(tool: Tool, value: Any) -> str:
    """Return a result as the model reads it."""
    stored = kept(tool, value)
    is_text = isinstance(value, str) and stored.kind is not ResultKind.NOT_KEPT
    return value if is_text else stored.json


def _make_in(
    scope: Scope, make: Callable[..., Request], arguments: dict[str, Any], label: str | None
) -> Request:
    token = current_scope.set(scope)
    try:
        return make((), arguments, label=label)
    finally:
        current_scope.reset(token)


def _checked_tool(agent: str, protected: Any) -> Tool:
    tool = inspect.getattr_static(protected, "tool", None)
    requests = getattr(protected, "requests", None)
    if not isinstance(tool, Tool) or requests is None:
        name = getattr(protected, "__name__", repr(protected))
        raise UnclassifiedTool(
            f"Agent {agent!r} was given {name}, which has no replay class. Nothing happened. "
            "Declare what a second run of it does: @nt.tool('unsafe_on_replay'), or 'pure' if it "
            "only reads.",
            tool=str(name),
        )
    if requests.is_method:
        raise InvalidTool(
            f"Agent {agent!r} was given the method {tool.name!r}, but a resume could not find its "
            "instance again. Nothing happened. Make it a plain function."
        )
    return tool


def _offered(protected: Any) -> Offered:
    tool: Tool = protected.tool
    for name in protected.requests.signature.secrets():
        raise InvalidTool(
            f"Tool {tool.name!r} cannot be offered to a model: its parameter {name!r} is secret, "
            "and what a model says is kept, word by word, in the transcript. Nothing happened. Let "
            "the model name the thing, and look its secret up inside the tool.",
            tool=tool.name,
        )
    parameters = _parameters(tool)
    repeat = None
    if tool.replay_class.effectful and tool.repeat != "never":
        repeat = "repeat"
        while repeat in parameters["properties"]:
            repeat += "_"
        text = _ASK_TEXT if tool.repeat == "ask" else _REPEAT_TEXT
        parameters["properties"][repeat] = {"type": "string", "description": text}
    description = inspect.getdoc(tool.function) or f"Calls {tool.name}."
    schema = ToolSchema(tool.name, description, parameters)
    return Offered(schema, tool, protected.requests.make, repeat=repeat)


def _worker(graph: Graph[Any]) -> Offered:
    about = getattr(graph, "description", "")
    handing = (
        f"Hands a task to {graph.name}, which works on it by itself and reports what came of it."
    )
    schema = ToolSchema(
        graph.name,
        f"{about}\n\n{handing}" if about else handing,
        {"type": "object", "properties": {"goal": {"type": "string"}}, "required": ["goal"]},
    )
    return Offered(schema, None, None, worker=graph)


def _parameters(tool: Tool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments as one object, its definitions at the top."""
    arguments, _ = tool.schemas()
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for name, schema in (arguments or {}).get("properties", {}).items():
        properties[name] = _hoisted(name, schema, definitions)
    found: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list((arguments or {}).get("required", ())),
    }
    return {**found, "$defs": definitions} if definitions else found


def _hoisted(name: str, schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a parameter's schema without definitions; two may define one name differently."""
    if not isinstance(schema, dict):
        return {}
    text = json.dumps(schema).replace('"#/$defs/', f'"#/$defs/{name}.')
    hoisted: dict[str, Any] = json.loads(text)
    for key, definition in hoisted.pop("$defs", {}).items():
        definitions[f"{name}.{key}"] = definition
    return hoisted
