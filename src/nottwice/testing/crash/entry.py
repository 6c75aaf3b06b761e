"""The crash test as Python code calls it: ``crash_test(work, tools=...)``.

The pytest fixture and the command line are thin layers over this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.tool import Duration, parse_duration
from nottwice.store.interface import Store
from nottwice.testing.crash.levels import Numbers
from nottwice.testing.crash.scenario import Raises, Scenario
from nottwice.testing.crash.sweep import Orders, SweepProgress, sweep
from nottwice.testing.crash.verdict import Verdict

DEFAULT_LEVELS = ("boundaries",)
DEFAULT_BUDGET = "60s"


def crash_test(
    work: Callable[[], Any],
    *,
    tools: Mapping[str, Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    raises: Raises = (),
    effects: bool = True,
    store: Callable[[Path], Store] | None = None,
    at_most_repeated: int | None = None,
    levels: Iterable[str] = DEFAULT_LEVELS,
    budget: Duration | None = DEFAULT_BUDGET,
    points: Iterable[Numbers] = (),
    seed: int | None = None,
    name: str = "the work",
    report: Callable[[SweepProgress], None] = lambda progress: None,
    reproduce: Callable[[str, Numbers], str] | None = None,
) -> Verdict:
    """Kill ``work`` at every point of the ``levels``, resume it each time, and report differences.

    ``work`` takes no arguments. It starts or resumes a run. ``tools`` defines what each effectful
    tool returns, as plain data or as a function of its arguments. The parent process answers and
    counts, and no tool runs for real. ``answers`` defines what people answer and what events
    contain. ``raises`` is the exception with which ``work`` ends even without a crash. With
    ``effects=False``, it should change nothing. ``store`` opens a third-party store in a folder of
    the test. ``at_most_repeated`` is how many tool calls a crash may repeat, including pure ones.
    Without it, a crash may repeat the effects and recorded model calls that were in progress, and
    pure calls whose results were pending writes (P160).

    Ledgers are redirected into a folder of the test, and clocks jump instead of waiting. Raises
    CrashTestRefused, before anything is killed, for code that cannot be judged: it fails or does
    nothing even without a crash (P145), or its ledger cannot be redirected (P146).
    """
    scenario = Scenario(
        work=work,
        tools=tools or {},
        answers=answers or {},
        name=name,
        raises=raises,
        effects=effects,
        store=store,
        at_most_repeated=at_most_repeated,
    )
    orders = Orders(
        levels=tuple(levels),
        budget_seconds=None if budget is None else parse_duration(budget, what="The budget"),
        points=tuple(points),
        seed=seed,
        report=report,
        reproduce=reproduce or _call_again(name),
    )
    return sweep(scenario, orders)


def parse_points(text: str) -> Numbers:
    """Parse the numbers of a point as people write them: ``12``, or ``68,12``."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise UsageError(
            f"{text!r} is not a point. Nothing was run. Write its number, like 12, or the numbers "
            "of both faults, like 68,12."
        )
    return numbers


def _call_again(name: str) -> Callable[[str, Numbers], str]:
    return lambda level, numbers: f"crash_test({name}, levels=[{level!r}], points=[{numbers}])"
