"""Policies that name tools or tags."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from tests.policy.shop import wanted


def test_of_several_tags_the_strictest_counts() -> None:
    rules = policy.by_tag({"money": "ask", "destructive": "deny", "read": "allow"})
    assert rules(wanted(tags=())) == policy.allow()
    assert rules(wanted(tags=("read", "unknown"))).kind == policy.allow().kind
    assert rules(wanted(tags=("read", "money"))) == policy.ask("refund is tagged money")
    assert rules(wanted(tags=("money", "destructive"))) == policy.deny(
        "refund is tagged destructive"
    )
    assert str(rules) == "by_tag(money: ask, destructive: deny, read: allow)"


def test_only_what_is_on_the_list_is_allowed() -> None:
    rules = policy.only("search", "refund")
    assert rules(wanted("refund")) == policy.allow()
    assert rules(wanted("drop_table")) == policy.deny("drop_table is not on the list")
    assert policy.only(otherwise="stop")(wanted()) == policy.stop("refund is not on the list")
    assert str(rules) == "only(refund, search)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: policy.by_tag({}),
        lambda: policy.by_tag("money"),  # type: ignore[arg-type]
        lambda: policy.by_tag({"money": "maybe"}),
        lambda: policy.by_tag({"": "deny"}),
        lambda: policy.only("refund", otherwise="allow"),
        lambda: policy.only(7),  # type: ignore[arg-type]
    ],
)
def test_what_says_nothing_is_refused_when_it_is_made(make: Any) -> None:
    with pytest.raises(nt.errors.UsageError):
        make()
