"""How long is each thing kept, and what period is refused? (L8, P87)"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.errors import UsageError
from nottwice.guard.declare import tool as declare
from nottwice.model.call import CallStatus
from nottwice.model.replay_class import ReplayClass
from nottwice.model.runs.retention import Retention
from nottwice.model.tool import Tool
from tests.store.samples import NOW, pending

DAY = 86_400.0


def row(kind: ReplayClass, **changes: Any) -> Any:
    given = {"status": CallStatus.DONE, "replay_class": kind, **changes}
    return pending(**given)


def days(given: Any, tool: Tool | None = None, retention: Retention | None = None) -> float:
    due = (retention or Retention()).due_at(given, tool=tool, ended_at=NOW)
    return (due - NOW) / DAY


@declare("unsafe_on_replay", name="retention_kept", keep="900d")
def kept() -> None: ...


@declare("unsafe_on_replay", name="retention_brief", keep="1h")
def brief() -> None: ...


def test_each_class_has_its_own_period_and_what_is_in_doubt_the_longest() -> None:
    assert days(row(ReplayClass.PURE)) == 60
    assert days(row(ReplayClass.IDEMPOTENT_WITH_KEY)) == 180
    assert days(row(ReplayClass.UNSAFE_ON_REPLAY)) == 365
    keyed = row(ReplayClass.IDEMPOTENT_WITH_KEY, status=CallStatus.UNKNOWN)
    assert days(keyed) == 365
    assert days(row(ReplayClass.PURE, status=CallStatus.PENDING)) == 60


def test_a_tool_decides_for_itself_but_never_below_the_longest_pause() -> None:
    effect = row(ReplayClass.UNSAFE_ON_REPLAY)
    assert days(effect, kept.tool) == 900
    assert days(effect, brief.tool) == 14


def test_a_class_that_new_code_has_tightened_counts() -> None:
    assert days(row(ReplayClass.PURE), kept.tool) == 900
    assert days(row(ReplayClass.PURE), None) == 60


@pytest.mark.parametrize(("since", "started"), [(NOW, NOW - 5), (NOW - 5, NOW)])
def test_a_row_outlives_the_memory_of_the_upstream_however_old_it_is(
    since: float, started: float
) -> None:
    keyed = row(
        ReplayClass.IDEMPOTENT_WITH_KEY,
        key="refund-7",
        key_since=since,
        started_at=started,
        window_seconds=400 * DAY,
    )
    assert days(keyed) == 400
    assert days(keyed, retention=Retention.of("14d")) == 400


@pytest.mark.parametrize("name", ["checkpoints", "pure", "keyed", "unsafe", "failed"])
def test_no_period_is_shorter_than_the_longest_pause(name: str) -> None:
    given: dict[str, Any] = {"checkpoints": "14d", name: "13d"}
    with pytest.raises(UsageError, match=r"at least 14d.*|14 days"):
        Retention(**given)


def test_one_period_for_everything_has_the_same_floor() -> None:
    assert days(row(ReplayClass.UNSAFE_ON_REPLAY), retention=Retention.of("20d")) == 20
    with pytest.raises(UsageError, match="14 days"):
        Retention.of("13d")
    with pytest.raises(UsageError, match="not a duration"):
        Retention.of("soon")


def test_checkpoints_are_never_kept_longer_than_rows() -> None:
    with pytest.raises(UsageError, match=r"longer than rows \(pure\)"):
        Retention(checkpoints="61d")
    assert Retention(checkpoints="60d").shortest_seconds == 60 * DAY
