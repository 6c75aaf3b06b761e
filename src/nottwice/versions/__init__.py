"""Versions of graphs: moving runs to another one, what still drains, and the lock of a build.

``nt.versions.migrate`` moves one run, ``nt.versions.migrate_all`` every open run of a version.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.versions.migrate_plan import Migration
    from nottwice.versions.migrating import migrate, migrate_all

__all__ = ["Migration", "migrate", "migrate_all"]

# Imported when first used: a command that only looks at versions need not load what moves runs.
_HOME = {
    "Migration": "nottwice.versions.migrate_plan",
    "migrate": "nottwice.versions.migrating",
    "migrate_all": "nottwice.versions.migrating",
}


if not TYPE_CHECKING:
    # Type checkers would take every name, also a misspelt one, for one of ours.

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'nottwice.versions' has no attribute {name!r}")
        found = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
