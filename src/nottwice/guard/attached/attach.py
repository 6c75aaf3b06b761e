"""Attach to a run by name: ``nt.attach("ticket-7", store="agent.db")`` (P241)."""

from __future__ import annotations

from nottwice.guard.attached.handle import Handle
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import AnyStore, ledger_of
from nottwice.guard.settings.policies import Policies
from nottwice.model.tool import Duration


def attach(
    run_id: str | None = None,
    *,
    store: AnyStore = None,
    acquire_timeout: Duration | None = "10s",
    settle_timeout: Duration = "60s",
    policy: Policies = None,
) -> Handle:
    """Attach to a run that other threads and tasks of this process may be attached to, too.

    Use the handle in a block: ``with nt.attach("ticket-7", store="agent.db") as handle:``, or
    ``async with``. The first attachment starts or resumes the run, and the others join it. A few
    seconds after the last one was left, the run is released and idle. Attaching does not raise for
    calls in doubt: each call raises for its own review. ``run_id``: None means the run around this
    code, from ``nt.run`` or ``handle.bind``. ``acquire_timeout``: how long to wait for another
    process that has the run before RunBusy. ``settle_timeout`` and ``policy``: as for ``nt.run``.
    """
    if run_id is None:
        return Handle(None)
    check_not_importing(f"Run {run_id!r} is attached to")
    return ledger_of(store).attach(
        run_id, acquire_timeout=acquire_timeout, settle_timeout=settle_timeout, policy=policy
    )
