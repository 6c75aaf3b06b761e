"""What does a second run of each tool do, in which run, and how may a model repeat it? (P260)

Without any framework: the names and options that a user gives, as tools of the engine. A tool that
has no class is ``unsafe_on_replay``: it costs questions, and never a second effect.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from nottwice.adapters import REPEAT, ToolSpec, declare
from nottwice.engine.session import current_scope
from nottwice.errors import InvalidId, UsageError
from nottwice.model.call import check_id
from nottwice.model.tool import Duration, Repeat, Tool

NAMESPACE = "langchain/"
"""Before the name of every tool in the ledger, so that none is taken for one of ``nt.tool``."""
ReplayName = Literal["pure", "idempotent_with_key", "idempotent", "unsafe_on_replay"]
REPEAT_TEXT = (
    "Leave it out. Only if the user wants exactly this done a second time: a short reason, such as "
    "'second parcel'."
)


# The word of the settings for MCP. It means ``replay``, and cannot be written as below.
_Class = TypedDict("_Class", {"class": ReplayName}, total=False)


class ToolOptions(_Class, total=False):
    """What a user may say about a tool: the options of ``nt.adapters.declare``.

    ``replay``: the class; ``class`` means the same.
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
        self._warned: set[str] = set()
        for name in self._options:
            # What is wrong with it is said now, and not in the middle of a conversation.
            self.spec(name)

    def check_known(self, names: Iterable[str]) -> None:
        """Refuse a class for a tool that does not exist: it is a typing error."""
        known = list(names)
        for name in self._options:
            if name not in known:
                raise UsageError(
                    f"There is no tool {name!r} to protect. Nothing was protected. The tools are: "
                    f"{', '.join(sorted(known))}."
                )

    def warn_of_unknown(self, names: Iterable[str]) -> None:
        """Warn once about a class for a tool that does not exist.

        It is a typing error, unless another middleware adds the tool later.
        """
        known = set(names)
        for name in self._options.keys() - known - self._warned:
            self._warned.add(name)
            warnings.warn(
                f"tools= names {name!r}, and there is no such tool. The tools are: "
                f"{', '.join(sorted(known))}. If it is a typing error, correct it: a tool without "
                "a class is unsafe_on_replay, and a read would be answered from its receipt.",
                RuntimeWarning,
                stacklevel=2,
            )

    def spec(self, name: str, schema: Mapping[str, Any] | None = None) -> ToolSpec:
        """Return the tool of this name for the engine. ``schema``: of its arguments."""
        options: dict[str, Any] = {"replay": "unsafe_on_replay", **self._options.get(name, {})}
        return declare(NAMESPACE + name, schema=schema, **options)

    def check_own_words(self, name: str, tool: Tool) -> None:
        """Refuse other words for a tool that ``nt.tool`` has declared."""
        said = [each for each in self._options.get(name, {}) if each != "repeat"]
        if said:
            raise UsageError(
                f"Tool {name!r} is declared by nt.tool as {tool.replay_class.value}, and keeps its "
                f"own class. Nothing was run. Remove {said[0]!r} from tools={{{name!r}: ...}}."
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
        return _usable(run, "The run id")
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
    return _usable(str(thread_id), "The thread id")


def _usable(run_id: str, what: str) -> str:
    """Return the id. UsageError, which stops the graph: no model could choose another id."""
    try:
        return check_id(run_id, what=what)
    except InvalidId as error:
        raise UsageError(error.message) from error


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
        return _with_replay(name, dict(said))
    raise UsageError(
        f"Tool {name!r} was declared with {type(said).__name__}. Nothing was protected. Give its "
        'class, tools={"search": "pure"}, or its options, '
        'tools={"charge": {"replay": "idempotent_with_key", "key": "order-{order_id}", ...}}.'
    )


def _with_replay(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options in the words of ``declare``."""
    wrong = [each for each in options if each not in ToolOptions.__annotations__]
    if wrong or {"class", "replay"} <= options.keys():
        raise UsageError(
            f"Tool {name!r} was declared with {wrong[0] if wrong else 'class and replay'!r}. "
            "Nothing was protected. Its options are: replay (or class), "
            f"{', '.join(sorted(ToolOptions.__annotations__.keys() - {'class', 'replay'}))}."
        )
    return {"replay" if each == "class" else each: one for each, one in options.items()}
