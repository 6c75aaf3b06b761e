"""What can a budget be raised by? The answer of a person to a run that has used it up (A4)."""

from __future__ import annotations

from typing import Any

from nottwice.errors import InvalidArguments

NAMES = ("usd", "tokens", "turns", "seconds", "repeats", "workers")
"""What budgets have limits of."""


def check_raise(plain: Any) -> dict[str, float]:
    """What a budget is raised by, each above 0; InvalidArguments if that is nothing."""
    if isinstance(plain, dict) and plain:
        if all(name in NAMES and is_amount(amount) for name, amount in plain.items()):
            return dict(plain)
    raise InvalidArguments(
        f"{plain!r} raises no budget. Nothing was decided. Name what the run may take more, and "
        f'how much, above 0: {{"usd": 2}}; also {", ".join(NAMES[1:])}.'
    )


def is_amount(value: object) -> bool:
    """Whether this is a number above 0 that can be counted with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < 1e15
