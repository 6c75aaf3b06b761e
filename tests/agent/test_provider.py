"""Is a reply kept whole, and what did it cost?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.messages import Role, said
from nottwice.agent.provider import ModelReply, Price, StopReason, Usage
from nottwice.errors import LedgerCorrupt, UsageError
from nottwice.model import values
from nottwice.testing import FakeModels, Turn

REPLY = ModelReply(
    message=said("done", role=Role.ASSISTANT),
    stop=StopReason.END,
    usage=Usage(1200, 34, cache_read_tokens=5),
    model="model-1-20261101",
    extra={"request_id": "r1", "tier": {"name": "standard"}},
)


def test_a_reply_comes_back_as_it_was() -> None:
    kept = values.decode(values.encode(REPLY.to_plain()))
    assert ModelReply.from_plain(kept) == REPLY


@pytest.mark.parametrize("missing", ["message", "stop", "usage", "model", "extra"])
def test_a_reply_that_was_not_written_here_is_not_believed(missing: str) -> None:
    plain = REPLY.to_plain()
    del plain[missing]
    with pytest.raises(LedgerCorrupt, match="reply of a model cannot be read"):
        ModelReply.from_plain(plain)


def test_a_cost_counts_cached_tokens_at_their_own_price() -> None:
    usage = Usage(1_000_000, 100_000, cache_read_tokens=1_000_000, cache_write_tokens=1_000_000)
    assert Price(3.0, 15.0).cost_usd(usage) == 3.0 + 1.5 + 3.0 + 3.0
    assert Price(3.0, 15.0, 0.3, 3.75).cost_usd(usage) == 3.0 + 1.5 + 0.3 + 3.75
    assert usage.tokens == 3_100_000


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf"), "3", True])
def test_what_is_no_price_is_refused(price: Any) -> None:
    with pytest.raises(UsageError, match="is not a price"):
        Price(price, 1.0)


PAST_THE_BUDGET = {
    "stream": True,
    "background": True,
    "extra_body": {"max_tokens": 100_000},
    "extra_query": {"n": 2},
    "n": 3,
    "max_tokens": 9,
    "max_output_tokens": 9,
    "max_completion_tokens": 9,
    "model": "dearer",
    "messages": [],
    "input": "x",
    "system": "x",
    "instructions": "x",
    "tools": [],
    "previous_response_id": "resp_1",
    "conversation": "conv_1",
    "prompt": {"id": "pmpt_1"},
    "timeout": 3600,
}


@pytest.mark.parametrize("option", PAST_THE_BUDGET)
@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_an_option_that_goes_past_the_budget_is_refused_before_anything_happens(
    fake_models: FakeModels, api: str, option: str
) -> None:
    fake_models.will_say("Hi")
    options = {option: PAST_THE_BUDGET[option]}
    provider = getattr(fake_models, api)()
    with pytest.raises(UsageError, match=f"'{option}'.*Nothing"):
        nt.Agent("t", version="1.0.0", provider=provider, options=options)
    with pytest.raises(UsageError, match=f"'{option}'.*Nothing"):
        provider.complete(nt.providers.ModelRequest(messages=(said("Hello"),), options=options))
    assert fake_models.requests == []


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_the_price_is_that_of_the_model_that_replied(fake_models: FakeModels, api: str) -> None:
    """A gateway may have another model answer than the one that was asked."""
    prices = {"cheap": (1.0, 1.0), "dear": (1000.0, 1000.0)}
    spent = {}
    for replied in ("cheap", "dear", "claude-opus-4-5-20251101", "nobody-knows-it"):
        fake_models.reset()
        fake_models.will_say(Turn("Hi", model=replied))
        provider = getattr(fake_models, api)("cheap", prices=prices)
        agent = nt.Agent("t", version="1.0.0", provider=provider, budget=nt.Budget(usd=100))
        outcome = agent.run("t", goal="x", store=nt.Ledger(":memory:"))
        assert outcome.state.plain["reply"]["model"] == replied
        spent[replied] = outcome.state.spent.usd
        usage = fake_models.usage
    assert spent["dear"] == pytest.approx(1000 * spent["cheap"], rel=0.05)
    listed = Price(5.0, 25.0, 0.5, 6.25).cost_usd(usage)
    assert spent["claude-opus-4-5-20251101"] == pytest.approx(listed, rel=0.05)
    # What is not known is counted as what was asked for.
    assert spent["nobody-knows-it"] == pytest.approx(spent["cheap"], rel=0.05)
