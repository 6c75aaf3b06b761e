"""A process lacks a function of a run's `done_when`: is the run lost, or does it wait (P212)?"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.state import RunState
from nottwice.model.run import WaitKind
from tests.agent.workshop import Workshop
from tests.nursery import starting

MAIL = {"send_mail": {"to": "ann", "text": "hello"}}
TASK = {"goal": "close ticket 7", "done_when": ["issued()"]}


def issued(state: RunState) -> str | bool:
    return "the mail is out" if any(one.tool == "send_mail" for one in state.asked) else False


def left_to_a_worker(script: Any) -> Workshop:
    """A run that names a function, which no worker has."""
    shop = Workshop(script)
    with shop.host.process() as ledger:
        nt.App(graphs=[shop.agent], store=ledger).enqueue("triage", "ticket-7", TASK)
    return shop


def work(shop: Workshop, agent: nt.Agent | None = None) -> nt.types.WorkerStats:
    with shop.host.process() as ledger:
        app = nt.App(graphs=[agent or shop.agent], store=ledger)
        return nt.Worker(app, concurrency=1).run(until_idle=True)


def outcome_of(shop: Workshop) -> nt.Outcome[RunState]:
    with shop.host.process() as ledger:
        return shop.agent.outcome("ticket-7", store=ledger)


def test_a_worker_without_the_function_does_the_work_and_leaves_the_judging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop = left_to_a_worker([MAIL, "done"])
    with caplog.at_level(logging.WARNING, logger="nottwice"):
        assert work(shop).waiting == 1
    outcome = outcome_of(shop)
    assert (outcome.status, outcome.failure) == ("waiting", None)
    timer = next(wait for wait in outcome.waits if wait.kind is WaitKind.TIMER)
    assert timer.subject == "a process that has the function issued() of its done_when"
    assert "agent.run('ticket-7', done_when=[issued])" in caplog.text
    assert "Agent(..., done_when=[issued])" in caplog.text
    assert len(shop.world.effects) == 1
    with pytest.raises(
        nt.errors.ConditionUnknown, match=r"agent.run\('ticket-7', done_when=\[issued\]\)"
    ):
        shop.finish(goal=None)
    ended = shop.finish(goal=None, done_when=[issued])
    assert (ended.status, ended.state.answer) == ("completed", "done")
    assert ended.state.evidence == {"issued()": "the mail is out"}
    assert (len(shop.world.effects), len(shop.world.requests)) == (1, 2)


def test_a_worker_that_has_the_function_takes_the_run_up_by_itself() -> None:
    shop = left_to_a_worker([MAIL, "done"])
    assert work(shop).waiting == 1
    assert work(shop).taken == 0, "it was tried again although nothing has changed"
    shop.host.clock.advance(61)
    assert work(shop).waiting == 1
    shop.host.clock.advance(61)
    able = shop.make([MAIL, "done"], tools=shop.kept, done_when=[issued])
    assert work(shop, able).completed == 1
    assert outcome_of(shop).state.evidence == {"issued()": "the mail is out"}
    assert len(shop.world.requests) == 2


def test_a_message_is_heard_in_a_process_without_the_function() -> None:
    shop = left_to_a_worker([MAIL, "done", "Bob knows as well."])
    work(shop)
    with shop.host.process() as ledger:
        ledger.send("ticket-7", "message", "And Bob?", by="ann")
    assert work(shop).waiting == 1
    ended = shop.finish(goal=None, done_when=[issued])
    assert ended.state.answer == "Bob knows as well."
    assert [one.text for one in ended.state.heard] == ["And Bob?"]


def test_a_boss_waits_for_a_worker_whose_function_is_not_here() -> None:
    shop = Workshop([MAIL, "done"])
    helper = shop.agent
    flow = nt.Graph("boss", version="1.0.0")

    @flow.node
    def hire(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": nt.spawn(helper, TASK).state.answer}

    with shop.host.process() as ledger:
        assert flow.run("r", {}, store=ledger).status == "waiting"
    able = shop.make([MAIL, "done"], tools=shop.kept, done_when=[issued])
    helper = able
    with shop.host.process() as ledger:
        assert flow.run("r", store=ledger).state["answer"] == "done"
    assert len(shop.world.effects) == 1


@pytest.mark.parametrize("told", [{"done_when": ["issued()"]}, {"input": TASK, "goal": None}])
def test_a_run_that_names_a_function_which_is_not_there_is_not_started(told: Any) -> None:
    shop = Workshop([MAIL, "done"])
    with pytest.raises(nt.errors.ConditionUnknown, match="Nothing was started"):
        shop.finish(**told)
    assert shop.host.data.runs == {}


PROGRAM = """
import sys
import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int) -> str:
    "Refund an order."
    with open("bank", "a") as bank:
        bank.write("paid\\n")
    return "refunded"

def paid(state: nt.agent.RunState) -> bool:
    return open("bank").read() == "paid\\n"

script = [{"refund": {"order_id": 1}}, "done"]
agent = nt.Agent("a", version="1.0.0", provider=nt.providers.scripted(script), tools=[refund])
app = nt.App(graphs=[agent], store="ledger.db")
if sys.argv[1:] == ["pay"]:
    print(app.run("a", "r", done_when=[paid]).status)
"""


def test_the_command_line_leaves_the_run_as_it_is_and_names_the_function(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)

    def start(*words: str) -> subprocess.CompletedProcess[str]:
        return starting.run(words, cwd=tmp_path)

    command = (sys.executable, "-m", "nottwice")
    told = '{"goal": "pay Ann", "done_when": ["paid()"]}'
    queued = start(*command, "run", "a", "--detach", "--id", "r", "--input", told, "--app", "shop")
    assert queued.returncode == 0, queued.stderr
    worker = start(*command, "worker", "--until-idle", "--app", "shop")
    assert worker.returncode == 0, worker.stderr
    assert "done_when=[paid]" in worker.stderr
    resumed = start(*command, "run", "--id", "r", "--app", "shop")
    assert resumed.returncode == 1
    assert "paid()" in resumed.stderr
    shown = start(*command, "show", "r", "--app", "shop")
    assert "waits" in shown.stdout
    assert "paid()" in shown.stdout
    ended = start(sys.executable, "shop.py", "pay")
    assert ended.stdout == "completed\n", ended.stderr
    assert (tmp_path / "bank").read_text() == "paid\n"
