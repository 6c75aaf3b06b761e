"""Is a protected tool for LangChain what the bare tool is, on the first call and from its receipt?
(P264)"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command, Send
from pydantic import BaseModel

import nottwice as nt
from nottwice.adapters import REPEAT
from nottwice.errors import ReplayUnsafeError, UsageError
from nottwice.langchain import protect
from tests.langchain.inside.places import place_for


class Order(BaseModel):
    number: int


RESULTS: dict[str, Any] = {
    "text": "charged",
    "empty": "",
    "dict": {"charged": 7, "to": "Žofie"},
    "list": [1, 2, {"a": None}],
    "number": 7,
    "none": None,
    "tuple": (1, "two"),
    "numbered": {2: "two", None: "none", 1.5: "half", False: "no"},
    "blocks": [{"type": "text", "text": "charged"}],
    "decimal": Decimal("7.50"),
    "model": Order(number=7),
    "message": lambda id: ToolMessage("charged", tool_call_id=id, artifact={"raw": 1}),
    "command": lambda id: Command(
        update={"messages": [HumanMessage("hi", id="h"), ToolMessage("charged", tool_call_id=id)]},
        goto=["next", Send("other", {"n": 1})],
    ),
    "several": lambda id: [
        ToolMessage("charged", tool_call_id=id),
        Command(update={"total": 7}, graph=Command.PARENT),
    ],
}


def use(made: Any, id: str, **arguments: Any) -> Any:
    """Use a tool as ToolNode does."""
    call = {"type": "tool_call", "id": id, "name": made.name, "args": arguments}
    return made.invoke(call, {"configurable": {"thread_id": "ticket-7"}})


def texts(output: Any) -> list[Any]:
    """All that reaches the conversation, in order: texts, ids of calls, and artifacts."""
    if isinstance(output, ToolMessage):
        return [output.content, output.tool_call_id, output.artifact, output.status, output.name]
    if isinstance(output, list):
        return [texts(one) for one in output]
    if isinstance(output, Command):
        update = {
            name: texts(one) if name == "messages" else one for name, one in output.update.items()
        }
        return [update, output.goto, output.graph]
    return [type(output).__name__, output.content]


@pytest.mark.parametrize("kind", RESULTS)
def test_a_receipt_answers_as_the_tool_did_with_the_new_id(tmp_path: Path, kind: str) -> None:
    result, made = RESULTS[kind], []

    @tool
    def charge(cents: int, id: Annotated[str, InjectedToolCallId]) -> Any:
        """Charge the card."""
        made.append(cents)
        return result(id) if callable(result) else result

    protected = protect(charge, place_for(tmp_path))
    first = use(protected, "call-1", cents=7)
    again = use(protected, "call-2", cents=7)
    assert made == [7]
    bare = texts(use(charge, "call-1", cents=7))
    assert texts(first) == bare, "the first call is as without nottwice"
    expected = texts(use(charge, "call-2", cents=7))
    noted = _strip_note(texts(again))
    assert noted == expected, "from the receipt it is the same, for the new call"
    assert "[nottwice] Not done again." in str(texts(again)), "and the model is told"


def _strip_note(told: Any) -> Any:
    if isinstance(told, str):
        return told.partition("\n[nottwice]")[0]
    if isinstance(told, list):
        note = "[nottwice]"
        kept = [one for one in told if not (isinstance(one, dict) and note in one.get("text", ""))]
        return [_strip_note(one) for one in kept]
    if isinstance(told, dict):
        return {name: _strip_note(one) for name, one in told.items()}
    return told


def test_the_receipt_holds_the_value_of_the_tool_itself(tmp_path: Path) -> None:
    @tool
    def charge(cents: int) -> dict[str, int]:
        """Charge the card."""
        return {"charged": cents}

    with nt.Ledger(place_for(tmp_path)) as ledger:
        use(protect(charge, ledger), "call-1", cents=7)
        (call,) = ledger.calls("ticket-7")
        assert (call.tool, call.args, call.result) == (
            "langchain/charge",
            {"cents": 7},
            {"charged": 7},
        )


def test_an_artifact_comes_back_with_its_content(tmp_path: Path) -> None:
    @tool(response_format="content_and_artifact")
    def charge(cents: int) -> tuple[str, dict[str, int]]:
        """Charge the card."""
        return "charged", {"cents": cents}

    protected = protect(charge, place_for(tmp_path))
    for id in ("call-1", "call-2"):
        message = use(protected, id, cents=7)
        assert (str(message.content).partition("\n")[0], message.artifact) == (
            "charged",
            {"cents": 7},
        )


def test_errors_that_come_as_results_are_told_and_never_become_receipts(tmp_path: Path) -> None:
    tried = []

    @tool
    def pay(cents: int, id: Annotated[str, InjectedToolCallId]) -> Any:
        """Pay a bill."""
        tried.append(cents)
        if len(tried) == 1:
            return ToolMessage("declined", tool_call_id=id, status="error")
        if len(tried) == 2:
            raise ToolException("still declined")
        if len(tried) == 3:
            raise nt.Permanent("declined finally")
        return "paid"

    pay.handle_tool_error = True
    protected = protect(pay, place_for(tmp_path))
    told = [use(protected, f"call-{n}", cents=7) for n in range(5)]
    assert [one.status for one in told] == ["error", "error", "error", "success", "success"]
    assert [str(one.content).partition("\n")[0] for one in told] == [
        "declined",
        "still declined",
        "It failed: declined finally",
        "paid",
        "paid",
    ]
    assert len(tried) == 4, "the receipt answers the fifth"


def test_the_schema_is_unchanged_but_for_declared_repeats(tmp_path: Path) -> None:
    @tool
    def charge(cents: int, note: str = "") -> str:
        """Charge the card."""
        return "charged"

    bare = convert_to_openai_tool(charge)
    place = place_for(tmp_path)
    assert convert_to_openai_tool(protect(charge, place)) == bare
    assert convert_to_openai_tool(protect([charge], place, tools={"charge": "pure"})[0]) == bare
    offered = convert_to_openai_tool(
        protect(charge, place, tools={"charge": {"replay": "unsafe_on_replay", "repeat": "free"}})
    )
    parameter = offered["function"]["parameters"]["properties"].pop(REPEAT)
    assert parameter["description"].startswith("Leave it out.")
    assert offered == bare


def test_an_argument_at_its_default_or_unknown_to_the_tool_makes_no_other_call(
    tmp_path: Path,
) -> None:
    made = []

    @tool
    def charge(cents: int, currency: str = "EUR") -> str:
        """Charge the card."""
        made.append((cents, currency))
        return "charged"

    protected = protect(charge, place_for(tmp_path))
    use(protected, "call-1", cents=7)
    use(protected, "call-2", cents=7, currency="EUR")
    use(protected, "call-3", cents=7, colour="red")
    use(protected, "call-4", cents=7, currency="CZK")
    assert made == [(7, "EUR"), (7, "CZK")]


def test_wrong_arguments_are_told_as_before_and_leave_no_trace(tmp_path: Path) -> None:
    from langgraph.prebuilt import ToolNode

    @tool
    def charge(cents: int) -> str:
        """Charge the card."""
        raise AssertionError("it must not run")

    with nt.Ledger(place_for(tmp_path)) as ledger:
        protected = protect(charge, ledger)
        with pytest.raises(Exception, match="validation error"):
            use(protected, "call-1", cents="many")
        assert ToolNode([protected]).tools_by_name["charge"] is protected
        assert list(ledger.runs()) == []


def test_a_tool_of_nt_keeps_its_own_words(tmp_path: Path) -> None:
    sent = []

    @nt.tool("unsafe_on_replay", once_per=("order",))
    def refund(order: int, reason: str) -> dict[str, int]:
        """Give the money back."""
        sent.append(order)
        return {"refunded": order}

    made = tool(refund)
    place = place_for(tmp_path)
    protected = protect(made, place)
    use(protected, "call-1", order=7, reason="broken")
    again = use(protected, "call-2", order=7, reason="it was broken")
    assert sent == [7]
    assert str(again.content).startswith('{"refunded": 7}\n[nottwice] Not done again.')
    with pytest.raises(UsageError, match="keeps its own class"):
        protect(made, place, tools={"refund": "pure"})


def test_what_cannot_be_protected_is_refused(tmp_path: Path) -> None:
    from langgraph.graph import START, MessagesState, StateGraph

    graph: Any = StateGraph(MessagesState)
    graph.add_node("nothing", lambda state: {})
    graph.add_edge(START, "nothing")
    place = place_for(tmp_path)
    with pytest.raises(UsageError, match="NottwiceMiddleware"):
        protect(graph.compile(), place)

    @tool
    def charge(cents: int) -> str:
        """Charge the card."""
        return "charged"

    with pytest.raises(UsageError, match=r"no tool 'chrage'.*charge"):
        protect([charge], place, tools={"chrage": "pure"})
    once = protect(charge, place)
    assert protect(once, place) is once


def test_a_call_outside_of_a_graph_belongs_to_the_run_around_it_or_to_none(tmp_path: Path) -> None:
    made = []

    @tool
    def charge(cents: int) -> dict[str, int]:
        """Charge the card."""
        made.append(cents)
        if cents == 13:
            raise ConnectionError("it broke")
        return {"charged": cents}

    place = place_for(tmp_path)
    protected = protect(charge, place)
    with pytest.raises(UsageError, match=r"thread_id.*run=.*nt\.run"):
        protected.invoke({"cents": 7})
    with nt.run("ticket-8", store=place):
        # A program asked, so it gets the value, and no note.
        assert [protected.invoke({"cents": 7}) for _ in range(2)] == [{"charged": 7}] * 2
    named = protect(charge, place, run="ticket-9")
    assert named.invoke({"cents": 7}) == {"charged": 7}
    assert made == [7, 7]
    # Without a graph there is no pause: the error itself says what to do.
    with pytest.raises(ReplayUnsafeError, match="nottwice decide"):
        named.invoke({"cents": 13})
