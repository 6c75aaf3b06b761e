"""The same call twice at the same time is one call: the second waits for the first (D13)."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.engine.asks import Join
from nottwice.engine.calls.alone import enter_alone
from nottwice.engine.drivers import drive
from nottwice.engine.session import Session, current_scope
from nottwice.model.call import CallIdentity

SAME = CallIdentity("r", "/", "start", "send", "0")


def this_session() -> Session:
    scope = current_scope.get()
    assert scope is not None
    return scope.session


def test_the_second_enters_when_the_first_has_left() -> None:
    with nt.Ledger(":memory:").run("r"):
        session = this_session()
        first = drive(enter_alone(session, SAME, None), session.host)
        second = enter_alone(session, SAME, None)
        ask = next(second)
        assert isinstance(ask, Join)
        assert ask.in_flight is first
        session.in_flight.leave(first)
        with pytest.raises(StopIteration) as entered:
            second.send(True)
        assert entered.value.value is not first
        session.in_flight.leave(entered.value.value)


def test_the_second_is_refused_when_the_first_passes_the_time_limit() -> None:
    with nt.Ledger(":memory:").run("r"):
        session = this_session()
        first = drive(enter_alone(session, SAME, None), session.host)
        with pytest.raises(nt.errors.ReplayUnsafeError, match="is still running in this process"):
            drive(enter_alone(session, SAME, None, limit_seconds=0.0), session.host)
        session.in_flight.leave(first)


def test_no_call_enters_a_run_that_was_left() -> None:
    with nt.Ledger(":memory:").run("r"):
        session = this_session()
    with pytest.raises(nt.errors.NotInRun, match="has already left run"):
        drive(enter_alone(session, SAME, None), session.host)
