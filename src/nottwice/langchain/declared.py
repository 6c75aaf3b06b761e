"""What does a second run of each tool do, in which run, and how may a model repeat it? (P260)

Without any framework: the names and options that a user gives, as tools of the engine. A tool that
has no class is ``unsafe_on_replay``: it costs questions, and never a second effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from nottwice.adapters import REPEAT, ToolSpec, declare
from nottwice.engine.session import current_scope
from nottwice.errors import UsageError
from nottwice.model.tool import Duration, Repeat, Tool

NAMESPACE = "langchain/"
"""Before the name of every tool in the ledger, so that none is taken for one of ``nt.tool``."""
ReplayName = Literal["pure", "idempotent_with_key", "idempotent", "unsafe_on_replay"]
REPEAT_TEXT = (
    "Leave it out. Only if the user wants exactly this done a second time: a short reason, such as "
    "'second parcel'."
)


class ToolOptions(TypedDict, total=False):
    """What a user may say about a tool: the options of ``nt.adapters.declare``.

    ``repeat``: with ``"free"`` or ``"ask"``, the tool gets the parameter ``nottwice_repeat``, with
    which a model asks for a deliberate repeat; with ``"ask"``, a person approves it first.
    """

    replay: ReplayName
    key: str | Callable[..., str]
    window: Duration
    verify: Callable[..., Any]
    settles: Duration
    classify: Callable[[Any], Any]
    retry: Any
    time_limit: Duration
    verify_limit: Duration
    volatile: Iterable[str]
    once_per: Iterable[str]
    tags: Iterable[str]
    approve: bool | Duration
    repeat: Repeat
    keep: Duration
    rate: str
    redact: Callable[[str], str]


Classes = Mapping[str, ReplayName | ToolOptions]
"""What a second run of each tool does, by name: a class, or all options."""


class Declared:
    """The tools as a user declared them."""

    def __init__(self, tools: Classes | None) -> None:
        given = {} if tools is None else dict(tools)
        self._options = {name: _options(name, said) for name, said in given.items()}
        for name, options in self._options.items():
            if "replay" in options:
                # What is wrong with it is said now, and not in the middle of a conversation.
                declare(NAMESPACE + name, **options)

    def check_known(self, names: Iterable[str]) -> None:
        """Refuse a class for a tool that does not exist: it is a typing error."""
        known = list(names)
        for name in self._options:
            if name not in known:
                raise UsageError(
                    f"There is no tool {name!r} to protect. Nothing was protected. The tools are: "
                    f"{', '.join(sorted(known))}."
                )

    def spec(self, name: str, schema: Mapping[str, Any]) -> ToolSpec:
        """Return the tool of this name for the engine. ``schema``: of its arguments."""
        options: dict[str, Any] = {"replay": "unsafe_on_replay", **self._options.get(name, {})}
        return declare(NAMESPACE + name, schema=schema, **options)

    def check_own_words(self, name: str, tool: Tool) -> None:
        """Refuse other words for a tool that ``nt.tool`` has declared."""
        said = [each for each in self._options.get(name, {}) if each != "repeat"]
        if said:
            raise UsageError(
                f"Tool {name!r} is declared by nt.tool as {tool.replay_class.value}, and keeps its "
                f"own words. Nothing was run. Take {said[0]!r} out of tools={{{name!r}: ...}}."
            )

    def repeat(self, name: str) -> Repeat | None:
        """How a model may repeat a tool on purpose. None: not at all."""
        said: Repeat | None = self._options.get(name, {}).get("repeat")
        return None if said == "never" else said


def find_run(run: str | None, configurable: Mapping[str, Any]) -> str | None:
    """Return the run that a call belongs to. None: the run that encloses the code.

    It is the same after a restart, so it is never made up (P261).
    """
    if run is not None:
        return run
    if current_scope.get() is not None:
        return None
    thread_id = configurable.get("thread_id")
    if thread_id is None or not str(thread_id):
        raise UsageError(
            "It is not known which run this call belongs to. Nothing was done. Name the thread, "
            'agent.invoke(..., {"configurable": {"thread_id": "ticket-7"}}), or the run, '
            'NottwiceMiddleware(..., run="ticket-7"), or open a run around it: with '
            'nt.run("ticket-7", store="agent.db"): ...'
        )
    return str(thread_id)


def with_repeat(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON schema with the parameter for deliberate repeats."""
    described = {"type": "string", "description": REPEAT_TEXT}
    return {**schema, "properties": {**schema.get("properties", {}), REPEAT: described}}


def arguments_in(tool_input: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a model gave, without what a framework put beside them.

    Arguments that the tool does not have are ignored by LangChain, and so do not identify a call.
    """
    known = schema.get("properties")
    names = list(known) if isinstance(known, Mapping) else []
    if not isinstance(tool_input, Mapping):
        # The old way to use a tool with one argument.
        return {names[0] if names else "input": tool_input}
    if known is None or schema.get("additionalProperties"):
        return dict(tool_input)
    return {name: value for name, value in tool_input.items() if name in known}


def own_tool(function: Any) -> Any:
    """Return a function that ``nt.tool`` protects. None: it is another one."""
    return function if isinstance(getattr(function, "tool", None), Tool) else None


def _options(name: str, said: Any) -> dict[str, Any]:
    if isinstance(said, str):
        return {"replay": said}
    if isinstance(said, Mapping):
        return dict(said)
    raise UsageError(
        f"Tool {name!r} was declared with {type(said).__name__}. Nothing was protected. Give its "
        'class, tools={"search": "pure"}, or its options, '
        'tools={"charge": {"replay": "idempotent_with_key", "key": "order-{order_id}", ...}}.'
    )
