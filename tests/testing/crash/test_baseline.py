"""Is the crash test ever green for work that does nothing? Then it would prove nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.testing import CrashTestRefused, LevelsUnavailable, crash_test
from nottwice.testing.crash.faults import failing, power
from tests.testing.crash.tools import ANSWERS, agent, mail, one_look


def fails() -> None:
    raise ZeroDivisionError("division by zero")


def fails_after_its_effect() -> None:
    with nt.run("ticket", store="agent.db"):
        mail(to="ann")
        raise LookupError("no such order")


def fails_in_a_node() -> Any:
    flow = nt.Graph("broken", version="1.0.0")

    @flow.node
    def tell(state: dict[str, Any]) -> None:
        mail(to="ann")

    @flow.node
    def count(state: dict[str, Any]) -> None:
        raise ZeroDivisionError("division by zero")

    return flow.run("broken", {}, store="agent.db")


def leaves() -> None:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("work", "error"),
    [
        (fails, "ZeroDivisionError: division by zero"),
        (fails_after_its_effect, "LookupError: no such order"),
        (fails_in_a_node, "ZeroDivisionError: division by zero"),
        (leaves, "SystemExit: 0"),
    ],
)
def test_work_that_raises_without_a_crash_is_refused_with_the_error_and_the_way_out(
    work: Callable[[], Any], error: str
) -> None:
    with pytest.raises(CrashTestRefused) as refused:
        crash_test(work, tools=ANSWERS, name="broken")
    text = str(refused.value)
    assert f"broken raises {error}" in text
    assert "Nothing was killed" in text
    assert f"raises={error.partition(':')[0]}" in text


@pytest.mark.parametrize("raises", [LookupError, (OSError, LookupError), Exception])
def test_work_that_is_meant_to_raise_is_killed_everywhere(raises: Any) -> None:
    verdict = crash_test(fails_after_its_effect, tools=ANSWERS, raises=raises)
    assert verdict.failures == ()
    assert verdict.examined >= 10


def test_work_that_raises_something_else_than_it_is_meant_to_is_refused() -> None:
    with pytest.raises(CrashTestRefused, match="raises LookupError: no such order"):
        crash_test(fails_after_its_effect, tools=ANSWERS, raises=KeyError)


def test_work_that_is_meant_to_raise_and_returns_is_refused() -> None:
    with pytest.raises(CrashTestRefused, match="should raise LookupError, but it returned"):
        crash_test(agent, tools=ANSWERS, raises=LookupError)


@pytest.mark.parametrize("raises", ["", 3, [ValueError]])
def test_an_expectation_that_names_no_exception_is_refused(raises: Any) -> None:
    with pytest.raises(CrashTestRefused, match=r"raises= .* Nothing was run"):
        crash_test(agent, tools=ANSWERS, raises=raises)


@pytest.mark.parametrize("effects", [True, False])
def test_work_that_nottwice_never_hears_of_is_refused(effects: bool) -> None:
    with pytest.raises(CrashTestRefused, match=r"no point .* opens no run"):
        crash_test(lambda: None, effects=effects)


def in_a_thread_of_its_own() -> None:
    with nt.run("ticket", store="agent.db"):
        other = threading.Thread(target=lambda: mail(to="ann"))
        other.start()
        other.join()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_whose_tool_is_called_in_a_foreign_thread_is_refused() -> None:
    with pytest.raises(CrashTestRefused, match=r"no effect.*copy_context"):
        crash_test(in_a_thread_of_its_own, tools=ANSWERS)


def test_work_without_an_effect_is_refused_unless_it_is_said_to_have_none() -> None:
    with pytest.raises(CrashTestRefused, match="effects=False"):
        crash_test(one_look, tools=ANSWERS)
    verdict = crash_test(one_look, tools=ANSWERS, effects=False)
    assert verdict.failures == ()
    assert verdict.examined >= 4


def test_work_that_is_said_to_have_no_effect_and_has_one_is_refused() -> None:
    with pytest.raises(CrashTestRefused, match="should have no effect"):
        crash_test(agent, tools=ANSWERS, effects=False)


def test_a_point_that_does_not_exist_is_refused() -> None:
    refused = r"without reaching the chosen point .999.*Nothing was examined"
    with pytest.raises(CrashTestRefused, match=refused):
        crash_test(agent, tools=ANSWERS, points=[(999,)])


def test_levels_that_this_machine_cannot_examine_are_no_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for place in (failing, power):
        monkeypatch.setattr(place, "why_no_tracing", lambda: "there is no strace")
    with pytest.raises(LevelsUnavailable, match=r"io: there is no strace.*Nothing was examined"):
        crash_test(agent, tools=ANSWERS, levels=["io", "power"])
    verdict = crash_test(agent, tools=ANSWERS, levels=["boundaries", "io"])
    assert verdict.examined >= 10
