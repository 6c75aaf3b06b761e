"""Does the user's price come first, then the list's, and is it unknown where neither has one?"""

from __future__ import annotations

import logging
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent import providers
from nottwice.agent.provider import Price, Usage
from nottwice.agent.providers.prices import LIST_PRICES, Prices, price_of


@pytest.mark.parametrize(
    "model", ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5-latest"]
)
def test_a_release_costs_what_its_model_costs(model: str) -> None:
    assert price_of(model, None) == Price(3.00, 15.00, 0.30, 3.75)


@pytest.mark.parametrize("model", ["claude-sonnet-4-5-mini", "gpt-5", "gpt-5-mini-high", "llama"])
def test_what_only_begins_like_a_model_has_no_price_and_that_is_said(
    model: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="nottwice"):
        assert price_of(model, None) is None
    assert model in caplog.text
    assert "not known" in caplog.text


def test_the_users_word_counts_more_than_the_list() -> None:
    prices: Prices = {"claude-sonnet-5": (1.0, 2.0), "mine": Price(3.0, 4.0), "four": (1, 2, 3, 4)}
    assert price_of("claude-sonnet-5", prices) == Price(1.0, 2.0)
    assert price_of("claude-sonnet-5-20261001", prices) == Price(1.0, 2.0)
    assert price_of("mine", prices) == Price(3.0, 4.0)
    assert price_of("four", prices) == Price(1, 2, 3, 4)
    assert providers.anthropic("mine", prices=prices).price == Price(3.0, 4.0)


@pytest.mark.parametrize("price", [(1.0,), (1, 2, 3, 4, 5), "cheap", 3.0, (1, -2), None])
def test_what_is_no_price_is_refused(price: Any) -> None:
    with pytest.raises(nt.errors.UsageError):
        price_of("mine", {"mine": price})


def test_cached_tokens_have_their_own_price() -> None:
    price = LIST_PRICES["claude-sonnet-5-5"]
    usage = Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)
    assert price.cost_usd(usage) == 2.00 + 10.00 + 0.20 + 2.50
