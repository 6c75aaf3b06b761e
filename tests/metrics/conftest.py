"""What the tests of metrics share."""

from __future__ import annotations

from tests.engine.conftest import host as host
