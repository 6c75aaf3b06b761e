"""What can a budget be raised by? A person answers this when a run has used it up (A4)."""

from __future__ import annotations

from typing import Any

from nottwice.errors import InvalidArguments

NAMES = ("usd", "tokens", "turns", "seconds", "repeats", "workers")
"""What budgets can limit."""


def check_raise(plain: Any) -> dict[str, float]:
    """Return what a budget is raised by, each above 0. Raises InvalidArguments otherwise."""
    if isinstance(plain, dict) and plain:
        if all(name in NAMES and is_amount(amount) for name, amount in plain.items()):
            return dict(plain)
    raise InvalidArguments(
        f"{plain!r} raises no budget. Nothing was decided. Name what to raise and by how "
        f'much, above 0: {{"usd": 2}}; also {", ".join(NAMES[1:])}.'
    )


def is_amount(value: object) -> bool:
    """Whether this is a number above 0 that can be counted."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < 1e15
