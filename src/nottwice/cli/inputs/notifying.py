"""Who is told, if a command does not only look but also sends? `notify`, `worker`, `serve`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nottwice.guard.ledger import Ledger
from nottwice.guard.settings.notifying import NotifySource, find_notify, project_notify

if TYPE_CHECKING:
    from nottwice.notify.settings import Notify


def settings_of(ledger: Ledger, given: NotifySource = None) -> Notify | None:
    """The settings of an app or a ledger, else of the project; None if there are none."""
    if given is not None:
        return find_notify(given, ledger.store, ledger.clock)
    return ledger.notify or project_notify()


@contextlib.contextmanager
def notifying(ledger: Ledger, given: NotifySource = None) -> Iterator[None]:
    """Tell people what needs them, every few seconds, as long as the block lasts."""
    settings = settings_of(ledger, given)
    if settings is None:
        yield
        return
    # Only here, because most projects do without (P226).
    from nottwice.notify.attending import watching

    with watching(ledger.store, settings, ledger.clock):
        yield
