"""Remove expired data from a ledger: ``nt.remove_expired`` (L8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nottwice.engine.upkeep import retention as engine
from nottwice.engine.upkeep.retention import RemovalReport, Sweep
from nottwice.guard import registry
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger, ledger_of
from nottwice.model.call import check_id
from nottwice.model.runs.retention import Retention
from nottwice.store.interface import Store


def remove_expired(
    store: str | Path | Ledger | Store | None = None,
    *,
    retention: Retention | None = None,
    by: str = "a program",
    dry_run: bool = False,
    unknown_tools: bool = False,
    on_progress: Callable[[RemovalReport], None] | None = None,
) -> RemovalReport:
    """Remove the data of ended runs that is no longer needed.

    ``dry_run`` only reports. Rows of tools that are not declared in this process stay, because
    their ``keep=`` is unknown, unless you pass ``unknown_tools``. Other processes may keep working.
    Durable: each part when it is done. You can kill it and run it again.
    """
    check_not_importing("What has expired is removed")
    ledger = ledger_of(store, create=False)
    return engine.remove_expired(
        Sweep(
            store=ledger.store,
            clock=ledger.clock,
            find_tool=registry.find_tool,
            retention=retention or Retention(),
            by=check_id(by, what="Who removes it"),
            dry_run=dry_run,
            unknown_tools=unknown_tools,
            on_progress=on_progress or (lambda removed: None),
        )
    )
