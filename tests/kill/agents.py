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
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import nottwice as nt
from nottwice.errors import NottwiceError
from nottwice.store.interface import Store
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing import WorldClient, WorldRefused
from tests.fakes import UnhurriedClock
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
    """Keywords for ``nt.tool`` on top of what the kind says, for the tool ``act``."""
    run_options: dict[str, Any] = field(default_factory=dict)
    hours_ahead: float | None = None
    """How far the clock of this process is ahead; on this clock a pause takes no time."""
    more: dict[str, Any] = field(default_factory=dict)


class AheadClock(UnhurriedClock):
    """A clock that is ahead of the others; who pauses on it only moves it on."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
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
        # A background commit would come at another place in every life.
        self.clock = AheadClock((plan.hours_ahead or 0) * 3600) if ahead else UnhurriedClock()
        self.attempts = 0
        self.looks = 0
        self._descriptor = descriptor
        self._visits: dict[str, int] = {}
        self.places: list[tuple[str, int]] = []
        """Every place that was reached, and the how-manieth time it was."""
        self._tools: list[Any] = []

    def say(self, **facts: Any) -> None:
        os.write(self._descriptor, json.dumps(facts).encode() + b"\n")

    def say_error(self, error: BaseException, **facts: Any) -> None:
        named = {
            "review": getattr(error, "review_id", None),
            "non_retryable": getattr(error, "non_retryable", None),
        }
        self.say(error=type(error).__name__, text=str(error), **named, **facts)

    def say_receipt(self, receipt: nt.types.Receipt[Any], **facts: Any) -> None:
        self.say(
            value=receipt.value,
            replayed=receipt.replayed,
            attempts=receipt.attempts,
            settled_by=receipt.settled_by,
            id=receipt.id,
            **facts,
        )

    def reach(self, place: str) -> None:
        """Die here, stop or wait, if the plan says so."""
        self._visits[place] = self._visits.get(place, 0) + 1
        self.places.append((place, self._visits[place]))
        at_place = (place, self._visits[place]) == (self.plan.die_at, self.plan.die_at_visit)
        if at_place or len(self.places) == self.plan.more.get("die_at_place"):
            os.kill(os.getpid(), signal.SIGKILL)
        if (place, self._visits[place]) == (self.plan.more.get("stop_at"), 1):
            os.kill(os.getpid(), signal.SIGSTOP)
        if (place, self._visits[place]) == (self.plan.more.get("pause_at"), 1):
            # Only this thread waits; the others continue.
            self.world.do("a pause", hold_before=self.plan.more["pause_gate"])

    def open(self) -> nt.Ledger:
        store: Store = SqliteStore(self.plan.ledger, now=self.clock.now())
        return nt.Ledger(KillingStore(store, self.reach), clock=self.clock)

    def open_run(self, ledger: nt.Ledger) -> nt.types.Run:
        return ledger.run(self.plan.run, **self.plan.run_options)

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Say how a block ended, if it ended with an error that users are told about."""
        try:
            yield
        except (NottwiceError, asyncio.CancelledError, KeyboardInterrupt) as error:
            self.say_error(error)

    def request(self, call: nt.Call, order: int) -> Any:
        """The one thing that a tool does: one request to the World."""
        if call.tool != "act":
            # Tools that only stand around have no faults, and are counted under their own name.
            name = f"{call.tool} of {self.plan.effect}"
            return self.world.do(name, call_id=call.id, result=RESULT, order=order)
        self.attempts += 1
        self.reach("body start")
        if "outcomes" in self.plan.more:
            return self._scripted_outcome(call, order)
        faults = self.plan.faults if self.attempts == 1 else {}
        faults = {**faults, **self.plan.more.get("faults_for_all", {})}
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

    def _scripted_outcome(self, call: nt.Call, order: int) -> Any:
        """What becomes of this attempt, counted over all processes; each waits at its own gate."""
        outcomes = self.plan.more["outcomes"]
        outcome = outcomes[min(call.attempt, len(outcomes)) - 1]
        known: dict[str, dict[str, Any]] = {
            "retryable": {"fail_with": 503},
            "permanent": {"fail_with": 404},
            "lost": {"lose_response": True},
            "done": {},
        }
        faults = known[outcome]
        if "gate" in self.plan.more:
            faults["hold_before"] = f"{self.plan.more['gate']} {call.attempt}"
        try:
            return self.world.do(
                self.plan.effect,
                key=call.key,
                call_id=call.id,
                result=RESULT,
                order=order,
                **faults,
            )
        except WorldRefused as refused:
            if outcome == "retryable":
                raise nt.Retryable("the upstream is busy") from refused
            raise nt.Permanent("there is no such account") from refused

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
                return nt.cannot_tell()
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

    def tool(self, name: str = "act", kind: str | None = None) -> Any:
        """A protected tool of the plan's kind, sync or async."""
        replay_class, declared = self.declared(kind or self.plan.kind)
        if "outcomes" in self.plan.more:
            declared["retry"] = nt.RetryPolicy(3, first_seconds=0.01)
        if "reissues" in self.plan.more:
            declared["retry"] = nt.RetryPolicy(reissues=self.plan.more["reissues"])
        if name == "act":
            declared.update(self.plan.options)
        protect = nt.tool(replay_class, name=name, **declared)
        protected = protect(self._body_async() if self.plan.is_async else self._body())
        # Only a tool that is in use stays declared.
        self._tools.append(protected)
        return protected

    def declared(self, kind: str) -> tuple[Any, dict[str, Any]]:
        look = self.look_async if self.plan.is_async else self.look
        match kind:
            case "pure":
                return "pure", {}
            case "keyed":
                key = nt.key_per_call if "key_per_call" in self.plan.more else "refund-{order}"
                return "idempotent_with_key", {"key": key, "window": "24h"}
            case "keyed_and_verified":
                keyed = {"key": "refund-{order}", "window": "24h", "verify": look}
                return "idempotent_with_key", keyed
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


def carry_out(text: str, descriptor: int, programs: dict[str, Program]) -> None:
    """Do what the plan says, and say so if that fails in a way that no test asked for."""
    process = Process(Plan(**json.loads(text)), descriptor)
    try:
        programs[process.plan.program](process)
    except BaseException:
        process.say(broken=traceback.format_exc())
        raise
