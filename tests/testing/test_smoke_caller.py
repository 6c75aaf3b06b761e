"""A caller makes single attempts in a separate process, reports them, and can be killed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.testing.smoke_caller import (
    Caller,
    CallerFailed,
    TrialOrder,
    TrialReport,
    key_of,
    serve,
)

READY = "import sys, time; print('{\"ready\": 1}', flush=True)"


@nt.tool("idempotent_with_key", key="pay-{order}", window="24h", name="smoke pay")
def pay(order: str, cents: int = 1) -> dict[str, Any]:
    if cents < 0:
        raise nt.Retryable("busy")
    call = nt.current_call()
    return {"key": call.key, "id": call.id, "run": call.run_id, "random": nt.random()}


@nt.tool("idempotent_with_key", key=nt.key_per_call, window="24h", name="smoke pay later")
async def pay_later(order: str) -> str:
    return str(nt.current_call().key)


def served(tool: Any, *orders: TrialOrder) -> list[dict[str, Any]]:
    lines = "".join(
        json.dumps({"run_id": one.run_id, "arguments": one.arguments, "key": one.key}) + "\n"
        for one in orders
    )
    answers = io.StringIO()
    serve(tool, orders=io.StringIO(lines), answers=answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()][1:]


def test_the_key_of_a_call_is_known_without_calling() -> None:
    assert key_of(pay, "r", {"order": "7"}) == "pay-7"
    assert key_of(pay_later, "r", {"order": "7"}) == key_of(pay_later, "r", {"order": "7"})
    assert key_of(pay_later, "r", {"order": "7"}) != key_of(pay_later, "s", {"order": "7"})


def test_an_attempt_has_the_key_that_was_ordered_and_is_made_every_time() -> None:
    order = TrialOrder("r", {"order": "7"}, "another key")
    calling, first, _, second = served(pay, order, order)
    assert calling == {"calling": True}
    assert "'key': 'another key'" in first["returned"]
    assert "'run': 'r'" in first["returned"]
    assert first["returned"] != second["returned"]


def test_an_attempt_that_raises_is_told_and_not_repeated() -> None:
    told = served(pay, TrialOrder("r", {"order": "7", "cents": -1}, "k"))
    assert told == [{"calling": True}, {"raised": "Retryable: busy"}]
    (wrong,) = served(pay, TrialOrder("r", {"orders": "7"}, "k"))
    assert wrong["raised"].startswith("InvalidArguments: ")


def test_an_async_tool_is_awaited() -> None:
    assert served(pay_later, TrialOrder("r", {"order": "7"}, "k"))[1] == {"returned": "'k'"}


ORDER = TrialOrder("r", {}, "k")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit(7)", "exit code 7"),
        (f"{READY}; input(); sys.exit(7)", "exit code 7"),
        (f"{READY}; input(); time.sleep(60)", "said nothing for 0.2 s"),
        (f"{READY}; input(); print('[', flush=True); time.sleep(60)", "sent no valid answer"),
        (f'{READY}; input(); print(\'{{"raised": "No: such"}}\')', "could not be called: No: such"),
    ],
)
def test_a_caller_that_does_not_answer_is_reported(program: str, said: str) -> None:
    with pytest.raises(CallerFailed, match=said):
        started(program, lambda caller: caller.call(ORDER))


def test_a_caller_that_is_killed_tells_what_it_had_told() -> None:
    called = "print('{\"calling\": true}', flush=True)"
    returned = 'print(\'{"returned": "7"}\', flush=True)'
    hangs = f"{READY}; input(); {called}; time.sleep(60)"
    ends = f"{READY}; input(); {called}; {returned}; time.sleep(60)"

    def kill(caller: Caller) -> TrialReport | None:
        caller.begin(ORDER)
        told = caller.kill()
        assert not caller.is_alive
        return told

    assert started(hangs, kill) is None

    def end_and_kill(caller: Caller) -> TrialReport | None:
        caller.begin(ORDER)
        assert caller.end().returned == "7"
        return caller.kill()

    assert started(ends, end_and_kill) is None
    assert str(TrialReport(returned="7")) == "returned 7"
    assert str(TrialReport(raised="E: no")) == "raised E: no"


def started(program: str, work: Callable[[Caller], Any]) -> Any:
    caller = Caller([sys.executable, "-I", "-S", "-c", program], limit_seconds=0.2)
    try:
        return work(caller)
    finally:
        caller.close()
