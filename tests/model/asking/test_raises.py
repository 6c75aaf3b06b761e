"""What counts as a raise of a budget?"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.errors import InvalidArguments
from nottwice.model.asking.raises import check_raise


def test_every_limit_can_be_raised() -> None:
    raised = {"usd": 0.5, "tokens": 1, "turns": 1, "seconds": 60, "repeats": 2}
    assert check_raise(raised) == raised


@pytest.mark.parametrize(
    "plain", [None, {}, [], {"usd": 0}, {"usd": -1}, {"usd": "2"}, {"euro": 2}, {"usd": True}, 3]
)
def test_what_raises_nothing_is_refused(plain: Any) -> None:
    with pytest.raises(InvalidArguments, match="raises no budget"):
        check_raise(plain)
