"""Does a verdict say what was examined, what was not, and how to see a failure again?"""

from __future__ import annotations

import json

from nottwice.testing.crash.invariants import Violation
from nottwice.testing.crash.verdict import SweepFailure, Swept, Verdict


def verdict(*levels: Swept) -> Verdict:
    return Verdict(
        name="agent",
        levels=levels,
        effects=("mail({})", "mail({})"),
        ending="returned 1",
        seconds=2,
    )


def failure() -> SweepFailure:
    violation = Violation("no effect twice", "P31", "mail took effect 2 times", "after the crash")
    return SweepFailure(
        "double", (68, 12), "after the effect of mail", (violation,), "pytest --kill-at"
    )


def test_a_sample_names_its_seed_and_how_many_there_are() -> None:
    text = "\n".join(verdict(Swept("lines", "killed", examined=5, total=100, seed=7)).lines())
    assert "5 of 100 points (sampled, seed 7)" in text
    found = Swept("double", "killed", examined=5, total=100, whole=False, seed=7)
    assert "5 of more than 100 points" in "\n".join(verdict(found).lines())


def test_a_level_that_was_skipped_says_why() -> None:
    lines = verdict(Swept("power", "images", skipped="it needs strace")).lines()
    assert "  power: skipped, it needs strace" in lines


def test_a_failure_says_what_was_wrong_and_ends_with_the_line_that_shows_it_again() -> None:
    lines = verdict(Swept("double", "killed", 1, 1, failures=(failure(),))).lines()
    assert lines[0].endswith("1 with something wrong")
    assert lines[-3:] == [
        "double 68,12: after the effect of mail",
        "  P31 no effect twice, after the crash: mail took effect 2 times",
        "  again: pytest --kill-at",
    ]


def test_what_the_world_saw_is_counted_by_tool() -> None:
    assert "  without a crash it returned 1, and the world saw mail ×2" in verdict().lines()


def test_a_program_gets_the_same_as_json() -> None:
    plain = json.loads(json.dumps(verdict(Swept("double", "", failures=(failure(),))).to_plain()))
    assert plain["passed"] is False
    assert plain["levels"][0]["failures"][0]["numbers"] == [68, 12]
