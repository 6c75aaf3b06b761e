"""What is tried out, what is not, and what several trials prove together (T6)."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.testing import Sandbox
from nottwice.testing.smoke import Finding, Report, Trial, check_can_be_tried


def report(*findings: Finding) -> Report:
    return Report("refund", tuple(Trial("a trial", each, 1, ()) for each in findings))


@pytest.mark.parametrize(
    ("found", "together"),
    [
        ([Finding.HONOURS, Finding.REJECTS, Finding.HONOURS], Finding.HONOURS),
        ([Finding.HONOURS, Finding.NOT_TRIED], Finding.HONOURS),
        ([Finding.HONOURS, Finding.FIRST_RESULT], Finding.HONOURS),
        ([Finding.HONOURS, Finding.ANOTHER_CALL], Finding.HONOURS),
        ([Finding.HONOURS, Finding.RACES, Finding.HONOURS], Finding.RACES),
        ([Finding.HONOURS, Finding.UNCLEAR], Finding.UNCLEAR),
        ([Finding.UNCLEAR, Finding.RACES], Finding.RACES),
        ([Finding.RACES, Finding.IGNORES], Finding.IGNORES),
    ],
)
def test_the_worst_that_was_found_counts(found: list[Finding], together: Finding) -> None:
    assert report(*found).finding is together
    assert report(*found).passed is (together is Finding.HONOURS)


def test_a_tool_without_a_key_is_not_tried() -> None:
    @nt.tool("unsafe_on_replay", name="smoke unsafe")
    def unsafe(to: str) -> None: ...

    class Account:
        @nt.tool("idempotent_with_key", key="k-{to}", window="1h", bound_by=(), name="smoke method")
        def pay(self, to: str) -> None: ...

    with pytest.raises(nt.UsageError, match="unsafe_on_replay, so it has no key"):
        check_can_be_tried(unsafe)
    with pytest.raises(nt.UsageError, match="is a method"):
        check_can_be_tried(Account.pay)


@pytest.mark.parametrize(
    "words", [{"count": 7}, {"arguments": {}}, {"settles": "soon"}, {"settles": -1}]
)
def test_a_sandbox_that_cannot_work_is_refused_when_it_is_made(words: dict[str, Any]) -> None:
    good: dict[str, Any] = {"arguments": lambda number: {}, "count": lambda: 0}
    with pytest.raises(nt.UsageError):
        Sandbox(**{**good, **words})
