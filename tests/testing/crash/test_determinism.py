"""Is work refused that cannot be judged, before anything is killed, and with a way out?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.testing import CrashTestRefused, NotDeterministic, crash_test
from tests.testing.crash.tools import ANSWERS, agent, drifting, mail


def test_work_that_asks_for_other_effects_every_time_is_refused() -> None:
    with pytest.raises(NotDeterministic, match=r"run twice without any crash.*nt\.uuid"):
        crash_test(drifting, tools=ANSWERS, name="drifting")


def test_an_answer_for_a_tool_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CrashTestRefused, match="Did you mean 'kit_mail'"):
        crash_test(agent, tools={**ANSWERS, "kit_mial": 1})


def test_an_effectful_tool_without_an_answer_is_refused_and_does_not_run() -> None:
    with pytest.raises(CrashTestRefused, match=r"'kit_mail'.*function was not run"):
        crash_test(agent, tools={"kit_pay": {"ok": True}})


def test_an_answer_that_the_tool_could_not_return_is_refused() -> None:
    with pytest.raises(CrashTestRefused, match="not what the tool returns"):
        crash_test(agent, tools={**ANSWERS, "kit_pay": 3})


def test_a_question_without_an_answer_is_refused() -> None:
    def work() -> Any:
        with nt.run("asks", store="agent.db"):
            return nt.ask("How many?", returns=int)

    with pytest.raises(CrashTestRefused, match=r"answers=\{'How many\?'"):
        crash_test(work)
    assert crash_test(work, answers={"How many?": 3}, effects=False).failures == ()


def test_work_that_waits_forever_is_refused() -> None:
    def work() -> Any:
        with nt.run("waits", store="agent.db"):
            return nt.receive("parcel", label="parcel")

    with pytest.raises(CrashTestRefused, match="waits for what will never arrive"):
        crash_test(work)


def test_a_ledger_in_memory_is_refused() -> None:
    def work() -> None:
        with nt.Ledger(":memory:").run("gone"):
            mail(to="ann")

    with pytest.raises(CrashTestRefused, match="lost with its process"):
        crash_test(work, tools={"kit_mail": "mailed"})
