"""Do spans show nothing of a call that was not asked for, and never a secret? (P344)"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import nottwice as nt
from tests.otel.telemetry import Telemetry, attributes

KEY = bytes(range(32))


@nt.tool("idempotent_with_key", name="content_pay", key="pay-{order}", window="24h")
def pay(order: str, card: Annotated[str, nt.Secret]) -> str:
    return f"receipt {order}"


def spans_of(tmp_path: Path, telemetry: Telemetry, *content: str) -> str:
    with nt.Ledger(tmp_path / "agent.db", key=KEY) as ledger:
        telemetry.instrument(ledger, content=content)
        with ledger.run("r"):
            pay(order="QZX", card="JKV 1234")
    return "".join(one.to_json() for one in telemetry.spans())


def test_without_being_asked_for_nothing_of_a_call_is_shown(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    shown = spans_of(tmp_path, telemetry)
    assert "execute_tool content_pay" in shown
    assert not any(word in shown for word in ("QZX", "receipt QZX", "pay-QZX", "JKV"))


def test_what_was_asked_for_is_shown_and_no_secret(tmp_path: Path, telemetry: Telemetry) -> None:
    shown = spans_of(tmp_path, telemetry, "arguments", "results", "keys")
    said = attributes(telemetry.span("execute_tool content_pay"))
    assert '"order":"QZX"' in said["gen_ai.tool.call.arguments"]
    assert said["gen_ai.tool.call.result"] == '"receipt QZX"'
    assert said["nottwice.key"] == "pay-QZX"
    assert "JKV" not in shown


def test_the_message_of_an_error_is_shown_only_if_asked_for(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    @nt.tool("pure", name="content_fails")
    def fails() -> str:
        raise nt.Permanent("no such card QZX")

    telemetry.close()
    other = Telemetry()
    other.instrument(ledger, content=["errors"])
    try:
        with ledger.run("r"):
            fails()
    except nt.ToolFailure:
        pass
    (span,) = other.spans("execute_tool content_fails")
    other.close()
    assert "no such card QZX" in str(span.status.description)
