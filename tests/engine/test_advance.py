"""The one loop: choices, loops, branches, and checkpoints written with what they follow from."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import CommitUnknown, InvalidGraph, LedgerCorrupt, SchemaTooNew, StoreError
from nottwice.model.run import RunStatus, StepStatus
from nottwice.model.saving.checkpoint import restore
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryStore
from tests.fakes import Host, MortalStore
from tests.graphs.effects import Crash, Effects, arun, crash, graph, run

Drive = Callable[..., Any]
BOTH = pytest.mark.parametrize("drive", [run, arun])
State = dict[str, Any]


@pytest.fixture
def effects() -> Effects:
    return Effects()


def history(host: Host) -> list[tuple[str, Any]]:
    """Every checkpoint that is durable: which node had ended, and the state then."""
    store = MemoryStore(host.data)
    found = []
    for record in store.checkpoints("r"):
        image: Any = restore(store.checkpoint_chain("r", record.version))
        found.append((record.node_id, image["state"]))
    return found


# Choices and loops


@BOTH
@pytest.mark.parametrize("way", ["left", "right"])
def test_a_choice_decides_which_nodes_are_visited(
    host: Host, effects: Effects, drive: Drive, way: str
) -> None:
    flow = graph()

    @flow.node(then={"left": "left", "right": "right"})
    def choose(state: State) -> str:
        return str(state["way"])

    @flow.node(then=nt.END)
    def left(state: State) -> Any:
        return {"went": effects.act("left")}

    @flow.node(then=nt.END)
    def right(state: State) -> Any:
        return {"went": effects.act("right")}

    outcome = drive(host, flow, {"way": way})
    assert outcome.state == {"way": way, "went": f"did {way}"}
    assert effects.done == [way]
    pending = {mark.node for mark in outcome.nodes if mark.status == "pending"}
    assert pending == {"left", "right"} - {way}


def test_go_chooses_a_route_and_changes_the_state(host: Host) -> None:
    flow = graph()

    @flow.node(then={"on": nt.END, "back": "first"})
    def first(state: State) -> Any:
        count = state.get("count", 0) + 1
        return nt.goto("back" if count < 3 else "on", {"count": count})

    assert run(host, flow).state == {"count": 3}


@BOTH
def test_every_round_of_a_loop_is_a_visit_with_effects_of_its_own(
    host: Host, effects: Effects, drive: Drive
) -> None:
    flow = graph(append=["log"])

    @flow.node(then={"again": "work", "on": nt.END})
    def work(state: State) -> Any:
        more = len(state.get("log", [])) < 3
        return nt.goto("again" if more else "on", {"log": [effects.act("the same")]})

    outcome = drive(host, flow)
    assert effects.done == ["the same"] * 4
    assert outcome.nodes[0].visit == 4
    visits = [row.identity.checkpoint_id for row in host.calls]
    assert visits == [f"flow@1.0.0/{number}" for number in (1, 2, 3, 4)]


def test_a_loop_stops_at_its_bound_and_continues_when_that_is_raised(
    host: Host, effects: Effects
) -> None:
    def looping(most: int, version: str) -> nt.Graph[Any]:
        flow = graph(version=version, append=["log"])

        @flow.node(then={"again": "work", "on": nt.END}, most=most)
        def work(state: State) -> Any:
            more = len(state.get("log", [])) < 5
            return nt.goto("again" if more else "on", {"log": [effects.act("it")]})

        return flow

    flow = looping(3, "0.0.1")
    with pytest.raises(InvalidGraph, match="visited 3 times, which is its limit"):
        run(host, flow)
    with host.process() as ledger:
        outcome = flow.outcome("r", store=ledger)
    assert outcome.status == "failed"
    assert [(mark.status, mark.visit) for mark in outcome.nodes] == [("failed", 3)]
    assert len(effects.done) == 3
    assert run(host, looping(10, "0.0.2")).status == "completed"
    assert len(effects.done) == 6


@pytest.mark.parametrize("returned", [None, "nowhere", {"x": 1}])
def test_a_node_that_makes_no_valid_choice_is_marked_failed(host: Host, returned: Any) -> None:
    flow = graph()
    flow.node(name="choose", then={"on": nt.END})(lambda state: returned)
    with pytest.raises(InvalidGraph, match="Return one of 'on'"):
        run(host, flow)
    with host.process() as ledger:
        outcome = flow.outcome("r", store=ledger)
    assert [(mark.status, mark.error is None) for mark in outcome.nodes] == [("failed", False)]
    assert outcome.state == {}


# Branches


def fan(effects: Effects, **options: Any) -> nt.Graph[Any]:
    """Two branches, the second of two nodes, that meet again."""
    flow = graph(append=["log"], **options)

    @flow.node(then=["left", "right"], join="meet")
    def split(state: State) -> Any:
        return {"log": ["split"], "base": 1}

    @flow.node
    def left(state: State) -> Any:
        effects.visit("left")
        return {"left": effects.act("left"), "log": ["left"]}

    @flow.node(then="right2")
    def right(state: State) -> Any:
        effects.visit("right")
        return {"right": effects.act("right"), "log": ["right"]}

    @flow.node(then="meet")
    def right2(state: State) -> Any:
        effects.visit("right2")
        return {"right": state["right"] + "!", "log": ["right2"]}

    @flow.node
    def meet(state: State) -> Any:
        effects.act("meet")
        return {"log": ["meet"]}

    return flow


@BOTH
def test_branches_meet_with_what_each_of_them_changed(
    host: Host, effects: Effects, drive: Drive
) -> None:
    outcome = drive(host, fan(effects))
    assert outcome.state == {
        "base": 1,
        "left": "did left",
        "right": "did right!",
        "log": ["split", "left", "right", "right2", "meet"],
    }
    assert sorted(effects.done) == ["left", "meet", "right"]
    assert {mark.status for mark in outcome.nodes} == {"done"}


@BOTH
def test_branches_run_at_the_same_time(host: Host, drive: Drive) -> None:
    flow = graph()
    both = threading.Barrier(2, timeout=30)
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: None)
    for name in ("a", "b"):
        flow.node(name=name)(lambda state: {"met": both.wait() < 2})
    flow.node(name="meet")(lambda state: None)
    assert drive(host, flow).status == "completed"


def test_async_branches_run_at_the_same_time(host: Host) -> None:
    flow = graph()
    there: list[str] = []
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: None)

    def meeting(name: str) -> Any:
        async def node(state: State) -> None:
            there.append(name)
            while len(there) < 2:
                await asyncio.sleep(0)

        return node

    for name in ("a", "b"):
        flow.node(name=name)(meeting(name))
    flow.node(name="meet")(lambda state: None)
    assert arun(host, flow).status == "completed"


def test_a_branch_does_not_see_what_its_sibling_changed(host: Host) -> None:
    flow = graph(append=["log"])
    seen: dict[str, State] = {}
    first = threading.Event()
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: {"log": ["split"]})

    @flow.node(then="a2")
    def a(state: State) -> Any:
        return {"a": 1, "log": ["a"]}

    @flow.node(then="meet")
    def a2(state: State) -> Any:
        seen["a"] = state
        first.set()

    @flow.node
    def b(state: State) -> Any:
        assert first.wait(timeout=30)
        seen["b"] = state
        return {"b": 1, "log": ["b"]}

    flow.node(name="meet")(lambda state: None)
    assert run(host, flow).state == {"a": 1, "b": 1, "log": ["split", "a", "b"]}
    assert seen["a"] == {"a": 1, "log": ["split", "a"]}
    assert seen["b"] == {"log": ["split"]}


@BOTH
def test_a_siblings_crash_keeps_what_a_branch_has_finished(
    host: Host, effects: Effects, drive: Drive
) -> None:
    flow = fan(effects)
    effects.broken = {"right2"}
    with pytest.raises(Crash):
        drive(host, flow)
    assert sorted(effects.done) == ["left", "right"]
    effects.broken, effects.visited = set(), []
    outcome = drive(host, flow)
    assert effects.visited == ["right2"], "only what was not finished is run again"
    assert sorted(effects.done) == ["left", "meet", "right"]
    assert outcome.state["log"] == ["split", "left", "right", "right2", "meet"]


def test_the_errors_of_all_branches_are_told(host: Host, effects: Effects) -> None:
    effects.broken = {"left", "right"}
    with pytest.raises(Crash) as caught:
        run(host, fan(effects))
    assert len(caught.value.__notes__) == 1


def test_what_a_person_must_decide_comes_before_what_failed(host: Host, effects: Effects) -> None:
    flow = graph()
    flow.node(name="split", then=["a", "b", "c"], join="meet")(lambda state: None)

    @flow.node
    def a(state: State) -> None:
        effects.visit("a")

    @nt.tool("unsafe_on_replay")
    def lose(at: int) -> None:
        raise RuntimeError("the answer was lost")

    flow.node(name="b")(lambda state: lose(at=1))
    flow.node(name="c")(lambda state: nt.sleep("1h"))
    flow.node(name="meet")(lambda state: None)
    effects.broken = {"a"}
    outcome = run(host, flow)
    assert outcome.status == "waiting"
    assert {wait.kind.value for wait in outcome.waits} == {"review", "timer"}


@pytest.mark.parametrize("value", [[1], {"x": 1}, 2])
def test_branches_that_change_one_thing_in_two_ways_are_refused_where_they_meet(
    host: Host, effects: Effects, value: Any
) -> None:
    flow = graph()
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: None)
    flow.node(name="a")(lambda state: {"same": effects.act("a") and value})
    flow.node(name="b")(lambda state: {"same": effects.act("b") and 1})
    flow.node(name="meet")(lambda state: None)
    with pytest.raises(InvalidGraph, match="both changed 'same'"):
        run(host, flow)
    assert sorted(effects.done) == ["a", "b"]
    with pytest.raises(InvalidGraph, match="both changed 'same'"):
        run(host, flow)
    assert sorted(effects.done) == ["a", "b"]


def test_branches_may_change_one_thing_to_the_same_value(host: Host) -> None:
    flow = graph()
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: None)
    flow.node(name="a")(lambda state: {"same": [1, {"x": 2}]})
    flow.node(name="b")(lambda state: {"same": [1, {"x": 2}]})
    flow.node(name="meet")(lambda state: None)
    assert run(host, flow).state == {"same": [1, {"x": 2}]}


def test_the_same_call_in_two_branches_is_two_calls(host: Host, effects: Effects) -> None:
    flow = graph()
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: None)
    flow.node(name="a", then="both")(lambda state: None)
    flow.node(name="b", then="both")(lambda state: None)
    flow.node(name="both", then="meet")(lambda state: effects.act("same") and None)
    flow.node(name="meet")(lambda state: None)
    assert run(host, flow).status == "completed"
    assert effects.done == ["same", "same"]
    assert sorted(row.identity.node_id for row in host.calls) == ["/[0]/both", "/[1]/both"]


def test_branches_in_a_loop_begin_again_each_time(host: Host, effects: Effects) -> None:
    flow = graph(append=["log"])
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: None)
    flow.node(name="a")(lambda state: {"log": [effects.act("a")]})
    flow.node(name="b")(lambda state: {"log": [effects.act("b")]})

    @flow.node(then={"again": "split", "on": nt.END})
    def meet(state: State) -> str:
        return "again" if len(state["log"]) < 6 else "on"

    assert run(host, flow).state == {"log": ["did a", "did b"] * 3}
    assert sorted(effects.done) == ["a"] * 3 + ["b"] * 3


def test_a_bad_choice_in_a_branch_marks_its_node_failed(host: Host, effects: Effects) -> None:
    flow = graph()
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: None)
    flow.node(name="a", then={"on": "meet"})(lambda state: "nowhere")
    flow.node(name="b")(lambda state: effects.act("b") and None)
    flow.node(name="meet")(lambda state: None)
    with pytest.raises(InvalidGraph, match="chose 'nowhere'"):
        run(host, flow)
    with host.process() as ledger:
        marks = {mark.node: mark.status for mark in flow.outcome("r", store=ledger).nodes}
    assert marks == {"split": "done", "a": "failed", "b": "done", "meet": "pending"}


# Checkpoints and when they are durable


def commits(host: Host, flow: nt.Graph[Any]) -> list[Commit]:
    """Every commit of one uninterrupted run, after the claim."""
    made: list[Commit] = []
    whole = MortalStore.commit

    class Watched(MortalStore):
        def commit(self, commit: Commit) -> None:
            made.append(commit)
            whole(self, commit)

    with nt.Ledger(Watched(host.data), clock=host.clock) as ledger:
        assert flow.run("r", store=ledger).status == "completed"
    assert made[0].claim is not None
    return made[1:]


def pure_nodes(effects: Effects, cadence: str, count: int = 5) -> nt.Graph[Any]:
    flow = graph(checkpoints=cadence)
    for number in range(count):
        flow.node(name=f"n{number}")(
            lambda state, number=number: {f"n{number}": effects.look(f"{number}")}  # type: ignore[misc]
        )
    return flow


def test_a_node_with_one_unsafe_call_costs_the_two_commits_of_that_call(
    host: Host, effects: Effects
) -> None:
    flow = graph()
    for number in range(5):
        flow.node(name=f"n{number}")(lambda state, number=number: effects.act(f"{number}") and None)  # type: ignore[misc]
    # The intent and the receipt of each call, and completion.
    assert len(commits(host, flow)) == 2 * 5 + 1
    assert len(history(host)) == 6


def test_checkpoints_of_nodes_without_effects_wait_for_the_next_commit(
    host: Host, effects: Effects
) -> None:
    assert len(commits(host, pure_nodes(effects, "effects"))) == 1
    assert [node for node, _ in history(host)] == ["/", "n0", "n1", "n2", "n3", "n4"]


def test_every_step_makes_each_checkpoint_durable_before_the_next_step_begins(
    host: Host, effects: Effects
) -> None:
    made = commits(host, pure_nodes(effects, "every_step"))
    # The last one together with the end of the run.
    assert [len(commit.checkpoints) for commit in made] == [1] * 6
    assert [commit.run is not None for commit in made] == [False] * 5 + [True]


def test_every_step_is_durably_in_progress_before_its_node_runs(
    host: Host, effects: Effects
) -> None:
    flow = graph(checkpoints="every_step")
    seen: list[list[tuple[str, str]]] = []

    def look(state: Any) -> None:
        steps = MemoryStore(host.data).steps("r")
        seen.append([(step.node_id, step.status.value) for step in steps])

    for name in ("a", "b"):
        flow.node(name=name)(look)
    run(host, flow)
    assert seen == [[("a", "in_progress")], [("a", "done"), ("b", "in_progress")]]


def test_on_exit_keeps_only_the_last_checkpoint_before_a_commit(
    host: Host, effects: Effects
) -> None:
    made = commits(host, pure_nodes(effects, "on_exit"))
    assert len(made) == 1
    ((node, state),) = history(host)
    assert node == "n4"
    assert state == {f"n{number}": f"saw {number}" for number in range(5)}


def test_on_exit_what_leads_to_an_effect_is_durable_before_it(host: Host, effects: Effects) -> None:
    flow = pure_nodes(effects, "on_exit", 3)
    flow.node(name="act")(lambda state: {"acted": effects.act("it")})
    flow.node(name="more")(lambda state: {"more": effects.look("more")})
    flow.node(name="last")(lambda state: {"last": effects.look("last")})
    assert len(commits(host, flow)) == 3
    assert [node for node, _ in history(host)] == ["n2", "last"]
    assert history(host)[-1][1].keys() == {"n0", "n1", "n2", "acted", "more", "last"}


@pytest.mark.parametrize("cadence", ["effects", "every_step", "on_exit"])
def test_the_end_of_a_node_and_its_checkpoint_are_durable_together(
    effects: Effects, cadence: str
) -> None:
    """Killed at every commit: a node is done if and only if the state has what it returned."""
    flow = graph(checkpoints=cadence)
    flow.node(name="a")(lambda state: {"a": effects.look("a")})
    flow.node(name="b")(lambda state: {"b": effects.act("b")})
    flow.node(name="c")(lambda state: {"c": effects.look("c")})
    flow.node(name="d")(lambda state: {"d": effects.act("d")})
    whole = Host()
    expected = run(whole, flow).state
    for point in range(1, whole.points + 1):
        host = Host()
        with host.process(dies_at=point) as ledger:
            flow.run("r", store=ledger)
        saved = history(host)
        state = saved[-1][1] if saved else {}
        done = {step.node_id for step in host.data.steps.values() if step.status is StepStatus.DONE}
        assert done == state.keys(), point
        assert all(expected[key] == value for key, value in state.items())


def test_a_long_run_without_effects_is_made_durable_from_time_to_time(
    host: Host, effects: Effects
) -> None:
    flow = graph()

    @flow.node(then={"again": "count", "on": nt.END})
    def count(state: State) -> Any:
        number = state.get("number", 0) + 1
        return nt.goto("again" if number < 300 else "on", {"number": number})

    made = commits(host, flow)
    assert 2 <= len(made) <= 10
    assert max(len(commit.checkpoints) for commit in made) <= 200


def test_a_state_of_which_little_changes_is_not_written_whole_each_time(host: Host) -> None:
    flow = graph(append=["log"])

    @flow.node(then={"again": "add", "on": nt.END})
    def add(state: State) -> Any:
        more = len(state.get("log", [])) < 199
        return nt.goto("again" if more else "on", {"log": ["x" * 100]})

    run(host, flow)
    written = sum(len(one.json) for one in host.data.checkpoints.values())
    assert written < 4 * 200 * 100 + 200 * 200


# Resuming


def test_a_resumed_node_replays_its_calls_and_adds_to_them(host: Host, effects: Effects) -> None:
    flow = graph()

    @flow.node
    def work(state: State) -> Any:
        one = effects.act("one")
        seen = effects.look("something")
        effects.visit("work")
        return {"one": one, "seen": seen, "two": effects.act("two")}

    effects.broken = {"work"}
    crash(host, flow)
    effects.broken = set()
    outcome = run(host, flow)
    assert outcome.state == {"one": "did one", "seen": "saw something", "two": "did two"}
    assert (effects.done, effects.looks) == (["one", "two"], ["something"])


def test_a_resumed_node_that_no_longer_asks_for_its_effect_is_drift(
    host: Host, effects: Effects
) -> None:
    flow = graph()
    wants = ["one"]

    @flow.node
    def work(state: State) -> None:
        effects.act(wants[0])
        effects.visit("work")

    effects.broken = {"work"}
    crash(host, flow)
    effects.broken = set()
    wants[0] = "other"
    outcome = run(host, flow)
    assert outcome.status == "waiting"
    assert [review.kind.value for review in outcome.reviews] == ["drift"]
    assert effects.done == ["one"]


def test_a_map_in_a_node_is_resumed_item_by_item(host: Host, effects: Effects) -> None:
    flow = graph()

    def one(item: int) -> str:
        if item == 3:
            effects.visit("three")
        return str(effects.act(f"item {item}"))

    @flow.node
    def work(state: State) -> Any:
        return {"all": nt.map(one, range(5))}

    effects.broken = {"three"}
    crash(host, flow)
    effects.broken = set()
    assert run(host, flow).state == {"all": [f"did item {item}" for item in range(5)]}
    assert sorted(effects.done) == [f"item {item}" for item in range(5)]


@BOTH
def test_a_wait_in_one_branch_does_not_hold_up_the_other(
    host: Host, effects: Effects, drive: Drive
) -> None:
    flow = graph()
    flow.node(name="split", then=["ask", "work"], join="meet")(lambda state: None)
    flow.node(name="ask")(lambda state: nt.sleep("1h"))
    flow.node(name="work", then="more")(lambda state: {"work": effects.act("work")})
    flow.node(name="more", then="meet")(lambda state: {"more": effects.act("more")})
    flow.node(name="meet")(lambda state: effects.act("meet") and None)
    outcome = drive(host, flow)
    assert outcome.status == "waiting"
    assert effects.done == ["work", "more"]
    host.clock.advance(3600)
    assert drive(host, flow).status == "completed"
    assert effects.done == ["work", "more", "meet"]


# Commits that overtake each other


class Overtaken(MemoryStore):
    """A store in which the intent of one call is written last, as if its thread had been paused.

    Its pending writes were added when they came; what the others did since is durable already.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host.data)
        self.came = threading.Event()
        self._overtaken = threading.Event()

    def commit(self, commit: Commit) -> None:
        words = " ".join(write.row.args_json for write in commit.calls)
        if "slow" in words and not self.came.is_set():
            self.came.set()
            assert self._overtaken.wait(timeout=30)
        super().commit(commit)
        if "quick" in words:
            self._overtaken.set()


def overtaking(effects: Effects, cadence: str, came: threading.Event) -> nt.Graph[Any]:
    """One branch makes its way while the other one is about to record an intent."""
    flow = graph(checkpoints=cadence, append=["log"])
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: {"log": ["split"]})

    @flow.node(then="a2")
    def a(state: State) -> Any:
        assert came.wait(timeout=30)
        return {"log": ["a"]}

    flow.node(name="a2", then="a3")(lambda state: {"log": ["a2"]})
    flow.node(name="a3", then="a4")(lambda state: {"log": [effects.act("quick")]})
    flow.node(name="a4", then="meet")(lambda state: {"log": ["a4"]})
    flow.node(name="b")(lambda state: {"log": [effects.act("slow")]})
    flow.node(name="meet")(lambda state: {"log": [effects.act("meet")]})
    return flow


@pytest.mark.parametrize("cadence", ["effects", "every_step", "on_exit"])
def test_a_commit_that_was_overtaken_undoes_nothing(
    host: Host, effects: Effects, cadence: str
) -> None:
    store = Overtaken(host)
    flow = overtaking(effects, cadence, store.came)
    # Large enough that versions are written down as what changed since the one before.
    given = {"ballast": "x" * 5000}
    with nt.Ledger(store, clock=host.clock) as ledger:
        outcome = flow.run("r", given, store=ledger)
    log = ["split", "a", "a2", "did quick", "a4", "did slow", "did meet"]
    assert outcome.state == {**given, "log": log}
    assert {mark.status for mark in outcome.nodes} == {"done"}
    for node_id, state in history(host):
        kept = state.get("log", [])
        assert kept == log[: len(kept)], node_id
    image: Any = restore(store.checkpoint_chain("r"))
    assert set(image["position"]["visits"].values()) == {1}
    assert len(image["position"]["visits"]) == len(outcome.nodes), "a visit was forgotten"


# Trouble with the ledger


def grouped(text: str) -> Exception:
    return ExceptionGroup(text, [Crash("too"), ExceptionGroup("more", [StoreError("full")])])


@BOTH
@pytest.mark.parametrize(
    "trouble", [StoreError, CommitUnknown, LedgerCorrupt, SchemaTooNew, grouped]
)
def test_trouble_with_the_ledger_fails_no_run(
    host: Host, effects: Effects, drive: Drive, trouble: Callable[[str], Exception]
) -> None:
    flow, well = graph(), list[bool]()

    @flow.node
    def only(state: State) -> Any:
        done = effects.act("once")
        if not well:
            raise trouble("no space left")
        return {"done": done}

    with pytest.raises((StoreError, ExceptionGroup), match="no space left"):
        drive(host, flow)
    left, (step,) = host.data.runs["r"], host.data.steps.values()
    assert (left.status, left.failure, left.holder_id) == (RunStatus.RUNNING, None, None)
    assert (step.status, step.failure) == (StepStatus.IN_PROGRESS, None)
    well.append(True)
    assert drive(host, flow).state == {"done": "did once"}
    assert effects.done == ["once"]


@BOTH
@pytest.mark.parametrize("trouble_in", ["a", "b"])
def test_trouble_in_one_branch_comes_before_the_failure_of_another(
    host: Host, drive: Drive, trouble_in: str
) -> None:
    flow = graph()
    flow.node(name="split", then=["a", "b"], join="end")(lambda state: None)

    def branch(name: str) -> None:
        @flow.node(name=name, then="end")
        def one(state: State) -> None:
            raise StoreError(name) if name == trouble_in else Crash(name)

    branch("a")
    branch("b")
    flow.node(name="end", then=nt.END)(lambda state: None)
    with pytest.raises(StoreError, match=trouble_in):
        drive(host, flow)
    assert host.data.runs["r"].status is RunStatus.RUNNING


def test_trouble_with_the_ledger_ends_no_doubt(host: Host) -> None:
    flow = graph()

    @nt.tool("unsafe_on_replay", name="advance doubtful")
    def send() -> None:
        raise nt.Ambiguous("it is not known")

    @flow.node
    def only(state: State) -> None:
        with contextlib.suppress(nt.RunBlocked):
            send()
        raise StoreError("no space left")

    with pytest.raises(StoreError):
        run(host, flow)
    assert host.data.runs["r"].status is RunStatus.WAITING
    assert len(host.open_reviews) == 1
