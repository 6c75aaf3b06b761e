"""What the tests of the engine share."""

from __future__ import annotations

import pytest

from tests.fakes import Host


@pytest.fixture
def host() -> Host:
    return Host()
