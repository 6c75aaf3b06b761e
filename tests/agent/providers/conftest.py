"""One model API for all tests of providers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.wire_server import Wire, started


@pytest.fixture(scope="package")
def wire() -> Iterator[Wire]:
    with started() as wire:
        yield wire
