"""How is a tool of an MCP server protected? What a person said, else what the server says (P271).

passed         It changes nothing, so it is forwarded and not recorded.
lost_answers   No person classed it. Its intent and receipt are written. The receipt answers an
               equal call only while the first answer may not have arrived.
once           A person classed it: once per ``fresh`` for equal arguments.

A function that was protected by ``nt.tool`` keeps its own declaration (P283). It is called itself,
because the handler of a server would call it outside of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from nottwice.adapters import REPEAT, ToolSpec, declare
from nottwice.mcp import results
from nottwice.mcp.settings import ToolSettings
from nottwice.model import values
from nottwice.model.call import MAX_ID_CHARACTERS
from nottwice.model.data.records import frozen_record

Kind = Literal["passed", "lost_answers", "once"]
_SHORT_CHARACTERS = 32
_UNSAID = ToolSettings("unsafe_on_replay")
_REPEAT_SCHEMA = {
    "type": "string",
    "description": (
        "Leave this out. Only if the user wants exactly the same call done a second time: a short "
        "reason, for example the user's own words."
    ),
}


@frozen_record(frozen=True, slots=True)
class OwnTool:
    """A tool of a server in this process that was protected by ``nt.tool``."""

    function: Any
    """What ``nt.tool`` returned. A type checker would take it for a method of this class."""
    result_of: Callable[[Any], dict[str, Any]]
    """Makes the server's own envelope around a value."""


@frozen_record(frozen=True, slots=True)
class ToolPlan:
    """How one tool is protected."""

    tool: str
    """Its name in the protocol."""
    kind: Kind
    spec: ToolSpec
    fresh_seconds: float | None = None
    """For ``once``: for how long an equal call gets the receipt. None: forever."""
    output_schema: Mapping[str, Any] | None = None
    can_repeat: bool = False
    """Whether the parameter for a deliberate repeat was added to its schema."""
    own: OwnTool | None = None
    """The function, if it was protected by ``nt.tool``."""

    @property
    def callee(self) -> Any:
        """What is called: ``handle.call(plan.callee, ...)``."""
        return self.spec if self.own is None else self.own.function

    def result_of(self, value: Any) -> dict[str, Any]:
        """Return the result that a value stands for."""
        if self.own is not None:
            return self.own.result_of(value)
        return results.result_of(value, self.output_schema)


class ToolPlans:
    """How each tool of a server is protected. ``name``: the namespace of its tools.

    ``shows_repeat``: whether the client gets the tools as ``shown`` returns them.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, ToolSettings] | None = None,
        *,
        trust_annotations: bool = True,
        shows_repeat: bool = True,
    ) -> None:
        self.name = name
        self.shows_repeat = shows_repeat
        self._settings = dict(settings or {})
        self._trust = trust_annotations
        self._listed: dict[str, Mapping[str, Any]] = {}
        self._own: dict[str, OwnTool] = {}
        self._plans: dict[str, ToolPlan] = {}

    @property
    def has_settings(self) -> bool:
        """Whether a person classed any tool."""
        return bool(self._settings)

    def knows(self, tool: str) -> bool:
        """Whether the tool was in a list of the server since the last change of that list."""
        return tool in self._listed

    def learn(self, tools: Iterable[Any]) -> None:
        """Read tools as ``tools/list`` returns them."""
        for tool in tools:
            if isinstance(tool, Mapping) and isinstance(tool.get("name"), str):
                self._listed[tool["name"]] = tool
                self._plans.pop(tool["name"], None)

    def learn_own(self, tool: str, own: OwnTool) -> None:
        """Note that a tool of the server was protected by ``nt.tool``."""
        self._own[tool] = own
        self._plans.pop(tool, None)

    def forget(self) -> None:
        """Forget what the server said: its list has changed."""
        self._listed.clear()
        self._own.clear()
        self._plans.clear()

    def plan_of(self, tool: str) -> ToolPlan:
        """Return how a tool is protected. One that the server did not list has no annotations."""
        plan = self._plans.get(tool)
        if plan is None:
            plan = self._plans[tool] = self._plan(tool, self._listed.get(tool, {}))
        return plan

    def shown(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool for the client's list: unchanged, but for ``nottwice_repeat`` (P272)."""
        name = tool.get("name")
        if not isinstance(name, str) or not self.plan_of(name).can_repeat:
            return dict(tool)
        schema = dict(tool["inputSchema"])
        schema["properties"] = {**schema.get("properties", {}), REPEAT: _REPEAT_SCHEMA}
        return {**tool, "inputSchema": schema}

    def summary(self) -> str:
        """Return one line that says how the listed tools are protected.

        Before the server has listed its tools, it is about those that a person classed. Ask for it
        when the whole list was read: a name that is not in the list is called wrong.
        """
        names: dict[Kind, list[str]] = {"once": [], "lost_answers": [], "passed": []}
        for tool in sorted(self._listed or self._settings):
            names[self.plan_of(tool).kind].append(tool)
        told = {
            "once": "once per time given",
            "lost_answers": "lost answers only",
            "passed": "passed through",
        }
        parts = [f"{told[kind]}: {', '.join(found)}" for kind, found in names.items() if found]
        wrong = sorted(set(self._settings).difference(self._listed)) if self._listed else []
        if wrong:
            parts.insert(0, f"not a tool of this server: {', '.join(wrong)}")
        return "; ".join(parts) or "the server has listed no tools yet"

    def _plan(self, tool: str, listed: Mapping[str, Any]) -> ToolPlan:
        said = self._settings.get(tool)
        hints = listed.get("annotations") if self._trust else None
        hints = hints if isinstance(hints, Mapping) else {}
        output = listed.get("outputSchema")
        plan = ToolPlan(
            tool,
            "lost_answers",
            self._unclassed(tool, hints),
            output_schema=output if isinstance(output, Mapping) else None,
        )
        own = self._own.get(tool)
        if own is not None and not own.function.tool.replay_class.effectful:
            return replace(plan, kind="passed", own=own)
        if own is not None:
            return replace(
                plan,
                kind="once",
                fresh_seconds=(said or _UNSAID).fresh_seconds,
                can_repeat=self.shows_repeat and _takes_a_parameter(listed),
                own=own,
            )
        if said is None:
            read_only = hints.get("readOnlyHint") is True
            return replace(plan, kind="passed") if read_only else plan
        spec = declare(
            self._named(tool),
            replay=said.replay,  # type: ignore[arg-type]  # It was checked when it was read.
            key=said.key,
            window=said.window,
            once_per=said.once_per,
            approve=said.approve,
        )
        if not spec.is_effectful:
            return replace(plan, kind="passed", spec=spec)
        return replace(
            plan,
            kind="once",
            spec=spec,
            fresh_seconds=said.fresh_seconds,
            can_repeat=self.shows_repeat and _takes_a_parameter(listed),
        )

    def _unclassed(self, tool: str, hints: Mapping[str, Any]) -> ToolSpec:
        if hints.get("idempotentHint") is True:
            return declare(self._named(tool), replay="idempotent")
        return declare(self._named(tool), replay="unsafe_on_replay")

    def _named(self, tool: str) -> str:
        """Return the name of a tool in the ledger. A name that it cannot keep is hashed."""
        name = f"{self.name}/{tool}"
        if name.isprintable() and len(name) <= MAX_ID_CHARACTERS:
            return name
        return f"{self.name}/{values.hash_of(tool)[:_SHORT_CHARACTERS]}"


def _takes_a_parameter(listed: Mapping[str, Any]) -> bool:
    """Whether a parameter can be added to a tool's schema and is not there already."""
    schema = listed.get("inputSchema")
    if not isinstance(schema, Mapping):
        return False
    known = schema.get("properties", {})
    return isinstance(known, Mapping) and REPEAT not in known
