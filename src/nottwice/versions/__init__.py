"""Versions of graphs: moving runs to another one, what still drains, and the lock of a build.

``nt.versions.migrate`` moves one run, ``nt.versions.migrate_all`` every open run of a version.
"""

from nottwice.versions.migrate import migrate, migrate_all
from nottwice.versions.migrate_plan import Migration

__all__ = ["Migration", "migrate", "migrate_all"]
