"""Versions of graphs: moving runs to another one, what still drains, and the lock of a build.

``nt.versions.migrate`` moves one run, ``nt.versions.migrate_all`` every open run of a version.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.versions.migrate_plan import Migration
    from nottwice.versions.migrating import migrate, migrate_all

__all__ = ["Migration", "migrate", "migrate_all"]

_MODULES = {
    "Migration": "nottwice.versions.migrate_plan",
    "migrate": "nottwice.versions.migrating",
    "migrate_all": "nottwice.versions.migrating",
}


def __getattr__(name: str) -> Any:
    # A command that only looks at versions need not load what moves runs.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
