"""The same call starts a run, resumes it, or says how it ended (D5, V1)."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import UnknownRun, UsageError, WorkflowVersionMismatch
from nottwice.model.review import Verb
from tests.fakes import Host, MortalStore
from tests.graphs.effects import Crash, Effects, answer, arun, crash, graph, run


def line(effects: Effects, *names: str, **options: Any) -> nt.Graph[Any]:
    """A graph of nodes in a line; each has one effect and leaves its mark in the state."""
    flow = graph(append=["log"], **options)
    for name in names:
        flow.node(name=name)(_node(effects, name))
    return flow


def _node(effects: Effects, name: str) -> Any:
    def body(state: dict[str, Any]) -> dict[str, Any]:
        effects.visit(name)
        return {"log": [effects.act(name)]}

    return body


@pytest.mark.parametrize("drive", [run, arun])
def test_a_run_visits_its_nodes_in_order_and_ends_with_their_state(
    host: Host, effects: Effects, drive: Any
) -> None:
    outcome = drive(host, line(effects, "a", "b", "c"), {"order": 7})
    assert (outcome.status, outcome.finished) == ("completed", True)
    assert outcome.state == {"order": 7, "log": ["did a", "did b", "did c"]}
    assert effects.done == ["a", "b", "c"]
    assert [(mark.node, mark.status, mark.visit) for mark in outcome.nodes] == [
        ("a", "done", 1),
        ("b", "done", 1),
        ("c", "done", 1),
    ]


@pytest.mark.parametrize("drive", [run, arun])
def test_a_finished_run_returns_its_result_again_without_running_anything(
    host: Host, effects: Effects, drive: Any
) -> None:
    flow = line(effects, "a", "b")
    first = drive(host, flow, {"order": 7})
    before = effects.visited.copy()
    again = drive(host, flow)
    assert again == first
    assert effects.visited == before
    assert host.points == 0, "it wrote to the ledger"


@pytest.mark.parametrize("drive", [run, arun])
def test_a_failed_run_continues_at_the_node_that_failed(
    host: Host, effects: Effects, drive: Any
) -> None:
    flow = line(effects, "a", "b", "c")
    effects.broken = {"b"}
    with pytest.raises(Crash):
        drive(host, flow, {"order": 7})
    with host.process() as ledger:
        failed = flow.outcome("r", store=ledger)
    assert failed.status == "failed"
    assert failed.failure is not None
    assert failed.failure.message == "b"
    assert [(mark.status, mark.error) for mark in failed.nodes] == [
        ("done", None),
        ("failed", "b"),
        ("pending", None),
    ]
    effects.broken = set()
    outcome = drive(host, flow)
    assert outcome.status == "completed"
    assert outcome.failure is None
    assert effects.visited == ["a", "b", "b", "c"]
    assert effects.done == ["a", "b", "c"]


def test_a_process_that_is_stopped_leaves_an_interrupted_run_and_not_a_failed_one(
    host: Host, effects: Effects
) -> None:
    flow = line(effects, "a")

    @flow.node
    def stop(state: dict[str, Any]) -> None:
        if len(effects.visited) == 1:
            effects.visit("stop")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(host, flow)
    with host.process() as ledger:
        outcome = flow.outcome("r", store=ledger)
    assert (outcome.status, outcome.failure) == ("running", None)
    assert run(host, flow).status == "completed"
    assert effects.done == ["a"]


def test_a_run_that_was_cancelled_by_its_event_loop_continues_later(
    host: Host, effects: Effects
) -> None:
    flow = line(effects, "a")
    reached = threading.Event()

    @flow.node
    async def linger(state: dict[str, Any]) -> Any:
        if not reached.is_set():
            reached.set()
            await asyncio.Event().wait()
        return {"log": [effects.act("late")]}

    async def cancel_it() -> None:
        task = asyncio.ensure_future(flow.arun("r", store=ledger))
        while not reached.is_set():
            await asyncio.sleep(0)
        task.cancel()
        await task

    with host.process() as ledger, pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel_it())
    assert arun(host, flow).state == {"log": ["did a", "did late"]}
    assert effects.done == ["a", "late"]


def test_another_input_for_the_same_run_is_refused(host: Host, effects: Effects) -> None:
    flow = line(effects, "a", "b")
    effects.broken = {"b"}
    crash(host, flow, {"order": 7})
    with pytest.raises(UsageError, match="was started with another input"):
        run(host, flow, {"order": 8})
    effects.broken = set()
    assert run(host, flow, {"order": 7.0}).status == "completed"
    with pytest.raises(UsageError, match="was started with another input"):
        run(host, flow, {"order": 8})


def test_a_run_of_another_graph_is_refused(host: Host, effects: Effects) -> None:
    run(host, line(effects, "a"))
    with pytest.raises(UsageError, match="is a run of graph 'flow', not of 'other'"):
        run(host, line(effects, "a", name="other"))
    with host.process() as ledger, pytest.raises(UsageError, match="not of 'other'"):
        line(effects, "a", name="other").outcome("r", store=ledger)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_of_a_graph_is_not_ended_by_a_block_of_nt_run(
    host: Host, effects: Effects, is_async: bool
) -> None:
    """The end of the block would pass for the end of the graph, with a question unanswered."""
    flow = graph()
    flow.node(name="ask")(lambda state: {"answer": nt.ask("Go on?")})

    async def enter(ledger: nt.Ledger) -> None:
        async with ledger.run("r"):
            effects.act("outside of the graph")

    assert run(host, flow).status == "waiting"
    with host.process() as ledger, pytest.raises(UsageError, match=r"which nt\.run cannot drive"):
        if is_async:
            asyncio.run(enter(ledger))
        else:
            with ledger.run("r"):
                effects.act("outside of the graph")
    assert effects.done == []
    assert run(host, flow).status == "waiting"


def test_a_run_that_was_opened_with_nt_run_is_refused(host: Host, effects: Effects) -> None:
    with host.process() as ledger, ledger.run("r"):
        effects.act("x")
    with pytest.raises(UsageError, match=r"opened with nt\.run"):
        run(host, line(effects, "a"))
    assert effects.done == ["x"]


def test_an_unknown_run_has_no_outcome(host: Host, effects: Effects) -> None:
    with host.process() as ledger, pytest.raises(UnknownRun, match="no run 'r'"):
        line(effects, "a").outcome("r", store=ledger)


@pytest.mark.parametrize("version", ["1.0.1", "1.0.0", "1.0.9"])
def test_a_patch_resumes_the_run_with_its_receipts(
    host: Host, effects: Effects, version: str
) -> None:
    effects.broken = {"b"}
    crash(host, line(effects, "a", "b", version="1.0.5"))
    effects.broken = set()
    outcome = run(host, line(effects, "a", "b", version=version))
    assert (outcome.status, outcome.graph) == ("completed", "flow@1.0.5")
    assert effects.done == ["a", "b"]
    scopes = {row.identity.checkpoint_id for row in host.calls}
    assert scopes == {"flow@1.0.5/1"}


@pytest.mark.parametrize("version", ["1.1.0", "1.0.0", "2.0.0"])
def test_any_other_version_is_refused_and_says_what_to_do(
    host: Host, effects: Effects, version: str
) -> None:
    bound = "1.2.0"
    effects.broken = {"a"}
    crash(host, line(effects, "a", version=bound))
    with pytest.raises(WorkflowVersionMismatch, match="Deploy the old version") as caught:
        run(host, line(effects, "a", version=version))
    assert caught.value.facts["bound"] == "flow@1.2.0"
    assert caught.value.facts["deployed"] == f"flow@{version}"
    assert effects.visited == ["a"]


def test_a_node_that_the_edited_draft_does_not_have_stops_the_run(
    host: Host, effects: Effects
) -> None:
    effects.broken = {"b"}
    crash(host, line(effects, "a", "b", version="0.0.1"))
    with pytest.raises(nt.errors.InvalidGraph, match="at node 'b', which graph"):
        run(host, line(effects, "a", "c", version="0.0.1"))
    assert effects.done == ["a"]


def test_async_nodes_are_refused_inside_a_running_loop_before_anything_happens(
    host: Host, effects: Effects
) -> None:
    flow = line(effects, "a")

    @flow.node
    async def later(state: dict[str, Any]) -> None: ...

    async def main() -> None:
        with pytest.raises(UsageError, match=r"await graph\.arun"):
            run(host, flow)

    asyncio.run(main())
    assert host.data.runs == {}
    assert effects.visited == []
    assert run(host, flow).status == "completed"


def test_sync_nodes_may_be_run_inside_a_running_loop(host: Host, effects: Effects) -> None:
    async def main() -> Any:
        return run(host, line(effects, "a"))

    assert asyncio.run(main()).status == "completed"


def test_an_event_loop_continues_while_sync_nodes_run(host: Host) -> None:
    flow = graph()
    ticked = threading.Event()

    @flow.node
    def wait(state: dict[str, Any]) -> Any:
        return {"ticked": ticked.wait(timeout=30)}

    async def main() -> Any:
        with host.process() as ledger:
            running_flow = asyncio.ensure_future(flow.arun("r", store=ledger))
            await asyncio.sleep(0)
            ticked.set()
            return await running_flow

    assert asyncio.run(main()).state == {"ticked": True}


def test_a_run_that_another_process_drives_is_busy(host: Host, effects: Effects) -> None:
    flow = graph()

    @flow.node
    def again(state: dict[str, Any]) -> None:
        with pytest.raises(nt.RunBusy):
            run(host, flow)
        effects.visit("again")

    assert run(host, flow).status == "completed"
    assert effects.visited == ["again"]


def test_a_process_that_stays_continues_as_soon_as_what_the_run_waits_for_has_come(
    host: Host, effects: Effects
) -> None:
    flow = line(effects, "a")

    @flow.node
    def wait(state: dict[str, Any]) -> Any:
        nt.sleep("10s")
        return {"log": [effects.act("after")]}

    with host.process() as ledger:
        waits = flow.run("r", store=ledger)
    assert (waits.status, [wait.kind.value for wait in waits.waits]) == ("waiting", ["timer"])
    with host.process() as ledger:
        still = flow.run("r", store=ledger, wait="3s")
    assert still.status == "waiting"
    with host.process() as ledger:
        outcome = flow.run("r", store=ledger, wait="20s")
    assert outcome.status == "completed"
    assert effects.done == ["a", "after"]


def test_a_doubt_that_only_a_person_can_end_makes_the_run_wait(
    host: Host, effects: Effects
) -> None:
    flow = line(effects, "a", "b")
    # Intent and receipt of a, then the intent of b: killed right after it.
    for point in range(1, 30):
        fresh = Host()
        effects.done.clear()
        with fresh.process(dies_at=point) as ledger:
            flow.run("r", store=ledger)
        if [row.identity.node_id for row in fresh.calls if row.status.in_doubt] == ["b"]:
            break
    outcome = run(fresh, flow)
    assert outcome.status == "waiting"
    (review,) = outcome.reviews
    assert [wait.subject for wait in outcome.waits] == [review.review_id]
    happened = "b" in effects.done
    fresh.decide(Verb.HAPPENED if happened else Verb.DID_NOT_HAPPEN, result="did b")
    outcome = run(fresh, flow)
    assert outcome.status == "completed"
    assert outcome.state == {"log": ["did a", "did b"]}
    assert effects.done == ["a", "b"]


def test_an_error_that_no_decision_ends_fails_the_run_and_never_completes_it(
    host: Host, effects: Effects
) -> None:
    """A new effect in an inner step that is finished: there is no review, only other code."""
    flow = graph()
    wants = ["x"]

    @flow.node
    def work(state: dict[str, Any]) -> None:
        with nt.step("inner"):
            for what in wants:
                effects.act(what)
        effects.act("outer")
        effects.visit("work")

    effects.broken = {"work"}
    crash(host, flow)
    effects.broken = set()
    wants.append("y")
    with pytest.raises(nt.errors.ReplayDriftError, match="is finished and only replays"):
        run(host, flow)
    with host.process() as ledger:
        assert flow.outcome("r", store=ledger).status == "failed"
    wants.remove("y")
    assert run(host, flow).status == "completed"
    assert effects.done == ["x", "outer"]


def test_a_decision_that_cannot_be_used_yet_does_not_make_the_run_spin(
    host: Host, effects: Effects
) -> None:
    """The tool that the decision is about is not declared in this process."""
    flow = graph()

    def declared() -> Any:
        @nt.tool("unsafe_on_replay")
        def lose(at: int) -> None:
            raise RuntimeError("the answer was lost")

        return lose

    tools = [declared()]

    @flow.node
    def work(state: dict[str, Any]) -> None:
        if tools:
            tools[0](at=1)
        effects.act("other")

    assert run(host, flow).status == "waiting"
    tools.clear()
    gc.collect()
    host.decide(Verb.DID_NOT_HAPPEN)
    with host.process() as ledger:
        outcome = flow.run("r", store=ledger, wait="1s")
    assert outcome.status == "waiting"
    assert outcome.waits
    assert effects.done == []
    assert len(host.clock.pauses) < 10


def test_a_run_that_a_person_aborts_while_it_waits_is_aborted(host: Host, effects: Effects) -> None:
    flow = line(effects, "a")

    @flow.node
    def wait(state: dict[str, Any]) -> None:
        nt.ask("Go on?", options=["yes", "no"])

    assert run(host, flow).status == "waiting"
    host.decide(Verb.ABORT)
    outcome = run(host, flow)
    assert (outcome.status, outcome.waits, outcome.reviews) == ("aborted", (), ())
    assert run(host, flow).status == "aborted"


def test_a_run_whose_last_answer_is_there_is_advanced_by_the_next_process(
    host: Host, effects: Effects
) -> None:
    flow = graph()

    @flow.node(then={"yes": "pay", "no": nt.END})
    def wait(state: dict[str, Any]) -> Any:
        return nt.ask("Pay?", options=["yes", "no"])

    @flow.node
    def pay(state: dict[str, Any]) -> None:
        effects.act("pay")

    assert run(host, flow).status == "waiting"
    answer(host, "yes")
    assert run(host, flow).status == "completed"
    assert effects.done == ["pay"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"wait": "soon"}, "wait"),
        ({"acquire_timeout": 5}, "acquire_timeout=5 has no unit"),
        ({"settle_timeout": "-1s"}, "settle_timeout"),
    ],
)
def test_a_duration_that_is_none_is_refused_before_the_run_exists(
    host: Host, effects: Effects, options: dict[str, Any], text: str
) -> None:
    with host.process() as ledger, pytest.raises(UsageError, match=text):
        line(effects, "a").run("r", store=ledger, **options)
    assert host.data.runs == {}


def test_a_dead_process_is_overtaken_at_every_point_and_nothing_is_done_twice(
    effects: Effects,
) -> None:
    """The sweep of one line; the big one, with real processes, is in tests/kill."""
    flow = line(effects, "a", "b")
    whole = Host()
    expected = run(whole, flow).state
    for point in range(1, whole.points + 1):
        host = Host()
        effects.done.clear()
        with host.process(dies_at=point) as ledger:
            assert isinstance(ledger.store, MortalStore)
            flow.run("r", store=ledger)
        for _ in range(3):
            if run(host, flow).status == "completed":
                break
            (review,) = host.open_reviews
            node = review.identity.node_id
            happened = node in effects.done
            verb = Verb.HAPPENED if happened else Verb.DID_NOT_HAPPEN
            host.decide(verb, result=f"did {node}")
        assert run(host, flow).state == expected
        assert effects.done == ["a", "b"]


def test_a_deploy_that_removed_the_node_leaves_the_failure_as_it_was(
    host: Host, effects: Effects
) -> None:
    """A draft was edited in place: the failure of the run still says what is wrong with it."""
    effects.broken = {"work"}
    flow = graph(version="0.0.1")
    flow.node(name="work")(lambda state: effects.visit("work"))
    crash(host, flow)
    before = host.data.runs["r"]
    edited = graph(version="0.0.1")
    edited.node(name="other")(lambda state: None)
    for _ in range(2):
        with pytest.raises(nt.errors.InvalidGraph, match="is at node 'work'"):
            run(host, edited)
        found = host.data.runs["r"]
        assert found.failure is not None
        assert (found.failure, found.status) == (before.failure, before.status)
        assert found.holder_id is None
    effects.broken = set()
    assert run(host, flow).status == "completed"


def test_a_run_at_a_node_that_is_gone_has_failed_if_it_had_not_before(host: Host) -> None:
    """Otherwise a worker that looks for ready runs would find it forever."""
    flow, edited = graph(version="0.0.1"), graph(version="0.0.1")
    flow.node(name="work")(lambda state: nt.receive("paid"))
    edited.node(name="other")(lambda state: None)
    assert run(host, flow).status == "waiting"
    with pytest.raises(nt.errors.InvalidGraph, match="is at node 'work'"):
        run(host, edited)
    assert host.data.runs["r"].status.value == "failed"
