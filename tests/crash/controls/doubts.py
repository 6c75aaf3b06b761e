"""Engines that end a doubt by something that is no proof, or use a person's word twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls import approvals
from nottwice.engine.doubts import doubt, reconcile
from nottwice.engine.session import Session
from nottwice.model.decision import Action, Answer, Attempt, Facts, Settle, decide
from nottwice.model.review import Review, ReviewStatus, Verb
from tests.crash.controls.agents import MAILS, NOTING, NOTING_LATE, ONE_MAIL, TWO_WIRES
from tests.crash.controls.control import Control, swap

_used = Review.used
_look_into = doubt.look_into


def fires_again_when_unknown() -> None:
    def broken(facts: Facts) -> Action:
        action = decide(facts)
        return Action.NEW_ATTEMPT if action is Action.OPEN_REVIEW else action

    swap(reconcile, "decide", broken)


def trusts_verify_while_the_holder_may_live() -> None:
    def broken(facts: Facts) -> Action:
        if facts.answer is Answer.DID_NOT_HAPPEN and facts.attempt is Attempt.MAYBE_ALIVE:
            return Action.NEW_ATTEMPT
        return decide(facts)

    swap(reconcile, "decide", broken)


def trusts_verify_before_the_settle_time() -> None:
    def broken(facts: Facts) -> Action:
        passed = facts.settle is Settle.WAITING
        return decide(replace(facts, settle=Settle.PASSED) if passed else facts)

    swap(reconcile, "decide", broken)


def a_licence_is_used_twice() -> None:
    """It stays decided after its use, and its reader does not check for which attempt."""
    swap(Review, "used", _stays_decided)

    def broken(session: Any, tool: Any, row: Any, invocation: Any, **told: Any) -> Doing[Any]:
        found_out = yield from _look_into(session, tool, row, invocation, **told)
        found = yield Read(lambda store: store.reviews(session.run_id))
        licences = [one for one in found if one.identity == row.identity and one.is_licence]
        if found_out.review is None and licences:
            found_out.review = licences[0]
        return found_out

    swap(reconcile, "look_into", broken)


def _stays_decided(self: Review, *, now: float) -> Review:
    decision = self.decision
    if decision is not None and decision.verb is Verb.DID_NOT_HAPPEN:
        return self
    return _used(self, now=now)


def a_licence_is_used_before_the_intent() -> None:
    """Two commits where there should be one: what dies in between has lost the licence."""
    whole = Session.commit

    def broken(self: Session, *, reviews: Any = (), **rest: Any) -> Doing[None]:
        if reviews and rest.get("calls"):
            yield from whole(self, reviews=reviews)
            reviews = ()
        yield from whole(self, reviews=reviews, **rest)

    swap(Session, "commit", broken)


def an_approval_is_good_for_any_call() -> None:
    """An approval of the same tool is taken for one of this very call."""
    whole = approvals.authorise

    def broken(scope: Any, tool: Any, intent: Any, **told: Any) -> Doing[Any]:
        found = yield Read(lambda store: store.reviews(scope.session.run_id))
        for one in found:
            same_tool = one.identity.tool_name == tool.name
            if same_tool and one.status is ReviewStatus.USED:
                return ()
        return (yield from whole(scope, tool, intent, **told))

    swap(approvals, "authorise", broken)


def verify_is_not_asked() -> None:
    """Whatever has a verify hook is taken to have happened."""

    def broken(facts: Facts) -> Action:
        action = decide(facts)
        return Action.RECORD_HAPPENED if action is Action.ASK_VERIFY else action

    swap(reconcile, "decide", broken)


DOUBTS = (
    Control(
        name="an unsafe call in doubt is fired again",
        breaks=fires_again_when_unknown,
        agent=MAILS,
        level="boundaries",
        invariant="no effect twice",
    ),
    Control(
        name="'did not happen' is trusted while the holder may live",
        breaks=trusts_verify_while_the_holder_may_live,
        agent=NOTING,
        level="takeover",
        invariant="no effect twice",
    ),
    Control(
        name="'did not happen' is trusted before the settle time has passed",
        breaks=trusts_verify_before_the_settle_time,
        agent=NOTING_LATE,
        level="boundaries",
        invariant="no effect twice",
    ),
    Control(
        name="verify is taken to have said yes without being asked",
        breaks=verify_is_not_asked,
        agent=NOTING,
        level="boundaries",
        invariant="receipts are true",
    ),
    Control(
        name="a person's licence for one attempt is used for two",
        breaks=a_licence_is_used_twice,
        agent=ONE_MAIL,
        level="double",
        invariant="no effect twice",
    ),
    Control(
        name="a person's licence is used up apart from the attempt that it allows, before it",
        breaks=a_licence_is_used_before_the_intent,
        agent=ONE_MAIL,
        level="double",
        invariant="decisions apply once",
    ),
    Control(
        name="an approval is not bound to the call that was shown",
        breaks=an_approval_is_good_for_any_call,
        agent=TWO_WIRES,
        level="boundaries",
        invariant="approvals come first",
    ),
)
