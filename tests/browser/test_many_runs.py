"""Do 100,000 runs answer like 100?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunRecord, RunStatus
from nottwice.store.interface import Claim, Commit
from tests.cli.workplace import Workplace
from tests.web.test_serving import Server

pytestmark = [pytest.mark.deep(part="browser"), pytest.mark.timeout(600)]

RUNS = 100_000


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A ledger with 100,000 runs."""
    folder: Path = tmp_path_factory.mktemp("crowded")
    with Ledger(folder / "agent.db") as ledger:
        store, now = ledger.store, ledger.clock.now()
        soon = []
        for number in range(RUNS):
            at = now - RUNS + number
            run = RunRecord(f"run-{number:06}", RunStatus.RUNNING, 0, None, at, at)
            soon.append(store.commit_soon(Commit(run.workflow_id, claim=Claim(run))))
            if len(soon) == 2000:
                for one in soon:
                    one.result()
                soon = []
    return Workplace(folder)


@pytest.fixture
def server(crowded: Workplace) -> Iterator[Server]:
    started = Server(crowded)
    yield started
    started.stop()


def test_every_page_of_a_long_list_is_there_at_once(open_page: Any, server: Server) -> None:
    page = open_page()
    start = page.url
    took = {}
    for path in ("runs", "runs?prefix=run-0000", "runs?state=queued", "run?id=run-000007", ""):
        began = time.monotonic()
        page.goto(start + path)
        page.get_by_role("heading", level=1).wait_for()
        took[path] = time.monotonic() - began
    page.goto(start + "runs")
    for _ in range(3):
        began = time.monotonic()
        page.get_by_role("link", name="Next page").click()
        page.get_by_role("link", name="First page").wait_for()
        took[page.url[-20:]] = time.monotonic() - began
    assert page.locator("tr[data-row]").count() == 50
    # Generous, because machines differ: a list that reads all runs takes tens of seconds.
    assert max(took.values()) < 5, took
