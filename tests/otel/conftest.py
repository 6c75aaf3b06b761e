"""What the tests of telemetry share: OpenTelemetry's own SDK, which keeps everything in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nottwice as nt
from tests.otel.telemetry import Telemetry


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    """An SDK of its own, and nothing that is set globally."""
    made = Telemetry()
    yield made
    made.close()


@pytest.fixture
def ledger(tmp_path: Path, telemetry: Telemetry) -> Iterator[nt.Ledger]:
    """A ledger that is traced and measured."""
    with nt.Ledger(tmp_path / "agent.db") as opened:
        telemetry.instrument(opened)
        yield opened
