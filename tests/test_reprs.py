"""Does what a person prints say what it is, and nothing that must not be shown? (P227)"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import nottwice as nt
from nottwice.agent.providers import scripted


def small_graph() -> nt.Graph[dict[str, Any]]:
    flow = nt.Graph("refund", version="1.0.0")

    @flow.node(then={"approve": "pay", "reject": nt.END})
    def judge(state: dict[str, Any]) -> Any:
        return nt.ask("Refund?", options=["approve", "reject"])

    @flow.node
    def pay(state: dict[str, Any]) -> None: ...

    return flow


def test_a_ledger_and_its_reviews_say_where_they_are(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        assert repr(ledger) == f"<Ledger {str(tmp_path / 'agent.db')!r}>"
        with nt.Reviews(ledger) as reviews:
            assert repr(reviews) == f"<Reviews of {str(tmp_path / 'agent.db')!r}>"


def test_a_run_says_whether_it_is_open() -> None:
    run = nt.Ledger(":memory:").run("ticket-7")
    assert repr(run) == "<Run 'ticket-7'>"
    with run:
        assert repr(run) == "<Run 'ticket-7', open>"


def test_a_graph_says_its_nodes_and_an_agent_is_one() -> None:
    assert repr(small_graph()) == "<Graph 'refund@1.0.0': judge, pay>"
    agent = nt.Agent("triage", version="2.0.0", provider=scripted(["x"]))
    assert repr(agent).startswith("<Agent 'triage@2.0.0': ")


def test_an_app_and_its_worker_do_not_show_the_password_of_their_ledger() -> None:
    store = "postgresql://ann:hunter2@db/shop"
    app = nt.App(graphs=[small_graph()], store=store)
    assert repr(app) == "<App of refund@1.0.0>"
    shown = repr(nt.Worker(app))
    assert "refund@1.0.0" in shown
    assert "hunter2" not in shown


def test_an_outcome_and_a_review_say_what_is_waited_for() -> None:
    with nt.Ledger(":memory:") as ledger:
        outcome = small_graph().run("r", {}, store=ledger)
        (review,) = outcome.reviews
    assert "'r': waiting for review" in repr(outcome)
    assert repr(review) == f"<Review {review.review_id}: question, open, run 'r'>"


def test_what_a_node_or_a_verify_hook_returns_reads_as_it_is_written() -> None:
    assert repr(nt.goto("pay")) == "goto('pay')"
    assert repr(nt.goto("pay", {"cents": 5})) == "goto('pay', {'cents': 5})"
    assert repr(nt.happened(5)) == "happened(5)"
    others = nt.did_not_happen(), nt.still_running(), nt.cannot_tell()
    assert repr(others) == "(did_not_happen(), still_running(), cannot_tell())"


def test_the_parts_of_a_ledger_and_of_a_run_say_what_they_are(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        assert repr(ledger.store) == f"SqliteStore({str(tmp_path / 'agent.db')!r})"
        assert repr((ledger.clock, ledger.host.driver)) == "(SystemClock(), UsualDriver())"
    assert repr(nt.step("pay")) == "step('pay')"
    assert repr(nt.step("pay", at=3)) == "step('pay', at=3)"
    assert repr(scripted(["done"])) == "<scripted provider of 'scripted-1'>"


def test_a_receipt_does_not_show_what_a_tool_returned() -> None:
    @nt.tool("unsafe_on_replay", name="reprs_token")
    def token() -> Annotated[str, nt.Secret]:
        return "hunter2"

    with nt.Ledger(":memory:", key="k1:" + "a" * 64) as ledger, ledger.run("r"):
        receipt = token.receipt()
    assert receipt.value == "hunter2"
    assert repr(receipt) == f"<Receipt of 'reprs_token', call {receipt.id}, attempt 1>"
