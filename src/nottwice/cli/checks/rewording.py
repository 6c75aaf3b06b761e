"""Which effects would a model cause a second time by asking in other words? (P202)

A model that has forgotten its mail writes it again, and never in the same words. So a tool that is
offered to an agent, is unsafe, and takes a text that the model writes, should say which of its
arguments tell one effect from another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nottwice.agent.declare import Agent
from nottwice.cli.checks.forgotten import graphs_of
from nottwice.cli.inputs.application import Application
from nottwice.guard.check.report import Finding, Level
from nottwice.guard.definition import place_of
from nottwice.model.tool import Tool

_WORDS = frozenset(
    "answer body caption comment content description details explanation greeting html letter "
    "markdown memo message note notes prompt question reason remark reply story subject summary "
    "text title topic".split()
)


def rewording_findings(application: Application) -> list[Finding]:
    """A suggestion for every tool of an agent that distinguishes its effects by their words."""
    offered: dict[str, tuple[Tool, str]] = {}
    for graph in graphs_of(application):
        if isinstance(graph, Agent):
            for each in graph.toolbox.tools():
                offered.setdefault(each.name, (each, graph.id))
    return [finding for tool, agent in offered.values() for finding in _findings(tool, agent)]


def _findings(tool: Tool, agent: str) -> Iterator[Finding]:
    if not tool.replay_class.needs_proof:
        # A key says already what is one effect.
        return
    if tool.once_per is not None or tool.volatile or tool.repeat == "free":
        # What may be done again freely, such as writing a file, does no harm in other words either.
        return
    try:
        arguments, _ = tool.schemas()
    except Exception:
        # Annotations that cannot be looked up have a finding of their own.
        return
    properties: dict[str, Any] = (arguments or {}).get("properties", {})
    wordy = [name for name, schema in properties.items() if _is_wordy(name, schema)]
    if not wordy:
        return
    rest = [name for name in properties if name not in wordy]
    names = ", ".join(map(repr, rest)) + ("," if len(rest) == 1 else "")
    fix = f"say what it is done once for: once_per=({names})"
    if not rest:
        fix = (
            "give it a parameter that says what it is about, such as order_id, and say "
            "once_per=('order_id',)"
        )
    yield Finding(
        Level.WARNING,
        f"tool {tool.name!r} of {agent}: a model that writes another {' or '.join(wordy)} makes "
        "it another effect, which happens again",
        f"{fix}; if other words are another effect, name all its parameters",
        place_of(tool.function),
    )


def _is_wordy(name: str, schema: Any) -> bool:
    """Whether a parameter is a text that a model makes up, by its name and type."""
    parts = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    return not _WORDS.isdisjoint(parts) and _may_be_text(schema)


def _may_be_text(schema: Any) -> bool:
    if not isinstance(schema, dict) or "enum" in schema or "const" in schema:
        # What can be one of a few values only is not made up.
        return not isinstance(schema, dict)
    if "type" in schema:
        return bool(schema["type"] == "string") and "format" not in schema
    parts = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return any(map(_may_be_text, parts)) if parts else "$ref" not in schema
