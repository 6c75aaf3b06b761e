"""Cancel a run permanently, and the runs that it has spawned.

Only its holder may change a run. To cancel a run without a holder, the caller becomes its holder
for a moment. If another process holds the run, it is notified and stops before its next effect or
node, or a few later if they take only milliseconds. Calls that happened stay on record. Nothing is
undone.
"""

from __future__ import annotations

from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read, Write
from nottwice.engine.drivers import drive
from nottwice.engine.host import Host
from nottwice.engine.opening import Opening
from nottwice.engine.session import Session
from nottwice.engine.waits.cancelled import left_word
from nottwice.errors import RunAborted, RunBusy, UnknownRun, UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.review import AuditEntry
from nottwice.model.run import CANCEL, EventRecord, RunStatus
from nottwice.store.interface import Commit, EventWrite


def cancel(ledger: Ledger, run_id: str, *, by: str, why: str) -> bool:
    """Abort a run and its children. False: another process holds it and was asked to stop.

    Durable: when it returns.
    """
    check_id(run_id, what="The run id")
    for name, text in (("by", by), ("why", why)):
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"Cancelling a run needs {name}, for the record. Nothing was done.")
        values.check_plain(text, root=name)
    known = ledger.store.load_run(run_id)
    if known is None:
        raise UnknownRun(f"There is no run {run_id!r} in {ledger.location}. Nothing was done.")
    if known.status.is_final:
        raise UsageError(f"Run {run_id!r} is already {known.status.value}. Nothing was done.")
    return drive(cancelling(ledger.host, run_id, by=by, why=why), ledger.host)


def cancelling(host: Host, run_id: str, *, by: str, why: str) -> Doing[bool]:
    """Like ``cancel``, as a generator for the driver."""
    opening = Opening(host=host, run_id=run_id)
    now = host.clock.now()
    entry = AuditEntry(run_id, now, by, "cancel", f"run {run_id}", why)
    try:
        session: Session = yield from ownership.take(opening)
    except RunBusy:
        notice = EventRecord(run_id, CANCEL, CANCEL, values.encode({"by": by, "why": why}), now, by)
        yield Write(Commit(workflow_id=run_id, events=(EventWrite(notice),), audit=(entry,)))
        left_word()
        # One that begins after this finds the word that was left to its parent.
        yield from cancel_children(host, run_id, by=by, why=why)
        return False
    try:
        # Children first: after a crash here the run is still open and can be cancelled again.
        yield from cancel_children(host, run_id, by=by, why=why)
        yield from session.commit(audit=(entry,))
    except BaseException:
        yield from ownership.release(session, None, status=RunStatus.RUNNING)
        raise
    aborted = RunAborted(f"Run {run_id!r} was cancelled by {by}: {why}.")
    yield from ownership.release(session, aborted)
    return True


def cancel_children(host: Host, run_id: str, *, by: str, why: str) -> Doing[None]:
    """Abort the unfinished runs that a run has spawned."""
    for child in (yield Read(lambda store: store.children(run_id))):
        if child.status is RunStatus.ABORTED:
            # The process that aborted it may have died before it aborted the children.
            yield from cancel_children(host, child.workflow_id, by=by, why=why)
        elif not child.status.is_final:
            try:
                yield from cancelling(host, child.workflow_id, by=by, why=why)
            except RunAborted:
                continue
