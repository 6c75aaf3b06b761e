"""Do the figures of the ledger and of the report link to what they count?"""

from __future__ import annotations

import re

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


def test_the_ledger_says_what_no_process_will_continue(visit: Visit) -> None:
    text = visit.text("/ledger")
    assert "ticket-7 (interrupted) could continue. Nothing runs by itself." in text
    assert "SQLite" in text
    assert "last backup: never" in text


def test_the_report_links_open_doubts_to_the_inbox(visit: Visit) -> None:
    markup = visit.get("/report?since=24h").text
    assert 'href="/?tool=send_email">2</a>' in markup
    assert "send_email that can tell would have answered 2 questions" in words(markup)
    assert "nottwice report --since 24h" in words(markup)
    assert "The time" in visit.text("/report?since=odd", status=400)
