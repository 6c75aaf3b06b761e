"""The testing kit: point it at your own code to see it killed and resumed.

Everything here is public and meant for tests. Production code never imports it.
"""

from __future__ import annotations

from nottwice.guard.registry import forget_tools
from nottwice.testing.crash.entry import crash_test
from nottwice.testing.crash.scenario import (
    Asking,
    CrashTestRefused,
    FailsFirst,
    Late,
    LevelsUnavailable,
    Lost,
    NotDeterministic,
)
from nottwice.testing.crash.verdict import Verdict
from nottwice.testing.models.fake import (
    FakeModels,
    FakeModelsNotStarted,
    Fault,
    SeenRequest,
    Turn,
)
from nottwice.testing.smoke import Sandbox
from nottwice.testing.world import (
    Effect,
    World,
    WorldClient,
    WorldNotStarted,
    WorldRefused,
    WorldVerification,
)

__all__ = [
    "Asking",
    "CrashTestRefused",
    "Effect",
    "FailsFirst",
    "FakeModels",
    "FakeModelsNotStarted",
    "Fault",
    "Late",
    "LevelsUnavailable",
    "Lost",
    "NotDeterministic",
    "Sandbox",
    "SeenRequest",
    "Turn",
    "Verdict",
    "World",
    "WorldClient",
    "WorldNotStarted",
    "WorldRefused",
    "WorldVerification",
    "crash_test",
    "forget_tools",
]
