"""Which calls a ready-made policy is about: those of a tool, of a tag, of a rate-limit class."""

from __future__ import annotations

from nottwice.errors import UsageError
from nottwice.model.call import check_id
from nottwice.model.policy import ProposedCall
from nottwice.model.records import frozen_record


@frozen_record(frozen=True, slots=True, kw_only=True)
class Choosing:
    """The calls that have everything that is named; all calls if nothing is."""

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
        """Refuse to choose everything, where that would add up what does not belong together."""
        if self.tool is None and self.tag is None and self.rate_class is None:
            raise UsageError(
                f"{what} must say which calls it is about. Nothing happened. Add tool=, tag= or "
                "rate_class=."
            )
