"""Does the work do the same twice when it is not killed? If not, no difference proves anything."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable

from nottwice.testing.crash.baseline import check_it_works
from nottwice.testing.crash.course import Baseline
from nottwice.testing.crash.invariants import CrashCase, check_after_crash, same_ledger
from nottwice.testing.crash.scenario import CrashTestRefused, NotDeterministic, Scenario

_REMEDY = (
    "Nothing real was called. Make the work ask for the same effects every time: take times, ids "
    "and random numbers from nt.now(), nt.uuid() and nt.random(), and use a fixed input."
)


def check_deterministic(scenario: Scenario, first: Baseline, second: Baseline) -> None:
    """Refuse work that cannot be judged, because it does not end or ends differently."""
    for baseline in (first, second):
        if baseline.lived.trouble is not None:
            raise CrashTestRefused(
                f"Even without a crash {scenario.name} does not end: {baseline.lived.trouble}"
            )
    _check_names(scenario, first)
    check_it_works(scenario, first)
    for what, one, other in (
        ("it ended differently", _ending(first), _ending(second)),
        ("the world saw other effects", _world(first), _world(second)),
    ):
        if one != other:
            raise NotDeterministic(
                f"{scenario.name} was run twice without any crash, and {what}: first {one}, then "
                f"{other}. {_REMEDY}"
            )
    differences = list(same_ledger(CrashCase(second.lived.after, second.upstream, first)))
    if differences:
        raise NotDeterministic(
            f"{scenario.name} was run twice without any crash, and the ledgers differ: "
            f"{differences[0]}. {_REMEDY}"
        )
    broken = check_after_crash(CrashCase(first.lived.after, first.upstream, first))
    if broken:
        raise CrashTestRefused(
            f"Even without a crash {scenario.name} breaks a promise: {broken[0].text}."
        )


def order_varies(first: Baseline, second: Baseline) -> bool:
    """Whether the points came in another order, because of threads for example. No obstacle."""
    return first.lived.names != second.lived.names


def _check_names(scenario: Scenario, baseline: Baseline) -> None:
    """Refuse an answer for a tool that does not exist: its name is misspelt."""
    for name in scenario.tools:
        if name not in baseline.lived.declared:
            near = difflib.get_close_matches(name, baseline.lived.declared, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "No tool of this name is declared."
            raise CrashTestRefused(
                f"tools= has an answer for {name!r}, but there is no such tool. {hint}"
            )


def _ending(baseline: Baseline) -> str:
    ending = baseline.lived.ending
    return "not at all" if ending is None else f"{ending.shown} {ending.text}".strip()


def _world(baseline: Baseline) -> list[str]:
    return _sorted(Counter(effect.what for effect in baseline.upstream.effects).elements())


def _sorted(words: Iterable[str]) -> list[str]:
    return sorted(words)
