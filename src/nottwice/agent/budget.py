"""How much may a run spend, and does its next request to a model still fit (A4)?

Before a model is asked, the most that the request may cost is reserved, durably. When the model has
answered, the real cost replaces the reservation. A reservation without an answer stays counted,
because the request may have been answered and billed. So a process that dies again and again while
it waits for a model cannot exceed the budget. The cost of workers counts toward their boss, too.
Promises kept here: P70, P190.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.asking.raises import NAMES, is_amount
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import checked, not_believed
from nottwice.model.tool import Duration, parse_duration


@frozen_record(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may take: dollars, tokens, turns, time, repetitions, workers.

    None: no limit. ``usd`` and ``tokens`` cover the run, all of its workers, and their workers.
    ``turns`` counts requests to the model since the user's last message, ``seconds`` the time
    since then (a number, ``"15m"`` or a timedelta), including waits for people. ``repeats``: how
    often the model may ask for exactly the same in a row, or for the same few things in turn.
    ``workers``: how many tasks the run and its workers may hand to other agents.
    """

    usd: float | None = None
    tokens: int | None = None
    turns: int | None = 100
    seconds: float | Duration | None = None
    repeats: int | None = 6
    workers: int | None = 50

    def __post_init__(self) -> None:
        if isinstance(self.seconds, str | timedelta):
            seconds = parse_duration(self.seconds, what="Budget: seconds")
            object.__setattr__(self, "seconds", seconds)
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not is_amount(value):
                raise UsageError(
                    f"Budget({field.name}={value!r}) is not a limit. Nothing happened. Give a "
                    "number above 0, or None for no limit."
                )

    def limit(self, name: str) -> float | None:
        limit: float | None = getattr(self, name)
        return limit


@frozen_record(frozen=True, slots=True)
class Amount:
    """An amount of a budget: tokens, and dollars if the price is known."""

    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, round(self.usd + other.usd, 9))

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.tokens - other.tokens, round(self.usd - other.usd, 9))

    def times(self, count: int) -> Amount:
        return Amount(self.tokens * count, round(self.usd * count, 9))

    def to_plain(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "usd": self.usd}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Amount:
        with not_believed("What was set aside for a model"):
            return checked(Amount(plain["tokens"], plain["usd"]))


@frozen_record(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a run has taken so far, and what its next request may take at most."""

    spent: Amount
    """The cost of answered requests, of requests without an answer, and of its workers."""
    reserve: Amount
    turns: int
    seconds: float
    repeats: int
    unanswered: Amount = Amount(0, 0.0)
    """The part of ``spent`` that is only reserved: requests whose answer never came."""
    period: int = 1
    """How many different things the model asks for in turn."""


@frozen_record(frozen=True, slots=True)
class Overrun:
    """A limit that the next request would exceed."""

    name: str
    limit: float
    taken: float
    following: float
    """What the next request may take at most."""
    unanswered: float = 0
    """The part of ``taken`` that is only reserved: requests whose answer never came."""
    of: str | None = None
    """The run whose limit it is, if that is a boss of the run that asks."""
    period: int = 1

    @property
    def text(self) -> str:
        """Say what is used and what is needed, for a person."""
        limit, taken, following = (f"{amount:,.6g}" for amount in self._amounts())
        lost = ""
        if self.unanswered:
            lost = f", {self.unanswered:,.6g} of them reserved for requests that were not answered"
        match self.name:
            case "usd" | "tokens" | "workers" if self.of is not None:
                return self._text_of_boss(limit, taken, following)
            case "usd":
                return (
                    f"it may spend {limit} dollars and has spent {taken}{lost}; its next request "
                    f"needs a reserve of {following}"
                )
            case "tokens":
                return (
                    f"it may use {limit} tokens and has used {taken}{lost}; its next request "
                    f"needs a reserve of {following}"
                )
            case "turns":
                return f"it may ask its model {limit} times in a row, and has done so"
            case "workers":
                return f"it may hand {limit} tasks to workers, and wants to hand over more"
            case "seconds":
                return f"it may take {limit} s, and has taken {taken} s"
            case _ if self.period > 1:
                return (
                    f"its model has asked for the same {self.period} things in turn, {taken} times "
                    "over"
                )
            case _:
                return f"its model has asked for exactly the same {taken} times in a row"

    def _text_of_boss(self, limit: str, taken: str, following: str) -> str:
        who = f"run {self.of!r}, which this one works for,"
        match self.name:
            case "usd":
                return (
                    f"{who} may spend {limit} dollars with all its workers, and {taken} are spent "
                    f"or reserved; the next request needs a reserve of {following}"
                )
            case "tokens":
                return (
                    f"{who} may use {limit} tokens with all its workers, and {taken} are used or "
                    f"reserved; the next request needs a reserve of {following}"
                )
            case _:
                return f"{who} may have {limit} workers in all, and this would be one more"

    def _amounts(self) -> tuple[float, float, float]:
        return (self.limit, self.taken, self.following)

    @property
    def suggested(self) -> dict[str, Any]:
        """Return a raise that lets the run take as much again."""
        short = max(self.limit, self.taken + self.following - self.limit)
        whole = self.name in ("tokens", "turns", "repeats", "workers")
        return {self.name: int(short) + 1 if whole else round(short, 6)}

    def to_plain(self) -> dict[str, Any]:
        return {
            "limit": self.name,
            "allowed": self.limit,
            "taken": self.taken,
            "next": self.following,
            "suggested": self.suggested,
            **({} if self.of is None else {"of": self.of}),
        }


def find_overrun(budget: Budget, raised: Mapping[str, float], taken: Taken) -> Overrun | None:
    """Return the first limit, raises included, that the next request would exceed."""
    rows = (
        ("usd", taken.spent.usd, taken.reserve.usd, taken.unanswered.usd),
        ("tokens", taken.spent.tokens, taken.reserve.tokens, taken.unanswered.tokens),
        ("turns", taken.turns, 1, 0),
        ("seconds", taken.seconds, 0, 0),
        ("repeats", taken.repeats, 0, 0),
    )
    for name, so_far, following, unanswered in rows:
        limit = budget.limit(name)
        if limit is None:
            continue
        limit += raised.get(name, 0)
        over = so_far + following > limit if following else so_far >= limit
        if over:
            period = taken.period if name == "repeats" else 1
            return Overrun(name, limit, so_far, following, unanswered, period=period)
    return None


def raised_by(raised: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    """Add new raises to the earlier ones."""
    return {
        name: round(raised.get(name, 0) + more.get(name, 0), 9)
        for name in NAMES
        if name in raised or name in more
    }
