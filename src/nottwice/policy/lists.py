"""Policies that rule by a tool's name or its tags."""

from __future__ import annotations

from collections.abc import Mapping

from nottwice.errors import UsageError
from nottwice.model.call import check_id
from nottwice.model.data.records import frozen_record
from nottwice.model.policy import ProposedCall, Ruling, RulingKind, read_kind, strictest


def by_tag(rulings: Mapping[str, str]) -> ByTag:
    """Rule by the tags of tools: ``by_tag({"money": "ask", "destructive": "deny"})``.

    If a tool has several tags, the strictest ruling counts. Tools without these tags are allowed.
    """
    if not isinstance(rulings, Mapping) or not rulings:
        raise UsageError(
            f"by_tag({rulings!r}) must be a mapping from tags to rulings. Nothing happened. Write: "
            'by_tag({"money": "ask"}).'
        )
    read = {
        check_id(tag, what="A tag"): read_kind(word, what=f"by_tag: {tag}")
        for tag, word in rulings.items()
    }
    return ByTag(read)


def only(*tools: str, otherwise: str = "deny") -> Only:
    """Allow only these tools, by name: ``only("search", "refund")``."""
    names = frozenset(check_id(tool, what="The name of a tool") for tool in tools)
    kind = read_kind(otherwise, what="otherwise")
    if kind is RulingKind.ALLOW:
        raise UsageError("only(otherwise='allow') would allow everything. Nothing happened.")
    return Only(names, kind)


@frozen_record(frozen=True, slots=True, eq=False)
class ByTag:
    """Rulings by the tags of tools."""

    rulings: Mapping[str, RulingKind]

    def __call__(self, call: ProposedCall) -> Ruling:
        matching = {tag: self.rulings[tag] for tag in call.tags if tag in self.rulings}
        kind = strictest(matching.values())
        tags = ", ".join(sorted(tag for tag in matching if matching[tag] is kind))
        return Ruling(kind, f"{call.tool} is tagged {tags}" if tags else "")

    def __str__(self) -> str:
        words = ", ".join(f"{tag}: {kind.value}" for tag, kind in self.rulings.items())
        return f"by_tag({words})"


@frozen_record(frozen=True, slots=True)
class Only:
    """The only tools that may be called."""

    tools: frozenset[str]
    otherwise: RulingKind

    def __call__(self, call: ProposedCall) -> Ruling:
        if call.tool in self.tools:
            return Ruling(RulingKind.ALLOW)
        return Ruling(self.otherwise, f"{call.tool} is not on the list")

    def __str__(self) -> str:
        return f"only({', '.join(sorted(self.tools))})"
