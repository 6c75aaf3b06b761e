"""A run that could not be advanced is retried, with a longer delay each time, until it advances."""

from __future__ import annotations

from nottwice.worker.patience import FIRST_SECONDS, MOST_SECONDS, Patience


def test_each_delay_is_twice_the_last_and_none_is_longer_than_the_longest() -> None:
    patience = Patience()
    delays = [patience.put_off("r", now=0.0) for _ in range(12)]
    assert delays[:4] == [FIRST_SECONDS, FIRST_SECONDS * 2, FIRST_SECONDS * 4, FIRST_SECONDS * 8]
    assert delays[-1] == MOST_SECONDS == max(delays)


def test_a_run_is_left_alone_until_its_delay_is_over_and_others_are_not() -> None:
    patience = Patience()
    patience.put_off("r", now=100.0)
    assert patience.is_put_off("r", now=100.0)
    assert patience.is_put_off("r", now=100.0 + FIRST_SECONDS - 0.01)
    assert not patience.is_put_off("r", now=100.0 + FIRST_SECONDS)
    assert not patience.is_put_off("other", now=100.0)


def test_a_run_that_advanced_begins_again_with_the_shortest_delay() -> None:
    patience = Patience()
    for _ in range(5):
        patience.put_off("r", now=0.0)
    patience.forget("r")
    assert not patience.is_put_off("r", now=0.0)
    assert patience.put_off("r", now=0.0) == FIRST_SECONDS


def test_a_clock_that_jumps_back_makes_no_run_wait_for_a_day() -> None:
    patience = Patience()
    patience.put_off("r", now=86_400.0)
    assert not patience.is_put_off("r", now=0.0)


def test_what_is_put_off_is_counted_and_what_was_not_tried_again_is_forgotten() -> None:
    patience = Patience()
    for run_id in ("a", "b"):
        patience.put_off(run_id, now=0.0)
    patience.put_off("c", now=FIRST_SECONDS)
    assert patience.count(now=FIRST_SECONDS / 2) == 2
    assert patience.count(now=FIRST_SECONDS) == 1
    assert patience.count(now=10 * MOST_SECONDS) == 0
    assert patience.put_off("a", now=10 * MOST_SECONDS) == FIRST_SECONDS


def test_a_run_that_another_worker_took_first_is_not_delayed_longer_every_time() -> None:
    patience = Patience()
    delays = [patience.put_off("r", now=0.0, longer=False) for _ in range(5)]
    assert delays == [FIRST_SECONDS] * 5
