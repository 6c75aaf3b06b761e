"""Is everything that a run waits for told in words, with what is typed to end it?"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.views.commands import CommandLine
from nottwice.views.run.waits import Reason, reasons_of
from tests.fakes import Host


def asking() -> nt.Graph[dict[str, Any]]:
    flow = nt.Graph("waits-ask", version="1.0.0")

    @flow.node
    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": nt.ask("Go on?", options=["yes", "no"])}

    return flow


def reasons(ledger: nt.Ledger, run_id: str = "r") -> list[Reason]:
    return reasons_of(ledger.store, run_id, CommandLine(store="a b.db"))


def test_a_question_is_decided_and_then_used(host: Host) -> None:
    with host.process() as ledger:
        (review,) = asking().run("r", store=ledger).reviews
        (reason,) = reasons(ledger)
        assert reason.text == f"review {review.review_id}: Go on?"
        assert reason.command == f"nottwice decide {review.review_id} --store 'a b.db'"
        nt.Reviews(ledger).decide(review.review_id, "answer", by="ann", why="x", result="yes")
        (reason,) = reasons(ledger)
        assert "decided 'answer' by ann" in reason.text
        assert reason.command is None
        assert asking().run("r", store=ledger).status == "completed"
        assert reasons(ledger) == []


def test_an_event_is_sent_by_a_command_that_the_shell_takes_as_it_is(host: Host) -> None:
    flow = nt.Graph("waits-hear", version="1.0.0")

    @flow.node
    def hear(state: dict[str, Any]) -> None:
        nt.receive("a; rm", within="1h")

    with host.process() as ledger:
        flow.run("my run", store=ledger)
        (reason,) = reasons(ledger, "my run")
        assert reason.text.startswith("an event 'a; rm', at most until ")
        assert reason.command == "nottwice send 'my run' 'a; rm' --store 'a b.db'"
        ledger.send("my run", "a; rm", by="ann")
        (reason,) = reasons(ledger, "my run")
        assert reason.text == "an event 'a; rm', which has arrived"
        assert reason.command is None


def test_a_timer_ends_by_itself(host: Host) -> None:
    flow = nt.Graph("waits-rest", version="1.0.0")

    @flow.node
    def rest(state: dict[str, Any]) -> None:
        nt.sleep("1h", label="tea")

    with host.process() as ledger:
        flow.run("r", store=ledger)
        (reason,) = reasons(ledger)
    assert reason.text.startswith("the timer 'tea', due at ")
    assert reason.command is None


@pytest.mark.parametrize("depth", [1, 3])
def test_what_a_child_waits_for_is_told_with_its_parent(depth: int, host: Host) -> None:
    flow = asking()
    for level in range(depth):
        inner, flow = flow, nt.Graph(f"waits-{level}", version="1.0.0")

        def delegate(state: dict[str, Any], inner: nt.Graph[Any] = inner) -> None:
            nt.spawn(inner, {})

        flow.node(delegate)
    with host.process() as ledger:
        flow.run("r", store=ledger)
        found = reasons(ledger)
    assert [reason.kind.value for reason in found] == ["child"] * depth + ["review"]
    assert [reason.command is None for reason in found] == [True] * depth + [False]
    assert found[-1].run_id != "r"


def test_a_child_that_another_process_drives_is_shown(host: Host) -> None:
    flow = nt.Graph("waits-parent", version="1.0.0")
    inner = asking()

    @flow.node
    def delegate(state: dict[str, Any]) -> None:
        nt.spawn(inner, {})

    with host.process() as ledger:
        (wait,) = flow.run("r", store=ledger).waits
        (review,) = ledger.store.open_reviews(wait.subject)
        nt.Reviews(ledger).decide(review.review_id, "answer", by="ann", why="x", result="yes")
        inner.run(wait.subject, store=ledger)
        (reason,) = reasons(ledger)
    assert reason.command == f"nottwice show {wait.subject} --store 'a b.db'"


def test_a_call_in_doubt_is_named_beside_the_doubt(host: Host) -> None:
    flow = nt.Graph("waits-doubt", version="1.0.0")

    @nt.tool("unsafe_on_replay", name="waits-doubtful")
    def send(to: str) -> None:
        raise nt.Ambiguous("no answer")

    @flow.node
    def tell(state: dict[str, Any]) -> None:
        send(to="ann")

    with host.process() as ledger:
        (review,) = flow.run("r", store=ledger).reviews
        (reason,) = reasons(ledger)
    assert reason.text.startswith(f"review {review.review_id}: waits-doubtful(to='ann'): it may")


@pytest.mark.parametrize("kind", ["files", "sealed"])
def test_a_child_that_cannot_be_read_hides_nothing_of_its_parent(tmp_path: Path, kind: str) -> None:
    """P410."""
    place = f"file:{tmp_path / 'runs'}" if kind == "files" else str(tmp_path / "agent.db")
    parent = nt.Graph("waits-parent", version="1.0.0")

    @parent.node
    def spawn(state: dict[str, Any]) -> None:
        nt.spawn(asking(), {})

    with nt.Ledger(place, key=bytes(range(32)) if kind == "sealed" else None) as ledger:
        assert parent.run("r", store=ledger).status == "waiting"
        (child,) = ledger.store.children("r")
        assert [one.run_id for one in reasons(ledger)] == ["r", child.workflow_id]
        if kind == "files":
            (tmp_path / "runs" / f"{child.workflow_id}.json").write_text("{")
        else:
            with closing(sqlite3.connect(place)) as other:
                other.execute("UPDATE nottwice_reviews SET summary = 'changed'")
                other.commit()
        (reason,) = reasons(ledger)
        text = f"child run {child.workflow_id!r}, which cannot be read or trusted"
        assert (reason.text, reason.run_id) == (text, "r")
        assert reason.command == f"nottwice show {child.workflow_id} --store 'a b.db'"
