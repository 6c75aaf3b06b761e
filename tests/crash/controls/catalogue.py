"""Every control, in the order in which the page shows them."""

from __future__ import annotations

from tests.crash.controls.attempts import ATTEMPTS
from tests.crash.controls.control import Control
from tests.crash.controls.doubts import DOUBTS
from tests.crash.controls.identity import IDENTITY
from tests.crash.controls.owners import OWNERS

CONTROLS: tuple[Control, ...] = (*ATTEMPTS, *DOUBTS, *OWNERS, *IDENTITY)
