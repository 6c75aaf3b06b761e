"""Do the figures of the ledger and of the report link to what they count?"""

from __future__ import annotations

import html
import re
from pathlib import Path

from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunStatus
from nottwice.model.runs.workers import SILENT_SECONDS
from nottwice.reviews.inbox import Reviews
from nottwice.worker.presence import Presence
from tests.fakes import FakeClock
from tests.web.visiting import Visit, words


def figure(markup: str, label: str) -> tuple[str, str]:
    """The address and the number of a figure."""
    found = re.search(rf'<a href="([^"]+)"><strong>(\d+)</strong> {label}</a>', markup)
    assert found is not None, label
    return found[1].replace("&amp;", "&"), found[2]


def test_a_figure_leads_to_as_many_rows(visit: Visit) -> None:
    markup = visit.get("/ledger").text
    address, number = figure(markup, "in doubt")
    assert visit.get(address).text.count("<article") == int(number) == 3
    address, number = figure(markup, "open reviews")
    assert visit.get(address).text.count("<article") == int(number) == 3
    address, number = figure(markup, "over 1 d")
    assert visit.get(address).text.count("<article") == int(number) == 0
    for state in ("waiting", "completed", "interrupted"):
        address, number = figure(markup, state)
        assert visit.get(address).text.count("<tr data-row>") == int(number) > 0
    address, number = figure(markup, "runs changed")
    assert visit.get(address).text.count("<tr data-row>") == int(number) == 5


def test_every_figure_of_the_last_day_leads_to_the_rows_it_counts(
    visit: Visit, ledger: Ledger, doubt: str
) -> None:
    """P359."""
    Reviews(ledger).decide(doubt, "abort", by="bob", why="stop it")
    markup = visit.get("/ledger").text
    figures = re.findall(r'<a href="([^"]+)"><strong>(\d+)</strong> ([^<]+)</a>', markup)
    assert len(figures) == markup.partition("<main")[2].count("<strong>")
    for address, number, label in figures:
        page = visit.get(html.unescape(address)).text
        is_inbox = address.partition("?")[0] == "/"
        rows = page.count("<article" if is_inbox else "<tr data-row>")
        if "#decided" in address:
            assert f"Decided, not used yet: {number}" in words(page), label
        elif label.startswith("answered from receipts"):
            counted = re.findall(r"<td[^>]*>(\d+) calls</td>", page)
            assert sum(map(int, counted)) == int(number), label
        elif label == "duplicates prevented":
            counted = re.findall(r'<td data-label="Duplicates prevented">(\d+)</td>', page)
            assert sum(map(int, counted)) == int(number), label
        else:
            assert rows == int(number), label
    assert "bob 1" in words(markup)
    assert "abort" in visit.text("/decided?since=24h&by=bob")
    assert "Nothing was decided" in visit.text("/decided?by=eve")


def test_every_figure_of_the_report_leads_to_as_many_rows(visit: Visit) -> None:
    """P359."""
    markup = visit.get("/report?since=24h").text
    table = markup[markup.index("Doubts by tool") :]
    links = re.findall(r'<td class="number"[^>]*><a href="([^"]+)">(\d+)</a></td>', table)
    assert len(links) >= 6
    for address, number in links:
        page = visit.get(html.unescape(address)).text
        assert max(page.count("<tr data-row>"), page.count("<article")) == int(number), address
    assert "is not a figure" in visit.text("/behind?figure=odd", status=400)
    plain = visit.get("/api/behind?figure=effects").json()
    assert plain["total"] == len(plain["calls"]) > 0


def test_the_page_says_what_would_be_removed_and_when(visit: Visit, ledger: Ledger) -> None:
    """P360."""
    assert "No run would lose a row." in visit.text("/retention")
    before = ledger.store.count_runs()
    later = visit.text("/retention?in=365d")
    assert "What would be removed in a year" in later
    (done,) = ledger.store.runs(status=RunStatus.COMPLETED)
    assert done.workflow_id in later
    assert "unsafe: 365 days" in later
    assert "nottwice gc --dry-run --unknown-tools --store" in later
    assert "The time" in visit.text("/retention?in=odd", status=400)
    plain = visit.get("/api/retention?in=365d").json()
    assert plain["removal"]["dry_run"] is True
    assert plain["removal"]["removed"]["runs"] == len(plain["removal"]["removed_runs"]) > 0
    assert ledger.store.count_runs() == before


def test_the_ledger_says_what_no_process_will_continue(visit: Visit) -> None:
    text = visit.text("/ledger")
    assert "ticket-7 (interrupted) could continue. Only your program can continue it" in text
    assert "SQLite" in text
    assert "last backup: never" in text


def test_the_report_links_open_doubts_to_the_inbox(visit: Visit) -> None:
    markup = visit.get("/report?since=24h").text
    assert 'href="/?tool=send_email">2</a>' in markup
    assert "send_email could have answered 2 questions" in words(markup)
    assert "nottwice report --since 24h" in words(markup)
    assert "The time" in visit.text("/report?since=odd", status=400)


def test_a_process_that_holds_a_plain_run_is_on_the_page(visit: Visit, ledger: Ledger) -> None:
    with ledger.run("held-now"):
        markup = visit.get("/ledger").text
        held = [one for one in visit.get("/api/ledger").json()["holders"] if one["life"] == "alive"]
    table = markup[markup.index("Processes that hold runs") :]
    assert "held-now" in words(table)
    assert [one["runs"] for one in held] == [["held-now"]]


def test_the_page_says_how_many_effects_per_minute_and_what_a_line_shows(visit: Visit) -> None:
    text = visit.text("/ledger")
    effects = visit.get("/api/ledger").json()["activity"]["effects_over_time"]
    assert f"{effects[-1] / 24:.3g} effects per minute in the last 24 minutes" in text
    assert f"from 0 to {max(effects)} in 24 minutes; now is at the right" in text
    assert "A duplicate prevented is an effect that was asked for again and not made" in text


def test_an_idle_worker_is_alive_on_the_page_and_silent_when_it_stops_to_say_so(
    tmp_path: Path,
) -> None:
    """P380."""
    clock = FakeClock()
    with Ledger(tmp_path / "a.db", clock=clock) as ledger:
        visit = Visit(ledger)
        assert "No worker is on record." in visit.text("/ledger")
        worker = Presence(ledger, ["<b>order</b>@1.0.0"], concurrency=8)
        worker.renew()
        shown = visit.text("/ledger")
        assert "Workers 1 alive." in shown
        assert "<b>order</b>@1.0.0 idle" in html.unescape(shown)
        assert "<b>order" not in visit.get("/ledger").text
        told = visit.get("/api/ledger").json()["workers"]
        assert told["counts"] == {"alive": 1, "silent": 0, "dead": 0}
        assert told["workers"][0]["graphs"] == ["<b>order</b>@1.0.0"]
        clock.advance(SILENT_SECONDS + 1)
        shown = visit.text("/ledger")
        assert "Workers 1 silent." in shown
        assert "31 s ago" in shown
        worker.leave()
        assert "No worker is on record." in visit.text("/ledger")


def test_what_a_killed_process_could_not_count_is_not_called_zero(visit: Visit) -> None:
    page = visit.get("/behind?figure=killed&since=24h").text
    assert page.count('<td data-label="From receipts">not counted</td>') == 3
    assert page.count('<td data-label="Duplicates prevented">not counted</td>') == 3
    assert "0 calls" not in page
