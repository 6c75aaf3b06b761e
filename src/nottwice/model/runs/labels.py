"""How are runs found again? By the tags that callers give them, and by the group they belong to.

Tags and groups only sort runs. nottwice never decides by them what happens to a call, except that
runs of one call wait for others of their group (P301). Promise kept here: P220.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.call import check_id
from nottwice.model.data.records import frozen_record

MOST_TAGS = 32
Tags = tuple[tuple[str, str], ...]
"""Names with their values, sorted by name."""


@frozen_record(frozen=True, slots=True)
class Labels:
    """What a caller says about a run."""

    tags: Tags = ()
    group: str | None = None

    def texts(self) -> list[str]:
        """Return them as an index has them. No tag has an empty name, so a group is not a tag."""
        group = [] if self.group is None else [tag_text("", self.group)]
        return [*(tag_text(name, value) for name, value in self.tags), *group]

    def over(self, known: Labels) -> Labels:
        """Return these labels on top of the known ones: a tag given again replaces the old value.

        A run stays in its group, so ``check_group`` comes first.
        """
        tags = known.tags
        if self.tags:
            tags = tuple(sorted({**dict(known.tags), **dict(self.tags)}.items()))
        return Labels(tags, known.group if self.group is None else self.group)


NO_LABELS = Labels()


def read_labels(
    tags: Mapping[str, str] | None, group: str | None, *, what: str = "A run"
) -> Labels:
    """Check what a caller gave. Raises UsageError or InvalidId before anything happens."""
    if not tags and group is None and (tags is None or isinstance(tags, Mapping)):
        return NO_LABELS
    named = None if group is None else check_id(group, what=f"{what}: the group")
    return Labels(read_tags(tags, what=what), named)


def read_tags(given: Mapping[str, str] | None, *, what: str) -> Tags:
    """Check tags: text for text, each short enough for an index and printable."""
    tags: Any = {} if given is None else given
    if not isinstance(tags, Mapping):
        raise UsageError(
            f"{what}: tags must be a dict from text to text, not {type(tags).__name__}. Nothing "
            "happened. Write tags={'customer': 'acme'}."
        )
    found: dict[str, str] = {}
    for name, value in tags.items():
        spelled = check_id(name, what=f"{what}: the name of a tag")
        if "=" in spelled:
            raise UsageError(
                f"{what}: the name of a tag is {spelled!r}, and '=' separates a name from its "
                "value. Nothing happened. Choose a name without '='."
            )
        found[spelled] = check_id(value, what=f"{what}: the value of tag {spelled!r}")
    if len(found) > MOST_TAGS:
        raise UsageError(
            f"{what}: {len(found):,} tags were given, and a run has at most {MOST_TAGS}. Nothing "
            "happened. Keep the ones that you search by."
        )
    return tuple(sorted(found.items()))


def tag_text(name: str, value: str) -> str:
    """Return a tag as people type it and as the index has it."""
    return f"{name}={value}"


def parse_tag(text: str) -> tuple[str, str]:
    """Read ``name=value``."""
    name, separator, value = text.partition("=")
    if not separator:
        raise UsageError(f"{text!r} is not a tag. Nothing was read. Write NAME=VALUE.")
    ((name, value),) = read_tags({name: value}, what=f"The tag {text!r}")
    return name, value


def check_group(run_id: str, known: str | None, given: str | None) -> None:
    """Refuse to move a run to another group."""
    if known is not None and given is not None and known != given:
        raise UsageError(
            f"Run {run_id!r} belongs to group {known!r}, and group {given!r} was given. Nothing "
            "was done. A run stays in its group: leave group= out, or choose another run id."
        )
