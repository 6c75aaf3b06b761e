"""What identifies a graph: its structure and, separately, the code of its nodes (V5).

The structure is what an open run depends on: nodes, routes, limits, the schema of the state,
and for each tool its class, key, window, schemas and identifying arguments. It is stored in full
and not only as a hash, so that an error can say what changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import checked
from nottwice.model.graphs import schemas
from nottwice.model.graphs.body import is_own
from nottwice.model.graphs.graph import GraphDefinition, Version
from nottwice.model.replay_class import ReplayClass


@frozen_record(frozen=True, slots=True, kw_only=True)
class ToolPrint:
    """What open runs depend on in a tool."""

    name: str
    replay_class: ReplayClass
    key: str | None = None
    window_seconds: float | None = None
    arguments: Any = None
    """A JSON schema with one property per parameter. None: any."""
    result: Any = None
    left_out: tuple[str, ...] = ()
    """Arguments that do not identify a call, because of ``volatile`` or ``once_per``."""

    def to_plain(self) -> dict[str, Any]:
        """Return what is stored of it. Schemas are normalised, without titles and descriptions."""
        keyed = {"key": self.key, "window_seconds": self.window_seconds}
        left_out = {"left_out": sorted(self.left_out)} if self.left_out else {}
        return {
            "class": self.replay_class.value,
            **(keyed if self.key is not None else {}),
            "arguments": schemas.normal(self.arguments),
            "result": schemas.normal(self.result),
            **left_out,
        }

    @staticmethod
    def from_plain(name: str, plain: Mapping[str, Any]) -> ToolPrint:
        found = ToolPrint(
            name=name,
            replay_class=ReplayClass(plain["class"]),
            key=plain.get("key"),
            window_seconds=plain.get("window_seconds"),
            arguments=plain["arguments"],
            result=plain["result"],
            left_out=tuple(plain.get("left_out", ())),
        )
        return checked(found)


@frozen_record(frozen=True, slots=True)
class Fingerprint:
    """A graph with its tools and the hashes of its nodes' functions."""

    graph: GraphDefinition
    tools: tuple[ToolPrint, ...] | None = None
    """By name. None: not known, because an earlier nottwice recorded it."""
    bodies: tuple[tuple[str, str], ...] | None = None
    """The hash of each node's function, by node. None: not known."""

    @property
    def version(self) -> Version:
        return self.graph.version

    @property
    def is_agent(self) -> bool:
        """Whether its nodes are the beats of an agent, which belong to nottwice."""
        return bool(self.bodies) and all(is_own(body) for _, body in self.bodies or ())

    @property
    def structure(self) -> str:
        """One hash of everything except the bodies and the version, for comparing."""
        plain = self.to_plain()
        kept = {key: plain[key] for key in plain if key not in ("version", "bodies")}
        return values.hash_of({**kept, "state": schemas.normal(self.graph.state)})

    def to_plain(self) -> dict[str, Any]:
        """Return what the ledger and the lock file store of it."""
        plain = self.graph.to_plain()
        if self.tools is not None:
            plain["tools"] = {tool.name: tool.to_plain() for tool in self.tools}
        if self.bodies is not None:
            plain["bodies"] = dict(self.bodies)
        return plain

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Fingerprint:
        """Read what ``to_plain`` wrote. Raises KeyError, TypeError or ValueError otherwise."""
        tools, bodies = plain.get("tools"), plain.get("bodies")
        if bodies is not None and not {type(body) for body in bodies.values()} <= {str}:
            raise TypeError("the body of a node is not text")
        return Fingerprint(
            GraphDefinition.from_plain(plain),
            None
            if tools is None
            else tuple(ToolPrint.from_plain(name, tools[name]) for name in sorted(tools)),
            None if bodies is None else tuple(sorted(bodies.items())),
        )
