"""Is an agent a graph like any other, and is what cannot work refused before anything happens?"""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.provider import Price
from nottwice.agent.providers.scripted import scripted
from nottwice.agent.state import RunState
from nottwice.testing import forget_tools
from tests.agent.workshop import GOAL, Workshop


def test_an_agent_is_a_graph_of_an_app() -> None:
    shop = Workshop(["done"])
    with shop.host.process() as ledger:
        app = nt.App(graphs=[shop.agent], store=ledger)
        outcome = app.run("triage", "ticket-7", {"goal": GOAL})
        assert outcome.state.answer == "done"
        assert app.outcome("ticket-7") == outcome


def test_an_agent_can_be_spawned_by_a_graph() -> None:
    shop = Workshop(["It costs 40."])
    flow = nt.Graph("flow", version="1.0.0")

    @flow.node
    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": nt.spawn(shop.agent, {"goal": "look it up"}).state.answer}

    with shop.host.process() as ledger:
        assert flow.run("f", {}, store=ledger).state == {"answer": "It costs 40."}


def test_a_new_nottwice_or_a_new_prompt_needs_no_new_version() -> None:
    shop = Workshop(["done"])
    other = shop.make(["done"], tools=shop.kept, instructions="Be brief.")
    assert other.fingerprint() == shop.agent.fingerprint()


def test_a_tool_that_means_something_else_under_the_same_version_is_refused() -> None:
    """The error names the line of this file that declares the agent, not one of nottwice."""
    shop = Workshop(["done"])
    shop.finish()
    forget_tools()

    @nt.tool("pure", name="send_mail")
    def send_mail(to: str, text: str) -> str:
        return "loosened"

    provider = scripted(["done"])
    changed = nt.Agent("triage", version="1.0.0", provider=provider, tools=[send_mail])
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    with shop.host.process() as ledger:
        with pytest.raises(nt.errors.GraphChangedInPlace, match="loosened") as refused:
            changed.run("ticket-7", message="again", store=ledger)
        assert ledger.store.events("ticket-7") == []
    assert f"{__file__}:{line}" in str(refused.value)


def test_an_agent_that_is_under_way_is_migrated_without_a_map() -> None:
    shop = Workshop([{"refund": {"order_id": 7, "cents": 40}}, "done"], budget=nt.Budget(turns=1))
    assert shop.finish().status == "waiting"
    provider = scripted([{"refund": {"order_id": 7, "cents": 40}}, "done"])
    newest = nt.Agent("triage", version="2.0.0", provider=provider, tools=shop.kept)
    with shop.host.process() as ledger:
        app = nt.App(graphs=[newest], store=ledger, admins=["ann"])
        with pytest.raises(nt.errors.WorkflowVersionMismatch):
            app.run("triage", "ticket-7")
        moved = nt.versions.migrate(
            app,
            "ticket-7",
            to="triage@2.0.0",
            mapping={},
            by="ann",
            why="deployed",
            restart_steps=True,
        )
        assert moved.nodes == (("reason", "reason"),)
        assert app.run("triage", "ticket-7").state.answer == "done"
    assert shop.world.effects == [("refund", 7, 40)]


def test_a_budget_in_dollars_needs_a_price() -> None:
    with pytest.raises(nt.errors.UsageError, match="price of 'scripted-1' is not known"):
        Workshop(["done"], price=None, budget=nt.Budget(usd=1))
    Workshop(["done"], price=Price(0, 0), budget=nt.Budget(usd=1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"provider": "claude"},
        {"budget": 3},
        {"context_tokens": 0},
        {"most_output_tokens": "many"},
        {"checkpoints": "often"},
        {"done_when": [lambda state: True]},
        {"done_when": "text"},
        {"done_when": [" "]},
        {"time_limit": "soon"},
        {"options": {"max_tokens": 100_000}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_cannot_work_is_refused_when_it_is_declared(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"version": "1.0.0", "provider": scripted(["done"]), **wrong}
    with pytest.raises(nt.errors.UsageError):
        nt.Agent("a", **given)


@pytest.mark.parametrize(
    "said",
    [
        {"goal": 7},
        {"goal": GOAL, "done_when": "paid"},
        {"goal": GOAL, "plan": "pay"},
        {"goal": None, "done_when": ["paid"]},
        {"goal": GOAL, "input": {"goal": GOAL}},
    ],
    ids=str,
)
def test_what_is_no_task_is_refused_before_anything_happens(said: dict[str, Any]) -> None:
    shop = Workshop(["done"])
    with pytest.raises(nt.errors.UsageError):
        shop.finish(**said)
    assert shop.host.data.runs == {}


def test_two_checks_of_one_name_are_refused() -> None:
    def first() -> Any:
        def paid(state: RunState) -> bool:
            return True

        return paid

    def second() -> Any:
        def paid(state: RunState) -> bool:
            return False

        return paid

    async def later(state: RunState) -> bool:
        return True

    shop = Workshop(["done"])
    with pytest.raises(nt.errors.UsageError, match="Two functions 'paid'"):
        shop.finish(done_when=[first(), second()])
    with pytest.raises(nt.errors.UsageError, match="is async"):
        shop.finish(done_when=[later])


def test_a_check_that_the_next_process_does_not_know_is_not_left_to_the_model() -> None:
    claim = {"show_evidence": {"condition": 1, "evidence": "believe me"}}
    shop = Workshop([claim, "done", "still done"], budget=nt.Budget(turns=2))
    answers = [False, False, True]

    def paid(state: RunState) -> bool:
        return answers.pop(0)

    assert shop.finish(done_when=[paid]).status == "waiting"
    shop.agent = shop.make([claim, "done", "still done"], tools=shop.kept)
    with pytest.raises(nt.errors.ConditionUnknown, match="this process does not have"):
        shop.finish(goal=None)
    shop.agent = shop.make([claim, "done", "still done"], tools=shop.kept, done_when=[paid])
    answers[:] = [True]
    outcome = shop.finish(goal=None)
    assert outcome.status == "completed"
    assert outcome.state.evidence == {"paid()": "the check passed"}


def test_functions_passed_to_two_runs_at_once_are_told_apart() -> None:
    shop = Workshop(lambda request: "done")
    asked: list[str] = []

    def check(run_id: str) -> Any:
        def fine(state: RunState) -> bool:
            asked.append(f"{run_id} {state.goal}")
            return True

        return fine

    def start(run_id: str) -> None:
        shop.agent.run(run_id, goal=run_id, done_when=[check(run_id)], store=ledger)

    with shop.host.process() as ledger, ThreadPoolExecutor(4) as pool:
        list(pool.map(start, "abcd"))
    assert sorted(asked) == ["a a", "b b", "c c", "d d"]


def test_a_version_that_is_not_deployed_resumes_nothing() -> None:
    shop = Workshop(["done"], budget=nt.Budget(tokens=1))
    assert shop.finish().status == "waiting"
    provider = scripted(["done"])
    other = nt.Agent("triage", version="2.0.0", provider=provider, tools=shop.kept)
    with shop.host.process() as ledger, pytest.raises(nt.errors.WorkflowVersionMismatch):
        other.run("ticket-7", message="hello", store=ledger)
    with shop.host.process() as ledger:
        assert ledger.store.events("ticket-7") == []


# What an agent is done when


def paid(state: RunState) -> str | None:
    refunds = [one for one in state.asked if one.tool == "refund" and one.outcome == "done"]
    return f"receipt {refunds[0].receipt_id}" if refunds else None


REFUND = {"refund": {"order_id": 7, "cents": 40}}
CLAIM = {"show_evidence": {"condition": 1, "evidence": "believe me"}}


def test_what_an_agent_is_done_when_holds_in_every_run() -> None:
    """However the run is started: by its line, by the app, as a worker's task, by a message."""
    for how in ("run", "app", "worker", "spawned", "message"):
        shop = Workshop(["It is paid.", REFUND, "Now it is."], done_when=[paid])
        with shop.host.process() as ledger:
            app = nt.App(graphs=[shop.agent], store=ledger)
            if how == "run":
                shop.agent.run("ticket-7", goal=GOAL, store=ledger)
            elif how == "message":
                shop.agent.run("ticket-7", message=GOAL, store=ledger)
            elif how == "app":
                app.run("triage", "ticket-7", {"goal": GOAL})
            elif how == "worker":
                app.enqueue("triage", "ticket-7", {"goal": GOAL})
                nt.Worker(app).run(until_idle=True)
            else:
                script = scripted([{"triage": {"goal": GOAL}}, "done"])
                boss = nt.Agent("boss", version="1.0.0", provider=script, tools=[shop.agent])
                boss.run("b", goal="have it paid", store=ledger)
            run_id = next(one.id for one in ledger.runs() if one.id != "b")
            state = shop.agent.outcome(run_id, store=ledger).state
        assert state.answer == "Now it is.", how
        assert state.evidence["paid()"].startswith("receipt "), how
        assert shop.world.effects == [("refund", 7, 40)], how


def test_a_run_adds_to_the_conditions_of_its_agent_and_takes_none_away() -> None:
    shop = Workshop(
        [CLAIM, REFUND, "done"], done_when=[paid, "all is quiet"], budget=nt.Budget(turns=3)
    )
    outcome = shop.finish(done_when=["the customer is happy"])
    assert outcome.state.done_when == ("the customer is happy", "paid()", "all is quiet")
    assert outcome.status == "waiting", "one of them has no evidence"

    def lenient() -> Any:
        def paid(state: RunState) -> bool:
            return True

        return paid

    with pytest.raises(nt.errors.UsageError, match="another function of that name in done_when"):
        shop.agent.run("ticket-8", goal=GOAL, done_when=[lenient()], store=":memory:")


def test_a_condition_that_is_deployed_while_a_run_is_open_holds_for_it() -> None:
    shop = Workshop(["done"], budget=nt.Budget(tokens=1))
    assert shop.finish().status == "waiting"
    script = ["It is paid.", REFUND, "Now it is."]
    shop.agent = shop.make(script, tools=shop.kept, done_when=[paid])
    outcome = shop.finish()
    assert outcome.state.evidence["paid()"].startswith("receipt ")
    assert shop.world.effects == [("refund", 7, 40)]


def test_the_model_of_a_boss_reads_what_its_workers_are_for() -> None:
    shop = Workshop(["done"], name="clerk", description="Refunds orders below 100 euros.")
    seen: list[str] = []

    def boss_says(request: Any) -> str:
        seen.extend(tool.description for tool in request.tools if tool.name == "clerk")
        return "done"

    boss = nt.Agent("boss", version="1.0.0", provider=scripted(boss_says), tools=[shop.agent])
    with shop.host.process() as ledger:
        boss.run("b", goal=GOAL, store=ledger)
    (description,) = seen
    assert description.startswith("Refunds orders below 100 euros.")
    assert "Hands a task to clerk" in description
    with pytest.raises(nt.errors.UsageError, match="is not a text"):
        nt.Agent("a", version="1.0.0", provider=scripted(["x"]), description=7)  # type: ignore[arg-type]
