"""Which calls does a ready-made policy apply to? Those of a tool, a tag, or a rate-limit class."""

from __future__ import annotations

from nottwice.errors import UsageError
from nottwice.model.call import check_id
from nottwice.model.data.records import frozen_record
from nottwice.model.policy import ProposedCall


@frozen_record(frozen=True, slots=True, kw_only=True)
class Choosing:
    """The calls that match everything that is named, or all calls if nothing is named."""

    tool: str | None = None
    tag: str | None = None
    rate_class: str | None = None

    def __post_init__(self) -> None:
        for what in ("tool", "tag", "rate_class"):
            named = getattr(self, what)
            if named is not None:
                check_id(named, what=f"{what}=")

    def chooses(self, call: ProposedCall) -> bool:
        return (
            self.tool in (None, call.tool)
            and (self.tag is None or self.tag in call.tags)
            and self.rate_class in (None, call.rate_class)
        )

    def __str__(self) -> str:
        named = (("tool", self.tool), ("tag", self.tag), ("rate", self.rate_class))
        return " ".join(f"{what}={name}" for what, name in named if name is not None) or "all"

    def check_named(self, what: str) -> None:
        """Refuse to match all calls, because that would add up unrelated amounts."""
        if self.tool is None and self.tag is None and self.rate_class is None:
            raise UsageError(
                f"{what} must name the calls it applies to. Nothing happened. Add tool=, tag= or "
                "rate_class=."
            )
