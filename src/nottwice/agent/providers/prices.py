"""What do models cost? A small table, which users can override.

The list prices of 15 November 2026, in dollars per million tokens. They change, so check them. A
model whose price depends on the length of the prompt is not listed, because one price would be
wrong. Neither is a model that was never looked up. Their cost is unknown, and reported as such.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from nottwice.agent.provider import Price
from nottwice.errors import UsageError

Prices = Mapping[str, Price | tuple[float, ...]]
"""By model: a Price, or (input, output), optionally followed by cache read and cache write."""

LIST_PRICES: Mapping[str, Price] = {
    "claude-fable-5-1": Price(10.00, 50.00, 0.25, 12.50),
    "claude-fable-5": Price(10.00, 50.00, 1.00, 12.50),
    "claude-opus-5-5": Price(4.00, 20.00, 0.20, 5.00),
    "claude-opus-5": Price(5.00, 25.00, 0.50, 6.25),
    "claude-opus-4-8": Price(5.00, 25.00, 0.50, 6.25),
    "claude-opus-4-7": Price(5.00, 25.00, 0.50, 6.25),
    "claude-opus-4-6": Price(5.00, 25.00, 0.50, 6.25),
    "claude-opus-4-5": Price(5.00, 25.00, 0.50, 6.25),
    "claude-sonnet-5-5": Price(2.00, 10.00, 0.20, 2.50),
    "claude-sonnet-5": Price(2.00, 10.00, 0.20, 2.50),
    "claude-sonnet-4-6": Price(3.00, 15.00, 0.30, 3.75),
    "claude-sonnet-4-5": Price(3.00, 15.00, 0.30, 3.75),
    "claude-haiku-4-5": Price(1.00, 5.00, 0.10, 1.25),
    "gpt-5.4-mini": Price(0.75, 4.50, 0.075),
    "gpt-5.4-nano": Price(0.20, 1.25, 0.02),
    "gpt-5.3-codex": Price(1.75, 14.00, 0.175),
    "gpt-5-mini": Price(0.25, 2.00, 0.025),
}
# A dated release costs the same as its model: claude-sonnet-4-5-20250929.
_RELEASE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
log = logging.getLogger("nottwice")


def price_of(model: str, prices: Prices | None) -> Price | None:
    """Return what a model costs, the user's price first; None, with a log line: unknown."""
    found = find_price(model, prices)
    if found is not None:
        return found
    log.warning(
        "the price of model %r is not known, so its cost is not counted and no budget in dollars "
        "can be kept; give prices={%r: (input, output)}",
        model,
        model,
    )
    return None


def find_price(model: str, prices: Prices | None) -> Price | None:
    """Do the same without a log line."""
    given = {name: _read(name, price) for name, price in (prices or {}).items()}
    for table in (given, LIST_PRICES):
        for name in (model, _RELEASE.sub("", model)):
            if name in table:
                return table[name]
    return None


def _read(model: object, price: object) -> Price:
    if isinstance(price, Price):
        return price
    if isinstance(model, str) and isinstance(price, tuple | list) and 2 <= len(price) <= 4:
        return Price(*price)
    raise UsageError(
        f"prices={{{model!r}: {price!r}}} is not a price. Nothing was asked. Give dollars per "
        "million tokens: (input, output), or (input, output, cache read, cache write)."
    )
