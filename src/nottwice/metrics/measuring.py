"""What does an event add to which metric?

A duplicate was prevented each time code asked for an effect that is on record as done and got its
receipt, so that the tool was not invoked again. Promise kept here: P341.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from nottwice.engine import events
from nottwice.metrics import declared
from nottwice.metrics.declared import Instrument
from nottwice.model.replay_class import ReplayClass
from nottwice.model.review import ReviewKind

Labels = dict[str, str | bool]


class Measured(NamedTuple):
    """A value to add to a counter, to record in a histogram, or to show as a gauge."""

    instrument: Instrument
    value: float
    labels: Labels


_EFFECTFUL = frozenset(one.value for one in ReplayClass if one.effectful)
_NONE: tuple[Measured, ...] = ()


def measure(event: events.Event) -> tuple[Measured, ...]:
    """Return what an event adds to the metrics."""
    how = _BY_EVENT.get(type(event))
    return _NONE if how is None else how(event)


def is_duplicate_prevented(call: events.CallEnded) -> bool:
    """Whether the caller got the receipt of an effect that would otherwise have happened again."""
    return call.replayed and call.outcome == "done" and call.replay_class in _EFFECTFUL


def _of_call(call: events.CallEnded) -> tuple[Measured, ...]:
    labels: Labels = {
        declared.TOOL: call.tool,
        declared.REPLAY_CLASS: call.replay_class,
        declared.OUTCOME: call.outcome,
    }
    counted = Measured(declared.CALLS, 1, {**labels, declared.REPLAYED: call.replayed})
    if not call.replayed:
        return counted, Measured(declared.CALL_DURATION, call.seconds, labels)
    if is_duplicate_prevented(call):
        return counted, Measured(declared.DUPLICATES, 1, {declared.TOOL: call.tool})
    return (counted,)


def _of_commit(commit: events.CommitEnded) -> tuple[Measured, ...]:
    return (Measured(declared.COMMIT_DURATION, commit.seconds, {}),)


def _of_review(review: events.ReviewOpened) -> tuple[Measured, ...]:
    if review.kind != ReviewKind.IN_DOUBT.value:
        return _NONE
    return (Measured(declared.DOUBTS_OPENED, 1, {declared.TOOL: review.tool}),)


def _of_doubt(doubt: events.DoubtEnded) -> tuple[Measured, ...]:
    labels: Labels = {declared.TOOL: doubt.tool, declared.SETTLED_BY: doubt.by}
    return (Measured(declared.DOUBTS_SETTLED, 1, labels),)


def _of_release(left: events.RunLeft) -> tuple[Measured, ...]:
    found = []
    if left.tokens_saved:
        found.append(Measured(declared.TOKENS_SAVED, left.tokens_saved, {}))
    if left.usd_saved:
        found.append(Measured(declared.USD_SAVED, left.usd_saved, {}))
    return tuple(found)


_BY_EVENT: dict[type[events.Event], Callable[[Any], tuple[Measured, ...]]] = {
    events.CallEnded: _of_call,
    events.CommitEnded: _of_commit,
    events.ReviewOpened: _of_review,
    events.DoubtEnded: _of_doubt,
    events.RunLeft: _of_release,
}
MEASURED = tuple(_BY_EVENT)
"""The kinds of events that add to a metric."""
