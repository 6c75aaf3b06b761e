"""What the tests of the worker share."""

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
