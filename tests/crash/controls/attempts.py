"""Engines that get the order of intent, effect and result wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nottwice.engine.asks import Doing
from nottwice.engine.session import Session
from nottwice.engine.stepping import steps
from nottwice.engine.waits.stops import Stops
from nottwice.model.call import CallRow, CallStatus
from nottwice.store.interface import CallWrite
from tests.crash.controls.agents import ASKED_IN_VAIN, DRIFTING, MAILS, ONE_MAIL, TWO_STEPS
from tests.crash.controls.control import Control, swap
from tests.crash.scenarios import GRAPHS, GUARD

_commit = Session.commit


def _is_intent(calls: tuple[CallWrite, ...]) -> bool:
    return any(write.row.status is CallStatus.PENDING for write in calls)


def _is_result(calls: tuple[CallWrite, ...]) -> bool:
    return any(
        write.row.status is CallStatus.DONE and write.row.replay_class.effectful for write in calls
    )


def no_intent() -> None:
    def broken(self: Session, *, calls: tuple[CallWrite, ...] = (), **rest: Any) -> Doing[None]:
        if _is_intent(calls):
            return
        calls = tuple(replace(write, after=None) for write in calls)
        yield from _commit(self, calls=calls, **rest)

    swap(Session, "commit", broken)


def intent_after_effect() -> None:
    late: dict[str, tuple[tuple[CallWrite, ...], dict[str, Any]]] = {}

    def broken(self: Session, *, calls: tuple[CallWrite, ...] = (), **rest: Any) -> Doing[None]:
        if _is_intent(calls):
            late[calls[0].row.call_id] = (calls, rest)
            return
        for write in calls:
            if write.row.call_id in late:
                intent, with_it = late.pop(write.row.call_id)
                yield from _commit(self, calls=intent, **with_it)
        yield from _commit(self, calls=calls, **rest)

    swap(Session, "commit", broken)


def no_intent_for_a_retry() -> None:
    before: dict[str, Any] = {}

    def broken(self: Session, *, calls: tuple[CallWrite, ...] = (), **rest: Any) -> Doing[None]:
        if _is_intent(calls) and calls[0].row.attempt > 1:
            before[calls[0].row.attempt_id] = calls[0].after
            return
        calls = tuple(
            replace(write, after=before.pop(write.row.attempt_id, write.after)) for write in calls
        )
        yield from _commit(self, calls=calls, **rest)

    swap(Session, "commit", broken)


def result_after_the_checkpoint() -> None:
    """A result is not returned until what follows from it is durable, in a separate commit."""
    held: list[CallWrite] = []

    def broken(self: Session, *, calls: tuple[CallWrite, ...] = (), **rest: Any) -> Doing[None]:
        if _is_result(calls) and calls[0].row.attempt == 1 and not rest.get("reviews"):
            held.extend(calls)
            return
        while held:
            yield from _commit(self)
            yield from _commit(self, calls=(held.pop(0),))
        yield from _commit(self, calls=calls, **rest)

    swap(Session, "commit", broken)


def review_after_the_stop() -> None:
    def broken(self: Session, *, reviews: Any = (), run: Any = None, **rest: Any) -> Doing[None]:
        if reviews and run is not None and run.waits:
            yield from _commit(self, run=run, **rest)
            yield from _commit(self, reviews=reviews)
            return
        yield from _commit(self, reviews=reviews, run=run, **rest)

    swap(Session, "commit", broken)


def effects_behind_a_wait() -> None:
    """What stops a run stops only the code that asked."""
    swap(Stops, "raise_if_stopped", lambda self, node_id, *, but=None: None)

    def broken(self: Session, *, unless_blocked: bool = False, **rest: Any) -> Doing[None]:
        yield from _commit(self, **rest)

    swap(Session, "commit", broken)


def key_made_anew() -> None:
    whole = CallRow.next_attempt

    def broken(self: CallRow, **given: Any) -> CallRow:
        row = whole(self, **given)
        return row._replace(key=None if row.key is None else f"{row.key}-{row.attempt}")

    swap(CallRow, "next_attempt", broken)


def drift_ignored() -> None:
    def broken(scope: Any, outstanding: Any, wants: str) -> Doing[None]:
        for state in scope.steps:
            state.outstanding.clear()
            state.later.clear()
        yield from ()

    swap(steps, "_refuse", broken)


ATTEMPTS = (
    Control(
        name="no intent is recorded before an effect",
        breaks=no_intent,
        agent=MAILS,
        level="boundaries",
        invariant="no effect twice",
    ),
    Control(
        name="the intent is recorded after the effect",
        breaks=intent_after_effect,
        agent=MAILS,
        level="boundaries",
        invariant="intent before effect",
    ),
    Control(
        name="a retry records no intent of its own",
        breaks=no_intent_for_a_retry,
        agent=GUARD["retries"],
        level="boundaries",
        invariant="intent before effect",
    ),
    Control(
        name="a result is recorded apart from the checkpoint, after it",
        breaks=result_after_the_checkpoint,
        agent=GRAPHS["line"],
        level="boundaries",
        invariant="rows and steps agree",
    ),
    Control(
        name="the review is recorded after the commit that stops the run",
        breaks=review_after_the_stop,
        agent=ONE_MAIL,
        level="double",
        invariant="waits have a reason",
    ),
    Control(
        name="a run that waits continues with new effects",
        breaks=effects_behind_a_wait,
        agent=ASKED_IN_VAIN,
        level="boundaries",
        invariant="no effect twice",
    ),
    Control(
        name="another attempt of a keyed call gets a new key",
        breaks=key_made_anew,
        agent=TWO_STEPS,
        level="boundaries",
        invariant="no effect twice",
    ),
    Control(
        name="code that has drifted away from the ledger is let through",
        breaks=drift_ignored,
        agent=DRIFTING,
        level="boundaries",
        invariant="no effect twice",
    ),
)
