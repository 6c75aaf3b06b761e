"""How a call without effects happens: run it, retry if that may help, keep the result (D4).

Such a call is never in doubt, so it has no intent. Its result is written with the next commit of
the run. A crash before that costs one more run of the tool, which is what pure means.
"""

from __future__ import annotations

from nottwice.engine import events
from nottwice.engine.asks import Doing, Fire, Invoked, Pause
from nottwice.engine.calls.attempt import Attempted, failed_once_more
from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.calls.requests import Request
from nottwice.engine.hiding import classify, kept
from nottwice.errors import RunBlocked, RunBusy, RunWaits, UsageError
from nottwice.model.call import CallRow
from nottwice.model.failure import is_interruption, is_ledger_trouble
from nottwice.store.interface import CallWrite


def run_pure(
    request: Request, mine: InFlight, intent: CallRow, *, before: CallRow | None
) -> Doing[Attempted]:
    """Run a pure tool and add its result to the pending writes.

    Durable: the result, when this returns, if the tool is declared durable.
    """
    session, tool = request.scope.session, request.tool
    failed = 0
    while True:
        mine.row = intent
        outcome: Invoked = yield Fire(
            tool,
            request.args,
            request.kwargs,
            mine,
            lambda late: None,
        )
        if outcome.interrupt is not None:
            raise outcome.interrupt
        if outcome.still_running:
            # There is no need to wait for it: whatever it still does, it changes nothing.
            limit = f"it passed its time limit of {tool.time_limit_seconds:g} s"
            outcome = Invoked(error=TimeoutError(limit))
        if outcome.error is not None and (tool.only_answers or _is_no_failure(outcome.error)):
            raise outcome.error
        now = session.clock.now()
        if outcome.error is None:
            result = kept(tool, outcome.value, mine.secrets)
            row = intent.done(result, now=now)
            break
        failed += 1
        failure = classify(
            outcome.error, effectful=False, tool=tool, classifier=tool.classify, now=now
        )
        # A tool without effects is never in doubt, so an ambiguous failure is worth a retry.
        row = failed_once_more(session, tool, intent, failure, failed=failed, now=now)
        if row.retry_at is None:
            break
        session.tell_attempt(row, began=row.started_at)
        yield Pause(row.retry_at - now)
        began = session.clock.now()
        intent = intent._replace(attempt=intent.attempt + 1, started_at=began)
    session.pending.add_call(CallWrite(row, before.state if before else None))
    mine.row = row
    if tool.durable:
        yield from session.commit()
    else:
        yield from session.flush_if_heavy()
    # Listeners hear of a reply that is durable only once it is.
    if row.failure is not None or events.listeners:
        session.tell_attempt(row, began=row.started_at)
    return Attempted(row, outcome)


def _is_no_failure(error: BaseException) -> bool:
    """Whether the error concerns the run or the code and is not a failure of the pure tool.

    If it were recorded as the tool's failure, every replay would return it, whatever a person
    decides in the meantime.
    """
    waits = isinstance(error, RunBlocked | RunWaits | RunBusy)
    outside = is_interruption(error) or is_ledger_trouble(error)
    return waits or outside or isinstance(error, UsageError)
