"""Is what the world answers checked before anything runs, and does it answer as told?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.testing import Asking, CrashTestRefused, FailsFirst, Late, Lost
from nottwice.testing.crash.scenario import Scenario


def asking(earlier: int = 0) -> Asking:
    return Asking("kit_mail", {"to": "ann"}, None, "c1", 1, earlier)


def scenario(answer: Any) -> Scenario:
    return Scenario(work=lambda: None, tools={"kit_mail": answer})


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(CrashTestRefused, match="Nothing was run"):
        Scenario(work="handle")  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [object(), Lost({1, 2}), Late(object())])
def test_an_answer_that_is_not_plain_data_is_refused(answer: Any) -> None:
    with pytest.raises(CrashTestRefused, match="plain data"):
        scenario(answer)


def test_a_function_gets_the_arguments_and_if_it_wants_more_what_is_asked() -> None:
    assert scenario("sent").answer(asking()) == "sent"
    assert scenario(lambda: "none").answer(asking()) == "none"
    assert scenario(lambda args: args["to"]).answer(asking()) == "ann"
    assert scenario(lambda args, asked: asked.attempt).answer(asking()) == 1


def test_the_first_attempts_of_a_call_fail_as_often_as_said() -> None:
    flaky = scenario(FailsFirst(nt.Retryable("busy"), "done", times=2))
    with pytest.raises(nt.Retryable):
        flaky.answer(asking(earlier=1))
    assert flaky.answer(asking(earlier=2)) == "done"
