"""Is what each answer will do said in plain words?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nottwice.guard.ledger import Ledger
from nottwice.views.commands import CommandLine
from nottwice.views.people.choices import open_docket
from tests.cli.workplace import Workplace

LINE = CommandLine("agent.db")


@pytest.fixture
def ledger(killed: Workplace) -> Iterator[Ledger]:
    with Ledger(killed.store, create=False) as opened:
        yield opened


def test_only_the_answer_that_calls_a_tool_is_marked_so(ledger: Ledger) -> None:
    (review,) = ledger.store.open_reviews("ticket-9")
    docket = open_docket(ledger, review.review_id, LINE)
    acts = {one.verb: one.acts for one in docket.consequences}
    assert acts == {"happened": False, "did-not-happen": True, "abort": False}
    said = {one.verb: one.effect for one in docket.consequences}
    assert "refund WILL BE CALLED once more" in said["did-not-happen"]
    assert "If it happened after all, it happens twice." in said["did-not-happen"]
    assert "refund is NOT called again" in said["happened"]
    assert "2 calls of it stay on record; nothing is undone" in said["abort"]
    assert docket.blocks == "every new effect of ticket-9"
    assert all(
        one.command.startswith(f"nottwice decide {review.review_id} {one.verb}")
        and one.command.endswith(" --store agent.db")
        for one in docket.consequences
    )


def test_facts_are_in_the_order_of_time(ledger: Ledger) -> None:
    (review,) = ledger.store.open_reviews("ticket-8")
    facts = open_docket(ledger, review.review_id, LINE).facts
    assert [fact.at for fact in facts] == sorted(fact.at for fact in facts)
    assert facts[0].text == "attempt 1 began; no receipt"
    assert facts[0].who.startswith("pid ")
    # What the review says is above the facts already.
    assert review.summary not in [fact.text for fact in facts]
    assert facts[-1].text == "a person is asked"


def test_a_question_of_a_child_run_blocks_its_parent(graph_runs: Workplace) -> None:
    with Ledger(graph_runs.store, create=False) as ledger:
        (child,) = ledger.store.children("parent-1")
        (review,) = ledger.store.open_reviews(child.workflow_id)
        docket = open_docket(ledger, review.review_id, LINE)
    assert docket.question == "Ship it?"
    assert docket.blocks.endswith("that asked; and parent-1, which waits for it")
    answers = [(one.label, one.is_answer) for one in docket.consequences]
    assert answers == [("yes", True), ("no", True), ("Stop this run", False)]
    assert not any(one.acts for one in docket.consequences)
    assert docket.resumption.is_finding
    assert "No living worker has asking@1.0.0" in docket.resumption.text
