"""Does one page show several ledgers in a real browser, and an agent's run with its turns?"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import NottwiceError
from nottwice.guard.ledger import Ledger
from tests.agent.workshop import Workshop
from tests.browser.conftest import assert_readable, screenshot
from tests.cli.render.test_agent import SCRIPT
from tests.cli.workplace import Workplace
from tests.web.test_serving import Server

pytestmark = pytest.mark.deep(part="browser")


def fill(path: str) -> None:
    agent = Workshop(SCRIPT).agent
    agent.run("ticket-70", goal="close it", done_when=["paid [receipt: refund]"], store=path)
    agent.run("ticket-70", message="Thanks.", store=path)
    with Ledger(path) as ledger, pytest.raises(NottwiceError), ledger.run("ask-1"):
        nt.ask("Refund 4000 cents?", options=["yes", "no"])


@pytest.fixture
def second(tmp_path: Path) -> str:
    """A ledger with the run of an agent and a question."""
    path = str(tmp_path / "team.db")
    # In a thread of its own: the browser's driver runs an event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fill, path).result()
    return path


@pytest.fixture
def server(workplace: Workplace, second: str) -> Iterator[Server]:
    started = Server(workplace, "--by", "ann", "--store", second)
    yield started
    started.stop()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_question_of_one_ledger_is_found_among_all_and_answered(
    scripts: bool, open_page: Any, second: str
) -> None:
    page = open_page(java_script_enabled=scripts)
    page.get_by_role("heading", name="Inbox of 2 ledgers").wait_for()
    assert page.locator("article").count() == 4
    page.get_by_role("link", name="Look at Refund 4000 cents? in team.db").click()
    page.get_by_label("yes", exact=True).check()
    page.get_by_label("Why (kept").fill("go on")
    page.get_by_role("button", name="Record decision").click()
    page.get_by_role("heading", name="Recorded: answer").wait_for()
    assert "/in/team.db/review/" in page.url
    with Ledger(second, create=False) as ledger:
        (review,) = ledger.store.reviews("ask-1")
        assert review.decision is not None
    page.get_by_role("link", name="All ledgers").click()
    page.get_by_role("heading", name="Inbox of 2 ledgers").wait_for()
    assert page.locator("article").count() == 3


def test_a_change_in_any_ledger_is_heard_and_keys_lead_from_one_to_all(
    open_page: Any, second: str
) -> None:
    page = open_page()
    page.get_by_text("● live").wait_for()
    rows = page.locator("[data-row]").count()
    with Ledger(second, create=False) as ledger:
        with pytest.raises(NottwiceError), ledger.run("ask-2"):
            nt.ask("Another?", options=["yes", "no"])
    page.get_by_text("1 new. Show.").wait_for()
    assert page.locator("[data-row]").count() == rows
    page.get_by_role("link", name="team.db", exact=True).first.click()
    page.get_by_role("heading", name="Inbox", exact=True).wait_for()
    # The keys work once the script has run, which is after the heading is visible.
    page.wait_for_load_state()
    page.keyboard.press("l")
    page.get_by_role("heading", name="Ledger", exact=True).wait_for()
    page.wait_for_load_state()
    page.keyboard.press("a")
    page.get_by_role("heading", name="Inbox of 2 ledgers").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_a_screen_reader_and_a_phone_can_use_the_pages_of_all_ledgers(
    scheme: str, width: int, open_page: Any, axe: str
) -> None:
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    start = page.url
    conversation = "in/team.db/run?id=ticket-70&part=conversation"
    for path in ("", "in/team.db/", "in/agent.db/ledger", conversation):
        page.goto(start + path)
        assert_readable(page, axe)
        if (scheme, width) == ("light", 1100) and path in ("", conversation):
            screenshot(page, "conversation" if path else "several")
