"""What does an event add, and what counts as a duplicate that was prevented? (P341)"""

from __future__ import annotations

from dataclasses import replace

import pytest

from nottwice.engine import events
from nottwice.metrics import declared
from nottwice.metrics.measuring import is_duplicate_prevented, measure

CALL = events.CallEnded(
    ledger="agent.db",
    run_id="r",
    step="/",
    tool="mail",
    call_id="c",
    attempts=1,
    replay_class="unsafe_on_replay",
    outcome="done",
    replayed=True,
    settled_by=None,
    seconds=0.5,
)


@pytest.mark.parametrize(
    ("changes", "prevented"),
    [
        ({}, True),
        ({"replay_class": "idempotent_with_key"}, True),
        ({"replay_class": "pure"}, False),
        ({"replayed": False}, False),
        ({"outcome": "failed"}, False),
        ({"outcome": "in doubt"}, False),
    ],
)
def test_a_duplicate_is_an_effect_on_record_that_was_asked_for_again(
    changes: dict[str, object], prevented: bool
) -> None:
    call = replace(CALL, **changes)  # type: ignore[arg-type]
    assert is_duplicate_prevented(call) is prevented
    counted = [one.instrument for one in measure(call)]
    assert (declared.DUPLICATES in counted) is prevented
    assert counted[0] is declared.CALLS


def test_only_live_calls_have_a_duration() -> None:
    (_, took) = measure(replace(CALL, replayed=False))
    assert (took.instrument, took.value) == (declared.CALL_DURATION, 0.5)
    assert declared.CALL_DURATION not in [one.instrument for one in measure(CALL)]


def test_savings_and_doubts_are_counted_when_they_are_told() -> None:
    left = events.RunLeft(
        ledger="a", run_id="r", status="completed", tokens_saved=70, usd_saved=0.25
    )
    assert [(one.instrument, one.value) for one in measure(left)] == [
        (declared.TOKENS_SAVED, 70),
        (declared.USD_SAVED, 0.25),
    ]
    ended = events.DoubtEnded(
        ledger="a", run_id="r", step="/", tool="mail", call_id="c", by="verify"
    )
    (settled,) = measure(ended)
    assert settled.labels == {"gen_ai.tool.name": "mail", "nottwice.settled_by": "verify"}
    opened = events.ReviewOpened(
        ledger="a", run_id="r", review_id="1", kind="question", summary="?", tool="nottwice.ask"
    )
    assert measure(opened) == ()
    assert len(measure(replace(opened, kind="in doubt", tool="mail"))) == 1


def test_an_event_of_another_kind_adds_nothing() -> None:
    assert measure(events.RunBegan(ledger="a", run_id="r")) == ()
