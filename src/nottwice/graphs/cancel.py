"""Stop a run for good, and the runs that it has spawned.

Only its holder may change a run. Whoever cancels a run that nobody holds becomes its holder for
that moment; a run that somebody drives is told, and stops before its next node, or, if its nodes
take a few milliseconds only, before one of the next. What has happened stays on record; nothing is
undone.
"""

from __future__ import annotations

from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read, Write
from nottwice.engine.drivers import drive
from nottwice.engine.host import Host
from nottwice.engine.session import Session
from nottwice.engine.waits.cancelled import left_word
from nottwice.errors import RunAborted, RunBusy, UnknownRun, UsageError
from nottwice.guard import registry
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.review import AuditEntry
from nottwice.model.run import CANCEL, EventRecord, RunStatus
from nottwice.store.interface import Commit, EventWrite


def cancel(ledger: Ledger, run_id: str, *, by: str, why: str) -> bool:
    """Abort a run and its children. False: somebody drives it, and was told to stop.

    Durable: when it returns.
    """
    check_id(run_id, what="The run id")
    for name, text in (("by", by), ("why", why)):
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"Cancelling a run needs {name}: it is kept. Nothing was done.")
    known = ledger.store.load_run(run_id)
    if known is None:
        raise UnknownRun(f"No run {run_id!r} is in {ledger.location}. Nothing was done.")
    if known.status.is_final:
        raise UsageError(f"Run {run_id!r} is {known.status.value} already. Nothing was done.")
    return drive(cancelling(ledger, run_id, by=by, why=why), ledger)


def cancelling(seat: Host, run_id: str, *, by: str, why: str) -> Doing[bool]:
    """The same for the engine."""
    opening = ownership.Opening(host=seat, run_id=run_id, find_tool=registry.find_tool)
    now = seat.clock.now()
    entry = AuditEntry(run_id, now, by, "cancel", f"run {run_id}", why)
    try:
        session: Session = yield from ownership.take(opening)
    except RunBusy:
        told = EventRecord(run_id, CANCEL, CANCEL, values.encode({"by": by, "why": why}), now, by)
        yield Write(Commit(workflow_id=run_id, events=(EventWrite(told),), audit=(entry,)))
        left_word()
        return False
    try:
        # The children first: whoever dies now finds the run not cancelled, and does it again.
        yield from cancel_children(seat, run_id, by=by, why=why)
        yield from session.commit(audit=(entry,))
    except BaseException:
        yield from ownership.release(session, None, status=RunStatus.RUNNING)
        raise
    aborted = RunAborted(f"Run {run_id!r} was cancelled by {by}: {why}.")
    yield from ownership.release(session, aborted)
    return True


def cancel_children(seat: Host, run_id: str, *, by: str, why: str) -> Doing[None]:
    """Abort what a run has spawned and what is not over yet."""
    for child in (yield Read(lambda store: store.children(run_id))):
        if child.status is RunStatus.ABORTED:
            # Whoever aborted it may have died before it came to the children.
            yield from cancel_children(seat, child.workflow_id, by=by, why=why)
        elif not child.status.is_final:
            try:
                yield from cancelling(seat, child.workflow_id, by=by, why=why)
            except RunAborted:
                continue
