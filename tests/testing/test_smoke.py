"""What is tried out, what is not, and what several trials prove together (T6)."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.testing import Sandbox
from nottwice.testing.smoke import KeyFinding, Report, Trial, check_can_be_tried


def report(*findings: KeyFinding) -> Report:
    return Report("refund", tuple(Trial("a trial", each, 1, ()) for each in findings))


@pytest.mark.parametrize(
    ("found", "together"),
    [
        ([KeyFinding.HONOURS, KeyFinding.REJECTS, KeyFinding.HONOURS], KeyFinding.HONOURS),
        ([KeyFinding.HONOURS, KeyFinding.NOT_TRIED], KeyFinding.HONOURS),
        ([KeyFinding.HONOURS, KeyFinding.FIRST_RESULT], KeyFinding.HONOURS),
        ([KeyFinding.HONOURS, KeyFinding.ANOTHER_CALL], KeyFinding.HONOURS),
        ([KeyFinding.HONOURS, KeyFinding.RACES, KeyFinding.HONOURS], KeyFinding.RACES),
        ([KeyFinding.HONOURS, KeyFinding.UNCLEAR], KeyFinding.UNCLEAR),
        ([KeyFinding.UNCLEAR, KeyFinding.RACES], KeyFinding.RACES),
        ([KeyFinding.RACES, KeyFinding.IGNORES], KeyFinding.IGNORES),
    ],
)
def test_the_worst_that_was_found_counts(found: list[KeyFinding], together: KeyFinding) -> None:
    assert report(*found).finding is together
    assert report(*found).passed is (together is KeyFinding.HONOURS)


def test_a_tool_without_a_key_is_not_tried() -> None:
    @nt.tool("unsafe_on_replay", name="smoke unsafe")
    def unsafe(to: str) -> None: ...

    class Account:
        @nt.tool("idempotent_with_key", key="k-{to}", window="1h", bound_by=(), name="smoke method")
        def pay(self, to: str) -> None: ...

    with pytest.raises(nt.errors.UsageError, match="unsafe_on_replay, so it has no key"):
        check_can_be_tried(unsafe)
    with pytest.raises(nt.errors.UsageError, match="is a method"):
        check_can_be_tried(Account.pay)


@pytest.mark.parametrize(
    "words", [{"count": 7}, {"arguments": {}}, {"settles": "soon"}, {"settles": -1}]
)
def test_a_sandbox_that_cannot_work_is_refused_when_it_is_made(words: dict[str, Any]) -> None:
    good: dict[str, Any] = {"arguments": lambda number: {}, "count": lambda: 0}
    with pytest.raises(nt.errors.UsageError):
        Sandbox(**{**good, **words})
