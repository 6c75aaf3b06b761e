"""What the tests of notifications share: a receiver, and a ledger in which people are asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.notify import attending
from tests.fakes import FakeClock
from tests.notify.asking import Asking
from tests.notify.receiver import SECRET, Receiver, receiving


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NOTTWICE_NOTIFY_SECRET", SECRET)
    with receiving() as found:
        yield found


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    clock = FakeClock()
    with nt.Ledger(tmp_path / "agent.db", clock=clock) as ledger:
        yield Asking(ledger, clock)


@pytest.fixture(autouse=True)
def no_one_attends() -> Iterator[None]:
    yield
    attending.wait_for_all(10.0)
    attending.dismiss_all()
