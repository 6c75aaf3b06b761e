"""A scheduler that is not ours advances runs, and learns when to look again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import NoLedger, UnknownRun, UsageError, WorkflowVersionMismatch
from nottwice.model.review import Verb
from tests.fakes import Host, dying
from tests.graphs.effects import Crash, Effects, graph


def three(effects: Effects, **options: Any) -> nt.Graph[Any]:
    flow = graph(**options)
    for name in ("first", "second", "third"):

        def work(state: dict[str, Any], name: str = name) -> Any:
            effects.visit(name)
            return {name: effects.act(name)}

        flow.node(name=name)(work)
    return flow


@pytest.fixture
def effects() -> Effects:
    return Effects()


def test_a_run_is_advanced_to_its_end(host: Host, effects: Effects) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[three(effects)], store=ledger)
        app.enqueue("flow", "r")
        left = app.advance("r")
        assert (left.status, left.finished, left.look_again_at) == ("completed", True, None)
        assert effects.done == ["first", "second", "third"]
        assert app.advance("r") == left
        assert repr(left) == "<Progress of 'r': completed>"
    assert len(effects.done) == 3


@pytest.mark.parametrize("is_async", [False, True])
def test_it_is_handed_back_after_so_many_nodes(
    host: Host, effects: Effects, *, is_async: bool
) -> None:
    def advance(most: int) -> nt.types.Progress:
        with host.process() as ledger:
            app = nt.App(graphs=[three(effects)], store=ledger)
            if is_async:
                return asyncio.run(app.aadvance("r", most_nodes=most))
            return app.advance("r", most_nodes=most)

    with host.process() as ledger:
        nt.App(graphs=[three(effects)], store=ledger).enqueue("flow", "r")
    left = advance(1)
    assert (left.status, left.look_again_at) == ("running", host.clock.now())
    assert effects.visited == ["first"]
    assert advance(2).status == "completed"
    assert effects.visited == ["first", "second", "third"]


def test_it_is_handed_back_when_told(host: Host, effects: Effects) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[three(effects)], store=ledger)
        app.enqueue("flow", "r")
        left = app.advance("r", told_to_stop=lambda: "second" in effects.visited)
        assert (left.status, effects.visited) == ("running", ["first", "second"])


def test_it_is_handed_back_after_the_node_in_which_its_time_was_over(
    host: Host, effects: Effects
) -> None:
    """P304."""
    flow = graph()

    @flow.node
    def slow(state: dict[str, Any]) -> None:
        effects.visit("slow")
        host.clock.advance(60.0)

    @flow.node
    def fast(state: dict[str, Any]) -> None:
        effects.visit("fast")

    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue("flow", "r")
        left = app.advance("r", within="30s")
        assert (left.status, left.look_again_at) == ("running", host.clock.now())
        assert effects.visited == ["slow"]
        assert asyncio.run(app.aadvance("r", within="30s")).status == "completed"


def test_a_doubt_that_needs_longer_than_the_caller_has_asks_no_person(host: Host) -> None:
    """P304. The run is released, and the error says when to come back."""

    bodies: list[Any] = [lambda _: "sent"]

    @nt.tool("unsafe_on_replay", verify=lambda call: nt.did_not_happen(), settles="50s")
    def send_slowly() -> Any:
        return bodies[-1]({})

    flow = graph()

    @flow.node
    def only(state: dict[str, Any]) -> dict[str, Any]:
        return {"sent": send_slowly()}

    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue("flow", "r")
        bodies.append(dying(ledger))
        app.advance("r")
    with host.process() as ledger:
        app, began = nt.App(graphs=[flow], store=ledger), host.clock.now()
        with pytest.raises(nt.RunWaits) as caught:
            app.advance("r", within="20s")
        assert caught.value.until == began + 50.0
        assert host.clock.now() < began + 20.0
        assert host.open_reviews == []
        bodies.pop()
        assert app.advance("r", within="60s").status == "completed"


def test_a_question_whether_to_stop_that_fails_is_raised_and_fails_no_run(
    host: Host, effects: Effects
) -> None:
    def broken() -> bool:
        if effects.visited:
            raise RuntimeError("the scheduler is gone")
        return False

    with host.process() as ledger:
        app = nt.App(graphs=[three(effects)], store=ledger)
        app.enqueue("flow", "r")
        with pytest.raises(RuntimeError, match="the scheduler is gone"):
            app.advance("r", told_to_stop=broken)
        assert app.outcome("r").status == "running"
        assert app.advance("r").status == "completed"
    assert effects.done == ["first", "second", "third"]


def test_a_child_run_is_part_of_its_node(host: Host, effects: Effects) -> None:
    """Otherwise the child would be handed back before its first node, each time."""
    child, parent = three(effects, name="child"), graph("parent")

    @parent.node
    def work(state: dict[str, Any]) -> Any:
        return {"child": nt.spawn(child, {}).status}

    with host.process() as ledger:
        app = nt.App(graphs=[parent, child], store=ledger)
        app.enqueue("parent", "r")
        assert app.advance("r", most_nodes=1).status == "completed"
        assert app.outcome("r").state == {"child": "completed"}


def test_it_says_when_a_timer_is_due_also_that_of_a_child(host: Host, effects: Effects) -> None:
    child, parent = graph("child"), graph("parent")

    @child.node
    def nap(state: dict[str, Any]) -> Any:
        nt.sleep("1h")

    @parent.node
    def work(state: dict[str, Any]) -> Any:
        nt.spawn(child, {})

    begun = host.clock.now()
    with host.process() as ledger:
        app = nt.App(graphs=[parent, child], store=ledger)
        for name in ("parent", "child"):
            app.enqueue(name, f"r-{name}")
            left = app.advance(f"r-{name}")
            assert (left.status, left.look_again_at) == ("waiting", begun + 3600)
        host.clock.advance(3601)
        for name in ("parent", "child"):
            assert app.advance(f"r-{name}").status == "completed"


def test_it_names_the_reviews_and_no_moment_where_only_a_person_helps(
    host: Host, effects: Effects
) -> None:
    flow = graph()

    @flow.node
    def ask(state: dict[str, Any]) -> Any:
        return {"answer": nt.ask("Really?")}

    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue("flow", "r")
        left = app.advance("r")
        assert (left.status, left.look_again_at) == ("waiting", None)
        assert [review.review_id for review in left.reviews] == [left.waits[0].subject]
        assert repr(left) == f"<Progress of 'r': waiting for review {left.waits[0].subject}>"
        host.decide(Verb.ANSWER, result="yes")
        assert app.advance("r").status == "completed"


def test_a_failure_is_raised_and_the_next_call_retries_the_node(
    host: Host, effects: Effects
) -> None:
    effects.broken = {"second"}
    with host.process() as ledger:
        app = nt.App(graphs=[three(effects)], store=ledger)
        app.enqueue("flow", "r")
        with pytest.raises(Crash):
            app.advance("r")
        assert app.outcome("r").status == "failed"
        effects.broken = set()
        assert app.advance("r").status == "completed"
    assert effects.done == ["first", "second", "third"]


def test_what_cannot_be_advanced_is_refused(host: Host, effects: Effects) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[three(effects)], store=ledger)
        with pytest.raises(UnknownRun, match=r"app\.enqueue"):
            app.advance("r")
        app.enqueue("flow", "r")
        for most in (0, -1, "3", True):
            with pytest.raises(UsageError, match="most_nodes"):
                app.advance("r", most_nodes=most)  # type: ignore[arg-type]
        newer = nt.App(graphs=[three(effects, version="2.0.0")], store=ledger)
        with pytest.raises(WorkflowVersionMismatch):
            newer.advance("r")
    assert effects.done == []
    with pytest.raises(NoLedger):
        nt.App(graphs=[], store="absent.db").advance("r")


def test_async_nodes_are_refused_in_a_loop_and_awaited_by_the_other(
    host: Host, effects: Effects
) -> None:
    flow = graph()

    @flow.node
    async def work(state: dict[str, Any]) -> Any:
        return {"by": effects.act("work")}

    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue("flow", "r")

        async def main() -> None:
            with pytest.raises(UsageError, match=r"await app\.aadvance"):
                app.advance("r")
            assert (await app.aadvance("r")).status == "completed"

        asyncio.run(main())
