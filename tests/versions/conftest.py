"""What the tests of versions share: a host in memory, and effects that are counted."""

from __future__ import annotations

import pytest

from tests.fakes import Host
from tests.graphs.effects import Effects


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def effects() -> Effects:
    return Effects()
