"""Does an upstream really honour the key of a tool? (T6)

A tool whose upstream ignores its key is in truth ``unsafe_on_replay``. The trials make real calls
to a sandbox that you name, from real processes, and count the effects: twice with one key, with
changed arguments under one key, two at the same time, and with the caller killed in mid-call.

Promise kept here: P85.
"""

from __future__ import annotations

import contextlib
import enum
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record
from nottwice.model.tool import Duration, parse_duration
from nottwice.testing.smoke_caller import Caller, TrialOrder, key_of

KILL_AT = (0.1, 0.5, 0.9)
"""When during a call its caller is killed. It is also killed once when its effect shows."""
ROUNDS = 3
"""How often two processes call at the same time, because a race is not lost every time."""
LEAST_SETTLE_SECONDS = 0.01


@frozen_record(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """Where a tool may be tried, and how to see the effects.

    ``arguments`` takes a text that is new for every trial, and returns the arguments of a call that
    was never made. Its key must be new too. ``count`` takes arguments by name and returns how many
    effects the sandbox shows for them. ``changed`` has the arguments to change for a second call
    under the same key. ``settles`` is how long after a call its effect may still be on its way.
    """

    arguments: Callable[[str], Mapping[str, Any]]
    count: Callable[..., int]
    changed: Mapping[str, Any] | None = None
    settles: Duration = "1s"

    def __post_init__(self) -> None:
        for what in ("arguments", "count"):
            if not callable(getattr(self, what)):
                raise UsageError(f"Sandbox({what}=...) must be a function. Nothing was called.")
        parse_duration(self.settles, what="settles")


class KeyFinding(enum.Enum):
    """The result of a trial, or of all trials together."""

    HONOURS = "honours the key"
    REJECTS = "rejects changed arguments"
    FIRST_RESULT = "returns the first result for changed arguments"
    ANOTHER_CALL = "takes changed arguments for another call"
    RACES = "races"
    IGNORES = "ignores the key"
    UNCLEAR = "is unclear"
    NOT_TRIED = "not tried"


@frozen_record(frozen=True, slots=True)
class Trial:
    """What one trial did and saw."""

    name: str
    finding: KeyFinding
    effects: int | None
    """How many additional effects the sandbox showed. One is correct."""
    evidence: tuple[str, ...]


@frozen_record(frozen=True, slots=True)
class Report:
    """The results of all trials of a tool."""

    tool: str
    trials: tuple[Trial, ...]

    @property
    def finding(self) -> KeyFinding:
        """The worst finding."""
        found = {trial.finding for trial in self.trials}
        for worst in (KeyFinding.IGNORES, KeyFinding.RACES, KeyFinding.UNCLEAR):
            if worst in found:
                return worst
        return KeyFinding.HONOURS

    @property
    def passed(self) -> bool:
        """Whether the tool may stay ``idempotent_with_key``."""
        return self.finding is KeyFinding.HONOURS


def smoke(
    tool: Any,
    sandbox: Sandbox,
    start_caller: Callable[[], Caller],
    *,
    on_trial: Callable[[Trial], None] = lambda trial: None,
) -> Report:
    """Try a keyed tool in a sandbox. ``start_caller`` starts a process that can call it."""
    check_can_be_tried(tool)
    trials: list[Trial] = []
    with contextlib.closing(_Bench(tool, sandbox, start_caller)) as bench:
        for trial in bench.trials():
            trials.append(trial)
            on_trial(trial)
    return Report(tool.tool.name, tuple(trials))


def how_much() -> str:
    """Describe what all trials together do, for the person who must allow it."""
    kills = len(KILL_AT) + 1
    calls = 4 + 2 * ROUNDS + 2 * kills
    return f"up to {calls} real calls, and {kills} of their processes killed"


def check_can_be_tried(tool: Any) -> None:
    """Refuse tools that have no key to honour, before anything is called."""
    declared = tool.tool
    if not declared.replay_class.keyed:
        raise UsageError(
            f"Tool {declared.name!r} is {declared.replay_class.value}, so it has no key that an "
            "upstream could honour. Nothing was called."
        )
    if tool.requests.is_method:
        raise UsageError(
            f"Tool {declared.name!r} is a method, and a trial has no instance of it. Nothing was "
            "called. Turn it into a function that takes everything it needs."
        )


class _Bench:
    """Two callers, and the helpers that the trials need."""

    def __init__(self, tool: Any, sandbox: Sandbox, start_caller: Callable[[], Caller]) -> None:
        self.tool = tool
        self.sandbox = sandbox
        self.settle_seconds = max(
            parse_duration(sandbox.settles, what="settles"), LEAST_SETTLE_SECONDS
        )
        self._start = start_caller
        self._session = secrets.token_hex(4)
        self._number = 0
        self._callers: list[Caller] = []
        self.call_seconds = 0.0

    def trials(self) -> Iterator[Trial]:
        """Yield all trials. If the first call cannot be seen, the others would mean nothing."""
        first = self._twice()
        yield first
        if first.finding is KeyFinding.UNCLEAR:
            return
        yield self._changed()
        yield self._at_once()
        yield self._killed()

    def close(self) -> None:
        for caller in self._callers:
            caller.close()

    # The trials

    def _twice(self) -> Trial:
        order, before = self._new_order()
        evidence = [f"key {order.key}"]
        told = self._caller(0).call(order)
        self.call_seconds = told.seconds
        seen = self._wait_for(order, before, 1)
        evidence.append(f"first call {told}; effects: {seen}")
        if told.raised is not None or seen != 1:
            why = "the first call failed" if told.raised is not None else _unseen(seen)
            return Trial("twice with one key", KeyFinding.UNCLEAR, seen, (*evidence, why))
        again = self._caller(1).call(order)
        effects = self._wait_for(order, before, 2)
        evidence.append(f"second call, from another process, {again}; effects: {effects}")
        return Trial("twice with one key", _judge(effects), effects, tuple(evidence))

    def _changed(self) -> Trial:
        name = "changed arguments under one key"
        if self.sandbox.changed is None:
            why = "the sandbox does not define what to change: Sandbox(changed={...})"
            return Trial(name, KeyFinding.NOT_TRIED, None, (why,))
        order, before = self._new_order()
        other = TrialOrder(order.run_id, {**order.arguments, **self.sandbox.changed}, order.key)
        if other.arguments == order.arguments:
            raise UsageError("Sandbox(changed=...) changes nothing. Choose other values.")
        first = self._caller(0).call(order)
        self._wait_for(order, before, 1)
        between = self._count(other)
        told = self._caller(1).call(other)
        effects = self._wait_for(order, before, 2)
        # It may count for the old or for the new arguments. Either way it is one more.
        effects = max(effects, 1 + self._wait_for(other, between, 1))
        evidence = (f"key {order.key}", f"first call {first}", f"changed call {told}")
        if effects > 1:
            # Harmless alone: nottwice refuses such a call before it is made (T2).
            return Trial(name, KeyFinding.ANOTHER_CALL, effects, evidence)
        finding = KeyFinding.REJECTS if told.raised is not None else KeyFinding.FIRST_RESULT
        return Trial(name, finding, effects, evidence)

    def _at_once(self) -> Trial:
        evidence: list[str] = []
        for round_number in range(1, ROUNDS + 1):
            order, before = self._new_order()
            callers = [self._caller(0), self._caller(1)]
            for caller in callers:
                caller.send(order)
            for caller in callers:
                caller.entered()
            told = [caller.end() for caller in callers]
            effects = self._wait_for(order, before, 2)
            each = "; ".join(str(one) for one in told)
            evidence.append(f"round {round_number}, key {order.key}: {each}; effects: {effects}")
            if effects != 1:
                finding = KeyFinding.RACES if effects > 1 else KeyFinding.UNCLEAR
                return Trial("two in parallel", finding, effects, tuple(evidence))
        return Trial("two in parallel", KeyFinding.HONOURS, 1, tuple(evidence))

    def _killed(self) -> Trial:
        name, evidence = "killed in mid-call", list[str]()
        for share in (*KILL_AT, None):
            order, before = self._new_order()
            victim = self._caller(0)
            victim.begin(order)
            if share is None:
                self._wait_for(order, before, 1, within_seconds=2 * self.call_seconds)
                moment = "as soon as its effect showed"
            else:
                time.sleep(share * self.call_seconds)
                moment = f"{share:.0%} into the call"
            told = victim.kill()
            state = "before it returned" if told is None else f"just after it {told}"
            after = self._settled(order, before)
            again = self._caller(1).call(order)
            effects = self._wait_for(order, before, 2)
            evidence.append(
                f"key {order.key}: pid {victim.pid} killed {moment}, {state}; "
                f"effects: {after}; call again {again}; effects: {effects}"
            )
            if effects != 1:
                return Trial(name, _judge(effects), effects, tuple(evidence))
        return Trial(name, KeyFinding.HONOURS, 1, tuple(evidence))

    # Helpers

    def _new_order(self) -> tuple[TrialOrder, int]:
        """Return a call that was never made, and what the sandbox already shows for it."""
        self._number += 1
        number = f"{self._session}-{self._number}"
        given = self.sandbox.arguments(number)
        if not isinstance(given, Mapping):
            raise UsageError(
                f"Sandbox(arguments=...) returned {type(given).__name__}, not a dict of arguments. "
                "Nothing was called."
            )
        try:
            json.dumps(dict(given))
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"Sandbox(arguments=...) must return plain data ({error}). Nothing was called."
            ) from None
        run_id = f"smoke {number}"
        order = TrialOrder(run_id, dict(given), key_of(self.tool, run_id, dict(given)))
        return order, self._count(order)

    def _count(self, order: TrialOrder) -> int:
        shown = self.sandbox.count(**order.arguments)
        if isinstance(shown, bool) or not isinstance(shown, int):
            raise UsageError(
                f"Sandbox(count=...) returned {type(shown).__name__}, not a number of effects."
            )
        return shown

    def _wait_for(
        self, order: TrialOrder, before: int, effects: int, *, within_seconds: float = 0.0
    ) -> int:
        """Return how many new effects there are, once there are ``effects`` or time is up."""
        deadline = time.monotonic() + within_seconds + self.settle_seconds
        while (seen := self._count(order) - before) < effects:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, self.settle_seconds / 10))
        return seen

    def _settled(self, order: TrialOrder, before: int) -> int:
        time.sleep(self.settle_seconds)
        return self._count(order) - before

    def _caller(self, number: int) -> Caller:
        """Return the first or the second caller. A killed caller is replaced."""
        while len(self._callers) <= number:
            self._callers.append(self._start())
        if not self._callers[number].is_alive:
            self._callers[number].close()
            self._callers[number] = self._start()
        return self._callers[number]


def _judge(effects: int) -> KeyFinding:
    if effects == 1:
        return KeyFinding.HONOURS
    return KeyFinding.IGNORES if effects > 1 else KeyFinding.UNCLEAR


def _unseen(effects: int) -> str:
    if effects == 0:
        return "the sandbox shows no effect: does count look in the right place, is settles enough?"
    return f"one call had {effects} effects: does the client retry on its own?"
