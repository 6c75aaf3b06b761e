"""What a cancelled ``aadvance`` leaves immediately, and what it waits for (P304).

Each test cancels in one phase of a run. While no effect is in flight, it leaves whatever runs. An
effect that is in flight is waited for, so that it is not left in doubt.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.model.run import RunStatus
from tests.fakes import FakeClock, Host, dying
from tests.graphs.effects import Effects, graph

SECONDS = 20.0


class Gate:
    """A place in user code that says when it is reached, and waits until it may continue."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self.passed = 0

    def wait(self) -> None:
        self.reached.set()
        self.opened.wait(SECONDS)
        self.passed += 1

    async def wait_async(self) -> None:
        self.reached.set()
        while not self.opened.is_set():
            await asyncio.sleep(0.001)
        self.passed += 1


class GatedClock(FakeClock):
    """A clock whose pauses last until the gate is open."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    def pause(self, seconds: float) -> None:
        self.gate.wait()
        super().pause(seconds)

    async def pause_async(self, seconds: float) -> None:
        await self.gate.wait_async()
        self.advance(seconds)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    try:
        yield made
    finally:
        made.opened.set()


async def reach(gate: Gate, advancing: asyncio.Future[Any]) -> None:
    """Wait until the run has reached the gate."""
    while not gate.reached.is_set():
        assert not advancing.done(), advancing
        await asyncio.sleep(0.001)


def leave(host: Host, app: nt.App, gate: Gate, *, free: bool = True) -> None:
    """Cancel where the gate is: it leaves while the gate is shut. ``free``: the run is free."""

    async def work() -> None:
        advancing = asyncio.ensure_future(app.aadvance("r"))
        await reach(gate, advancing)
        advancing.cancel()
        await asyncio.wait([advancing], timeout=SECONDS / 4)
        try:
            assert advancing.cancelled()
            assert not gate.passed
            if free:
                assert host.data.runs["r"].holder_id is None
                assert host.data.runs["r"].status is RunStatus.RUNNING
        finally:
            gate.opened.set()
            await asyncio.wait([advancing])

    asyncio.run(work())


def continue_elsewhere(host: Host, flow: nt.Graph[Any]) -> Any:
    """Another process completes the run, and nothing was left in doubt."""
    with host.process() as ledger:
        assert host.open_reviews == []
        assert nt.App(graphs=[flow], store=ledger).advance("r").status == "completed"
    assert [row.status for row in host.calls if row.status is not CallStatus.DONE] == []


def start(host: Host, flow: nt.Graph[Any]) -> None:
    with host.process() as ledger:
        nt.App(graphs=[flow], store=ledger).enqueue("flow", "r")


def one_node(body: Callable[[], Any], after: Effects | None = None) -> nt.Graph[Any]:
    """A graph of a node, and of one with an effect after it."""
    flow = graph()

    if asyncio.iscoroutinefunction(body):

        @flow.node(name="only")
        async def only_async(state: dict[str, Any]) -> Any:
            return {"did": await body()}

    else:

        @flow.node(name="only")
        def only(state: dict[str, Any]) -> Any:
            return {"did": body()}

    if after is not None:

        @flow.node(name="after")
        def then(state: dict[str, Any]) -> Any:
            return {"then": after.act("after")}

    return flow


def test_while_it_waits_for_a_run_that_is_held_elsewhere(host: Host, gate: Gate) -> None:
    elsewhere, held = Gate(), graph()

    @held.node
    def hold(state: dict[str, Any]) -> None:
        if not elsewhere.passed:
            elsewhere.wait()

    start(host, held)
    with host.process() as other:
        there = threading.Thread(
            target=nt.App(graphs=[held], store=other).advance, args=("r",), daemon=True
        )
        there.start()
        assert elsewhere.reached.wait(SECONDS)
        host.clock = GatedClock(gate)
        with host.process() as ledger:
            app = nt.App(graphs=[held], store=ledger)

            async def work() -> None:
                advancing = asyncio.ensure_future(app.aadvance("r", acquire_timeout="1h"))
                await reach(gate, advancing)
                advancing.cancel()
                await asyncio.wait([advancing], timeout=SECONDS / 4)
                assert advancing.cancelled()
                assert not elsewhere.passed

            asyncio.run(work())
        elsewhere.opened.set()
        there.join()
    assert host.data.runs["r"].status is RunStatus.COMPLETED


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_in_the_code_of_a_node_which_may_begin_no_call_after_that(
    host: Host, gate: Gate, effects: Effects, kind: str
) -> None:
    """A thread cannot be stopped, so the node runs on. The effect that it asks for is refused."""
    refused: list[BaseException] = []

    def body() -> str:
        if not gate.passed:
            gate.wait()
        try:
            return effects.act("body")
        except nt.NottwiceError as error:
            refused.append(error)
            raise

    async def abody() -> str:
        if not gate.passed:
            await gate.wait_async()
        return effects.act("body")

    flow = one_node(body if kind == "sync" else abody, effects)
    start(host, flow)
    with host.process() as ledger:
        leave(host, nt.App(graphs=[flow], store=ledger), gate)
        assert effects.done == []
        assert [type(error) for error in refused] == [nt.errors.NotInRun] * (kind == "sync")
    gate.passed = 1
    continue_elsewhere(host, flow)
    assert effects.done == ["body", "after"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_in_a_tool_without_effects(host: Host, gate: Gate, effects: Effects, kind: str) -> None:
    @nt.tool("pure")
    def look_up() -> str:
        if not gate.passed:
            gate.wait()
        return "seen"

    @nt.tool("pure")
    async def alook_up() -> str:
        if not gate.passed:
            await gate.wait_async()
        return "seen"

    flow = one_node(look_up if kind == "sync" else alook_up, effects)
    start(host, flow)
    with host.process() as ledger:
        leave(host, nt.App(graphs=[flow], store=ledger), gate)
        assert effects.done == []
    gate.passed = 1
    continue_elsewhere(host, flow)
    assert effects.done == ["after"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_in_the_pause_before_a_retry(host: Host, gate: Gate, effects: Effects, kind: str) -> None:
    """The attempt that failed is over, and no other begins."""
    tried: list[str] = []

    def fail_once() -> str:
        tried.append("tried")
        if len(tried) == 1:
            raise nt.Retryable("busy")
        return "sent"

    @nt.tool("unsafe_on_replay")
    def send_later() -> str:
        return fail_once()

    @nt.tool("unsafe_on_replay")
    async def asend_later() -> str:
        return fail_once()

    flow = one_node(send_later if kind == "sync" else asend_later, effects)
    start(host, flow)
    host.clock = GatedClock(gate)
    with host.process() as ledger:
        leave(host, nt.App(graphs=[flow], store=ledger), gate)
        assert tried == ["tried"]
    continue_elsewhere(host, flow)
    assert (tried, effects.done) == (["tried"] * 2, ["after"])


def in_doubt(host: Host, flow: nt.Graph[Any], bodies: list[Callable[[], Any]]) -> None:
    """A process dies in the only effect of a run."""
    start(host, flow)
    with host.process() as ledger:
        bodies.append(lambda: dying(ledger)({}))
        nt.App(graphs=[flow], store=ledger).advance("r")
    bodies.pop()


@pytest.mark.parametrize("where", ["verify", "pause"])
def test_while_it_finds_out_what_an_earlier_process_did(
    host: Host, gate: Gate, effects: Effects, where: str
) -> None:
    bodies: list[Callable[[], Any]] = [lambda: "unwanted"]

    def verify(call: nt.Call) -> nt.Verification:
        if where == "verify" and not gate.passed:
            gate.wait()
        return nt.happened("found") if gate.passed else nt.still_running()

    @nt.tool("unsafe_on_replay", verify=verify, verify_limit="1h")
    def send_verified() -> Any:
        return bodies[-1]()

    flow = one_node(send_verified, effects)
    in_doubt(host, flow, bodies)
    if where == "pause":
        host.clock = GatedClock(gate)
    with host.process() as ledger:
        leave(host, nt.App(graphs=[flow], store=ledger), gate)
        assert effects.done == []
    continue_elsewhere(host, flow)
    assert effects.done == ["after"]


# An effect in flight


def wait_for_the_effect(host: Host, app: nt.App, gate: Gate, *, again: bool = False) -> None:
    """Cancel in an effect. It leaves when the effect has ended, or if it is cancelled again."""

    async def work() -> None:
        advancing = asyncio.ensure_future(app.aadvance("r"))
        await reach(gate, advancing)
        advancing.cancel()
        done, _ = await asyncio.wait([advancing], timeout=0.1)
        assert not done
        if again:
            advancing.cancel()
            await asyncio.wait([advancing], timeout=SECONDS / 4)
            assert advancing.cancelled()
            assert not gate.passed
        gate.opened.set()
        await asyncio.wait([advancing])
        assert advancing.cancelled()
        for _ in range(3000 if again else 0):
            # The effect of a caller that is gone releases the run a moment later.
            if host.data.runs["r"].holder_id is not None:
                await asyncio.sleep(0.001)
        assert host.data.runs["r"].holder_id is None
        effects = [row for row in host.calls if row.replay_class.effectful]
        assert [row.status for row in effects] == [CallStatus.DONE]

    asyncio.run(work())


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_effect_is_waited_for_and_no_other_begins(
    host: Host, gate: Gate, effects: Effects, kind: str, *, again: bool
) -> None:
    """A second cancellation ends the wait. The run is released when the effect has ended."""

    @nt.tool("unsafe_on_replay")
    def send_slowly() -> str:
        gate.wait()
        return "sent"

    @nt.tool("unsafe_on_replay")
    async def asend_slowly() -> str:
        await gate.wait_async()
        return "sent"

    def both() -> str:
        return send_slowly() + effects.act("body")

    async def aboth() -> str:
        return await asend_slowly() + effects.act("body")

    flow = one_node(both if kind == "sync" else aboth, effects)
    start(host, flow)
    with host.process() as ledger:
        wait_for_the_effect(host, nt.App(graphs=[flow], store=ledger), gate, again=again)
        assert effects.done == []
    continue_elsewhere(host, flow)
    assert (gate.passed, effects.done) == (1, ["body", "after"])


@pytest.mark.parametrize("where", ["code", "look", "pause"])
def test_while_an_effect_is_waited_for_no_other_thread_begins_a_call(
    host: Host, gate: Gate, effects: Effects, where: str
) -> None:
    """The thread comes from its own code, or from the pause before its second attempt. A call
    without effects would hold the run until it ends."""
    beside, tried, refused = Gate(), list[str](), list[BaseException]()

    @nt.tool("unsafe_on_replay")
    def send_for_long() -> str:
        gate.wait()
        return "sent"

    @nt.tool("unsafe_on_replay")
    def send_beside() -> str:
        tried.append("tried")
        raise nt.Retryable("busy")

    @nt.tool("pure")
    def look_beside() -> None:
        tried.append("looked")

    def other() -> None:
        try:
            if where != "pause":
                beside.wait()
            look_beside() if where == "look" else send_beside()
        except nt.NottwiceError as error:
            refused.append(error)

    def body() -> str:
        if gate.passed:
            return send_for_long()
        inside = contextvars.copy_context()
        thread = threading.Thread(target=inside.run, args=(other,))
        thread.start()
        try:
            return send_for_long()
        finally:
            thread.join()

    flow = one_node(body, effects)
    start(host, flow)
    if where == "pause":
        host.clock = GatedClock(beside)

    async def work(app: nt.App) -> None:
        advancing = asyncio.ensure_future(app.aadvance("r"))
        await reach(beside, advancing)
        await reach(gate, advancing)
        advancing.cancel()
        await asyncio.sleep(0.01)
        beside.opened.set()
        for _ in range(3000):
            if not refused:
                await asyncio.sleep(0.001)
        gate.opened.set()
        await asyncio.wait([advancing])
        assert advancing.cancelled()

    with host.process() as ledger:
        asyncio.run(work(nt.App(graphs=[flow], store=ledger)))
    assert [type(error) for error in refused] == [nt.errors.NotInRun]
    assert tried == ["tried"] * (where == "pause")
    with host.process() as ledger:
        assert nt.App(graphs=[flow], store=ledger).advance("r").status == "completed"
    assert (gate.passed, effects.done) == (1, ["after"])


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_effect_may_make_the_calls_that_it_is_made_of(
    host: Host, gate: Gate, effects: Effects, kind: str
) -> None:
    """To refuse them would end it half-way, in doubt."""

    @nt.tool("pure")
    def look_inside() -> str:
        return "seen"

    @nt.tool("unsafe_on_replay")
    def send_in_parts() -> str:
        gate.wait()
        return look_inside() + effects.act("part")

    @nt.tool("unsafe_on_replay")
    async def asend_in_parts() -> str:
        await gate.wait_async()
        return look_inside() + effects.act("part")

    flow = one_node(send_in_parts if kind == "sync" else asend_in_parts, effects)
    start(host, flow)

    async def work(app: nt.App) -> None:
        advancing = asyncio.ensure_future(app.aadvance("r"))
        await reach(gate, advancing)
        advancing.cancel()
        await asyncio.sleep(0)
        gate.opened.set()
        await asyncio.wait([advancing])
        assert advancing.cancelled()

    with host.process() as ledger:
        asyncio.run(work(nt.App(graphs=[flow], store=ledger)))
        assert host.data.runs["r"].holder_id is None
    assert effects.done == ["part"]
    continue_elsewhere(host, flow)
    assert effects.done == ["part", "after"]


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_another_attempt_at_a_call_in_doubt_is_waited_for(
    host: Host, gate: Gate, effects: Effects, kind: str, *, again: bool
) -> None:
    """It is made while the run is opened, before any node."""
    bodies: list[Callable[[], Any]] = [gate.wait]
    declared: dict[str, Any] = {"verify": lambda call: nt.did_not_happen(), "settles": "1s"}

    @nt.tool("unsafe_on_replay", **declared)
    def send_again() -> Any:
        return bodies[-1]()

    @nt.tool("unsafe_on_replay", **declared)
    async def asend_again() -> Any:
        if bodies[-1] == gate.wait:
            return await gate.wait_async()
        return bodies[-1]()

    flow = one_node(send_again if kind == "sync" else asend_again, effects)
    in_doubt(host, flow, bodies)
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        wait_for_the_effect(host, app, gate, again=again)
        assert effects.done == []
    continue_elsewhere(host, flow)
    assert (gate.passed, effects.done) == (1, ["after"])


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_effect_that_fails_after_the_cancellation_is_not_tried_again(
    host: Host, gate: Gate, effects: Effects, kind: str
) -> None:
    """Nor is the time before the next attempt waited for: that is the next process's affair."""
    pause, tried = Gate(), list[str]()

    def fail_once() -> str:
        tried.append("tried")
        if len(tried) == 1:
            raise nt.Retryable("busy")
        return "sent"

    @nt.tool("unsafe_on_replay")
    def send_and_fail() -> str:
        if not gate.passed:
            gate.wait()
        return fail_once()

    @nt.tool("unsafe_on_replay")
    async def asend_and_fail() -> str:
        if not gate.passed:
            await gate.wait_async()
        return fail_once()

    flow = one_node(send_and_fail if kind == "sync" else asend_and_fail, effects)
    start(host, flow)
    host.clock = GatedClock(pause)

    async def work(app: nt.App) -> None:
        advancing = asyncio.ensure_future(app.aadvance("r"))
        await reach(gate, advancing)
        advancing.cancel()
        await asyncio.sleep(0.01)
        gate.opened.set()
        await asyncio.wait([advancing], timeout=SECONDS / 4)
        try:
            assert advancing.cancelled()
            assert (host.data.runs["r"].holder_id, pause.passed) == (None, 0)
        finally:
            pause.opened.set()

    with host.process() as ledger:
        asyncio.run(work(nt.App(graphs=[flow], store=ledger)))
        assert tried == ["tried"]
    continue_elsewhere(host, flow)
    assert (tried, effects.done) == (["tried"] * 2, ["after"])


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_child_run_is_left_with_its_parent(
    host: Host, gate: Gate, effects: Effects, kind: str
) -> None:
    """The effect that it has in flight is waited for, and its next node does not begin."""

    @nt.tool("unsafe_on_replay")
    def send_for_child() -> str:
        gate.wait()
        return "sent"

    child, parent = graph("child"), graph()

    @child.node
    def first(state: dict[str, Any]) -> Any:
        return {"first": send_for_child()}

    @child.node
    def second(state: dict[str, Any]) -> Any:
        return {"second": effects.act("second")}

    if kind == "sync":

        @parent.node(name="hire")
        def hire(state: dict[str, Any]) -> Any:
            return {"child": nt.spawn(child, {}).status}

    else:

        @parent.node(name="hire")
        async def ahire(state: dict[str, Any]) -> Any:
            return {"child": (await nt.aspawn(child, {})).status}

    start(host, parent)
    with host.process() as ledger:
        app = nt.App(graphs=[parent, child], store=ledger)
        wait_for_the_effect(host, app, gate)
        assert effects.done == []
        assert {run.holder_id for run in host.data.runs.values()} == {None}
    with host.process() as ledger:
        app = nt.App(graphs=[parent, child], store=ledger)
        assert asyncio.run(app.aadvance("r")).status == "completed"
    assert (gate.passed, effects.done) == (1, ["second"])
