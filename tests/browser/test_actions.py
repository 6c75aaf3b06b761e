"""Are approvals, events and cancellations recorded in a real browser, with and without scripts?"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nottwice.errors import NottwiceError
from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunStatus
from tests.cli.workplace import Workplace
from tests.web.test_inbox import decided, pay
from tests.web.test_serving import Server

pytestmark = pytest.mark.deep(part="browser")
SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])


def ask_for_approvals(store: str) -> None:
    with Ledger(store) as ledger:
        for cents in range(3):
            with pytest.raises(NottwiceError), ledger.run(f"pay-{cents}"):
                pay(cents=cents)


@pytest.fixture
def server(graph_place: Workplace) -> Iterator[Server]:
    """The page of a ledger with waiting graphs and three approvals."""
    # In a thread of its own: the browser's driver runs an event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ask_for_approvals, graph_place.store).result()
    started = Server(graph_place, "--by", "ann")
    yield started
    started.stop()


@SCRIPTS
def test_several_approvals_are_recorded_each_by_itself(
    scripts: bool, open_page: Any, graph_place: Workplace
) -> None:
    page = open_page(java_script_enabled=scripts)
    for cents in (0, 2):
        row = page.locator("article", has_text=f"Pay {cents} cents")
        row.get_by_label("choose").check()
    page.get_by_role("button", name="Approve the chosen").click()
    page.get_by_role("heading", name="Decided, not used yet: 2").wait_for()
    with Ledger(graph_place.store, create=False) as ledger:
        assert [decided(ledger, f"pay-{cents}") for cents in range(3)] == [
            ["approve"],
            [],
            ["approve"],
        ]


@SCRIPTS
def test_an_event_is_sent_to_a_run_that_waits_for_it(
    scripts: bool, open_page: Any, server: Server, graph_place: Workplace
) -> None:
    page = open_page(java_script_enabled=scripts)
    page.goto(f"{server.address}/run?id=listen-1")
    page.get_by_text("Send an event").click()
    assert page.get_by_label("Name").input_value() == "news"
    page.get_by_label("Data as JSON").fill('{"cents": 4000}')
    page.get_by_role("button", name="Send the event").click()
    page.get_by_role("cell", name="4000").wait_for()
    # A reload sends nothing.
    page.reload()
    with Ledger(graph_place.store, create=False) as ledger:
        (event,) = ledger.store.events("listen-1")
    assert (event.name, event.json, event.sent_by) == ("news", '{"cents":4000}', "ann")


@SCRIPTS
def test_a_run_is_cancelled_by_a_person_who_is_sure(
    scripts: bool, open_page: Any, server: Server, graph_place: Workplace
) -> None:
    page = open_page(java_script_enabled=scripts)
    page.goto(f"{server.address}/run?id=listen-1")
    page.get_by_text("Cancel this run").click()
    page.get_by_label("Why (kept)").fill("called off")
    page.get_by_role("button", name="Cancel the run").click()
    # The browser asks for the tick first.
    with Ledger(graph_place.store, create=False) as ledger:
        assert ledger.run_record("listen-1").status == "waiting"
    page.get_by_label("End listen-1 permanently").check()
    page.get_by_role("button", name="Cancel the run").click()
    page.get_by_text("Cancel this run").wait_for(state="detached")
    with Ledger(graph_place.store, create=False) as ledger:
        run = ledger.store.load_run("listen-1")
    assert run is not None
    assert run.status is RunStatus.ABORTED
