"""Is a reply kept whole, and what did it cost?"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.agent.messages import Role, said
from nottwice.agent.provider import ModelReply, Price, StopReason, Usage
from nottwice.errors import LedgerCorrupt, UsageError
from nottwice.model import values

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
    with pytest.raises(UsageError, match="is no price"):
        Price(price, 1.0)
