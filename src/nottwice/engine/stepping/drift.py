"""What a resumed run holds that the code has not asked for again yet (D7).

``steps.py`` uses these records to judge. Nothing is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import Review
from nottwice.model.run import StepRecord, StepStatus


@dataclass(slots=True, eq=False)
class StepState:
    """An open step: what the ledger held when it was opened, and what the code asked for since."""

    record: StepRecord
    resumed: bool = False
    outstanding: dict[CallIdentity, CallRow] = field(default_factory=dict)
    later: dict[CallIdentity, CallRow] = field(default_factory=dict)
    inner: dict[str, list[CallIdentity]] = field(default_factory=dict)
    """Outstanding calls that the body of a call made, by the id of that call."""
    around: dict[CallIdentity, tuple[str, ...]] = field(default_factory=dict)
    """For each later call, the ids of the calls in whose bodies it was made."""
    abandoned: dict[str, tuple[CallRow, ...]] = field(default_factory=dict)
    """Effects of other visits of this step that earlier processes left in progress, by visit. All
    visits of the step share this, and each removes itself when it ends."""
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many timers, values and so on each branch has asked for since the step was opened."""

    @property
    def finished(self) -> bool:
        return self.record.status is StepStatus.DONE

    @property
    def may_refuse(self) -> bool:
        """Whether a new effect in this step needs a closer look."""
        return bool(self.finished or self.outstanding or self.later or self.abandoned)


class Drift:
    """What the steps of one run share while this process drives it."""

    def __init__(self, *, is_first_drive: bool) -> None:
        self.is_first_drive = is_first_drive
        """Whether no other session has ever driven the run."""
        self.asked_for: set[str] = set()
        """Ids of calls in steps that the code has asked for since the run was resumed."""
        self._abandoned: dict[str, dict[str, tuple[CallRow, ...]]] = {}
        self._waivers: dict[CallIdentity, Review] = {}
        self._visited: set[tuple[str, str]] = set()

    def ask_for(self, *call_ids: str) -> None:
        """Note that the code has asked for these calls."""
        self.asked_for.update(call_ids)

    def is_first_visit(self, node_id: str, checkpoint_id: str) -> bool:
        """Whether a step cannot be on record."""
        if not self.is_first_drive:
            return False
        visit = (node_id, checkpoint_id)
        seen = visit in self._visited
        self._visited.add(visit)
        return not seen

    def abandoned(self, node_id: str) -> dict[str, tuple[CallRow, ...]] | None:
        """Return the effects of visits of a step that were in progress when the run was resumed.

        All visits of the step share them. None: they were not looked up yet.
        """
        return self._abandoned.get(node_id)

    def found_abandoned(
        self, node_id: str, left: dict[str, tuple[CallRow, ...]]
    ) -> dict[str, tuple[CallRow, ...]]:
        """Keep what was looked up, unless another task was faster."""
        return self._abandoned.setdefault(node_id, left)

    def accept(self, review: Review) -> None:
        """Note that a person has accepted effects that are not asked for again."""
        self._waivers[review.identity] = review

    def use_waiver(self, identity: CallIdentity) -> Review | None:
        """Return such a decision and remove it, because it is used only once."""
        return self._waivers.pop(identity, None)
