"""Versions of graphs: moving runs to another one, what still drains, and the lock of a build.

``nt.versions.migrate`` moves one run, ``nt.versions.migrate_all`` every open run of a version.
"""

from typing import TYPE_CHECKING

from nottwice import lazy

if TYPE_CHECKING:
    from nottwice.versions.migrate_plan import Migration
    from nottwice.versions.migrating import migrate, migrate_all
else:
    # A command that only looks at versions need not load what moves runs.
    __getattr__, __dir__ = lazy.names(
        __name__,
        {
            "Migration": "nottwice.versions.migrate_plan",
            "migrate": "nottwice.versions.migrating",
            "migrate_all": "nottwice.versions.migrating",
        },
    )

__all__ = ["Migration", "migrate", "migrate_all"]
