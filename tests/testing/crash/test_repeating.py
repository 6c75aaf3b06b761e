"""Does a crash test judge what a crash repeats? Work that is lost is paid for twice (P160)."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine import events
from nottwice.engine.calls import dispatch
from nottwice.testing import CrashTestRefused, crash_test
from nottwice.testing.crash.inside.child import ChildErrand
from nottwice.testing.crash.inside.link import make_link
from nottwice.testing.crash.repeating import MODEL, CallsOver
from nottwice.testing.crash.scenario import Scenario
from nottwice.testing.crash.stage import Child, Stage
from nottwice.testing.crash.upstream import CountingUpstream
from tests.store.abilities import may_skip_tracing
from tests.testing.crash.tools import ANSWERS, mail, pay

TURNS = 20
FEW = 5
# Loaded here once, and not by every process that a crash test forks.
Agent, scripted = nt.Agent, nt.providers.scripted


@nt.tool("pure", volatile="*", name="kit_ask_model")
def ask_model(prompt: str) -> str:
    return f"answer to {prompt}"


@nt.tool("pure", name="kit_search")
def search(words: str) -> str:
    return f"found {words}"


def asks(tool: Callable[..., Any], turns: int = FEW) -> Callable[[], str]:
    def work() -> str:
        with nt.run("ticket", store="agent.db"):
            for turn in range(turns):
                with nt.step("turn", at=turn):
                    tool(f"turn {turn}")
            return mail(to="ann")

    return work


def in_a_graph(checkpoints: Any) -> Callable[[], Any]:
    def work() -> Any:
        flow: nt.Graph[Any] = nt.Graph("asking", version="1.0.0", checkpoints=checkpoints)

        @flow.node
        def ask(state: dict[str, Any]) -> None:
            for turn in range(FEW):
                ask_model(f"turn {turn}")

        @flow.node
        def tell(state: dict[str, Any]) -> None:
            mail(to="ann")

        return flow.run("ticket", {}, store="agent.db")

    return work


def side_by_side() -> str:
    with nt.run("ticket", store="agent.db"):
        nt.map(lambda turn: ask_model(f"turn {turn}"), range(3))
        return mail(to="ann")


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """As nottwice was: the reply of a model waits for the next commit, like any pure result."""
    whole = dispatch._Dispatch._run_pure

    def run_pure(self: Any) -> Any:
        session = self.session
        commit = session.commit
        session.commit = lambda **changes: commit(**changes) if changes else ()
        try:
            return (yield from whole(self))
        finally:
            del session.commit

    monkeypatch.setattr(dispatch._Dispatch, "_run_pure", run_pure)


@pytest.mark.parametrize(
    "work",
    [asks(ask_model), in_a_graph("effects"), in_a_graph("on_exit")],
    ids=["run", "graph", "on_exit"],
)
def test_model_calls_before_a_mail_repeat_at_most_one(work: Callable[[], Any]) -> None:
    verdict = crash_test(work, tools=ANSWERS, at_most_repeated=1)
    assert verdict.failures == ()
    assert verdict.repeated == 1


def test_twenty_model_calls_that_a_kill_repeats_fail_the_crash_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgetful(monkeypatch)
    verdict = crash_test(asks(ask_model, TURNS), tools=ANSWERS)
    assert verdict.repeated == TURNS
    found = {one.invariant for failure in verdict.failures for one in failure.violations}
    assert found == {"little is done again"}
    assert f"{TURNS} calls were repeated (kit_ask_model ×{TURNS}), but at most 1 may be" in (
        "\n".join(verdict.lines())
    )


@pytest.mark.deep(part="sweeps")
def test_pure_results_that_wait_for_a_commit_are_told_and_judged_on_request() -> None:
    verdict = crash_test(asks(search), tools=ANSWERS)
    assert verdict.failures == ()
    assert (verdict.repeated, verdict.repeated_waiting) == (0, FEW)
    told = f"{FEW} of pure tools whose results waited for a commit"
    assert told in "\n".join(verdict.lines())
    assert crash_test(asks(search), tools=ANSWERS, at_most_repeated=FEW).failures == ()
    judged = crash_test(asks(search), tools=ANSWERS, at_most_repeated=FEW - 1)
    assert "kit_search ×5" in judged.failures[0].violations[0].text


def test_calls_side_by_side_are_all_under_way() -> None:
    verdict = crash_test(side_by_side, tools=ANSWERS)
    assert verdict.failures == ()
    assert verdict.repeated <= 3


def test_a_second_kill_may_repeat_another_call() -> None:
    verdict = crash_test(
        asks(ask_model), tools=ANSWERS, levels=["double"], budget="3s", at_most_repeated=1
    )
    assert verdict.failures == ()


def test_an_effect_that_is_sent_again_with_its_key_counts() -> None:
    def pays() -> Any:
        with nt.run("ticket", store="agent.db"):
            return pay(order=7)

    assert crash_test(pays, tools=ANSWERS).repeated == 1
    judged = crash_test(pays, tools=ANSWERS, at_most_repeated=0)
    assert {one.where for one in judged.failures} == {
        "after the effect of kit_pay",
        "before recording the receipt of kit_pay",
    }


@nt.tool("unsafe_on_replay", name="kit_comment")
def comment(step: int) -> str:
    raise AssertionError("A crash test runs no effectful tool.")


def agent_of(turns: int, *, alike: bool) -> Callable[[], Any]:
    """An agent that comments turn by turn; ``alike``: its model says the same at every turn."""

    def reply(request: Any) -> Any:
        if request.turn > turns:
            return "done"
        return {"kit_comment": {"step": 1 if alike else request.turn}}

    def work() -> Any:
        agent = Agent(
            "commenting",
            version="1.0.0",
            provider=scripted(reply),
            tools=[comment],
        )
        return agent.run("night", goal="comment", store="agent.db").status

    return work


# That the model says the same at every turn is the harder case.
@pytest.mark.parametrize(
    "alike",
    [pytest.param(False, marks=pytest.mark.deep(part="sweeps")), True],
    ids=["different", "alike"],
)
def test_the_model_calls_of_an_agent_are_counted_each_by_its_identity(alike: bool) -> None:
    """Each turn asks the model once: none is a repetition of another, and a kill repeats one."""
    verdict = crash_test(
        agent_of(2, alike=alike),
        tools={"kit_comment": "noted"},
        budget=None,
        at_most_repeated=0,
    )
    assert verdict.repeated == 1
    texts = [one.text for failure in verdict.failures for one in failure.violations]
    assert texts
    wanted = "1 calls were repeated (nottwice.model ×1), but at most 0 may be"
    assert set(texts) == {wanted}


FAULTS: dict[str, dict[str, Any]] = {
    # From this write on every write fails; from this step on nothing that was not synced is kept.
    # Between the first question to the model and the mail there are several of each.
    "io": {"points": [(1, 2, number) for number in range(120, 210, 3)]},
    "power": {"points": [(number, 1, 1) for number in range(100, 260, 8)]},
    "takeover": {"budget": "20s"},
}


@pytest.mark.parametrize("level", FAULTS)
def test_a_fault_of_another_level_repeats_at_most_one_model_call(level: str) -> None:
    needs_strace(level)
    verdict = crash_test(
        asks(ask_model), tools=ANSWERS, levels=[level], at_most_repeated=1, **FAULTS[level]
    )
    assert verdict.failures == (), "\n".join(verdict.lines())
    assert verdict.examined > 0


@pytest.mark.parametrize("level", FAULTS)
def test_what_a_fault_of_another_level_repeats_too_often_is_found(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_strace(level)
    forgetful(monkeypatch)
    verdict = crash_test(
        asks(ask_model), tools=ANSWERS, levels=[level], at_most_repeated=1, **FAULTS[level]
    )
    found = {one.invariant for failure in verdict.failures for one in failure.violations}
    assert found == {"little is done again"}, "\n".join(verdict.lines())


def needs_strace(level: str) -> None:
    if level != "takeover" and may_skip_tracing() and shutil.which("strace") is None:
        pytest.skip("strace is not installed")


@pytest.mark.parametrize("given", [-1, "1", 0.5, True])
def test_a_tolerance_that_is_no_number_of_calls_is_refused(given: Any) -> None:
    with pytest.raises(CrashTestRefused, match=r"at_most_repeated= .* Nothing was run"):
        crash_test(asks(search), tools=ANSWERS, at_most_repeated=given)


def test_an_effect_that_is_sent_again_lets_no_other_work_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reissue has ended before the next one, so one call is in progress at a time."""
    monkeypatch.chdir(tmp_path)

    @nt.tool("pure", durable=True)
    def repeating_think(again: bool) -> str:
        return "thought"

    @nt.tool("idempotent_with_key", key="order-{order}", window="24h")
    def repeating_pay(order: int) -> str:
        return "paid"

    def work() -> None:
        with nt.Ledger("agent.db") as ledger:
            again = next(iter(ledger.runs()), None) is not None
            with ledger.run("r"):
                repeating_think(again)
                repeating_pay(7)

    verdict = crash_test(work, tools={"repeating_pay": "paid"})
    said = {
        one.text for each in verdict.failures for one in each.violations if one.promise == "P160"
    }
    assert any("2 calls were repeated" in text for text in said)


def test_a_call_is_in_progress_until_its_result_is_durable_or_it_is_over() -> None:
    """Two workers of an agent may be killed together, before either has recorded its reply."""
    upstream = CountingUpstream()
    ours, theirs = make_link()
    stage = Stage(Scenario(work=lambda: None))
    child = Child(0, ChildErrand(folder=Path()), upstream, ours, give_up_at=math.inf)

    def hear(subject: str, **facts: Any) -> int:
        stage._hear(child, {"tell": subject, **facts})
        return upstream.widest

    def invoking(call_id: str) -> int:
        return hear("invoking", call_id=call_id, tool=MODEL, kept=True)

    def write(number: int, *done: str) -> None:
        hear("writing", number=number, run="r", epoch=1, done=done)
        hear("wrote", number=number)

    assert invoking("reply of one") == 1
    write(1)  # something else of the same run
    assert invoking("reply of another") == 2
    write(2, "reply of one")
    assert invoking("next") == 2
    hear("over", call_id="next")
    assert invoking("after that") == 2
    ours.close()
    theirs.close()


def test_a_models_request_is_over_with_the_next_call_in_its_run() -> None:
    parent, child = make_link()
    over = CallsOver(child)

    def heard(event: events.Event) -> list[str]:
        over(event)
        child.tell("heard")
        return [one["call_id"] for one in parent.read() or () if one["tell"] == "over"]

    def ended(call_id: str, *, tool: str = MODEL, outcome: Any = "done") -> events.Event:
        return events.AttemptEnded(
            ledger="agent.db",
            run_id="r",
            step="",
            tool=tool,
            call_id=call_id,
            attempt=1,
            replay_class="pure",
            outcome=outcome,
            seconds=0.0,
        )

    assert heard(ended("first")) == []
    # The agent reads it again, and the commit before it is told late, by another thread.
    assert heard(ended("first")) == []
    assert heard(events.CommitEnded(ledger="agent.db", run_id="r", seconds=0.0)) == []
    assert heard(ended("second")) == ["first"]
    assert heard(ended("search", tool="kit_search")) == ["second", "search"]
    assert heard(ended("failed", outcome="failed")) == ["failed"]
    parent.close()
    child.close()
