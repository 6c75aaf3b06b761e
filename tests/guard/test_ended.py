"""A run that a person has ended stays ended, whatever its code does with the exception.

It is aborted by a decision, or cancelled, while a process drives it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.errors import NottwiceError, ReplayUnsafeError, RunAborted
from nottwice.graphs.cancel import cancel
from nottwice.guard.ledger import Ledger
from tests.fakes import Host

sent: list[str] = []


@nt.tool("unsafe_on_replay", name="ended send")
def send(what: str) -> str:
    if what == "late":
        raise TimeoutError("no answer")
    sent.append(what)
    return what


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    sent.clear()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "agent.db")


def cancel_it(store: str) -> None:
    with nt.Ledger(store) as ledger:
        assert cancel(ledger, "r", by="ann", why="called off") is False


def abort_it(store: str) -> None:
    with nt.Ledger(store) as ledger:
        reviews = nt.Reviews(ledger)
        (case,) = reviews.open("r")
        reviews.decide(case.review.review_id, "abort", by="ann", why="called off")


def status_of(store: str) -> str:
    with nt.Ledger(store) as ledger:
        run = ledger.store.load_run("r")
        assert run is not None
        return run.status.value


def assert_ended(store: str) -> None:
    assert status_of(store) == "aborted"
    with pytest.raises(RunAborted), nt.run("r", store=store):
        send("again")


def test_a_plain_run_that_was_cancelled_sends_nothing_more(store: str) -> None:
    with pytest.raises(RunAborted, match="cancelled by ann: called off"):
        with nt.run("r", store=store):
            send("one")
            cancel_it(store)
            send("two")
    assert sent == ["one"]
    assert_ended(store)


@pytest.mark.parametrize("end", [cancel_it, abort_it])
def test_code_that_swallows_the_end_of_its_run_sends_nothing_more(
    store: str, end: Callable[[str], None]
) -> None:
    with nt.run("r", store=store):
        with contextlib.suppress(ReplayUnsafeError):
            send("late")
        end(store)
        for what in ("one", "two", "late"):
            with pytest.raises(RunAborted):
                send(what)
        with pytest.raises(RunAborted):
            nt.ask("Go on?", options=["yes"])
    assert sent == []
    assert_ended(store)


def test_every_branch_of_a_run_that_was_aborted_hears_of_it(store: str) -> None:
    def branch(number: int) -> None:
        if number == 0:
            with contextlib.suppress(NottwiceError):
                nt.ask("Go on?", options=["yes"])
            abort_it(store)
        else:
            send(f"branch {number}")

    with pytest.raises(RunAborted), nt.run("r", store=store):
        nt.map(branch, [0, 1, 2], threads=1)
    assert sent == []
    assert_ended(store)


def test_an_interrupt_after_the_end_of_a_run_does_not_open_it_again(store: str) -> None:
    with pytest.raises(KeyboardInterrupt), nt.run("r", store=store):
        with contextlib.suppress(NottwiceError):
            nt.ask("Go on?", options=["yes"])
        cancel_it(store)
        with contextlib.suppress(RunAborted):
            send("two")
        raise KeyboardInterrupt
    assert_ended(store)
    with nt.Ledger(store) as ledger:
        assert ledger.store.open_reviews("r") == [], "no person has to answer any more"


def test_a_run_that_was_cancelled_and_whose_process_died_is_not_resumed() -> None:
    """Not even what could be sent again with its key."""
    host = Host()

    @nt.tool("idempotent_with_key", key=nt.key_per_call, window="24h", name="ended charge")
    def charge(what: str) -> str:
        sent.append(what)
        raise SystemExit

    def go(ledger: Ledger) -> None:
        with nt.run("r", store=ledger):
            charge("one")

    with host.process(dies_at=4) as ledger, contextlib.suppress(SystemExit):
        go(ledger)
    assert host.data.runs["r"].status.value == "running"
    assert [row.status.in_doubt for row in host.calls] == [True]
    with host.process() as other, host.process() as third:
        # Another process has just taken the run over, and dies before it does anything.
        alive = other.store.holder().holder_id
        host.data.runs["r"] = replace(host.data.runs["r"], holder_id=alive)
        assert cancel(third, "r", by="ann", why="called off") is False
    done = len(sent)
    with host.process() as ledger, pytest.raises(RunAborted):
        go(ledger)
    assert len(sent) == done
    assert host.data.runs["r"].status.value == "aborted"
