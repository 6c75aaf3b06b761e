"""A ledger in which reviews are opened and runs fail, as a test needs them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import nottwice as nt
from nottwice.errors import ApprovalNeeded
from nottwice.notify.sender import Sender
from nottwice.notify.settings import Notify
from tests.fakes import FakeClock

TO = "bob@example.com"


@nt.tool(
    "unsafe_on_replay", approve=True, title="Refund {cents} cents to {to}", name="notify_refund"
)
def refund(cents: int, to: str) -> str:
    raise AssertionError("no one approved it")


@dataclass
class Asking:
    """A ledger and its clock."""

    ledger: nt.Ledger
    clock: FakeClock

    def open(self, run_id: str = "ticket-7", *, to: str = TO) -> str:
        """Open a review: may this refund be made? Return its id."""
        with pytest.raises(ApprovalNeeded), self.ledger.run(run_id):
            refund(cents=4000, to=to)
        (review,) = self.ledger.store.open_reviews(run_id)
        return review.review_id

    def open_many(self, number: int, *, first: int = 0) -> None:
        for one in range(first, first + number):
            self.open(f"ticket-{one}")

    def fail(self, run_id: str = "ticket-9") -> None:
        """Let a run fail."""
        with pytest.raises(ZeroDivisionError), self.ledger.run(run_id):
            raise ZeroDivisionError("card 4111 is broken")

    def decide(self, review_id: str, verb: str = "reject") -> None:
        nt.Reviews(self.ledger).decide(review_id, verb, by="ann", why="it is too much")

    def sender(self, settings: Notify) -> Sender:
        """A sender, as another process would be."""
        return Sender(self.ledger.store, settings, self.clock)
