"""Can an observer see what an agent does?"""

from __future__ import annotations

import logging

import pytest

from nottwice.agent import telling
from nottwice.agent.telling import Told
from tests.agent.workshop import Workshop


def test_everything_that_a_person_wants_to_see_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="nottwice")
    shop = Workshop([["Let me look.", {"get_order": {"order_id": 7}}, {"nope": {}}], "done"])
    shop.finish()
    found = [getattr(record, "said", None) for record in caplog.records]
    told = [one for one in found if isinstance(one, Told)]
    assert [(one.decision, one.text[:20]) for one in told] == [
        (telling.TURN, ""),
        (telling.REPLIED, "Let me look."),
        (telling.CALLED, "get_order(order_id=7"),
        (telling.CALLED, "nope()"),
        (telling.RESULT, '{"order_id":7,"cents'),
        (telling.RESULT, "There is no tool 'no"),
        (telling.TURN, ""),
        (telling.REPLIED, "done"),
        (telling.FINISHED, "done"),
    ]
    assert told[1].tokens > 0
    assert told[1].usd is not None
    assert [one.is_error for one in told[4:6]] == [False, True]


def test_no_text_is_built_without_a_listener(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="nottwice")
    Workshop(["done"]).finish()
    assert caplog.records == []
