"""Does the page of a run show what its ledger has, in every part?"""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.main import main
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.retention import remove_expired
from tests.cli.workplace import Workplace
from tests.fakes import FakeClock
from tests.web.visiting import Visit, words


@pytest.fixture
def visit(graph_runs: Workplace) -> Visit:
    return Visit(Ledger(graph_runs.store, create=False))


def test_the_list_is_narrowed_by_its_address_and_says_why_a_run_waits(visit: Visit) -> None:
    text = visit.text("/runs")
    assert "listen-1 waiting event news listening@1.0.0" in text
    assert "failed-1 failed RuntimeError: the van \\u001b[31mis broken order@1.0.0" in text
    failed = visit.text("/runs?state=failed")
    assert "failed-1" in failed
    assert "listen-1 waiting" not in failed
    assert "nottwice runs --state failed" in failed
    assert "No such runs." in visit.text("/runs?prefix=nothing")
    assert "is not a state of a run" in visit.text("/runs?state=odd", status=400)


def test_the_command_of_the_list_prints_the_runs_that_are_shown(tmp_path: Path) -> None:
    with Ledger(tmp_path / "many.db") as ledger:
        for name, lot in (("-a 1", "a"), ("-a 2", "b"), ("b 1", "a")):
            with ledger.run(name, tags={"lot": lot}, group="g"):
                pass
        page = "/runs?state=completed&prefix=-a&tag=lot%3Da&group=g"
        markup = Visit(ledger).get(page).text
        (command,) = re.findall(r"The same in a terminal:</span> <code>(.*)</code>", markup)
        _, *typed = shlex.split(html.unescape(re.sub("<[^>]*>", "", command)))
        printed = json.loads(CliRunner().invoke(main, [typed[0], "--json", *typed[1:]]).output)
        assert [run["run_id"] for run in printed["runs"]] == ["-a 1"]
        assert markup.count("<tr data-row>") == 1
        assert "In a terminal, without the filter by since:" in Visit(ledger).text("/runs?since=1h")


def test_pages_follow_each_other_and_keep_the_filter(tmp_path: Path) -> None:
    with Ledger(tmp_path / "many.db") as ledger:
        for number in range(60):
            with ledger.run(f"run-{number:02}", tags={"lot": "a"}):
                pass
        visit = Visit(ledger)
        first = visit.get("/runs?tag=lot%3Da").text
        link = re.search(r'rel="next" href="([^"]+)"', first)
        assert link is not None
        address = html.unescape(link[1])
        assert "tag=lot%3Da" in address
        second = visit.get(address).text
        assert 'rel="next"' not in second
        shown = [set(re.findall(r"data-open>(run-\d\d)<", one)) for one in (first, second)]
        assert [len(one) for one in shown] == [50, 10]
        assert not shown[0] & shown[1]


def test_a_tool_that_needs_no_key_is_shown_with_the_word_that_declared_it(tmp_path: Path) -> None:
    @nt.tool("idempotent", name="page_put")
    def put(x: int) -> int:
        return x

    with Ledger(tmp_path / "puts.db") as ledger:
        with ledger.run("puts"):
            put(1)
        shown = Visit(ledger).text("/run?id=puts")
        assert "idempotent" in shown
        assert "idempotent_with_key" not in shown


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("timeline", "UTC: completed (pid "),
        ("state", '"log": [ "worth 100", "paid", "sent" ]'),
        ("conversation", "This is not a run of an agent."),
        ("events", "It was told nothing."),
        ("audit", "No person has done anything to this run."),
    ],
)
def test_every_part_of_a_run_has_its_page(part: str, said: str, visit: Visit) -> None:
    assert said in visit.text(f"/run?id=done-1&part={part}")


def test_a_version_of_the_state_says_what_changed_in_it(visit: Visit) -> None:
    text = visit.text("/run?id=done-1&part=state&version=2")
    assert "State of version 2" in text
    assert "What changed from version 1 to 2" in text
    assert "state.log[1] added null paid" in text
    # No number is too long for an address.
    newest = visit.text(f"/run?id=done-1&part=state&version={'1' * 5000}")
    assert "State of version 3" in newest


def test_a_picture_has_a_bar_for_every_attempt_and_a_table_below(visit: Visit) -> None:
    markup = visit.get("/run?id=killed-1").text
    titles = re.findall(r"<title>(step|call) (\w+): (\w+)", markup)
    assert ("call", "look_up", "done") in titles
    assert ("call", "send", "lost") in titles
    assert 'class="node done"' in markup
    assert "<canvas" not in markup
    text = words(markup)
    assert "No living worker has order@1.0.0" in text
    assert "IN DOUBT" in text


def test_a_run_is_found_by_the_beginning_of_its_id_or_not_at_all(visit: Visit) -> None:
    assert "listen-1" in visit.text("/run?id=listen")
    assert "There is no run 'nope'" in visit.text("/run?id=nope", status=404)
    assert "There is no such part" in visit.text("/run?id=done-1&part=odd", status=400)


def test_a_child_links_to_its_parent_and_back(visit: Visit) -> None:
    markup = visit.get("/run?id=parent-1").text
    child = re.search(r'href="(/run\?id=parent-1\.[0-9a-f]+)"', markup)
    assert child is not None
    assert 'href="/run?id=parent-1"' in visit.get(child[1]).text


def test_the_label_of_a_late_opening_stays_inside_the_picture(workplace: Workplace) -> None:
    with Ledger(workplace.store, create=False) as ledger:
        for _ in range(3):
            with pytest.raises(nt.errors.ReplayUnsafeError), ledger.run("ticket-8"):
                pass
        shown = Visit(ledger).get("/run?id=ticket-8").text
    labels = re.findall(r'<text x="([0-9.]+)"[^>]*>(opening [^<]*)</text>', shown)
    assert len(labels) >= 4
    assert all(re.search(r"opening \d+, \d\d:\d\d:\d\d UTC: ", said) for _, said in labels)
    # The letters of the picture are 7.2 wide.
    assert all(float(left) + 7.2 * len(html.unescape(said)) <= 1000 for left, said in labels)


def test_a_removed_run_does_not_look_as_if_it_never_ran(tmp_path: Path) -> None:
    flow, clock = nt.Graph("web-removed", version="1.0.0"), FakeClock()

    @flow.node
    def work(state: dict[str, int]) -> None:
        nt.now()

    with Ledger(tmp_path / "agent.db", clock=clock) as ledger:
        flow.run("gone-1", {}, store=ledger)
        visit = Visit(ledger)
        assert "work done 1" in visit.text("/run?id=gone-1")
        clock.advance(1000 * 86400.0)
        assert remove_expired(ledger, unknown_tools=True).runs == 1
        shown = visit.text("/run?id=gone-1")
    assert "work pending" not in shown
    assert "Its rows were removed, so what it did is no longer on record." in shown
