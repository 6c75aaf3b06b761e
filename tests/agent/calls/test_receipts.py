"""Can a model read all of a result that is longer than what the transcript keeps (P232)?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.calls.receipts import page
from nottwice.agent.messages import ToolResult
from nottwice.agent.provider import ModelRequest
from nottwice.testing import forget_tools

BY_RECEIPT = re.compile(r"recall: receipt='(\w+)', offset=(\d+)\)$")
BY_NUMBER = re.compile(r"first=(\d+),.* offset=(\d+)\.?\)$")
MORE = re.compile(r"\n\(There is more: recall with receipt='(\w+)', offset=(\d+)\.\)$")
LONG = "".join(f"line {number:06d}\n" for number in range(12_000))


class Reader:
    """A model that asks for a long result, and reads on for as long as there is more."""

    def __init__(self) -> None:
        self.read = ""
        self.ways: set[str] = set()

    def __call__(self, request: ModelRequest) -> Any:
        if request.turn == 1:
            return {"dump": {}}
        (result,) = request.messages[-1].tool_results
        content = re.sub(r"^\[\d+\] ", "", result.content)
        for pattern in (MORE, BY_RECEIPT, BY_NUMBER):
            found = pattern.search(content)
            if found is None:
                continue
            self.read += re.split(r"… \(cut: |\n\(There is more", content)[0]
            place = {"offset": int(found[2])}
            self.ways.add("number" if pattern is BY_NUMBER else "receipt")
            if pattern is BY_NUMBER:
                return {"recall": {"first": int(found[1]), **place}}
            return {"recall": {"receipt": found[1], **place}}
        self.read += content
        return "I have read it."


def agent(model: Any, *tools: Any, **options: Any) -> nt.Agent:
    provider = nt.providers.scripted(model)
    budget = nt.Budget(turns=100)
    return nt.Agent("a", version="1.0.0", provider=provider, tools=tools, budget=budget, **options)


@pytest.mark.parametrize("kind", ["pure", "unsafe_on_replay"])
@pytest.mark.parametrize("value", [LONG, {"rows": LONG.splitlines()}])
@pytest.mark.parametrize("window", [200_000, 20_000])
def test_a_model_can_page_through_all_of_a_long_result(
    kind: Any, value: Any, window: int, tmp_path: Path
) -> None:
    forget_tools()

    @nt.tool(kind, name="dump")
    def dump() -> Any:
        """Read all of it."""
        return value

    reader = Reader()
    outcome = agent(reader, dump, context_tokens=window).run(
        "r", goal="g", store=tmp_path / "ledger.db"
    )
    assert outcome.state.answer == "I have read it."
    assert (reader.read if isinstance(value, str) else json.loads(reader.read)) == value
    assert reader.ways == ({"receipt"} if window == 200_000 else {"number", "receipt"})


def test_the_whole_result_can_be_read_after_a_deploy_without_its_tool(tmp_path: Path) -> None:
    forget_tools()

    @nt.tool("unsafe_on_replay", name="dump")
    def dump() -> str:
        """Read all of it."""
        return LONG

    store = tmp_path / "ledger.db"
    first = agent([{"dump": {}}, "done"], dump).run("r", goal="g", store=store)
    (result,) = first.state.transcript[1].tool_results
    assert isinstance(result, ToolResult)
    assert result.receipt_id is not None
    ask = {"recall": {"receipt": result.receipt_id[:12], "offset": len(LONG) - 12}}
    later = agent([{"dump": {}}, "done", ask, "read"]).run("r", message="And?", store=store)
    assert later.state.transcript[-2].tool_results[0].content == LONG[-12:]


def test_what_is_no_receipt_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    forget_tools()

    @nt.tool("pure", name="look")
    def look() -> str:
        """Look."""
        return "seen"

    script = [{"look": {}}, {"recall": {"receipt": "feedbeef"}}, {"recall": {"receipt": 7}}, "done"]
    outcome = agent(script, look).run("r", goal="g", store=tmp_path / "ledger.db")
    for number in (3, 5):
        (result,) = outcome.state.transcript[number].tool_results
        assert result.is_error
        assert "no receipt of that id" in result.content
        assert "look()" in result.content


def test_a_page_behind_the_end_says_how_long_the_result_is() -> None:
    assert page({"abcdef": "x" * 10}, "abcdef", 10, 100) == (
        "Receipt abcdef has 10 characters. There is nothing from 10 on."
    )
