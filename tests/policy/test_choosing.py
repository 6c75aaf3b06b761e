"""A ready-made policy applies to the calls that match everything it names."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.policy.choosing import Choosing
from tests.policy.shop import wanted


def test_everything_that_is_named_must_fit() -> None:
    assert Choosing().chooses(wanted())
    assert Choosing(tool="refund", tag="money", rate_class="bank").chooses(wanted())
    assert not Choosing(tool="send").chooses(wanted())
    assert not Choosing(tool="refund", tag="mail").chooses(wanted())
    assert not Choosing(rate_class="smtp").chooses(wanted())
    assert not Choosing(rate_class="smtp").chooses(wanted(rate_class=None))


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(nt.errors.InvalidId):
        Choosing(tag="")
