"""How is one call made as a run of its own, in a group of such runs? (P300, P301)

Several processes that work on one task cannot share a run, because a run has one holder. So each
call is a run. The commit of the intent is also the claim, and the commit of the outcome is also the
end and the release: two commits, as for a call in a run. A call that is already done costs none.
"""

from __future__ import annotations

from typing import Any

from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls.requests import Receipt, Request
from nottwice.engine.doubts import blocking, reconcile, restored, tampered
from nottwice.engine.hiding import classify
from nottwice.engine.opening import Opening
from nottwice.engine.session import Session
from nottwice.errors import (
    KeyConflict,
    LedgerTampered,
    ResultNotKept,
    RunAborted,
    RunBusy,
    RunWaits,
)
from nottwice.model import values
from nottwice.model.call import CallRow, CallStatus, ResultKind
from nottwice.model.failure import was_interrupted
from nottwice.model.run import RunRecord, RunStatus


def open_single(opening: Opening) -> Doing[Session]:
    """Become the holder of a run of one call. A new run is claimed by its first commit.

    No doubt is reconciled: the only call of the run is the one that the caller asks for.
    Durable: the claim of a run that exists, when this returns.
    """
    session = yield from ownership.take(opening)
    try:
        yield from ownership.look_around(session)
        if not session.is_claimed:
            session.expect(new=True)
            return session
        yield from tampered.look_at_seals(session)
        yield from restored.hold_if_copied(session)
        # What a person has decided is used; the doubt about the call itself is its caller's affair.
        yield from reconcile.raise_if_blocked(session, for_all=False)
    except LedgerTampered as found:
        try:
            raise (yield from tampered.hold(session, found, release=True)) from None
        finally:
            ownership.let_go(session)
    except BaseException as error:
        yield from close_single(session, error)
        raise
    return session


def close_single(session: Session, error: BaseException | None) -> Doing[None]:
    """Leave a run of one call. Nothing is written if its last commit has released it already."""
    if session.is_over or session.closed or not session.is_claimed:
        ownership.let_go(session)
        return
    if isinstance(error, RunWaits | RunBusy) or was_interrupted(error):
        # Nothing failed. The caller comes back, and finds the call as it is now.
        yield from ownership.leave(session, error, None, status=RunStatus.RUNNING)
        return
    failure = None
    if error is not None and not isinstance(error, RunAborted):
        failure = classify(error, effectful=False, now=session.clock.now())
    yield from ownership.leave(session, error, failure)


def find_receipt(request: Request, run: RunRecord) -> Doing[Receipt[Any] | None]:
    """Return the receipt of a run of one call that is completed, without claiming the run.

    None: the run has to be claimed to find out more.
    """
    if run.status is not RunStatus.COMPLETED:
        return None
    row: CallRow | None = yield Read(lambda store: store.load_call(request.identity))
    if row is None or row.status is not CallStatus.DONE:
        return None
    kept = row.kept_result()
    if kept.kind is ResultKind.NOT_KEPT:
        return None
    try:
        value = request.tool.decode_result(kept)
    except ResultNotKept:
        return None
    return Receipt(value, True, row.call_id, row.attempt, request.tool.name, row.settled_by)


def refuse_another(session: Session, request: Request) -> Doing[None]:
    """Refuse a call if its run stands for another one, which has or may have had an effect."""
    if not session.is_claimed:
        return
    rows: list[CallRow] = yield Read(lambda store: store.calls(session.run_id))
    asked = blocking.written_call(request.tool.name, values.decode_object(request.args_json))
    for row in rows:
        if row.identity != request.identity and row.status is not CallStatus.FAILED:
            yield from ownership.put_back(session)
            raise KeyConflict(
                f"Run {session.run_id!r} stands for one call, {blocking.call_text(row)}, and "
                f"{asked} was asked for under the same name. Nothing was sent. Choose another name "
                "for another call."
            )
