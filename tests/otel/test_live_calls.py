"""Does a span that a framework has made for a call get the attributes, and no second one? (P345)"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import nottwice as nt
from tests.otel.telemetry import Telemetry, attributes, tree


@nt.tool("unsafe_on_replay", name="live_mail")
def mail(to: str) -> str:
    return f"mailed {to}"


@nt.tool("unsafe_on_replay", name="live_outer")
def outer(to: str, deep: bool = False) -> str:
    return outer(f"{to} again") if deep else to


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("execute_tool live_mail", {}),
        ("execute_tool live_mail", {"gen_ai.operation.name": "execute_tool"}),
        ("running tool", {"gen_ai.tool.name": "live_mail"}),
    ],
)
def test_a_span_of_the_framework_gets_the_attributes(
    name: str, said: dict[str, Any], ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    for _ in range(2):
        with ledger.run("r"):
            with telemetry.tracer.start_as_current_span(name, attributes=said):
                mail("ann")
    live, replayed = telemetry.spans(name)
    assert (attributes(live)["nottwice.replayed"], attributes(live)["nottwice.outcome"]) == (
        False,
        "done",
    )
    assert attributes(live)["nottwice.attempt"] == 1
    assert attributes(replayed)["nottwice.replayed"]
    assert attributes(replayed)["nottwice.duplicate_prevented"]
    assert [one.name for one in replayed.events] == ["nottwice.receipt"]
    assert len(telemetry.spans()) == 4


def test_a_span_about_something_else_is_the_parent(ledger: nt.Ledger, telemetry: Telemetry) -> None:
    with ledger.run("r"):
        with telemetry.tracer.start_as_current_span("execute_tool other"):
            mail("ann")
    assert ("execute_tool live_mail", "execute_tool other") in tree(telemetry.spans())
    assert "nottwice.call_id" not in attributes(telemetry.span("execute_tool other"))


def test_a_tool_that_calls_itself_has_two_spans(ledger: nt.Ledger, telemetry: Telemetry) -> None:
    with ledger.run("r"):
        outer("ann", deep=True)
    assert tree(telemetry.spans("execute_tool live_outer")) == [
        ("execute_tool live_outer", "?"),
        ("execute_tool live_outer", "execute_tool live_outer"),
    ]


def test_the_same_holds_in_an_event_loop(ledger: nt.Ledger, telemetry: Telemetry) -> None:
    @nt.tool("unsafe_on_replay", name="live_amail")
    async def amail(to: str) -> str:
        await asyncio.sleep(0)
        return to

    async def one(to: str) -> str:
        with telemetry.tracer.start_as_current_span("execute_tool live_amail"):
            return await amail(to)

    async def main() -> None:
        async with ledger.run("r"):
            await nt.gather(one("ann"), one("bob"))

    asyncio.run(main())
    spans = telemetry.spans("execute_tool live_amail")
    assert len(spans) == 2
    assert len({attributes(one)["nottwice.call_id"] for one in spans}) == 2


def test_an_outcome_that_cannot_be_recorded_ends_the_span(
    ledger: nt.Ledger, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    @nt.tool("unsafe_on_replay", name="live_lost")
    def lost() -> str:
        def refuse(commit: Any) -> None:
            raise nt.errors.StoreError("the disk is full")

        monkeypatch.setattr(ledger.store, "commit", refuse)
        return "sent"

    with pytest.raises(nt.errors.StoreError), ledger.run("r"):
        try:
            lost()
        finally:
            monkeypatch.undo()
    said = attributes(telemetry.span("execute_tool live_lost"))
    assert said["nottwice.outcome"] == "not recorded"
