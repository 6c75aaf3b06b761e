"""The proof kit: what users point at their own code to see it killed and resumed.

Everything here is public and meant for tests; production code never imports it.
"""

from __future__ import annotations

from nottwice.testing.world import (
    Effect,
    Verification,
    World,
    WorldClient,
    WorldNotStarted,
    WorldRefused,
)

__all__ = [
    "Effect",
    "Verification",
    "World",
    "WorldClient",
    "WorldNotStarted",
    "WorldRefused",
]
