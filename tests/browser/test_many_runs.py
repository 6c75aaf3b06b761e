"""Does every page answer in a ledger of 100,000 runs, within the patience of a browser?"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
    # In a thread of its own: the browser's driver runs an event loop in this one, where commits
    # that are made together are awaited.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fill, folder / "agent.db").result()
    return Workplace(folder)


def fill(path: Path) -> None:
    with Ledger(path) as ledger:
        store, now = ledger.store, ledger.clock.now()
        for first in range(0, RUNS, 2000):
            soon = []
            for number in range(first, first + 2000):
                at = now - RUNS + number
                run = RunRecord(f"run-{number:06}", RunStatus.RUNNING, 0, None, at, at)
                soon.append(store.commit_soon(Commit(run.workflow_id, claim=Claim(run))))
            for one in soon:
                one.result()


@pytest.fixture
def server(crowded: Workplace) -> Iterator[Server]:
    started = Server(crowded)
    yield started
    started.stop()


def test_every_page_of_a_long_list_answers(open_page: Any, server: Server) -> None:
    page = open_page()
    start = page.url
    for path in ("runs", "runs?prefix=run-0000", "runs?state=queued", "run?id=run-000007", ""):
        page.goto(start + path)
        page.get_by_role("heading", level=1).wait_for()
    page.goto(start + "runs")
    for _ in range(3):
        page.get_by_role("link", name="Next page").click()
        page.get_by_role("link", name="First page").wait_for()
    assert page.locator("tr[data-row]").count() == 50
