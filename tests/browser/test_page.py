"""Do all flows of the operator's page work in a real browser, with and without scripts?"""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from typing import Any

import pytest

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.reviews.inbox import Reviews
from nottwice.worker.presence import Presence
from tests.browser.conftest import assert_readable, screenshot
from tests.cli.workplace import Workplace
from tests.kill.processes import wait_until
from tests.web.test_serving import Server

pytestmark = pytest.mark.deep(part="browser")

PHONE = {"viewport": {"width": 390, "height": 844}}
WIDE = {"viewport": {"width": 900, "height": 800}}


@nt.tool("unsafe_on_replay", name="browser_fail")
def fail(text: str) -> str:
    raise ValueError("the van broke down, " * 500)


def review_of(workplace: Workplace, run_id: str) -> Any:
    with Ledger(workplace.store, create=False) as ledger:
        (review,) = ledger.store.reviews(run_id)
        return review


def visit_review(page: Any, run_id: str, workplace: Workplace) -> Any:
    page.goto(
        page.url.split("?")[0].rstrip("/") + f"/review/{review_of(workplace, run_id).review_id}"
    )
    return page


def await_beat(page: Any) -> None:
    """Wait until the page has heard from the server once more."""
    shown = page.locator("#asof time")
    before = shown.get_attribute("datetime")
    wait_until(lambda: shown.get_attribute("datetime") != before)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_doubt_is_decided_and_taken_back(
    scripts: bool, open_page: Any, workplace: Workplace
) -> None:
    page = open_page(java_script_enabled=scripts, **WIDE)
    assert "token" not in page.url
    if scripts:
        page.get_by_text("● live").wait_for()
        screenshot(page, "inbox")
    page.get_by_role("link", name="Look at send_email(to='ann").click()
    assert page.locator("input[type=radio]:checked").count() == 0
    if scripts:
        page.get_by_text("● live").wait_for()
        screenshot(page, "review")
    page.get_by_label("It did not happen").check()
    page.get_by_label("Why (kept").fill("not in the outbox")
    page.get_by_role("button", name="Record decision").click()
    page.get_by_role("heading", name="Recorded: did-not-happen").wait_for()
    assert review_of(workplace, "ticket-8").is_licence
    # A reload repeats nothing, and neither does the way back.
    page.reload()
    page.get_by_label("Why do you take it back").fill("too early")
    page.get_by_role("button", name="Take it back").click()
    page.get_by_role("button", name="Record decision").wait_for()
    review = review_of(workplace, "ticket-8")
    assert (review.decision, review.version) == (None, 3)


def test_the_browser_refuses_a_form_that_chooses_nothing(
    open_page: Any, workplace: Workplace
) -> None:
    page = visit_review(open_page(), "ticket-8", workplace)
    page.get_by_role("button", name="Record decision").click()
    assert page.locator("input[type=radio]:invalid").count() > 0
    assert review_of(workplace, "ticket-8").version == 1


def test_a_result_is_filled_in_without_the_code(open_page: Any, workplace: Workplace) -> None:
    page = visit_review(open_page(**PHONE), "ticket-8", workplace)
    page.get_by_label("It happened").check()
    page.get_by_label("id", exact=True).fill("m-7")
    page.get_by_label("words").fill("5")
    page.get_by_label("Why (kept").fill("I see it")
    page.get_by_role("button", name="Record decision").click()
    page.get_by_role("heading", name="Recorded: happened").wait_for()
    decision = review_of(workplace, "ticket-8").decision
    assert decision.result.json == '{"id":"m-7","words":5}'
    # The program continues with it, and the mail is not sent again.
    assert workplace.agent("handle", "ticket-8").exit_code == 0


def test_of_two_browsers_one_decides_and_the_other_sees_who(
    open_page: Any, workplace: Workplace
) -> None:
    first, second = open_page(), open_page()
    for page in (first, second):
        visit_review(page, "ticket-9", workplace)
    first.get_by_label("It happened").check()
    first.get_by_label("Value").fill('{"refunded": 4000}')
    first.get_by_label("Why (kept").fill("the bank has it")
    first.get_by_role("button", name="Record decision").click()
    first.get_by_role("heading", name="Recorded: happened").wait_for()
    second.get_by_label("It did not happen").check()
    second.get_by_label("Why (kept").fill("I do not see it")
    second.get_by_role("button", name="Record decision").click()
    alert = second.get_by_role("alert")
    alert.wait_for()
    said = alert.inner_text()
    assert "Your decision was not recorded." in said
    assert "ann decided “happened”" in said
    assert "the bank has it" in said
    screenshot(second, "conflict")
    assert review_of(workplace, "ticket-9").decision.verb.value == "happened"


def test_an_open_page_hears_of_changes_and_never_moves_under_the_cursor(
    open_page: Any, workplace: Workplace
) -> None:
    page = open_page()
    page.get_by_text("● live").wait_for()
    rows = page.locator("[data-row]").all_inner_texts()
    workplace.agent("desk", "desk-1")
    page.get_by_text("1 new. Show.").wait_for()
    # The list is as it was until the reader asks for the new one.
    assert [row.split("\n")[0] for row in page.locator("[data-row]").all_inner_texts()] == [
        row.split("\n")[0] for row in rows
    ]
    # Beats without a change do not forget what is new since the page was loaded.
    for _ in range(2):
        await_beat(page)
    workplace.agent("desk", "desk-2")
    page.get_by_text("2 new. Show.").click()
    page.get_by_role("button", name="approve: Refund 4000 cents?").first.click()
    page.get_by_text("What you decided is recorded: answer for Refund 4000 cents?").wait_for()
    with Ledger(workplace.store, create=False) as ledger:
        (review,) = ledger.store.reviews("desk-1")
        assert review.decision is not None


def test_the_page_of_a_run_is_live(open_page: Any, workplace: Workplace) -> None:
    page = open_page(**WIDE)
    page.goto(page.url + "run?id=ticket-8")
    page.get_by_text("● live").wait_for()
    page.get_by_text("killed").first.wait_for()
    screenshot(page, "run")
    with Ledger(workplace.store, create=False) as ledger:
        (review,) = ledger.store.open_reviews("ticket-8")
        Reviews(ledger).decide(review.review_id, "abort", by="bob", why="stop it")
    page.get_by_text("decided 'abort' by bob").wait_for()


HIDDEN = "Object.defineProperty(document, 'hidden', {get: () => window.isHidden === true})"


def hide(page: Any, hidden: str = "true") -> None:
    """Say to a page that its tab is not seen. A browser without a screen shows all of them."""
    page.evaluate(f"isHidden = {hidden}; document.dispatchEvent(new Event('visibilitychange'))")


def test_more_tabs_are_live_than_a_browser_has_connections_to_a_server(
    open_page: Any, server: Server, workplace: Workplace
) -> None:
    first = open_page()
    first.context.add_init_script(HIDDEN)
    first.clock.install()
    first.reload()
    first.get_by_text("● live").wait_for()
    hide(first)
    for _ in range(6):
        page = first.context.new_page()
        page.goto(f"{server.address}/runs")
        page.get_by_text("● live").wait_for()
        hide(page)
    # A tab that is not seen looks now and then, and its title says what waits.
    workplace.agent("desk", "desk-1")

    def looks() -> bool:
        first.clock.fast_forward(31_000)
        return str(first.title()).startswith("(4)")

    wait_until(looks)
    # Until the server answers, what it shows may be old.
    first.clock.fast_forward(11_000)
    first.get_by_text("This page is stale").wait_for()
    hide(first, "false")
    first.get_by_text("This page is stale").wait_for(state="hidden")
    first.get_by_text("1 new. Show.").wait_for()


def test_a_page_whose_server_is_gone_says_so_and_records_nothing(
    open_page: Any, server: Server, workplace: Workplace
) -> None:
    page = visit_review(open_page(), "ticket-8", workplace)
    page.get_by_text("● live").wait_for()
    page.get_by_label("It did not happen").check()
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        page.get_by_text("This page is stale").wait_for(timeout=30_000)
        assert page.get_by_role("button", name="Record decision").is_disabled()
        screenshot(page, "stale")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    # It comes back by itself, and what was chosen is still chosen.
    page.get_by_text("● live").wait_for(timeout=30_000)
    assert page.get_by_role("button", name="Record decision").is_enabled()
    assert page.get_by_label("It did not happen").is_checked()


def test_a_page_whose_ledger_cannot_be_read_says_why(
    open_page: Any, server: Server, workplace: Workplace
) -> None:
    page = open_page()
    page.get_by_text("● live").wait_for()
    with closing(sqlite3.connect(workplace.store)) as other:
        other.execute("ALTER TABLE nottwice_runs RENAME TO gone")
        page.get_by_text("no such table: nottwice_runs").wait_for(timeout=30_000)
        assert "This page is stale" in str(page.locator("#stale").text_content())
        other.execute("ALTER TABLE gone RENAME TO nottwice_runs")
    page.get_by_text("● live").wait_for(timeout=30_000)
    assert page.locator("#stale-why").text_content() == ""


def test_a_server_that_is_killed_before_it_recorded_a_decision_leaves_none(
    open_page: Any, server: Server, workplace: Workplace
) -> None:
    page = visit_review(open_page(), "ticket-8", workplace)
    with closing(sqlite3.connect(workplace.store)) as other:
        # Until this ends, the server cannot commit.
        other.execute("BEGIN IMMEDIATE")
        _send_decision(page)
        server.process.kill()
        server.process.wait(timeout=30)
    assert _recorded(workplace) == (1, 0)


def test_a_server_that_is_killed_before_it_reports_a_decision_leaves_one(
    open_page: Any, server: Server, workplace: Workplace
) -> None:
    page = visit_review(open_page(), "ticket-8", workplace)
    _send_decision(page)
    wait_until(lambda: _recorded(workplace) != (1, 0))
    server.process.kill()
    server.process.wait(timeout=30)
    assert _recorded(workplace) == (2, 1)


def _send_decision(page: Any) -> None:
    page.get_by_label("It did not happen").check()
    page.get_by_label("Why (kept").fill("not there")
    with page.expect_request(lambda request: request.method == "POST"):
        page.get_by_role("button", name="Record decision").click(no_wait_after=True)


def _recorded(workplace: Workplace) -> tuple[int, int]:
    """The version of the review, and how many decisions the audit trail has."""
    decided = [one for one in _audit(workplace) if one.action.startswith("decide")]
    return review_of(workplace, "ticket-8").version, len(decided)


def _audit(workplace: Workplace) -> list[Any]:
    with Ledger(workplace.store, create=False) as ledger:
        return list(ledger.store.audit("ticket-8"))


def test_the_keyboard_is_enough(open_page: Any, workplace: Workplace) -> None:
    page = open_page()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Did this happen?").wait_for()
    page.get_by_label("It happened").focus()
    page.keyboard.press("ArrowDown")
    assert page.get_by_label("It did not happen").is_checked()
    page.get_by_label("Why (kept").focus()
    page.keyboard.type("jkgru")
    assert page.get_by_label("Why (kept").input_value() == "jkgru"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Recorded: did-not-happen").wait_for()
    # The keys work once the script has run, which is after the heading is visible.
    page.wait_for_load_state()
    page.keyboard.press("g")
    page.get_by_role("heading", name="Inbox").wait_for()
    before = page.locator("#asof time").inner_text()
    assert before.endswith("UTC")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_a_screen_reader_and_a_phone_can_use_every_page(
    scheme: str, width: int, open_page: Any, axe: str, workplace: Workplace
) -> None:
    workplace.agent("desk", "desk-1")
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    start = page.url
    review = review_of(workplace, "ticket-8").review_id
    paths = ["", f"review/{review}", "runs", "run?id=ticket-8", "run?id=ticket-8&part=audit"]
    paths += ["behind?figure=effects", "decided", "retention?in=365d"]
    for path in [*paths, "ledger", "report", "review/nope"]:
        page.goto(start + path)
        assert_readable(page, axe)
        name = (path.split("?")[0].split("/")[0] or "inbox") + f"-{scheme}-{width}"
        if (scheme, width) == ("dark", 390):
            screenshot(page, name)
        if (scheme, width) == ("light", 1100) and path in ("ledger", "report"):
            screenshot(page, path)


@pytest.mark.parametrize("width", [390, 1100])
@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_when_the_ledger_was_read_is_visible_wherever_the_page_is_scrolled_to(
    width: int, scripts: bool, open_page: Any, workplace: Workplace
) -> None:
    page = open_page(java_script_enabled=scripts, viewport={"width": width, "height": 700})
    visit_review(page, "ticket-8", workplace)
    shown = page.locator("#asof")
    for place in (page.locator("h1"), page.locator("footer")):
        place.scroll_into_view_if_needed()
        found = shown.bounding_box()
        assert found is not None
        assert 0 <= found["y"] <= 700 - found["height"], (place, found)
    # The end of the page is not hidden by it.
    last = page.locator("footer p").last.bounding_box()
    assert last is not None
    assert last["y"] + last["height"] <= (found["y"] if width == 390 else 700)


def test_what_a_person_reads_is_not_replaced(open_page: Any, workplace: Workplace) -> None:
    page = open_page(**WIDE)
    page.goto(page.url + "run?id=ticket-8")
    page.get_by_text("● live").wait_for()
    page.locator("[data-part] details summary").first.click()
    with Ledger(workplace.store, create=False) as ledger:
        (review,) = ledger.store.open_reviews("ticket-8")
        Reviews(ledger).decide(review.review_id, "abort", by="bob", why="stop it")
    page.get_by_text("Something changed. Show it.").wait_for()
    assert page.locator("[data-part] details[open]").count() == 1
    page.get_by_text("Something changed. Show it.").click()
    page.get_by_text("decided 'abort' by bob").wait_for()


def test_hostile_text_runs_nothing(open_page: Any, workplace: Workplace) -> None:
    evil = "</title></pre>\"'><script>window.bad=1</script><img src=x onerror=window.bad=1>"
    with Ledger(workplace.store, create=False) as ledger:
        with pytest.raises(nt.errors.NottwiceError), ledger.run(evil.replace("/", "|")):
            nt.ask(evil, options=["<b>yes</b>"], about={evil: evil})
    page = open_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    start = page.url
    page.locator("h2 a", has_text="</title>").click()
    page.get_by_text("● live").wait_for()
    assert page.locator("img, main script, b").count() == 0
    for path in ("", "runs", f"run?id={evil[:8].replace('/', '|')}"):
        page.goto(start + path)
        assert page.evaluate("window.bad") is None
        assert page.locator("img, main script").count() == 0
    assert not [one for one in messages if "Content Security Policy" in one]


def test_the_policy_stops_a_script_that_gets_into_the_page(open_page: Any) -> None:
    page = open_page()
    page.evaluate(
        """() => { const s = document.createElement('script'); s.textContent = 'window.bad = 1';
        document.body.append(s);
        const i = document.createElement('img'); i.src = 'https://example.com/x.png';
        document.body.append(i); }"""
    )
    assert page.evaluate("window.bad") is None


def test_a_visitor_who_may_only_look_finds_no_button(open_page: Any, workplace: Workplace) -> None:
    page = open_page(link="look")
    assert page.locator("main button").count() <= 1  # the one of the filter
    visit_review(page, "ticket-8", workplace)
    assert page.locator("main button").count() == 0
    page.get_by_text("You may look, and not decide").wait_for()


def test_an_idle_worker_comes_and_leaves_on_an_open_page(
    open_page: Any, workplace: Workplace, axe: str
) -> None:
    page = open_page(**WIDE)
    page.get_by_role("link", name="Ledger", exact=True).click()
    page.get_by_text("No worker is on record.").wait_for()
    with Ledger(workplace.store, create=False) as ledger:
        worker = Presence(ledger, ["order@1.0.0"], concurrency=8)
        worker.renew()
        # The page hears of it without a reload, also if nothing else happens in the ledger.
        page.get_by_text("1 alive.").wait_for()
        page.get_by_role("cell", name="idle").wait_for()
        assert_readable(page, axe)
        worker.leave()
        page.get_by_text("No worker is on record.").wait_for()


# The words of up to 16 characters that are on more than one line.
_BROKEN_WORDS = r"""() => {
  const broken = [];
  for (const place of document.querySelectorAll("td, .command code")) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode;
      for (const word of text.data.matchAll(/(?<!\S)\S{2,16}(?!\S)/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1)
          broken.push(word[0]);
      }
    }
  }
  return broken;
}"""


def test_a_long_text_squeezes_no_word_and_no_id_beside_it(
    open_page: Any, axe: str, workplace: Workplace
) -> None:
    with Ledger(workplace.store, create=False) as ledger:
        with pytest.raises(nt.errors.NottwiceError), ledger.run("long-" + "0123456789" * 19):
            fail(text="y")
    page = open_page()
    start = page.url
    review = review_of(workplace, "long-" + "0123456789" * 19).review_id
    paths = ("runs", f"review/{review}", "run?id=long-", "behind?figure=effects")
    for width in (390, 900, 1100):
        page.set_viewport_size({"width": width, "height": 800})
        for path in paths:
            page.goto(start + path)
            assert_readable(page, axe)
            assert page.evaluate(_BROKEN_WORDS) == [], (width, path)
    page.get_by_text("Failed:").wait_for(state="detached")
