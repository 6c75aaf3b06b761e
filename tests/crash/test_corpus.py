"""Points that failed once do not fail again."""

from __future__ import annotations

import pytest

from tests.crash.controls.control import level_named
from tests.crash.corpus import AGENTS, Kept, cases
from tests.crash.sweeping import STORES


@pytest.mark.parametrize("kept", cases(), ids=lambda kept: kept.file.stem)
def test_a_point_that_failed_once_stays_fixed(kept: Kept) -> None:
    why_not = level_named(kept.level).why_not()
    if why_not is not None:
        pytest.skip(why_not)
    verdict = kept.examine()
    assert not verdict.failures, "\n".join(verdict.lines())
    # Code that became shorter has fewer points; a case that has none left examines nothing.
    assert verdict.examined > 0, f"{kept.file.name} names no point that exists any more"


def test_the_corpus_is_not_empty_and_every_case_says_why() -> None:
    assert cases()
    assert all(kept.why and kept.points for kept in cases())
    assert all(kept.agent in AGENTS and kept.store in STORES for kept in cases())
