"""A call took effect, but its result cannot be returned. Where does the result come from?

The call is never run again for it. The return annotation may restore the result, ``verify`` may
find it, or a person gives it in a review. Promise kept here: P134.
"""

from __future__ import annotations

from nottwice.engine.asks import CanInvoke, Doing, Invoked, Read, Verify
from nottwice.engine.calls.attempt import Attempted
from nottwice.engine.doubts import blocking
from nottwice.engine.hiding import hide, kept
from nottwice.engine.session import Session
from nottwice.errors import LedgerCorrupt, NottwiceError, ResultNotKept, RunBlocked
from nottwice.model import values
from nottwice.model.call import CallRow, CallStatus, ResultKind, StoredResult, call_from_row
from nottwice.model.decision import Answer
from nottwice.model.review import Decision, Evidence, Review, ReviewKind, ReviewStatus
from nottwice.model.tool import Tool, Verification
from nottwice.store.interface import Outdated, ReviewWrite


def supply(session: Session, tool: Tool, row: CallRow) -> Doing[Attempted]:
    """Return the result of a call whose record does not give it.

    Raises ResultNotKept, with a review on record, if it cannot be found. Durable: the result, or
    the review, when this returns or raises.
    """
    identity = row.identity
    while True:
        reviews = yield from _reviews_of(session, row)
        try:
            if reviews:
                yield from use_or_wait(session, reviews[0])
                row = (yield Read(lambda store: store.load_call(identity))) or row
                continue
            found = yield from _find(session, tool, row)
        except Outdated:
            # At this moment a person decides or takes a decision back.
            continue
        if found is not None:
            return found
        raise (yield from _ask(session, tool, row))


def use_or_wait(session: Session, review: Review) -> Doing[None]:
    """Turn the result that a person gave into the receipt. Raises if there is none yet."""
    row: CallRow | None = yield Read(lambda store: store.load_call(review.identity))
    now = session.clock.now()
    if row is None or row.status is not CallStatus.DONE:
        closed = review.closed("a change of its call", now=now)
        yield from session.commit(reviews=(ReviewWrite(closed, review.version),))
        return
    tool = session.host.find_tool(row.identity.tool_name)
    if review.decision is not None:
        yield from _adopt(session, tool, row, review, review.decision)
    elif tool is None or (yield from _find(session, tool, row, review)) is None:
        raise _with_note(blocking.blocked_by(session, review, row=row), row)


def given_without_tool(row: CallRow, decision: Decision, *, now: float) -> CallRow:
    """Return the receipt for a result that a person gave where the tool is not declared.

    The process that has the tool and asks for the result finds out whether it fits.
    """
    given = decision.result or StoredResult(ResultKind.PLAIN, "null")
    if given.kind is ResultKind.PLAIN:
        given = StoredResult(ResultKind.GIVEN, given.json)
    return row.done(given, now=now, settled_by=f"decision by {decision.by}")


def _adopt(
    session: Session, tool: Tool | None, row: CallRow, review: Review, decision: Decision
) -> Doing[None]:
    now = session.clock.now()
    if tool is None:
        done = given_without_tool(row, decision, now=row.finished_at or now)
    else:
        given = decision.result
        try:
            stored = tool.adopt_result(values.decode(given.json) if given else None)
            if stored.kind is ResultKind.NOT_KEPT:
                raise ResultNotKept("it cannot be kept either")
        except NottwiceError as error:
            text = hide(f"the result given by {decision.by} does not fit: {error}", tool)[:2000]
            said = Evidence(session.run_id, row.call_id, row.attempt_id, now, "engine", text)
            undone = ReviewWrite(review.undone(), review.version)
            yield from session.commit(reviews=(undone,), evidence=(said,))
            raise _with_note(blocking.blocked_by(session, review.undone(), row=row), row) from error
        done = row._replace(result=stored, settled_by=f"decision by {decision.by}")
    used = (ReviewWrite(review.used(now=now), review.version),)
    yield from session.commit_row(done, after=row, reviews=used)


def _find(
    session: Session, tool: Tool, row: CallRow, review: Review | None = None
) -> Doing[Attempted | None]:
    """Return what can be found without a person: by the current annotation, or by ``verify``."""
    healed = _healed(tool, row)
    if healed is not None:
        yield from _write(session, row, healed[0], review, by="the return annotation")
        return Attempted(healed[0], Invoked(value=healed[1]))
    if tool.verify is None or not (yield CanInvoke(tool)):
        return None
    limit = session.at_most(tool.verify_limit_seconds)
    reply = (yield Verify(tool, call_from_row(row), limit)).value
    if not isinstance(reply, Verification) or reply.answer is not Answer.HAPPENED:
        return None
    stored = kept(tool, reply.result)
    if stored.kind is ResultKind.NOT_KEPT:
        # It is returned only this once: it may be a secret that only the upstream may keep.
        yield from _write(session, row, row, review, by="verify")
        return Attempted(row, Invoked(value=reply.result))
    done = row._replace(result=stored, settled_by="verify")
    yield from _write(session, row, done, review, by="verify")
    return Attempted(done, Invoked(value=tool.decode_result(stored)))


def _healed(tool: Tool, row: CallRow) -> tuple[CallRow, object] | None:
    """Return the row and the value, if the return annotation restores what could not be kept.

    Only a value of the same type counts. Without an annotation a tuple would come back as a list.
    """
    stored = row.kept_result()
    note: dict[str, object] = {}
    if stored.kind is ResultKind.NOT_KEPT:
        note = values.decode_object(stored.json)
        if "plain" not in note:
            return None
        stored = StoredResult(ResultKind.TYPED, values.encode(note["plain"]))
    try:
        value = tool.decode_result(stored)
    except ResultNotKept:
        return None
    if note and type(value).__name__ != note.get("type"):
        return None
    return row._replace(result=stored), value


def _write(
    session: Session, before: CallRow, row: CallRow, review: Review | None, *, by: str
) -> Doing[None]:
    now = session.clock.now()
    closing = () if review is None else (ReviewWrite(review.closed(by, now=now), review.version),)
    if row != before or closing:
        yield from session.commit_row(row, after=before, reviews=closing)


def _ask(session: Session, tool: Tool, row: CallRow) -> Doing[RunBlocked]:
    reason = f"it took effect, but its result cannot be returned: {_why(tool, row)}"
    error = yield from blocking.open_review(session, row, reason, kind=ReviewKind.RESULT)
    return _with_note(error, row)


def _why(tool: Tool, row: CallRow) -> str:
    stored = row.kept_result()
    if stored.kind is ResultKind.NOT_KEPT:
        return str(_note_of(row).get("why", "no reason is on record")).rstrip(".")
    try:
        tool.decode_result(stored)
    except ResultNotKept as error:
        return str(error.__cause__ or error).rstrip(".")
    return "it could not be read"


def _with_note(error: RunBlocked, row: CallRow) -> RunBlocked:
    """Add to the error what is on record in place of the result."""
    return type(error)(error.message, **{**error.facts, "about": _note_of(row)})


def _note_of(row: CallRow) -> dict[str, object]:
    stored = row.kept_result()
    if stored.kind is not ResultKind.NOT_KEPT:
        return {}
    try:
        return values.decode_object(stored.json)
    except LedgerCorrupt:
        return {}


def _reviews_of(session: Session, row: CallRow) -> Doing[list[Review]]:
    found: list[Review] = yield Read(lambda store: store.open_reviews(session.run_id))
    return [
        one
        for one in found
        if one.kind is ReviewKind.RESULT
        and one.identity == row.identity
        and one.status in (ReviewStatus.OPEN, ReviewStatus.DECIDED)
    ]
