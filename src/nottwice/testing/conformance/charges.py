"""Does a meter show what was charged to it, and is nothing written that it has no room for? (L9)"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.policy import ChargeRecord
from nottwice.store.interface import ChargeWrite, Commit, Outdated
from nottwice.testing.conformance.bench import Bench, expect, outcomes_of, refused
from nottwice.testing.conformance.samples import (
    FAILURE,
    NOW,
    claim,
    follow,
    identity,
    intent,
    pending,
)


def charge(who: CallIdentity, amount: int = 10, **changes: Any) -> ChargeRecord:
    """Return what a call is charged to the meter ``cents``."""
    return replace(ChargeRecord("cents", who, who.call_id, NOW, amount), **changes)


def call_of(tool: str, run: str = "run") -> CallRow:
    return pending(identity(run, tool=tool))


class Charges(Bench):
    """What policies count."""

    def test_a_charge_is_there_with_its_intent_and_is_the_last_that_fits(self) -> None:
        store = self.open()
        fence = claim(store)
        for number in range(2):
            row = call_of(f"tool {number}")
            write = ChargeWrite(charge(row.identity), at_most=25)
            store.commit(intent(row, fence, charges=(write,)))
        expect(store.charged("cents"), 20, "What the meter shows")
        expect(store.charged("another"), 0, "What a meter shows that nothing was charged to")
        row = call_of("one too many")
        write = ChargeWrite(charge(row.identity), at_most=25)
        with refused(Outdated, what="A charge that does not fit"):
            store.commit(intent(row, fence, charges=(write,)))
        expect(store.load_call(row.identity), None, "The intent of a call that was not charged")
        store.commit(intent(row, fence, charges=(replace(write, at_most=30),)))
        expect(self.open().charged("cents"), 30, "What another store shows")

    def test_one_charge_that_does_not_fit_refuses_all_of_them(self) -> None:
        store = self.open()
        fence = claim(store)
        row = call_of("tool")
        fits = ChargeWrite(charge(row.identity, meter="calls"), at_most=100)
        does_not = ChargeWrite(charge(row.identity), at_most=9)
        with refused(Outdated, what="Two charges of which one does not fit"):
            store.commit(intent(row, fence, charges=(fits, does_not)))
        expect(store.charged("calls"), 0, "What the meter shows that had room")

    def test_a_meter_counts_the_calls_of_all_runs_since_a_time(self) -> None:
        store = self.open()
        for number, run in enumerate(("run", "another run", "a third run")):
            row = call_of("tool", run)
            write = ChargeWrite(charge(row.identity, at=NOW + number))
            store.commit(intent(row, claim(store, run), charges=(write,)))
        expect(store.charged("cents"), 30, "Ever")
        expect(store.charged("cents", since=NOW), 20, "After the first charge")
        expect(store.charged("cents", since=NOW + 2), 0, "After the last charge")
        first = call_of("tool").identity.call_id
        expect(store.charged("cents", besides=first), 20, "Besides the first call")

    def test_repeating_the_commit_of_a_charge_changes_nothing(self) -> None:
        store = self.open()
        fence = claim(store)
        row = call_of("tool")
        commit = intent(row, fence, charges=(ChargeWrite(charge(row.identity), at_most=10),))
        store.commit(commit)
        store.commit(commit)
        expect(store.charged("cents"), 10, "What the meter shows after a repeated commit")

    def test_a_call_that_failed_counts_only_if_its_charge_says_so(self) -> None:
        store = self.open()
        fence = claim(store)
        for tool, if_failed in (("spends", False), ("asks", True)):
            row = call_of(tool)
            write = ChargeWrite(charge(row.identity, if_failed=if_failed))
            store.commit(intent(row, fence, charges=(write,)))
            retried = row.failed(FAILURE, now=NOW + 1, retry_at=NOW + 2)
            store.commit(follow(retried, row, fence))
        expect(store.charged("cents"), 20, "While both are tried again")
        for tool in ("spends", "asks"):
            row = call_of(tool)
            known = store.load_call(row.identity)
            if known is not None:
                store.commit(follow(row.failed(FAILURE, now=NOW + 3), known, fence))
        expect(store.charged("cents"), 10, "After both have failed permanently")
        row = call_of("next")
        write = ChargeWrite(charge(row.identity), at_most=20)
        store.commit(intent(row, fence, charges=(write,)))

    def test_of_many_concurrent_charges_only_those_that_fit_are_written(self) -> None:
        stores = [self.open() for _ in range(2)]
        works = []
        for number in range(8):
            store, run = stores[number % 2], f"run {number}"
            row = call_of("tool", run)
            write = ChargeWrite(charge(row.identity), at_most=30)
            commit = intent(row, claim(store, run), charges=(write,))
            works.append(partial(store.commit, commit))
        expect(outcomes_of(works), ["Outdated"] * 5 + ["done"] * 3, "How each commit ends")
        expect(stores[0].charged("cents"), 30, "What the meter shows")

    def test_only_the_holder_of_a_run_charges_its_calls(self) -> None:
        store = self.open()
        fence = claim(store)
        row = call_of("tool")
        store.commit(intent(row, fence))
        with refused(UsageError, what="A charge without a fence"):
            store.commit(Commit(workflow_id="run", charges=(ChargeWrite(charge(row.identity)),)))
