"""Does a replay equal its record? Compares the calls, the route, and the ending.

A visit that the record contains completely must make the same effects, and no other call that the
record cannot answer. Where the record ends in the middle of a visit, what comes next is new, and
there is nothing to compare it with. Promise kept here: P51.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import nottwice
from nottwice.engine.doubts.blocking import written_call
from nottwice.engine.stepping.steps import SPAWN
from nottwice.errors import ResultNotKept
from nottwice.guard import registry
from nottwice.model import values
from nottwice.model.call import CallIdentity, CallRow, CallStatus
from nottwice.model.failure import classify
from nottwice.model.replay_class import stricter
from nottwice.model.review import Review, ReviewKind, ReviewStatus
from nottwice.model.run import RunStatus, StepRecord, StepStatus
from nottwice.model.runs.places import branches_differ
from nottwice.model.tool import OWN_PREFIX
from nottwice.testing.replay.fixture import Fixture
from nottwice.testing.replay.plain import BLOCK, PlainVisits
from nottwice.testing.replay.problems import Cause, Problem, difference, nearest
from nottwice.testing.replay.runner import (
    Miss,
    ReachedOut,
    Stopped,
    Trace,
    is_same_place,
    is_settled,
)
from nottwice.testing.replay.visits import ReplayedVisit, Visits

_ASK = f"{OWN_PREFIX}ask"
_OURS = str(Path(nottwice.__file__).parent)


def judge(
    fixture: Fixture,
    trace: Trace,
    visits: Visits | PlainVisits,
    *,
    answered: Collection[str] = (),
) -> list[Problem]:
    """Return all differences between a replay and its record, or nothing if they are the same.

    ``answered`` names pure tools that may have new calls, because their answers are given.
    """
    never_opened = not trace.opened and not trace.hangs
    if never_opened and (trace.error is None or type(trace.error) is Stopped):
        text = f"the code did not open the run {fixture.run_id!r}, so it resumed nothing"
        return [Problem(Cause.NOT_OPENED, text)]
    verdict = _Verdict(fixture, trace, visits, answered)
    return [
        *verdict.unreadable(),
        *verdict.reclassified(),
        *verdict.dispatches(),
        *verdict.questions(),
        *verdict.routes(),
        *verdict.endings(),
    ]


class _Verdict:
    """One replay compared with its record."""

    def __init__(
        self,
        fixture: Fixture,
        trace: Trace,
        visits: Visits | PlainVisits,
        answered: Collection[str],
    ) -> None:
        self._fixture = fixture
        self._trace = trace
        self._visits = visits
        self._answered = answered
        self._recorded: dict[ReplayedVisit, StepRecord] = {
            ReplayedVisit(step.node_id, step.checkpoint_id): step for step in fixture.steps
        }
        self._paired: set[CallIdentity] = set()
        """Recorded calls that were made with other arguments."""
        self._rows: dict[ReplayedVisit | None, list[CallRow]] = {}
        for row in fixture.calls:
            self._rows.setdefault(self._visit_of(row), []).append(row)

    # The calls

    def unreadable(self) -> Iterator[Problem]:
        for identity, text in self._trace.unreadable:
            yield self._problem(Cause.RESULT, text, self._visit(identity.node_id, identity[2]))

    def reclassified(self) -> Iterator[Problem]:
        seen: set[str] = set()
        for row in self._fixture.calls:
            tool = registry.find_tool(row.identity.tool_name)
            if tool is None or tool.name in seen:
                continue
            if stricter(row.replay_class, tool.replay_class) is not tool.replay_class:
                seen.add(tool.name)
                text = (
                    f"{tool.name} was {row.replay_class.value} when it was called and is now "
                    f"{tool.replay_class.value}; under a run, a class may only become stricter"
                )
                yield self._problem(Cause.TOOL_RECLASSIFIED, text, self._visit_of(row))

    def dispatches(self) -> Iterator[Problem]:
        by_visit: dict[ReplayedVisit | None, list[Miss]] = {}
        for miss in self._trace.misses:
            by_visit.setdefault(self._visit_of_miss(miss), []).append(miss)
        for entered in self._visits.among(self._trace.visits):
            by_visit.setdefault(entered, [])
        for visit, misses in by_visit.items():
            yield from self._dispatches_of(visit, misses)
        yield from self._gone_from_the_run()
        yield from self._reordered()

    def _dispatches_of(self, visit: ReplayedVisit | None, misses: list[Miss]) -> Iterator[Problem]:
        unasked = [
            row
            # Calls of the run as a whole belong to any visit that makes them.
            for row in (*self._rows.get(visit, ()), *self._rows.get(None, ()))
            if row.identity not in self._trace.asked and row.identity not in self._paired
        ]
        unpaired: list[Miss] = []
        for miss in misses:
            same = [row for row in unasked if is_same_place(row.identity, miss.identity)]
            wanted = self._wanted_before(visit, miss)
            if not same and wanted is not None:
                yield self._other_arguments(visit, miss, wanted, "a person was asked about those")
                continue
            if not same:
                unpaired.append(miss)
                continue
            row = same[nearest(miss.args, [values.decode(one.args_json) for one in same])]
            unasked.remove(row)
            self._paired.add(row.identity)
            if miss.effectful or miss.identity.tool_name not in self._answered:
                yield self._arguments_changed(visit, row, miss)
        effects = [row for row in unasked if _is_effect(row) and self._visit_of(row) == visit]
        for miss in unpaired:
            yield from self._new_call(visit, miss, effects)
        if visit is not None and self._ended(visit):
            for row in effects:
                yield self._effect_gone(visit, row)

    def _gone_from_the_run(self) -> Iterator[Problem]:
        """Yield effects of the run as a whole that no visit of the record makes any more."""
        whole = [visit for visit in self._visits.among(self._recorded) if self._is_done(visit)]
        if all(self._ended(visit) for visit in whole):
            asked = self._trace.asked.keys() | self._paired
            for row in self._rows.get(None, ()):
                if row.identity not in asked and _is_effect(row):
                    yield self._effect_gone(None, row)

    def _reordered(self) -> Iterator[Problem]:
        """Yield effects of one place that are made in another order than recorded.

        If a run was killed between them, the second would be called before the first.
        """
        recorded = {row.identity: row for row in self._fixture.calls if _is_effect(row)}
        last: dict[tuple[str, ...], CallRow] = {}
        for identity in self._trace.asked:
            row = recorded.get(identity)
            if row is None:
                continue
            before = last.get(identity[:3])
            if before is not None and row.created_at < before.created_at:
                text = f"{_call_of(before)} is called before {_call_of(row)}, which came first"
                yield self._problem(Cause.REORDERED, text, self._visit_of(row))
            last[identity[:3]] = row

    def _wanted_before(self, visit: ReplayedVisit | None, miss: Miss) -> Any | None:
        """Return the arguments that a person was asked to approve in place of this call."""
        for review in self._fixture.reviews:
            same = review.identity.tool_name == miss.identity.tool_name
            if same and self._visit_of_review(review) == visit and miss.effectful:
                if review.identity not in self._trace.asked:
                    return values.decode(review.about or "{}").get("args")
        return None

    def _arguments_changed(self, visit: ReplayedVisit | None, row: CallRow, miss: Miss) -> Problem:
        what = "its receipt is not found, and it was not sent again"
        if not miss.effectful:
            what = "its result is not found, and a resume would compute it again"
        return self._other_arguments(visit, miss, values.decode(row.args_json), what)

    def _other_arguments(
        self, visit: ReplayedVisit | None, miss: Miss, before: Any, what: str
    ) -> Problem:
        text = f"{miss.identity.tool_name} is called with other arguments: {what}"
        diff = difference(before, miss.args, root="arguments")
        if not diff:
            diff = (f"~ the same arguments, of another type or with another label: {miss.args}",)
        return self._problem(Cause.ARGUMENTS_CHANGED, text, visit, diff)

    def _new_call(
        self, visit: ReplayedVisit | None, miss: Miss, effects: list[CallRow]
    ) -> Iterator[Problem]:
        """Yield a call without a counterpart, unless the record ends here."""
        here = miss.identity.node_id
        left = [row for row in effects if not branches_differ(row.identity.node_id, here)]
        if visit is not None and not self._is_done(visit) and not left:
            return
        call = written_call(miss.identity.tool_name, miss.args)
        gone = [row for row in left if registry.find_tool(row.identity.tool_name) is None]
        if miss.effectful and gone:
            effects.remove(gone[0])
            text = f"{gone[0].identity.tool_name} is no longer declared; the code calls {call}"
            yield self._problem(Cause.TOOL_MISSING, text, visit)
        elif miss.effectful:
            after = f", while {_call_of(left[0])} is recorded and not called" if left else ""
            text = f"ReplayUnsafeError: no receipt of {call} is recorded{after}; it was not sent"
            yield self._problem(Cause.NEW_EFFECT, text, visit)
        elif not miss.answered:
            name = miss.identity.tool_name
            text = (
                f"the record cannot answer {call}, so it is unknown how the code continues; define "
                f"what it returns: --tools '{{\"{name}\": ...}}'"
            )
            yield self._problem(Cause.NEW_PURE_CALL, text, visit)

    def _effect_gone(self, visit: ReplayedVisit | None, row: CallRow) -> Problem:
        name = row.identity.tool_name
        if not name.startswith(OWN_PREFIX) and registry.find_tool(name) is None:
            text = f"{name} is no longer declared, and the record contains {_call_of(row)}"
            return self._problem(Cause.TOOL_MISSING, text, visit)
        text = f"the record contains {_call_of(row)}, but the code ends without it"
        return self._problem(Cause.EFFECT_GONE, text, visit)

    # The questions

    def questions(self) -> Iterator[Problem]:
        recorded = {review.review_id: review for review in self._fixture.reviews}
        new = [one for key, one in self._trace.reviews.items() if key not in recorded]
        for review in new:
            visit = self._visit_of_review(review)
            before = self._asked_before(review, visit, recorded)
            approval = review.kind is ReviewKind.APPROVAL
            cause = Cause.ARGUMENTS_CHANGED if approval else Cause.QUESTION_CHANGED
            if before is not None:
                text = "a person is asked something else, and the answer is not found"
                diff = difference(before, _shown(review), root="question")
                yield self._problem(cause, text, visit, diff)
            elif visit is None or self._is_done(visit):
                text = f"a person is asked where the record continued: {review.summary}"
                yield self._problem(Cause.NEW_WAIT, text, visit)
        for key, before_it in recorded.items():
            after = self._trace.reviews.get(key)
            if after is not None and after.status is ReviewStatus.CLOSED and not new:
                visit = self._visit_of_review(before_it)
                text = "a question is no longer asked, and its answer is lost"
                diff = difference(_shown(before_it), {}, root="question")
                yield self._problem(Cause.QUESTION_CHANGED, text, visit, diff)

    def _asked_before(
        self, review: Review, visit: ReplayedVisit | None, recorded: dict[str, Review]
    ) -> Any | None:
        """Return what the record asked in place of a new question."""
        for known in recorded.values():
            if known.kind is review.kind and self._visit_of_review(known) == visit:
                return _shown(known)
        name = review.identity.tool_name if review.kind is ReviewKind.APPROVAL else _ASK
        for row in (*self._rows.get(visit, ()), *self._rows.get(None, ())):
            if row.identity.tool_name == name and row.identity not in self._trace.asked:
                args = values.decode(row.args_json)
                return {"tool": name, "args": args} if name != _ASK else args
        return None

    # The route

    def routes(self) -> Iterator[Problem]:
        before = self._by_branch(self._visits.among(self._recorded))
        after = self._by_branch(self._visits.among(self._trace.visits))
        for branch in dict.fromkeys([*before, *after]):
            yield from self._route(branch, before.get(branch, []), after.get(branch, []))

    def _route(
        self, branch: str, before: list[ReplayedVisit], after: list[ReplayedVisit]
    ) -> Iterator[Problem]:
        for number, visit in enumerate(after):
            last = after[number - 1].node if number else self._fixture.after
            if number < len(before) and before[number] != visit:
                text = f"after {last} the record goes to {_named(before[number])}, "
                yield Problem(Cause.ROUTE_CHANGED, f"{text}the code to {_named(visit)}", last)
                return
            over = not branch and self._fixture.status is RunStatus.COMPLETED
            if number >= len(before) and over:
                text = f"after {last} the record ends, but the code goes to {_named(visit)}"
                yield Problem(Cause.ROUTE_CHANGED, text, last)
                return
        ended = self._trace.outcome is not None and self._trace.outcome.finished
        if ended and len(after) < len(before):
            last = after[-1].node if after else self._fixture.after
            text = f"after {last} the record goes to {_named(before[len(after)])}, the code ends"
            yield Problem(Cause.ROUTE_CHANGED, text, last)

    @staticmethod
    def _by_branch(visits: list[ReplayedVisit]) -> dict[str, list[ReplayedVisit]]:
        found: dict[str, list[ReplayedVisit]] = {}
        for visit in visits:
            found.setdefault(visit.branch, []).append(visit)
        return found

    # The ending

    def endings(self) -> Iterator[Problem]:
        trace = self._trace
        if trace.hangs:
            yield Problem(Cause.HANGS, "the replay did not end in time; a node waits on its own")
        elif isinstance(trace.error, ReachedOut):
            text = "a node uses the network directly, which no resume can undo; make it a tool"
            yield self._problem(Cause.REACHES_OUT, text, self._last_visit())
        elif trace.error is not None and not trace.stopped:
            yield from self._raised(trace.error)
        elif trace.outcome is not None and trace.outcome.status == "waiting":
            yield from self._waits()

    def _raised(self, error: BaseException) -> Iterator[Problem]:
        # An exception that leaves a block without a graph ended the run, wherever it was raised.
        visit = BLOCK if self._fixture.is_plain else self._last_visit()
        known = None if visit is None else self._recorded.get(visit)
        kind = classify(error, effectful=False, now=self._fixture.at).error_type
        if known is not None and known.failure is not None and known.failure.error_type == kind:
            # It also failed when it was recorded.
            return
        if isinstance(error, ResultNotKept):
            yield self._problem(Cause.RESULT, str(error), visit)
            return
        own = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(_OURS)
        ]
        diff = tuple(f"{frame.filename}:{frame.lineno} {frame.line}" for frame in own[-2:])
        yield self._problem(Cause.NODE_RAISES, f"{type(error).__name__}: {error}", visit, diff)

    def _waits(self) -> Iterator[Problem]:
        assert self._trace.outcome is not None
        for where, step in self._trace.steps.items():
            visit = ReplayedVisit(*where)
            if step.status is StepStatus.IN_PROGRESS and self._is_done(visit):
                names = [wait.subject for wait in self._trace.outcome.waits]
                asked = {one.review_id for one in self._trace.reviews.values()}
                kinds = [one for one in names if one not in asked]
                if kinds:
                    text = f"the code waits for {', '.join(kinds)} where the record continued"
                    yield self._problem(Cause.NEW_WAIT, text, visit)

    # Helpers

    def _problem(
        self, cause: Cause, text: str, visit: ReplayedVisit | None, diff: tuple[str, ...] = ()
    ) -> Problem:
        return Problem(cause, text, None if visit is None else visit.node, diff)

    def _visit(self, node_id: str, checkpoint_id: str) -> ReplayedVisit | None:
        return self._visits.around(node_id, checkpoint_id)

    def _visit_of_miss(self, miss: Miss) -> ReplayedVisit | None:
        """Return where a call was made. For the run as a whole, the visit that was in progress."""
        found = self._visit(miss.identity.node_id, miss.identity.checkpoint_id)
        if found is None and miss.during is not None:
            return self._visit(*miss.during)
        return found

    def _visit_of_review(self, review: Review) -> ReplayedVisit | None:
        found = self._visit(review.identity.node_id, review.identity.checkpoint_id)
        return found or self._last_visit()

    def _visit_of(self, row: CallRow) -> ReplayedVisit | None:
        return self._visit(row.identity.node_id, row.identity.checkpoint_id)

    def _is_done(self, visit: ReplayedVisit) -> bool:
        known = self._recorded.get(visit)
        return known is not None and known.status is StepStatus.DONE

    def _ended(self, visit: ReplayedVisit) -> bool:
        step = self._trace.steps.get(visit)
        return step is not None and step.status is StepStatus.DONE

    def _last_visit(self) -> ReplayedVisit | None:
        found = self._visits.among(self._trace.visits)
        return found[-1] if found else None


def _is_effect(row: CallRow) -> bool:
    """Whether code that no longer makes this call has drifted: it happened, or may have."""
    if row.identity.tool_name == SPAWN:
        return row.status is CallStatus.DONE
    return row.replay_class.effectful and (row.status is CallStatus.DONE or not is_settled(row))


def _call_of(row: CallRow) -> str:
    return written_call(row.identity.tool_name, values.decode(row.args_json))


def _named(visit: ReplayedVisit) -> str:
    return visit.node if visit.number == 1 else f"{visit.node} (visit {visit.number})"


def _shown(review: Review) -> dict[str, Any]:
    """Return what a person is shown, as far as the identity covers it."""
    shown = values.decode(review.about or "{}")
    kept = ("tool", "args") if review.kind is ReviewKind.APPROVAL else ("question", "options")
    found = {name: shown[name] for name in kept if name in shown}
    if review.kind is ReviewKind.QUESTION and shown.get("about") is not None:
        found["about"] = shown["about"]
    return found
