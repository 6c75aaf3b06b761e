"""Who is told of what happens in a ledger? ``notify=`` of a program, else the project.

The project's settings do not apply in a test of pytest, in a crash test, and to a ledger in memory:
nothing that is only tried out may wake a person.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from nottwice.engine.clock import Clock
from nottwice.errors import UsageError
from nottwice.guard.settings.project import project_table
from nottwice.guard.stand_ins import current_stand_in
from nottwice.store.interface import Store
from nottwice.store.machine import whereabouts

if TYPE_CHECKING:
    # Only there: a program without notifications does without this room (P226).
    from nottwice.notify.settings import Notify

NotifySource: TypeAlias = "Notify | Mapping[str, Any] | Literal[False] | None"
"""``nt.Notify(...)``, the same as a dict, False for nothing, None for what the project says."""
PROJECT_TABLE = "notify"
_TEST = "PYTEST_CURRENT_TEST"
_IN_MEMORY = ":memory:"


def project_notify() -> Notify | None:
    """What ``[tool.nottwice.notify]`` says; None if the project has no such table."""
    folder, table = project_table()
    found = table.get(PROJECT_TABLE)
    if found is None:
        return None
    from nottwice.notify.settings import read_notify

    return read_notify(found, where=str(folder / "pyproject.toml"))


def find_notify(given: Any, store: Store, clock: Clock) -> Notify | None:
    """Return the settings that apply to a ledger, and let this process act on them."""
    if given is False or whereabouts.told() is not whereabouts.AS_NAMED:
        return None
    if current_stand_in() is not None:
        return None
    if given is None:
        if _TEST in os.environ or store.location == _IN_MEMORY:
            return None
        settings = project_notify()
    else:
        settings = _given(given)
    if settings is not None:
        from nottwice.notify.attending import attend

        attend(store, settings, clock)
    return settings


def _given(given: Any) -> Notify:
    from nottwice.notify.settings import Notify, read_notify

    if isinstance(given, Notify):
        return given
    if isinstance(given, Mapping):
        return read_notify(given, where="notify=")
    raise UsageError(
        f"notify= takes nt.Notify(...), a dict, False or None, not {given!r}. Nothing was opened."
    )
