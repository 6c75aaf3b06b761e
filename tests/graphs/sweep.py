"""What must be true of a graph that was killed at every commit? One sweep, used by many tests.

A small graph has everything in it; it is killed before and after each of its commits, and resumed
by a new process of the fake host. The claims are asked on what is durable right after the crash,
and on what the resumed run leaves. A test that seeds a bug must see this sweep fail.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import nottwice as nt
from nottwice.model.run import StepStatus
from nottwice.testing import forget_tools
from tests.fakes import Host

State = dict[str, Any]


@dataclass(frozen=True)
class Picture:
    """All that is left of a run but times, attempts and who made them."""

    state: State
    effects: Counter[str]
    calls: list[Any]
    steps: list[Any]
    runs: list[Any]


class Everything:
    """A line, a choice, a loop, branches, a map and a child; and what they did to the world."""

    def __init__(self) -> None:
        self.host = Host()
        self.effects: Counter[str] = Counter()
        self.visited: Counter[str] = Counter()
        known: dict[str, str] = {}
        forget_tools()

        def found(call: nt.Call) -> nt.Verification:
            return nt.happened(known[call.id]) if call.id in known else nt.did_not_happen()

        @nt.tool("unsafe_on_replay", verify=found, settles="1s")
        def act(what: str) -> str:
            call = nt.current_call()
            self.effects[what] += 1
            known[call.id] = f"did {what}"
            return known[call.id]

        @nt.tool("pure")
        def look(at: int) -> int:
            return at * 10

        self.act, self.look = act, look
        self.child = self._child()
        self.flow = self._flow()

    def _add(self, flow: nt.Graph[Any], name: str, body: Any, **route: Any) -> None:
        def node(state: State) -> Any:
            self.visited[f"{flow.name} {name}"] += 1
            return body(state)

        flow.node(name=name, **route)(node)

    def _child(self) -> nt.Graph[Any]:
        child: nt.Graph[Any] = nt.Graph("child", version="1.0.0")
        self._add(child, "work", lambda state: {"worked": self.act(f"child {state['n']}")})
        self._add(child, "rest", lambda state: {"rested": self.look(state["n"])})
        return child

    def _flow(self) -> nt.Graph[Any]:
        flow: nt.Graph[Any] = nt.Graph("everything", version="1.0.0", append=("log",))
        add = self._add
        add(flow, "look", lambda state: {"seen": self.look(at=state["start"])})
        add(flow, "act", lambda state: {"log": [self.act("first")]})
        add(flow, "loop", self._loop, then={"again": "loop", "on": "split"})
        add(flow, "split", lambda state: None, then=["left", "right"], join="meet")
        add(flow, "left", lambda state: {"left": self.act("left"), "log": ["left"]})
        add(flow, "right", lambda state: {"right": self.act("right")}, then="right2")
        add(flow, "right2", self._second_of_right, then="meet")
        add(flow, "meet", lambda state: {"log": [self.act("meet")]})
        add(flow, "map", lambda state: {"mapped": nt.map(self._item, range(2), threads=1)})
        add(flow, "spawn", self._spawn)
        add(flow, "end", lambda state: {"log": [self.act("end")]})
        return flow

    def _item(self, item: int) -> str:
        return str(self.act(f"item {item}"))

    def _loop(self, state: State) -> Any:
        more = len(state["log"]) < 3
        return nt.goto("again" if more else "on", {"log": [self.act("round")]})

    def _second_of_right(self, state: State) -> Any:
        return {"saw": "left" in state, "log": ["right"]}

    def _spawn(self, state: State) -> Any:
        return {"child": nt.spawn(self.child, {"n": state["seen"]}).state}

    def run(self, *, dies_at: int | None = None) -> Any:
        """The outcome; None if the process died."""
        with self.host.process(dies_at=dies_at) as ledger:
            return self.flow.run("r", {"start": 7, "log": []}, store=ledger)

    def done(self) -> set[str]:
        """The nodes that are done, as the ledger has it; of a loop, all visits together."""
        steps = self.host.data.steps.values()
        open_ones = {one.node_id for one in steps if one.status is not StepStatus.DONE}
        return {one.node_id for one in steps} - open_ones

    def picture(self, state: State) -> Picture:
        data = self.host.data
        return Picture(
            state=state,
            effects=self.effects,
            calls=sorted((row.identity, row.status.value, row.result) for row in self.host.calls),
            steps=sorted(
                (one.workflow_id, one.node_id, one.checkpoint_id, one.status.value)
                for one in data.steps.values()
            ),
            runs=sorted(
                (one.workflow_id, one.status.value, one.parent_id or "", one.holder_id or "")
                for one in data.runs.values()
            ),
        )


def uninterrupted() -> Picture:
    """What an uninterrupted run leaves."""
    whole = Everything()
    return whole.picture(whole.run().state)


def sweep(expected: Picture) -> int:
    """Kill at every commit, resume, and compare; says how often it was killed."""
    point = 0
    while True:
        point += 1
        whole = Everything()
        whole.run(dies_at=point)
        if whole.host.points < point:
            return point - 1
        done = whole.done()
        whole.visited.clear()
        outcome = whole.run()
        assert outcome is not None
        assert outcome.status == "completed", (point, outcome)
        assert whole.picture(outcome.state) == expected, point
        again = [name for name in whole.visited if name.split()[1] in done - {"loop"}]
        assert not again, f"{point}: {again} ran again, and were done"
