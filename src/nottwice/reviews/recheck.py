"""Run ``verify`` again for open reviews, without firing anything (H2, D10).

Only "it happened" resolves a doubt here, because it can be recorded as fact. "It did not happen" is
recorded for the person who decides. Nothing is sent past an open review (P130).
"""

from __future__ import annotations

from collections.abc import Iterator

from nottwice.engine.asks import Doing, Verify, Write
from nottwice.engine.drivers import drive
from nottwice.engine.hiding import hide, kept
from nottwice.engine.host import FindTool, Host
from nottwice.model.call import call_from_row
from nottwice.model.data.records import frozen_record
from nottwice.model.decision import Answer
from nottwice.model.review import Decision, Evidence, Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.tool import Tool, Verification
from nottwice.reviews.queue import Case, open_cases
from nottwice.store.interface import Commit, Outdated, ReviewWrite

_VERIFIABLE = (ReviewKind.IN_DOUBT, ReviewKind.RESULT)


@frozen_record(frozen=True, slots=True)
class Rechecked:
    """The answer of ``verify`` for one review, now."""

    case: Case
    answer: str
    resolved: bool


def recheck(
    ledger: Host, find_tool: FindTool, *, tool_name: str | None = None
) -> Iterator[Rechecked]:
    """Run ``verify`` for every open review, one by one. Nothing is fired.

    Durable: each answer, before it is yielded.
    """
    wanted = (case for case in open_cases(ledger.store) if _can_ask(case.review, tool_name))
    return (_recheck(ledger, case, find_tool) for case in wanted)


def _can_ask(review: Review, tool_name: str | None) -> bool:
    is_open = review.kind in _VERIFIABLE and review.status is ReviewStatus.OPEN
    return is_open and tool_name in (None, review.identity.tool_name)


def _recheck(host: Host, case: Case, find_tool: FindTool) -> Rechecked:
    tool = find_tool(case.review.identity.tool_name)
    if case.row is None or tool is None:
        return Rechecked(case, "its tool is not declared here", resolved=False)
    if tool.verify is None:
        return Rechecked(case, "its tool has no verify hook", resolved=False)
    return drive(_ask_again(host, case, tool), host)


def _ask_again(host: Host, case: Case, tool: Tool) -> Doing[Rechecked]:
    review, row = case.review, case.row
    assert row is not None
    outcome = yield Verify(tool, call_from_row(row), tool.verify_limit_seconds)
    reply, now = outcome.value, host.clock.now()
    if not isinstance(reply, Verification):
        said = f"verify failed: {outcome.error!r}" if outcome.error else "verify gave no answer"
        said = hide(said, tool)
    else:
        said = f"verify answered: {reply.answer.value}"
    item = Evidence(
        workflow_id=review.identity.workflow_id,
        call_id=review.call_id,
        attempt_id=row.attempt_id,
        at=now,
        source="recheck",
        text=said.encode("utf-8", "replace").decode()[:2000],
    )
    happened = isinstance(reply, Verification) and reply.answer is Answer.HAPPENED
    writes: tuple[ReviewWrite, ...] = ()
    if happened:
        decision = Decision(
            verb=Verb.HAPPENED,
            by="verify",
            why="verify found the effect",
            at=now,
            result=kept(tool, reply.result),
        )
        writes = (ReviewWrite(review.decided(decision), review.version),)
    try:
        yield Write(
            Commit(workflow_id=review.identity.workflow_id, reviews=writes, evidence=(item,))
        )
    except Outdated:
        return Rechecked(case, f"{said}; the review was decided meanwhile", resolved=False)
    return Rechecked(case, said, resolved=happened)
