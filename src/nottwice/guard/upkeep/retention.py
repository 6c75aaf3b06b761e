"""Removing what nobody needs any more from a ledger: ``nt.remove_expired`` (L8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nottwice.engine.upkeep import retention as engine
from nottwice.engine.upkeep.retention import RemovalReport, Sweep
from nottwice.guard import registry
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger, ledger_of
from nottwice.model.call import check_id
from nottwice.model.retention import Retention
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
    """Remove what runs that are over have left behind and nobody needs any more.

    ``dry_run`` only tells. Rows of tools that are not declared in this process stay, because
    nobody knows what their ``keep=`` says, unless ``unknown_tools``. Others may work meanwhile.
    Durable: each part when it is done; it can be killed and repeated.
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
