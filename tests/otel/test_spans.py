"""Is there a span for each opening, step and live call, linked across processes? (P340)"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

import nottwice as nt
from nottwice.agent.providers.scripted import scripted
from nottwice.engine import ownership
from tests.otel.telemetry import Telemetry, attributes, tree

_heard: list[str] = []


@nt.tool("unsafe_on_replay", name="span_mail")
def mail(to: str) -> str:
    _heard.append(trace.get_current_span().get_span_context().span_id.__format__("016x"))
    return f"mailed {to}"


@nt.tool("unsafe_on_replay", name="span_amail")
async def amail(to: str) -> str:
    await asyncio.sleep(0)
    return f"mailed {to}"


@nt.tool("pure", name="span_look")
def look(to: str) -> str:
    return to


def work(ledger: nt.Ledger) -> None:
    with ledger.run("r"), nt.step("tell"):
        look("ann")
        mail("ann")


def test_an_opening_holds_its_steps_and_a_step_its_calls(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    work(ledger)
    assert tree(telemetry.spans()) == [
        ("execute_tool span_look", "step tell"),
        ("execute_tool span_mail", "step tell"),
        ("nottwice.run", None),
        ("step tell", "nottwice.run"),
    ]
    said = attributes(telemetry.span("execute_tool span_mail"))
    call_id = said.pop("nottwice.call_id")
    assert len(call_id) == 32
    assert said == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "span_mail",
        "gen_ai.tool.type": "function",
        "nottwice.run_id": "r",
        "nottwice.step": "tell",
        "nottwice.attempt": 1,
        "nottwice.replay_class": "unsafe_on_replay",
        "nottwice.replayed": False,
        "nottwice.outcome": "done",
    }
    opening = attributes(telemetry.span("nottwice.run"))
    assert (opening["nottwice.run.status"], opening["nottwice.opening"]) == ("completed", 1)
    # After the run, the code around it is in no span.
    assert not trace.get_current_span().get_span_context().is_valid


def test_the_body_of_a_tool_runs_inside_of_its_span(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    _heard.clear()
    work(ledger)
    context = telemetry.span("execute_tool span_mail").context
    assert context is not None
    assert _heard == [f"{context.span_id:016x}"]


def test_a_resumed_run_links_to_the_opening_before_and_its_receipts_are_events(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    work(ledger)
    work(ledger)
    first, second = telemetry.spans("nottwice.run")
    assert first.context is not None
    assert [(one.context.span_id, dict(one.attributes or {})) for one in second.links] == [
        (first.context.span_id, {"nottwice.link": "the opening before"})
    ]
    assert second.context is not None
    assert second.context.trace_id != first.context.trace_id
    assert len(telemetry.spans("execute_tool span_mail")) == 1
    step = telemetry.spans("step tell")[1]
    assert attributes(step)["nottwice.resumed"]
    events = [(one.name, dict(one.attributes or {})) for one in step.events]
    assert [(name, said["gen_ai.tool.name"]) for name, said in events] == [
        ("nottwice.receipt", "span_look"),
        ("nottwice.receipt", "span_mail"),
    ]
    # A pure result is no duplicate effect.
    assert [said["nottwice.duplicate_prevented"] for _, said in events] == [False, True]
    recorded = ledger.run_record("r").openings
    assert recorded is not None
    assert [one.trace_id for one in recorded] == [
        f"{one.context.trace_id:032x}" for one in (first, second) if one.context is not None
    ]


def test_an_opening_belongs_to_the_trace_of_the_code_that_opens_it(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    with telemetry.tracer.start_as_current_span("request"):
        work(ledger)
        assert trace.get_current_span().get_span_context().is_valid
    assert ("nottwice.run", "request") in tree(telemetry.spans())


def test_an_async_run_and_its_branches_have_the_same_spans(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    async def main() -> None:
        async with ledger.run("r"):
            async with nt.step("tell"):
                await nt.gather(amail("ann"), amail("bob"))
        assert not trace.get_current_span().get_span_context().is_valid

    asyncio.run(main())
    assert tree(telemetry.spans()) == [
        ("execute_tool span_amail", "step tell"),
        ("execute_tool span_amail", "step tell"),
        ("nottwice.run", None),
        ("step tell", "nottwice.run"),
    ]


def test_threads_and_time_limits_keep_the_parent(ledger: nt.Ledger, telemetry: Telemetry) -> None:
    @nt.tool("unsafe_on_replay", name="span_limited", time_limit="30s")
    def limited(number: int) -> int:
        with telemetry.tracer.start_as_current_span("inside"):
            return number

    with ledger.run("r"):
        assert nt.map(limited, [1, 2, 3], name="many") == [1, 2, 3]
    named = tree(telemetry.spans())
    assert named.count(("execute_tool span_limited", "step many")) == 3
    assert named.count(("inside", "execute_tool span_limited")) == 3


def test_many_runs_in_many_threads_are_not_mixed_up(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    def one(number: int) -> None:
        for _ in range(5):
            with ledger.run(f"r{number}"), nt.step("tell"):
                mail(f"{number}")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    by_id = {one.context.span_id: one for one in telemetry.spans() if one.context is not None}
    calls = telemetry.spans("execute_tool span_mail")
    assert len(calls) == 4
    for call in calls:
        assert call.parent is not None
        step = by_id[call.parent.span_id]
        assert attributes(step)["nottwice.run_id"] == attributes(call)["nottwice.run_id"]
    assert len(telemetry.spans("nottwice.run")) == 20


def test_every_attempt_has_a_span_and_a_failed_one_tells_only_the_class_of_its_error(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    errors = [nt.Retryable("card QZX is busy"), None]

    @nt.tool("unsafe_on_replay", name="span_retried", retry=nt.RetryPolicy(3, first_seconds=0.001))
    def retried() -> str:
        error = errors.pop(0)
        if error is not None:
            raise error
        return "done"

    with ledger.run("r"):
        retried()
    first, second = telemetry.spans("execute_tool span_retried")
    assert [attributes(one)["nottwice.attempt"] for one in (first, second)] == [1, 2]
    assert attributes(first)["error.type"] == "nottwice.errors.Retryable"
    assert (first.status.is_ok, second.status.is_ok) == (False, True)
    assert "QZX" not in first.to_json()


def test_a_failed_run_and_a_waiting_step_say_so(ledger: nt.Ledger, telemetry: Telemetry) -> None:
    with pytest.raises(KeyError), ledger.run("r"), nt.step("s"):
        raise KeyError("secret QZX")
    with pytest.raises(nt.RunWaits), ledger.run("q"), nt.step("w"):
        nt.receive("paid")
    failed, waiting = telemetry.spans("nottwice.run")
    assert attributes(failed)["nottwice.run.status"] == "failed"
    assert attributes(failed)["error.type"] == "KeyError"
    assert not failed.status.is_ok
    assert attributes(waiting)["nottwice.run.status"] == "waiting"
    assert waiting.status.is_ok
    assert attributes(telemetry.span("step s"))["nottwice.outcome"] == "failed"
    assert attributes(telemetry.span("step w"))["nottwice.outcome"] == "waiting"
    assert all("QZX" not in one.to_json() for one in telemetry.spans())


def test_the_sender_of_an_event_is_linked(ledger: nt.Ledger, telemetry: Telemetry) -> None:
    with pytest.raises(nt.RunWaits), ledger.run("r"), nt.step("s"):
        nt.receive("paid")
    with telemetry.tracer.start_as_current_span("webhook") as sender:
        ledger.send("r", "paid", 7)
    with ledger.run("r"), nt.step("s"):
        assert nt.receive("paid") == 7
    links = telemetry.spans("step s")[1].links
    assert [one.context.span_id for one in links] == [sender.get_span_context().span_id]


def test_what_enqueued_a_run_is_the_parent_of_its_first_opening(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    flow = nt.Graph("flow", version="1.0.0")

    @flow.node
    def only(state: dict[str, Any]) -> None:
        mail(f"{state['to']}")

    with nt.Ledger(tmp_path / "agent.db") as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        with telemetry.tracer.start_as_current_span("request") as request:
            app.enqueue("flow", "r", {"to": "ann"})
        telemetry.instrument(ledger)
        nt.Worker(app, concurrency=1).run(until_idle=True)
    assert tree(telemetry.spans()) == [
        ("execute_tool span_mail", "step only"),
        ("invoke_workflow flow", "request"),
        ("request", None),
        ("step only", "invoke_workflow flow"),
    ]
    opening = telemetry.span("invoke_workflow flow")
    assert opening.context is not None
    assert opening.context.trace_id == request.get_span_context().trace_id
    said = attributes(opening)
    assert (said["gen_ai.workflow.name"], said["nottwice.graph"]) == ("flow", "flow@1.0.0")


def test_an_agent_is_a_chat_of_its_model(ledger: nt.Ledger, telemetry: Telemetry) -> None:
    agent = nt.Agent("triage", version="1.0.0", provider=scripted(["Nothing to do."]))
    agent.run("r", goal="Close it", store=ledger)
    named = tree(telemetry.spans())
    (chat,) = [one for one in telemetry.spans() if one.name.startswith("chat ")]
    assert ("invoke_agent triage", None) in named
    said = attributes(chat)
    assert said["gen_ai.operation.name"] == "chat"
    assert chat.name == f"chat {said['gen_ai.request.model']}"
    assert said["gen_ai.usage.output_tokens"] >= 0
    assert "Nothing" not in chat.to_json()


def test_an_opening_that_another_process_took_over_ends(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        telemetry.instrument(ledger)
        run = ledger.run("r").__enter__()
        session = run._bound_session()
        ownership.let_go(session)
        run._left(session)
    assert attributes(telemetry.span("nottwice.run"))["nottwice.run.status"] == "lost"


def test_nothing_is_told_to_a_tracer_that_was_stopped(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    with ledger.run("r"), nt.step("tell"):
        mail("ann")
    many = len(telemetry.spans())
    telemetry.close()
    work(ledger)
    assert len(telemetry.spans()) == many
