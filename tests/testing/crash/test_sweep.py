"""Does a sweep find what is broken, say how to see it again, and keep to its budget?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.doubts import reconcile
from nottwice.model import decision
from nottwice.model.decision import Action
from nottwice.store.interface import Commit
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing import crash_test
from nottwice.testing.crash.course import Lab
from nottwice.testing.crash.levels import Boundaries, CrashPlan
from nottwice.testing.crash.sweep import level_names
from nottwice.testing.fatal import without_intents
from tests.testing.crash.tools import ANSWERS, agent, one_look

LEVELS = [name for name in level_names() if name in ("boundaries", "double", "lines", "takeover")]


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_examines_its_points_and_finds_nothing_wrong(level: str) -> None:
    seen = []
    verdict = crash_test(
        agent, tools=ANSWERS, levels=[level], budget="1s", report=lambda at: seen.append(at.done)
    )
    assert verdict.failures == ()
    assert verdict.examined >= 8
    assert seen[-1] == verdict.examined
    assert verdict.effects == ('kit_pay({"order":700})', 'kit_mail({"to":"ann"})')


def broken_commit(change: Callable[[Commit], Commit]) -> Callable[[Any, Commit], None]:
    whole = SqliteStore.commit
    return lambda self, commit: whole(self, change(commit))


def test_an_engine_without_intents_is_caught_with_the_line_that_shows_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SqliteStore, "commit", broken_commit(without_intents))
    verdict = crash_test(agent, tools=ANSWERS, name="agent")
    broken = {violation.invariant for one in verdict.failures for violation in one.violations}
    assert {"intent before effect", "no effect twice"} <= broken
    failure = verdict.failures[0]
    assert f"points=[{failure.numbers}]" in failure.reproduce
    again = crash_test(agent, tools=ANSWERS, points=[failure.numbers])
    assert [one.numbers for one in again.failures] == [failure.numbers]
    assert again.examined == 1


def test_an_engine_that_fires_again_in_doubt_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = decision.decide

    def reckless(facts: Any) -> Action:
        action = decide(facts)
        return Action.NEW_ATTEMPT if action is Action.OPEN_REVIEW else action

    monkeypatch.setattr(reconcile, "decide", reckless)
    verdict = crash_test(agent, tools=ANSWERS)
    assert "no effect twice" in {one.violations[0].invariant for one in verdict.failures}


def test_the_same_seed_draws_the_same_sample() -> None:
    samples = []
    for _ in range(2):
        verdict = crash_test(agent, tools=ANSWERS, levels=["lines"], budget="1ms", seed=7)
        (level,) = verdict.levels
        samples.append((level.total, level.seed))
        assert level.examined < level.total
    assert samples[0] == samples[1]


@pytest.mark.parametrize(
    ("orders", "text"),
    [
        ({"levels": ["everywhere"]}, "There is no level 'everywhere'"),
        ({"levels": ["lines", "double"], "points": [(1,)]}, "Points belong to one level"),
    ],
)
def test_orders_that_cannot_be_followed_are_refused(orders: dict[str, Any], text: str) -> None:
    with pytest.raises(nt.errors.UsageError, match=text):
        crash_test(agent, tools=ANSWERS, **orders)


def test_points_that_were_not_counted_before_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Boundaries.plan

    def short(self: Boundaries, lab: Lab) -> CrashPlan:
        return replace(plan(self, lab), points=plan(self, lab).points[:-3])

    whole = crash_test(agent, tools=ANSWERS, budget=None).examined
    monkeypatch.setattr(Boundaries, "plan", short)
    assert crash_test(agent, tools=ANSWERS, budget=None).examined == whole


def test_a_double_sweep_without_a_budget_examines_every_pair() -> None:
    verdict = crash_test(one_look, tools=ANSWERS, levels=["double"], budget=None, effects=False)
    assert verdict.failures == ()
    assert verdict.levels[0].whole
    assert verdict.examined == verdict.levels[0].total > 12
