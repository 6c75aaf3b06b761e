"""A fork has the receipts of its origin and makes no new effects (L10, P30)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import NewEffectInFork, UnknownRun, UsageError
from nottwice.model.call import CallStatus
from nottwice.model.failure import FailureClass
from tests.fakes import Host
from tests.graphs.effects import Crash, Effects, crash, graph, run

State = dict[str, Any]


def fork(host: Host, flow: nt.Graph[Any], run_id: str = "r", to: str = "f", **more: Any) -> None:
    with host.process() as ledger:
        flow.fork(run_id, to=to, store=ledger, **more)


def rounds(effects: Effects) -> nt.Graph[Any]:
    """Three rounds of a loop, each with the same call, and an end of its own."""
    flow = graph(append=["log"])

    @flow.node(then={"again": "work", "on": "last"})
    def work(state: State) -> Any:
        effects.visit("work")
        log = [effects.act("same"), effects.look("same")]
        more = len(state.get("log", [])) < state["most"]
        return nt.goto("again" if more else "on", {"log": log})

    @flow.node
    def last(state: State) -> Any:
        effects.act(f"last after {len(state['log'])}")
        return {"ended": True}

    return flow


def test_a_fork_from_any_checkpoint_replays_to_the_same_end(host: Host, effects: Effects) -> None:
    flow = rounds(effects)
    origin = run(host, flow, {"most": 4})
    done, looks = effects.done.copy(), effects.looks.copy()
    assert len(done) == 4
    for version in range(origin.version + 1):
        fork(host, flow, to=f"f{version}", at=version)
        outcome = run(host, flow, run_id=f"f{version}")
        assert (outcome.status, outcome.state) == ("completed", origin.state)
    assert (effects.done, effects.looks) == (done, looks)


def test_a_forks_receipts_are_those_of_its_origin(host: Host, effects: Effects) -> None:
    flow = rounds(effects)
    run(host, flow, {"most": 2})
    fork(host, flow, at=0)
    run(host, flow, run_id="f")

    def receipts(run_id: str) -> list[Any]:
        rows = [row for row in host.calls if row.identity.workflow_id == run_id]
        return [(row.call_id, row.identity[1:], row.result, row.attempt_id) for row in rows]

    assert receipts("f") == receipts("r")
    assert host.data.runs["f"].origin == "r"


def test_a_fork_that_goes_another_way_is_refused_its_first_new_effect(
    host: Host, effects: Effects
) -> None:
    flow = rounds(effects)
    run(host, flow, {"most": 4})
    done = effects.done.copy()
    fork(host, flow, at=0, update={"most": 0})
    with pytest.raises(NewEffectInFork, match="no receipt of this call of 'act'"):
        run(host, flow, run_id="f")
    assert effects.done == done
    with host.process() as ledger:
        outcome = flow.outcome("f", store=ledger)
    assert (outcome.status, outcome.state["log"]) == ("failed", ["did same", "saw same"])


def test_pure_calls_of_a_fork_are_made(host: Host, effects: Effects) -> None:
    flow = graph()
    flow.node(name="look")(lambda state: {"seen": effects.look(state["what"])})
    run(host, flow, {"what": "this"})
    fork(host, flow, at=0, update={"what": "that"})
    assert run(host, flow, run_id="f").state == {"what": "that", "seen": "saw that"}


def test_a_fork_of_an_unfinished_run_ends_where_that_ended(host: Host, effects: Effects) -> None:
    flow = rounds(effects)

    @flow.node
    def more(state: State) -> None:
        effects.visit("more")

    effects.broken = {"more"}
    crash(host, flow, {"most": 0})
    effects.broken = set()
    fork(host, flow)
    assert run(host, flow, run_id="f").status == "completed"
    with host.process() as ledger:
        assert flow.outcome("r", store=ledger).status == "failed"


def test_a_fork_is_refused_while_anything_is_in_doubt(host: Host, effects: Effects) -> None:
    flow = graph()

    @nt.tool("unsafe_on_replay")
    def lose(at: int) -> None:
        raise RuntimeError("the answer was lost")

    flow.node(name="a")(lambda state: lose(at=1))
    assert run(host, flow).status == "waiting"
    with pytest.raises(UsageError, match="has a call in doubt"):
        fork(host, flow)
    assert "f" not in host.data.runs


def test_a_doubt_that_arises_while_the_fork_is_made_is_not_copied(
    host: Host, effects: Effects
) -> None:
    """The origin is under way: what is copied is what was looked at."""
    flow = graph()

    @nt.tool("idempotent_with_key", key="k-{at}", window="1h")
    def meddle(at: int) -> None:
        with pytest.raises(UsageError, match="has a call in doubt"):
            fork(host, flow)
        effects.done.append("meddled")

    flow.node(name="a")(lambda state: meddle(at=1))
    assert run(host, flow).status == "completed"
    assert effects.done == ["meddled"]
    assert "f" not in host.data.runs


def failing(effects: Effects, tries: Callable[[Any], Any]) -> nt.Graph[Any]:
    flow = graph()

    @nt.tool("unsafe_on_replay", retry=nt.RetryPolicy(5, first_seconds=1.0))
    def send(to: str) -> str:
        effects.done.append(to)
        raise nt.Retryable("busy")

    flow.node(name="send")(lambda state: tries(send))
    return flow


def test_a_fork_makes_no_further_attempt_at_what_failed(host: Host, effects: Effects) -> None:
    """Neither the retry that was due when its origin died, nor one that the code grants."""
    flow = failing(effects, lambda send: send(to="ann"))
    with pytest.raises(nt.Retryable):
        run(host, flow)
    made = len(effects.done)
    (row,) = host.calls
    host.data.calls[row.identity] = row._replace(retry_at=host.clock.now())
    fork(host, flow)
    with pytest.raises(NewEffectInFork):
        run(host, flow, run_id="f")
    granting = failing(effects, lambda send: send.retry(to="ann"))
    assert row.failure is not None
    assert row.failure.failure_class is FailureClass.RETRYABLE
    with pytest.raises(NewEffectInFork):
        run(host, granting, run_id="f")
    assert len(effects.done) == made


def test_a_fork_starts_no_child(host: Host, effects: Effects) -> None:
    child, parent = graph("child"), graph("parent")
    child.node(name="act")(lambda state: effects.act("child") and None)
    parent.node(name="spawn")(lambda state: {"order": nt.spawn(child, state).status})
    run(host, parent, {"n": 1})
    fork(host, parent, at=0)
    assert run(host, parent, run_id="f").state == {"n": 1, "order": "completed"}
    fork(host, parent, to="g", at=0, update={"n": 2})
    with pytest.raises(NewEffectInFork):
        run(host, parent, run_id="g")
    assert effects.done == ["child"]
    assert len(host.data.runs) == 4


def test_a_fork_that_was_broken_off_is_finished_by_asking_again(effects: Effects) -> None:
    flow, point = rounds(effects), 0
    while True:
        host, point = Host(), point + 1
        effects.done.clear()
        expected = run(host, flow, {"most": 2}).state
        done = effects.done.copy()
        with host.process(dies_at=point) as ledger:
            flow.fork("r", to="f", at=1, store=ledger)
        died = host.points >= point
        if died and not any(run_id == "f" for run_id, _ in host.data.checkpoints):
            if "f" in host.data.runs:
                with pytest.raises(UsageError, match="forking was interrupted"):
                    run(host, flow, run_id="f")
            fork(host, flow, at=1)
        assert run(host, flow, run_id="f").state == expected, point
        assert effects.done == done
        if not died:
            break
    assert point > 5


def test_a_fork_does_not_take_an_id_that_is_in_use(host: Host, effects: Effects) -> None:
    flow = rounds(effects)
    run(host, flow, {"most": 0})
    run(host, flow, {"most": 0}, run_id="other")
    fork(host, flow)
    for taken in ("r", "other", "f"):
        with pytest.raises(UsageError, match="already exists"):
            fork(host, flow, to=taken)


def test_a_fork_can_be_forked(host: Host, effects: Effects) -> None:
    flow = rounds(effects)
    expected = run(host, flow, {"most": 2}).state
    done = effects.done.copy()
    fork(host, flow, at=1)
    fork(host, flow, "f", to="g")
    assert run(host, flow, run_id="g").state == expected
    assert effects.done == done


def test_what_cannot_be_forked_says_why(host: Host, effects: Effects) -> None:
    flow = rounds(effects)
    with pytest.raises(UnknownRun, match="no run 'r'"):
        fork(host, flow)
    run(host, flow, {"most": 0})
    with pytest.raises(UsageError, match="no checkpoint 99"):
        fork(host, flow, at=99)
    with pytest.raises(UsageError, match="cannot choose a route"):
        fork(host, flow, at=0, update="again")
    with pytest.raises(UsageError, match="cannot choose a route"):
        fork(host, flow, at=0, update=nt.goto("again", {"most": 1}))
    with pytest.raises(nt.errors.InvalidId):
        fork(host, flow, to="")
    other = graph("other")
    other.node(name="a")(lambda state: None)
    with pytest.raises(UsageError, match="not of 'other'"):
        fork(host, other)
    assert set(host.data.runs) == {"r"}


def test_a_fork_keeps_the_version_of_its_origin(host: Host, effects: Effects) -> None:
    flow = graph(version="1.0.0")
    flow.node(name="a")(lambda state: effects.act("a") and None)
    run(host, flow)
    patched = graph(version="1.0.3")
    patched.node(name="a")(lambda state: effects.act("a") and None)
    fork(host, patched, at=0)
    assert run(host, patched, run_id="f").graph == "flow@1.0.0"
    assert effects.done == ["a"]
    assert {row.status for row in host.calls} == {CallStatus.DONE}


def test_a_run_that_failed_in_a_branch_is_forked_with_its_branches(
    host: Host, effects: Effects
) -> None:
    flow = graph(append=["log"])
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: None)
    flow.node(name="a")(lambda state: {"log": [effects.act("a")]})

    @flow.node
    def b(state: State) -> Any:
        log = [effects.act("b")]
        effects.visit("b")
        return {"log": log}

    flow.node(name="meet")(lambda state: None)
    effects.broken = {"b"}
    with pytest.raises(Crash):
        run(host, flow)
    effects.broken = set()
    fork(host, flow)
    assert run(host, flow, run_id="f").state == {"log": ["did a", "did b"]}
    assert sorted(effects.done) == ["a", "b"]
