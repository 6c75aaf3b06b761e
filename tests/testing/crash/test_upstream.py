"""Is the world of an examination honest: keys, late effects, what verify sees, copies?"""

from __future__ import annotations

from typing import Any

from nottwice.errors import Permanent
from nottwice.testing import Asking, Late, Lost
from nottwice.testing.crash.scenario import Scenario
from nottwice.testing.crash.upstream import Answered, CountingUpstream


def attempt(
    upstream: CountingUpstream,
    answer: Any,
    *,
    call_id: str = "c1",
    key: str | None = None,
    args: dict[str, Any] | None = None,
    window_seconds: float | None = None,
) -> Answered:
    asking = Asking("kit_mail", args or {"to": "ann"}, key, call_id, 1, 0)
    scenario = Scenario(work=lambda: None, tools={"kit_mail": answer})
    return upstream.attempt(scenario, asking, window_seconds=window_seconds)


def test_without_a_key_every_attempt_is_an_effect() -> None:
    upstream = CountingUpstream()
    attempt(upstream, "sent")
    attempt(upstream, "sent")
    assert [effect.call_id for effect in upstream.effects] == ["c1", "c1"]


def test_a_key_does_nothing_twice_while_it_is_remembered() -> None:
    upstream = CountingUpstream()
    first = attempt(upstream, lambda args, asked: asked.earlier, key="k", window_seconds=10)
    again = attempt(upstream, lambda args, asked: asked.earlier, key="k", window_seconds=10)
    assert (first, len(upstream.effects)) == (again, 1)
    upstream.now += 10
    attempt(upstream, "forgotten", key="k", window_seconds=10)
    assert len(upstream.effects) == 2


def test_a_key_with_other_arguments_is_refused_without_effect() -> None:
    upstream = CountingUpstream()
    attempt(upstream, "sent", key="k")
    answered = attempt(upstream, "sent", key="k", args={"to": "bob"})
    assert isinstance(answered.error, Permanent)
    assert len(upstream.effects) == 1


def test_a_lost_response_is_an_error_and_an_effect() -> None:
    upstream = CountingUpstream()
    answered = attempt(upstream, Lost("sent"))
    assert isinstance(answered.error, ConnectionError)
    found = upstream.find("c1")
    assert found is not None
    assert found.result_json == '"sent"'


def test_a_late_effect_is_not_seen_before_its_time_and_always_comes() -> None:
    upstream = CountingUpstream()
    attempt(upstream, Late("sent", seconds=5))
    assert upstream.find("c1") is None
    upstream.settle()
    assert upstream.find("c1") is not None


def test_a_copy_has_the_same_past_and_a_future_of_its_own() -> None:
    upstream = CountingUpstream()
    attempt(upstream, "sent")
    copy = upstream.copy()
    attempt(copy, "sent", call_id="c2")
    assert (len(upstream.effects), len(copy.effects)) == (1, 2)
