"""What do the processes do that the tests kill?

A test sends a plan, as JSON; a process carries it out and says what came of it, one JSON line at a
time. The tools do nothing but one request to the World, so what the World counts is what they did.
``reach`` marks the places where a plan may ask the process to SIGKILL itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import nottwice as nt
from nottwice.engine.clock import SystemClock
from nottwice.errors import NottwiceError
from nottwice.model.review import Verb
from nottwice.reviews.decide import decide as record_decision
from nottwice.reviews.decide import undo as take_back
from nottwice.store.interface import Store
from nottwice.store.sqlite import SqliteStore
from nottwice.testing import WorldClient
from tests.kill.stores import KillingStore

ORDER, CENTS = 7, 4000
RESULT = {"receipt": "R-7"}


@dataclass(frozen=True)
class Plan:
    """What one process is to do."""

    program: str
    ledger: str
    world: str
    effect: str
    """The name under which the World counts the effects of this test."""
    run: str = "run"
    kind: str = "unsafe"
    is_async: bool = False
    die_at: str | None = None
    die_at_visit: int = 1
    """The process dies when it reaches ``die_at`` for the so-manieth time."""
    faults: dict[str, Any] = field(default_factory=dict)
    """What the World does around the effect of the first attempt in this process."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keywords for ``nt.tool`` on top of what the kind says."""
    run_options: dict[str, Any] = field(default_factory=dict)
    hours_ahead: float | None = None
    """How far the clock of this process is ahead; on such a clock a pause takes no time."""
    more: dict[str, Any] = field(default_factory=dict)


class AheadClock(SystemClock):
    """A clock that is ahead of the others; who pauses on it only moves it on."""

    def __init__(self, seconds: float) -> None:
        self.ahead_seconds = seconds

    def now(self) -> float:
        return super().now() + self.ahead_seconds

    def pause(self, seconds: float) -> None:
        self.ahead_seconds += seconds

    async def pause_async(self, seconds: float) -> None:
        self.ahead_seconds += seconds


class Process:
    """This process: its plan, how it speaks, and where it dies."""

    def __init__(self, plan: Plan, descriptor: int) -> None:
        self.plan = plan
        self.world = WorldClient(plan.world)
        ahead = plan.hours_ahead is not None
        self.clock = AheadClock((plan.hours_ahead or 0) * 3600) if ahead else SystemClock()
        self.attempts = 0
        self.looks = 0
        self._descriptor = descriptor
        self._visits: dict[str, int] = {}
        self._tools: list[Any] = []

    def say(self, **facts: Any) -> None:
        os.write(self._descriptor, json.dumps(facts).encode() + b"\n")

    def say_error(self, error: BaseException, **facts: Any) -> None:
        named = {
            "review": getattr(error, "review_id", None),
            "non_retryable": getattr(error, "non_retryable", None),
        }
        self.say(error=type(error).__name__, text=str(error), **named, **facts)

    def say_receipt(self, receipt: nt.Receipt[Any], **facts: Any) -> None:
        self.say(
            value=receipt.value,
            replayed=receipt.replayed,
            attempts=receipt.attempts,
            settled_by=receipt.settled_by,
            id=receipt.id,
            **facts,
        )

    def reach(self, place: str) -> None:
        """Die here, or stop, if the plan says so."""
        self._visits[place] = self._visits.get(place, 0) + 1
        if (place, self._visits[place]) == (self.plan.die_at, self.plan.die_at_visit):
            os.kill(os.getpid(), signal.SIGKILL)
        if (place, self._visits[place]) == (self.plan.more.get("stop_at"), 1):
            os.kill(os.getpid(), signal.SIGSTOP)

    def open(self) -> nt.Ledger:
        store: Store = SqliteStore(self.plan.ledger, now=self.clock.now())
        return nt.open(KillingStore(store, self.reach), clock=self.clock)

    def open_run(self, ledger: nt.Ledger) -> nt.Run:
        return ledger.run(self.plan.run, **self.plan.run_options)

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Say how a block ended, if it ended with an error that users are told about."""
        try:
            yield
        except (NottwiceError, asyncio.CancelledError, TimeoutError) as error:
            self.say_error(error)

    def request(self, call: nt.Call, order: int) -> Any:
        """The one thing that a tool does: one request to the World."""
        if call.tool != "act":
            # Tools that only stand around have no faults, and are counted under their own name.
            name = f"{call.tool} of {self.plan.effect}"
            return self.world.do(name, call_id=call.id, result=RESULT, order=order)
        self.attempts += 1
        self.reach("body start")
        faults = self.plan.faults if self.attempts == 1 else {}
        result = self.world.do(
            self.plan.effect,
            key=call.key,
            call_id=call.id,
            result=RESULT,
            order=order,
            **faults,
        )
        self.reach("body end")
        return result

    def look(self, call: nt.Call) -> Any:
        """The verify hook: ask the World whether it knows the call."""
        self.looks += 1
        self.reach("verify start")
        if "answers" in self.plan.more:
            return self._scripted_answer()
        found = self.world.find(self.plan.effect, call_id=call.id)
        if self.looks == 1 and "lingering_gate" in self.plan.more:
            self._linger(self.plan.more["lingering_gate"])
        self.reach("verify end")
        return nt.did_not_happen() if found is None else nt.happened(found.result)

    def _scripted_answer(self) -> Any:
        answers = self.plan.more["answers"]
        match answers[min(self.looks, len(answers)) - 1]:
            case "happened":
                return nt.happened(RESULT)
            case "still running":
                return nt.still_running()
            case "unknown":
                return nt.unknown()
            case "did not happen":
                return nt.did_not_happen()
            case "nonsense":
                return True
            case "an error":
                raise ConnectionError("the upstream does not answer")
        raise ValueError(answers)

    def _linger(self, gate: str) -> None:
        """A hook that takes an hour to answer; meanwhile what it did not see arrives."""
        self.world.release(gate)
        while self.world.find(self.plan.effect) is None:
            pass
        assert isinstance(self.clock, AheadClock)
        self.clock.pause(3600)

    async def look_async(self, call: nt.Call) -> nt.Verification:
        return await asyncio.to_thread(self.look, call)

    def tool(self, name: str = "act", kind: str | None = None, **options: Any) -> Any:
        """A protected tool of the plan's kind, sync or async."""
        replay_class, declared = self._declared(kind or self.plan.kind)
        protect = nt.tool(replay_class, name=name, **{**declared, **self.plan.options, **options})
        protected = protect(self._body_async() if self.plan.is_async else self._body())
        # Only a tool that is in use stays declared.
        self._tools.append(protected)
        return protected

    def _declared(self, kind: str) -> tuple[Any, dict[str, Any]]:
        look = self.look_async if self.plan.is_async else self.look
        match kind:
            case "pure":
                return "pure", {}
            case "keyed":
                return "idempotent_with_key", {"key": "refund-{order}", "window": "24h"}
            case "unsafe":
                return "unsafe_on_replay", {}
            case "verified":
                return "unsafe_on_replay", {"verify": look}
            case "settled":
                return "unsafe_on_replay", {"verify": look, "settles": "20ms"}
        raise ValueError(kind)

    def _body(self) -> Callable[..., Any]:
        def act(order: int, cents: int = CENTS) -> dict[str, str]:
            result: dict[str, str] = self.request(nt.current_call(), order)
            return result

        return act

    def _body_async(self) -> Callable[..., Any]:
        async def act(order: int, cents: int = CENTS) -> dict[str, str]:
            # The request runs in a thread, which no cancellation can stop.
            return await asyncio.to_thread(self.request, nt.current_call(), order)

        return act


Program = Callable[[Process], None]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def call(process: Process) -> None:
    """Open the run and make one call."""
    act = process.tool()
    with process.reporting():
        if process.plan.is_async:
            asyncio.run(_call_async(process, act))
            return
        with process.open_run(process.open()):
            process.reach("inside the run")
            process.say_receipt(act.receipt(order=ORDER))
            process.reach("after the call")


async def _call_async(process: Process, act: Any) -> None:
    async with process.open_run(process.open()):
        process.reach("inside the run")
        process.say_receipt(await act.receipt(order=ORDER))
        process.reach("after the call")


@program
def read_then_act(process: Process) -> None:
    """Read something, then act upon it."""
    read, act = process.tool("read", "pure"), process.tool()
    with process.reporting():
        if process.plan.is_async:
            asyncio.run(_read_then_act_async(process, read, act))
            return
        with process.open_run(process.open()):
            process.say_receipt(read.receipt(order=ORDER))
            process.say_receipt(act.receipt(order=ORDER))


async def _read_then_act_async(process: Process, read: Any, act: Any) -> None:
    async with process.open_run(process.open()):
        process.say_receipt(await read.receipt(order=ORDER))
        process.say_receipt(await act.receipt(order=ORDER))


@program
def swallow(process: Process) -> None:
    """User code that catches what it is told, and a model that tries again."""
    asyncio.run(_swallow(process))


async def _swallow(process: Process) -> None:
    act, other = process.tool(), process.tool("other")
    read, earlier = process.tool("read", "pure"), process.tool("earlier")

    async def turn(name: str, function: Any) -> None:
        try:
            answer = function(order=ORDER)
            answer = await answer if process.plan.is_async else answer
            if isinstance(answer, nt.Receipt):
                process.say_receipt(answer, turn=name)
            else:
                process.say(value=answer, turn=name)
        except NottwiceError as error:
            process.say_error(error, turn=name)

    # Sync tools in an event loop block it, as everywhere; their run may be opened either way.
    async with process.open_run(process.open()):
        await turn("before", earlier.receipt)
        await turn("the call", act.receipt)
        if "pause_at" in process.plan.more:
            process.world.do("a pause", hold_before=process.plan.more["pause_at"])
        await turn("the call again", act.receipt)
        await turn("the same again on purpose", act.again("next turn"))
        await turn("another effect", other.receipt)
        await turn("an earlier receipt", earlier.receipt)
        await turn("a pure call", read.receipt)


@program
def open_only(process: Process) -> None:
    """Open the run and do nothing in it."""
    process.tool()
    with process.reporting(), process.open_run(process.open()):
        process.say(opened=True)


@program
def decide(process: Process) -> None:
    """Decide one review, as ``nottwice decide`` does."""
    more = process.plan.more
    ledger = process.open()
    if "gate" in more:
        # Everybody who is to decide waits here, so that all go on at once.
        process.world.do("a vote", hold_before=more["gate"])
    with process.reporting():
        if more["verb"] == "undo":
            review = take_back(ledger.store, ledger.clock, more["review"], by="ann", why="a test")
        else:
            review = record_decision(
                ledger.store,
                ledger.clock,
                more["review"],
                Verb(more["verb"]),
                by=more.get("by", "ann"),
                why="a test",
                result=more.get("result"),
                has_result="result" in more,
                holder_stopped=more.get("holder_stopped", False),
            )
        process.say(status=review.status.value)


def carry_out(text: str, descriptor: int) -> None:
    """Do what the plan says, and say so if that fails in a way that no test asked for."""
    process = Process(Plan(**json.loads(text)), descriptor)
    try:
        PROGRAMS[process.plan.program](process)
    except BaseException:
        process.say(broken=traceback.format_exc())
        raise


if __name__ == "__main__":
    carry_out(sys.argv[1], 1)
