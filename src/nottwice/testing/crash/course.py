"""Running the work again and again until it ends, with or without a fault.

A life is what an operator does: run the work. If it waits for a person, decide by what the world's
log contains. If it waits for time or an event, provide it. Then run it again. A fault ends a life
early. What it leaves, a :class:`Moment`, is where the next life starts.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from nottwice.model import values
from nottwice.model.asking.asked import Question, options_of, shown_in
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.run import RunRecord, RunStatus, WaitKind
from nottwice.testing.crash.inside.child import LEDGERS, ChildErrand, ChildMessage, ChildRuling
from nottwice.testing.crash.inside.points import CrashFault, PointKind
from nottwice.testing.crash.inside.scratch import Scratch
from nottwice.testing.crash.repeating import Repeated
from nottwice.testing.crash.scenario import CrashTestRefused, Scenario
from nottwice.testing.crash.stage import Begin, Child, Examining, Stage, StageEnding, Until
from nottwice.testing.crash.upstream import CountingUpstream
from nottwice.testing.crash.view import NOTHING, View

MOST_ROUNDS = 40


@frozen_record(frozen=True, slots=True)
class Moment:
    """Everything that outlives a process: the disk (``folder``) and the world."""

    folder: Path
    upstream: CountingUpstream


@frozen_record(frozen=True, slots=True, kw_only=True)
class Lived:
    """The result of one life."""

    met: str | None = None
    """The point at which the fault was met. None: the work ended without meeting it."""
    stopped: Child | None = None
    """The process that met its fault, if it was stopped and can be woken."""
    ending: StageEnding | None = None
    passed: int = 0
    """How many points of the counted kind there were."""
    names: tuple[str, ...] = ()
    """The boundaries by name, in order."""
    used: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    before: View = NOTHING
    """What was durable at the start."""
    after: View = NOTHING
    trouble: str | None = None
    """Why it neither ended nor met its fault: it hung, it waits forever, the kit failed."""


@frozen_record(frozen=True, slots=True)
class Baseline:
    """The uninterrupted run that everything else is compared with."""

    lived: Lived
    upstream: CountingUpstream
    varies: bool = False
    """Its points came in another order the second time, because it has threads."""


@frozen_record(frozen=True, slots=True)
class _Turn:
    """What people and time do between two rounds. ``idle``: there is nothing left to do."""

    rulings: tuple[ChildRuling, ...] = ()
    messages: tuple[ChildMessage, ...] = ()
    idle: bool = False
    stuck: str | None = None


@dataclass(slots=True)
class Lab:
    """What a level works with: the scenario, a stage to perform on, and its own folders."""

    scenario: Scenario
    stage: Stage
    root: Path
    baseline: Baseline | None = None
    scratch: Scratch | None = None
    """Where ledgers on PostgreSQL are kept, if a database was named for that."""
    chance: random.Random = field(default_factory=random.Random)
    """The source of randomness for samples. Its seed is printed."""
    deadline: float | None = None
    """When the current level must stop, by the monotonic clock. None: when it is done."""
    repeated_kept: int = 0
    """How many durable calls one point of the current level repeated, at most."""
    repeated_waiting: int = 0
    """The same for pure calls whose results were pending writes."""
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def seconds_left(self) -> float:
        """Return how long the current level may still take."""
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def note_repeated(self, again: Repeated) -> None:
        """Keep the maximum that any point of the level repeated."""
        self.repeated_kept = max(self.repeated_kept, again.kept.total())
        self.repeated_waiting = max(self.repeated_waiting, again.waiting.total())

    def new_moment(self) -> Moment:
        """Return an empty disk and a world in which nothing has happened."""
        folder = self.root / f"{next(self._numbers):06}"
        (folder / LEDGERS).mkdir(parents=True)
        if self.scratch is not None:
            self.scratch.make(folder / LEDGERS)
        return Moment(folder, CountingUpstream())

    def copy(self, moment: Moment) -> Moment:
        """Return a copy of the disk and the world, for another fault."""
        folder = self.root / f"{next(self._numbers):06}"
        shutil.copytree(moment.folder, folder)
        if self.scratch is not None:
            self.scratch.copy(moment.folder / LEDGERS, folder / LEDGERS)
        return Moment(folder, moment.upstream.copy())

    def discard(self, moment: Moment) -> None:
        """Remove a disk that is no longer needed."""
        if self.scratch is not None:
            self.scratch.discard(moment.folder / LEDGERS)
        shutil.rmtree(moment.folder, ignore_errors=True)

    def live(
        self,
        moment: Moment,
        *,
        fault: CrashFault | None = None,
        counts: PointKind = PointKind.BOUNDARY,
        passed: int = 0,
    ) -> Examining[Lived]:
        """Run the work until it ends, or until the fault ends it."""
        turn, first = _Turn(), NOTHING
        names: list[str] = []
        used: set[str] = set()
        for number in range(MOST_ROUNDS):
            errand = ChildErrand(
                folder=moment.folder,
                fault=fault,
                counts=counts,
                passed=passed,
                rulings=turn.rulings,
                messages=turn.messages,
            )
            child: Child = yield Begin(errand, moment.upstream)
            yield Until(child)
            if number == 0:
                first = child.before or NOTHING
            if child.broken is not None:
                return Lived(before=first, trouble=child.broken)
            if child.met_at is not None:
                stopped = child if child.stopped else None
                return Lived(met=child.met_at, stopped=stopped, before=first)
            passed = child.passed
            names += child.names
            used |= set(child.used)
            after = child.after or NOTHING
            turn = self.next_turn(after, moment.upstream)
            if turn.idle or turn.stuck:
                return Lived(
                    ending=child.ending,
                    passed=passed,
                    names=tuple(names),
                    used=frozenset(used),
                    declared=frozenset(child.declared),
                    before=first,
                    after=after,
                    trouble=turn.stuck,
                )
        return Lived(before=first, trouble=f"it has not ended after {MOST_ROUNDS} rounds")

    def next_turn(self, seen: View, upstream: CountingUpstream) -> _Turn:
        """Return what people decide, and what time and events bring, before the next round."""
        waiting = [run for run in seen.runs if run.status is RunStatus.WAITING]
        stuck = [_drift_text(one) for one in seen.reviews if _is_open(one, ReviewKind.DRIFT)]
        if stuck:
            return _Turn(stuck=stuck[0])
        upstream.settle()
        rulings = tuple(
            self._ruling(review, upstream)
            for review in seen.reviews
            if review.status is ReviewStatus.OPEN
        )
        messages = tuple(self._messages(waiting, seen))
        moved = bool(rulings or messages)
        if not moved:
            moved = _let_time_come(waiting, upstream)
        if not moved and waiting:
            return _Turn(stuck=f"run {waiting[0].workflow_id!r} waits for what will never arrive")
        return _Turn(rulings, messages, idle=not moved)

    def _ruling(self, review: Review, upstream: CountingUpstream) -> ChildRuling:
        match review.kind:
            case ReviewKind.QUESTION:
                return ChildRuling(review.review_id, Verb.ANSWER, self._answer(review))
            case ReviewKind.BUDGET:
                return ChildRuling(review.review_id, Verb.RAISE, _enough(review))
            case ReviewKind.APPROVAL:
                rejected = self.scenario.answers.get(review.identity.tool_name) == "reject"
                return ChildRuling(review.review_id, Verb.REJECT if rejected else Verb.APPROVE)
            case _:
                found = upstream.find(review.call_id)
                if found is None:
                    return ChildRuling(review.review_id, Verb.DID_NOT_HAPPEN)
                return ChildRuling(review.review_id, Verb.HAPPENED, found.result_json)

    def _answer(self, review: Review) -> str:
        """Return a person's answer: from the scenario, or the first option."""
        shown = shown_in(review)
        question = shown.text if isinstance(shown, Question) else review.summary
        if question in self.scenario.answers:
            return values.encode(self.scenario.answers[question])
        options = options_of(review)
        if not options:
            raise CrashTestRefused(
                f"The work asks {question!r}, and the crash test has no answer for it. Nothing "
                f"real was called. Define what a person answers: answers={{{question!r}: ...}}."
            )
        return values.encode(options[0])

    def _messages(self, waiting: list[RunRecord], seen: View) -> list[ChildMessage]:
        """Return the events that runs wait for and that the scenario defines, unless they were
        already sent."""
        wanted = {
            (run.workflow_id, wait.subject)
            for run in waiting
            for wait in run.waits
            if wait.kind is WaitKind.EVENT and wait.subject in self.scenario.answers
        }
        on_the_way = {
            (event.workflow_id, event.name) for event in seen.events if event.received_by is None
        }
        return [
            ChildMessage(run_id, name, values.encode(self.scenario.answers[name]))
            for run_id, name in sorted(wanted - on_the_way)
        ]


def _is_open(review: Review, kind: ReviewKind) -> bool:
    return review.kind is kind and review.status is ReviewStatus.OPEN


def _drift_text(review: Review) -> str:
    return f"after the resume the code asked for something else: {review.summary}"


def _enough(review: Review) -> str:
    """Return a raise of the suggested size."""
    shown = shown_in(review)
    about = shown.about if isinstance(shown, Question) else None
    return values.encode(about["suggested"] if isinstance(about, dict) else None)


def _let_time_come(waiting: list[RunRecord], upstream: CountingUpstream) -> bool:
    """Advance to the next moment at which a wait ends. Return False if there is none."""
    ends = [
        wait.until
        for run in waiting
        for wait in run.waits
        if wait.until is not None and wait.until > upstream.now
    ]
    with contextlib.suppress(ValueError):
        upstream.now = min(ends)
        return True
    # Some waits are already over. The next process that opens the run will see that.
    return any(wait.until is not None for run in waiting for wait in run.waits)
