"""The world of one examination: what took effect, in order, and what time it is.

It lives in the parent, so no crash of a child affects it. A second crash starts from a copy of it.
It is honest: a key that it remembers has no second effect, and ``verify`` gets the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from nottwice.errors import Permanent
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.testing.crash.scenario import Asking, Late, Lost, Scenario

BEGINNING = 1_767_268_800.0
"""When every examination begins. The moment is fixed, so that two runs can be compared."""


@frozen_record(frozen=True, slots=True)
class WorldEffect:
    """Something that happened in the world."""

    number: int
    tool: str
    args_json: str
    key: str | None
    call_id: str
    attempt: int
    at: float
    result_json: str

    @property
    def what(self) -> str:
        """The effect as a person counts it, whatever process caused it."""
        return f"{self.tool}({self.args_json})"


@frozen_record(frozen=True, slots=True)
class UpstreamWrite:
    """A commit that a process started: under which claim, and whether the store accepted it."""

    process: int
    run_id: str
    epoch: int
    """0: it was not written as the holder of the run."""
    accepted: bool = False
    done: tuple[str, ...] = ()
    """The calls whose results it writes."""


@frozen_record(frozen=True, slots=True)
class Invocation:
    """One invocation of a tool's function, for this call."""

    call_id: str
    tool: str
    kept: bool
    """Its result is durable before it is returned."""


@frozen_record(frozen=True, slots=True)
class Answered:
    """What the world answers the tool: a result, or an error to raise."""

    result_json: str = "null"
    error: Exception | None = None


@dataclass(slots=True)
class CountingUpstream:
    """The world's memory. Append-only. A copy gives a second crash the same past."""

    now: float = BEGINNING
    effects: list[WorldEffect] = field(default_factory=list)
    attempts: list[Asking] = field(default_factory=list)
    verified: list[str] = field(default_factory=list)
    """The call ids that ``verify`` was asked about."""
    writes: list[UpstreamWrite] = field(default_factory=list)
    invoked: list[Invocation] = field(default_factory=list)
    """Every tool call that was made, by all processes."""
    widest: int = 0
    """How many calls with durable results were in progress at the same time, at most."""
    faults: int = 0
    """How many processes met their fault."""

    def copy(self) -> CountingUpstream:
        return CountingUpstream(
            self.now,
            list(self.effects),
            list(self.attempts),
            list(self.verified),
            list(self.writes),
            list(self.invoked),
            self.widest,
            self.faults,
        )

    def mark(self) -> None:
        """Called after every answer. A subclass may save the state of the world here."""

    def attempt(
        self, scenario: Scenario, asking: Asking, *, window_seconds: float | None
    ) -> Answered:
        """Carry out one attempt of an effectful tool as the scenario defines."""
        earlier = sum(one.call_id == asking.call_id for one in self.attempts)
        asking = replace(asking, earlier=earlier)
        self.attempts.append(asking)
        known = self._remembered(asking, window_seconds)
        if known is not None:
            if known.args_json != values.encode(asking.args):
                return Answered(
                    error=Permanent(f"the key {asking.key!r} was used for another request")
                )
            return Answered(known.result_json)
        try:
            answer = scenario.answer(asking)
        except Exception as error:
            return Answered(error=error)
        lost = ConnectionResetError("the response was lost on its way")
        match answer:
            case Late():
                self._apply(asking, answer.result, at=self.now + answer.seconds)
                return Answered(error=lost)
            case Lost():
                self._apply(asking, answer.result, at=self.now)
                return Answered(error=lost)
            case _:
                return Answered(self._apply(asking, answer, at=self.now).result_json)

    def read(self, scenario: Scenario, asking: Asking) -> Answered:
        """Return the canned answer of a pure tool. Nothing happens, so nothing is counted."""
        try:
            return Answered(values.encode(scenario.answer(asking)))
        except Exception as error:
            return Answered(error=error)

    def find(self, call_id: str) -> WorldEffect | None:
        """Return what ``verify`` sees of a call now. Later effects are not visible yet."""
        found = (one for one in self.effects if one.call_id == call_id and one.at <= self.now)
        return next(found, None)

    def settle(self) -> None:
        """Advance the clock until everything that was sent has been applied."""
        self.now = max([self.now, *(effect.at for effect in self.effects)])

    def _remembered(self, asking: Asking, window_seconds: float | None) -> WorldEffect | None:
        if asking.key is None:
            return None
        for effect in self.effects:
            same = (effect.tool, effect.key) == (asking.tool, asking.key)
            if same and self.now < effect.at + (window_seconds or float("inf")):
                return effect
        return None

    def _apply(self, asking: Asking, result: Any, *, at: float) -> WorldEffect:
        effect = WorldEffect(
            number=len(self.effects) + 1,
            tool=asking.tool,
            args_json=values.encode(asking.args),
            key=asking.key,
            call_id=asking.call_id,
            attempt=asking.attempt,
            at=at,
            result_json=values.encode(result),
        )
        self.effects.append(effect)
        return effect
