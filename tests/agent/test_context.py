"""What does the model see, is that bounded, and can it get at the rest?"""

from __future__ import annotations

from typing import Any

from nottwice.agent.context import Context, default_context, estimate_tokens, move_window, recall
from nottwice.agent.messages import Message, Role, ToolCall, ToolResult, said
from nottwice.agent.state import RunState, first_state
from tests.agent.workshop import Workshop


def conversation(turns: int, size: int = 300) -> dict[str, Any]:
    """A state after so many turns, each with one effect."""
    plain = first_state({"goal": "write letters", "done_when": ["all are sent"]})
    for turn in range(1, turns + 1):
        call = ToolCall(f"c{turn}", "send", {"number": turn})
        result = ToolResult(f"c{turn}", "x" * size)
        plain["transcript"] += [
            Message(Role.ASSISTANT, (call,)).to_plain(),
            Message(Role.USER, (result,)).to_plain(),
        ]
        plain["asked"].append(
            {
                "receipt_id": f"r{turn}",
                "tool": "send",
                "turn": turn,
                "message": 2 * turn - 2,
                "index": 0,
                "outcome": "done",
            }
        )
        plain["turn"] = turn
    return plain


def test_what_fits_is_shown_whole() -> None:
    plain = conversation(3)
    plain["window"] = move_window(plain, 10_000)
    context = default_context(RunState(plain), "Be brief.")
    assert context.system == "Be brief."
    assert len(context.messages) == 1 + 6
    assert "write letters" in context.messages[0].text
    assert "1. all are sent" in context.messages[0].text


def test_the_window_is_bounded_and_begins_with_a_turn_of_the_model() -> None:
    plain = conversation(0)
    grown = conversation(200)
    sizes = []
    for turn in range(1, 201):
        plain = {
            **plain,
            "transcript": grown["transcript"][: 2 * turn],
            "asked": grown["asked"][:turn],
        }
        plain["window"] = move_window(plain, 2_000)
        first = plain["transcript"][plain["window"]["first"]]
        assert first["role"] == "assistant", "it begins with the answer to a call nobody sees"
        sizes.append(estimate_tokens([one.to_plain() for one in RunState(plain).recent]))
    assert max(sizes) <= 2_000
    assert plain["window"]["first"] > 300


def test_what_does_not_fit_is_compacted_to_what_was_done() -> None:
    plain = conversation(200)
    plain["window"] = move_window(plain, 2_000)
    plain["memory"] = [{"name": "letters", "where": "/letters", "turn": 3}]
    opening = default_context(RunState(plain), "").messages[0].text
    assert "turn 190: send(number=190), done" in opening
    assert "send(number=1)," not in opening
    assert "after" in opening
    assert "letters: /letters" in opening
    assert "recall" in opening


def test_the_newest_turn_is_shown_even_if_it_alone_is_too_large() -> None:
    plain = conversation(2, size=50_000)
    plain["window"] = move_window(plain, 1_000)
    assert len(RunState(plain).recent) == 2


def test_originals_can_be_recalled_in_pieces() -> None:
    state = RunState(conversation(50))
    text = recall(state, 0, 3, 10_000)
    assert text.splitlines()[0] == "[0] assistant: called send(number=1)"
    assert text.splitlines()[1].startswith("[1] user: result: xxx")
    assert "[4]" not in text
    assert "and later: ask for fewer" in recall(state, 0, 99, 1_000)
    assert recall(state, 500, 600, 1_000) == "There are messages 0 to 99."


def test_neighbours_of_one_side_are_one_message() -> None:
    plain = conversation(1)
    plain["transcript"] += [said("hurry").to_plain(), said("up").to_plain()]
    plain["plan"], plain["cursor"] = ["first", "second"], 1
    context = default_context(RunState(plain), "")
    roles = [message.role for message in context.messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.USER]
    assert context.messages[-1].tool_results, "results of tools come first"
    assert "[x] first\n[>] second" in context.messages[0].text


def test_a_conversation_longer_than_the_window_works() -> None:
    script: list[Any] = [{"get_order": {"order_id": n}} for n in range(60)]
    script.insert(50, {"recall": {"first": 0, "last": 1}})
    shop = Workshop([*script, "done"], context_tokens=2_000)
    state = shop.finish().state
    assert state.turn == 62
    assert len(state.transcript) == 123
    assert len(shop.world.requests[-1].messages) < 60
    recalled = next(
        result.content
        for message in state.transcript
        for result in message.tool_results
        if result.content.startswith("[0] ")
    )
    assert "called get_order(order_id=0)" in recalled


def test_a_user_can_replace_what_the_model_sees() -> None:
    seen: list[RunState] = []

    def mine(state: RunState) -> Context:
        seen.append(state)
        return Context("Answer in one word.", (said(f"Task: {state.goal}"),))

    shop = Workshop(["done"], context=mine)
    shop.finish()
    (request,) = shop.world.requests
    assert request.system == "Answer in one word."
    assert len(request.messages) == 1
    assert seen[0].turn == 1
