"""Limits count in the ledger: over runs, restarts and workers, and never beyond (P82)."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.model.policy import RulingKind
from tests.fakes import FakeClock
from tests.policy.shop import wanted

WORKERS, CALLS, LIMIT = 2, 9, 12


class Bank:
    """Pays out, and counts what it paid."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()
        self.paid: list[Any] = []

        @nt.tool("unsafe_on_replay", name="pay", tags=("money",))
        def pay(to: str, cents: int = 100) -> str:
            if to == "nobody":
                raise nt.Permanent("no such account")
            self.paid.append((to, cents))
            return to

        @nt.tool("unsafe_on_replay", name="pay exactly", tags=("euros",))
        def exactly(to: str, amount: Decimal) -> str:
            self.paid.append((to, amount))
            return to

        self.pay, self.exactly = pay, exactly

    def ask(self, run: str, limit: Any, to: str, **given: Any) -> str:
        """What the caller of a payment is told, as if in a separate process."""
        with nt.Ledger(self.path, clock=self.clock, policy=limit) as ledger:
            try:
                with ledger.run(run):
                    return self.pay(to, **given)
            except nt.ToolFailure as failure:
                return type(failure).__name__


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path / "agent.db")


def test_a_rate_survives_restarts_and_frees_itself_with_time(bank: Bank) -> None:
    limit = policy.rate(2, per="1h", tag="money")
    assert [bank.ask(f"r{n}", limit, "ann") for n in range(4)] == [
        "ann",
        "ann",
        "DeniedByPolicy",
        "DeniedByPolicy",
    ]
    bank.clock.advance(3599)
    assert bank.ask("r5", limit, "ann") == "DeniedByPolicy"
    bank.clock.advance(1)
    assert [bank.ask(f"r6{n}", limit, "ann") for n in range(3)] == ["ann", "ann", "DeniedByPolicy"]
    assert len(bank.paid) == 4


def test_a_rate_continues_counting_when_its_limit_changes(bank: Bank) -> None:
    assert bank.ask("r1", policy.rate(1, per="1h", tool="pay"), "ann") == "ann"
    assert bank.ask("r2", policy.rate(1, per="2h", tool="pay"), "ann") == "DeniedByPolicy"
    assert bank.ask("r3", policy.rate(2, per="1h", tool="pay"), "ann") == "ann"


def test_a_rate_counts_failed_calls_and_a_limit_of_spending_does_not(bank: Bank) -> None:
    rate = policy.rate(1, per="1h", tool="pay")
    assert bank.ask("r1", rate, "nobody") == "Permanent"
    assert bank.ask("r2", rate, "ann") == "DeniedByPolicy"
    spend = policy.spend("cents", 100, tool="pay")
    assert bank.ask("r3", spend, "nobody") == "Permanent"
    assert bank.ask("r4", spend, "ann") == "ann"
    assert bank.ask("r5", spend, "ann") == "DeniedByPolicy"


def test_a_limit_can_be_for_each_run_on_its_own(bank: Bank) -> None:
    limit = policy.spend("cents", 150, tag="money", each_run=True)
    assert [bank.ask("r1", limit, name) for name in ("ann", "bob")] == ["ann", "DeniedByPolicy"]
    assert bank.ask("r2", limit, "ann") == "ann"
    assert bank.ask("x" * 500, limit, "ann") == "ann"


def test_spending_is_added_up_exactly(bank: Bank) -> None:
    limit = policy.spend("amount", "0.3", tag="euros")
    with nt.Ledger(bank.path, policy=limit) as ledger, ledger.run("r"):
        for name in ("ann", "bob", "eve"):
            bank.exactly(name, Decimal("0.1"))
        with pytest.raises(
            nt.errors.DeniedByPolicy, match=r"0\.3 of 0\.3 are used, and this would add 0\.000001"
        ):
            bank.exactly("one more", Decimal("0.000001"))
    assert len(bank.paid) == 3


def test_the_smaller_of_two_limits_holds(bank: Bank) -> None:
    limits = [policy.rate(2, per="1m", tool="pay"), policy.rate(3, per="1h", tool="pay")]
    told = [bank.ask(f"r{number}", limits, "ann") for number in range(3)]
    bank.clock.advance(61)
    told += [bank.ask(f"s{number}", limits, "ann") for number in range(2)]
    assert told == ["ann", "ann", "DeniedByPolicy", "ann", "DeniedByPolicy"]


def test_a_clock_that_jumps_back_frees_nothing(bank: Bank) -> None:
    limit = policy.rate(1, per="1h", tool="pay")
    assert bank.ask("r1", limit, "ann") == "ann"
    bank.clock.advance(-7200)
    assert bank.ask("r2", limit, "ann") == "DeniedByPolicy"


@pytest.mark.parametrize("cents", [-1, "many", None, True, [], {}])
def test_a_call_that_does_not_say_what_it_spends_is_denied(cents: Any) -> None:
    ruling = policy.spend("cents", 100, tag="money")(wanted(arguments={"cents": cents}))
    assert ruling.kind is RulingKind.DENY
    assert "its amount cannot be determined" in ruling.why


def test_an_argument_inside_of_another_can_be_counted() -> None:
    limit = policy.spend("order.total", 100, tag="money")
    ruling = limit(wanted(arguments={"order": {"total": 40}}))
    assert ruling.charges[0].amount == 40_000_000
    assert limit(wanted(arguments={"order": 40})).kind is RulingKind.DENY
    assert limit(wanted(arguments={})).kind is RulingKind.DENY
    assert limit(wanted(tags=())) == policy.allow()


@pytest.mark.parametrize(
    "make",
    [
        lambda: policy.rate(1.5, per="1h"),  # type: ignore[arg-type]
        lambda: policy.rate(True, per="1h"),
        lambda: policy.rate(-1, per="1h"),
        lambda: policy.rate(1, per="never"),
        lambda: policy.rate(1, per="1h", otherwise="allow"),
        lambda: policy.spend("cents", 100),
        lambda: policy.spend("", 100, tag="money"),
        lambda: policy.spend("cents", -1, tag="money"),
        lambda: policy.spend("cents", 1, tag="money", otherwise="perhaps"),
    ],
)
def test_a_limit_that_cannot_hold_is_refused_when_it_is_made(make: Any) -> None:
    with pytest.raises(nt.errors.UsageError):
        make()


PROGRAM = f"""
import contextlib, sys
import nottwice as nt
from nottwice import policy

@nt.tool("unsafe_on_replay")
def pay(to: str) -> None:
    with open(sys.argv[2], "a") as file:
        file.write("paid\\n")

ledger = nt.Ledger(sys.argv[1], policy=policy.rate({LIMIT}, per="1h", tool="pay"))
for number in range({CALLS}):
    with ledger.run(f"{{sys.argv[3]}} {{number}}"), contextlib.suppress(nt.errors.DeniedByPolicy):
        pay("ann")
"""


def test_several_workers_together_do_not_exceed_a_limit(tmp_path: Path) -> None:
    nt.Ledger(tmp_path / "agent.db").close()
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "agent.db", "paid.txt", f"worker {number}"],
            cwd=tmp_path,
        )
        for number in range(WORKERS)
    ]
    assert [worker.wait(60) for worker in workers] == [0] * WORKERS
    assert len((tmp_path / "paid.txt").read_text().splitlines()) == LIMIT
