"""What does the model see, is that bounded, and can it get at the rest?"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.context import Context, default_context, estimate_tokens, move_window, recall
from nottwice.agent.messages import Message, Role, ToolCall, ToolResult, said
from nottwice.agent.provider import ModelReply, ModelRequest
from nottwice.agent.providers.scripted import ScriptedProvider
from nottwice.agent.state import RunState, first_state
from tests.agent.workshop import Workshop


def conversation(turns: int, size: int = 300) -> dict[str, Any]:
    """A state after this many turns, each with one effect."""
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
        assert first["role"] == "assistant", "it begins with the answer to a call that is not shown"
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
    text = recall(state, 0, 3, most_characters=10_000)
    assert text.splitlines()[0] == "[0] assistant: called send(number=1)"
    assert text.splitlines()[1].startswith("[1] user: result: xxx")
    assert "[4]" not in text
    assert "and later: ask for fewer" in recall(state, 0, 99, most_characters=1_000)
    assert recall(state, 500, 600, most_characters=1_000) == "There are messages 0 to 99."


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


# What the user said is not forgotten


def shown(context: Context) -> str:
    return "\n".join(
        block.content if isinstance(block, ToolResult) else getattr(block, "text", "")
        for message in context.messages
        for block in message.blocks
    )


def random_state(chance: random.Random) -> dict[str, Any]:
    """A conversation of turns, remarks of the harness, and messages of a user."""
    plain = first_state({"goal": "write letters"})
    for number in range(chance.randrange(1, 40)):
        if chance.random() < 0.3 or number == 0:
            plain["heard"].append(len(plain["transcript"]))
            words = f"USER {number} " + "w" * chance.choice((0, 30, 400))
            plain["transcript"].append(said(words).to_plain())
        call = ToolCall(f"c{number}", "send", {"number": number})
        results = [ToolResult(f"c{number}", "x" * chance.choice((1, 300, 5_000)))]
        plain["transcript"].append(Message(Role.ASSISTANT, (call,)).to_plain())
        plain["transcript"].append(Message(Role.USER, tuple(results)).to_plain())
        if chance.random() < 0.2:
            plain["transcript"].append(said("You are not done yet.").to_plain())
        most = chance.choice((1_000, 4_000, 50_000))
        if chance.random() < 0.8:
            plain = {**plain, "window": move_window(plain, most)}
    return plain


@pytest.mark.parametrize("seed", range(200))
def test_no_window_of_any_length_lacks_the_latest_message_of_the_user(seed: int) -> None:
    chance = random.Random(seed)
    plain = random_state(chance)
    newest = Message.from_plain(plain["transcript"][plain["heard"][-1]]).text
    for most in (600, 1_000, 3_000, 10_000, 100_000):
        for shrinks in range(5):
            window = move_window(plain, most >> shrinks)
            text = shown(default_context(RunState({**plain, "window": window}), ""))
            begins = newest if most >> shrinks >= 600 else newest[:7]
            assert begins in text, (most, shrinks)


def test_a_new_task_outlives_any_number_of_turns() -> None:
    task = "NEW TASK: list the orders. NEVER refund anybody."
    reads: list[Any] = [{"get_order": {"order_id": n}} for n in range(60)]
    shop = Workshop(["Refunded.", *reads, "Listed."], context_tokens=1_500)
    shop.finish(goal="Refund order 7")
    state = shop.finish(goal=None, message=task).state
    assert state.answer == "Listed."
    assert state.first_recent > 60, "the message itself is not in the window any more"
    for request in shop.world.requests[1:]:
        text = shown(Context("", request.messages))
        assert text.count(task) == 1
        assert "what the user says last is your task" in text
    assert [message.text for message in state.heard] == [task]


def test_what_the_user_said_is_pinned_up_to_a_share_and_then_summed_up_once() -> None:
    asked: list[list[str]] = []

    def summarise(messages: Any) -> str:
        asked.append([message.text for message in messages])
        return f"{len(messages)} wishes"

    reads: list[Any] = [{"get_order": {"order_id": n}} for n in range(12)]
    script = [step for n in range(6) for step in (*reads, f"answer {n}")]
    shop = Workshop(script, context_tokens=2_000, summarise=summarise)
    for n in range(6):
        shop.finish(goal=None, message=f"wish {n}: " + "please " * 60)
    last = shown(Context("", shop.world.requests[-1].messages))
    assert "wish 5: please" in last
    assert "What the user said before, summed up:" in last
    assert f"{len(asked[-1])} wishes" in last
    assert [len(texts) for texts in asked] == sorted({len(texts) for texts in asked})
    assert asked[-1][0].startswith("wish 0: ")
    sizes = [estimate_tokens([one.to_plain() for one in r.messages]) for r in shop.world.requests]
    assert max(sizes) < 2_600, "window, task and what is pinned"


def test_without_a_summary_old_wishes_are_told_in_a_line_each() -> None:
    reads: list[Any] = [{"get_order": {"order_id": n}} for n in range(12)]
    script = [step for n in range(4) for step in (*reads, f"answer {n}")]
    shop = Workshop(script, context_tokens=2_000)
    for n in range(4):
        shop.finish(goal=None, message=f"wish {n}: " + "please " * 80)
    last = shown(Context("", shop.world.requests[-1].messages))
    assert "- message 0: wish 0: please" in last
    assert "wish 3: " + "please " * 80 in last


def test_old_wishes_that_have_no_line_are_counted_and_can_be_recalled() -> None:
    shop = Workshop(["ok " + "y" * 100] * 70, context_tokens=800)
    for n in range(60):
        state = shop.finish(goal=None, message=f"RULE-{n:02} " + "w" * 60).state
    last = shown(Context("", shop.world.requests[-1].messages))
    shown_ones = [n for n in range(60) if f"RULE-{n:02}" in last]
    assert shown_ones == list(range(shown_ones[0], 60)), "the newest, without a gap"
    found = re.search(r"Not shown here: (\d+) older messages .* (\d+) to (\d+)\.", last)
    assert found is not None
    assert int(found[1]) == 60 - len(shown_ones)
    recalled = recall(state, int(found[2]), int(found[3]), most_characters=100_000)
    assert all(f"RULE-{n:02}" in recalled for n in range(shown_ones[0]))
    assert estimate_tokens(last) < 1_000


@pytest.mark.parametrize("size", [100, 5_000, 20_000])
def test_messages_that_pile_up_while_a_run_waits_are_no_dead_end(size: int, tmp_path: Path) -> None:
    @nt.tool("unsafe_on_replay", approve=True)
    def pay(n: int) -> str:
        """Pay."""
        return "paid"

    provider = Narrow([{"pay": {"n": 1}}, "All heard.", "Bye."], 60_000)
    agent = nt.Agent("q", version="1.0.0", provider=provider, tools=[pay], context_tokens=16_000)
    waiting, ledger = agent.run("r", goal="g", store=tmp_path / "a.db"), tmp_path / "a.db"
    for n in range(60):
        agent.run("r", message=f"MSG-{n:02} " + "w" * size, store=ledger)
    with nt.Reviews(ledger) as reviews:
        reviews.decide(waiting.reviews[0].review_id, "approve", by="me", why="fine")
    outcome = agent.run("r", store=ledger)
    assert (outcome.status, outcome.state.answer) == ("completed", "All heard.")
    text = shown(Context("", provider.seen[-1].messages))
    assert all(f"MSG-{n:02}" in text for n in range(60)), "each in a line at least"
    assert "MSG-59 " + "w" * size in text, "the newest is whole"
    assert agent.run("r", message="Thanks.", store=ledger).state.answer == "Bye."


def test_a_summary_that_is_no_text_is_refused() -> None:
    reads: list[Any] = [{"get_order": {"order_id": n}} for n in range(20)]
    script = [*reads, "done"] * 3
    shop = Workshop(script, context_tokens=1_000, summarise=lambda messages: None)
    with pytest.raises(nt.errors.UsageError, match="instead of a text"):
        for n in range(3):
            shop.finish(goal=None, message=f"wish {n}: " + "please " * 60)


# A turn that alone is too large


class Narrow(ScriptedProvider):
    """A model that accepts this many characters, whatever its agent believes."""

    def __init__(self, script: Any, characters: int) -> None:
        super().__init__(script, model="narrow", price=None, log=None)
        self.characters = characters
        self.seen: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        if len(shown(Context("", request.messages))) > self.characters:
            raise nt.errors.ContextTooLong("too long")
        self.seen.append(request)
        return super().complete(request)


LONG = "".join(f"line {n:05}\n" for n in range(4_000))


@nt.tool("pure", name="read_page")
def read_page(page: int) -> str:
    """Read a page."""
    return f"page {page}\n{LONG}"


@pytest.mark.parametrize("characters", [400_000, 100_000, 30_000])
def test_twelve_long_results_of_one_turn_do_not_end_a_run(characters: int, tmp_path: Path) -> None:
    pages = [{"read_page": {"page": n}} for n in range(12)]
    provider = Narrow([pages, "I have read them."], characters)
    agent = nt.Agent("reader", version="1.0.0", provider=provider, tools=[read_page])
    outcome = agent.run("r", goal="read", store=tmp_path / "a.db")
    assert outcome.state.answer == "I have read them."
    last = shown(Context("", provider.seen[-1].messages))
    assert all(f"page {n}\nline 00000" in last for n in range(12)), "each is shown in part"


def test_a_model_can_read_on_where_a_result_was_cut(tmp_path: Path) -> None:
    read: list[str] = []

    def play(request: ModelRequest) -> Any:
        content = request.messages[-1].tool_results[-1].content if request.messages[1:] else ""
        if not content:
            return [{"read_page": {"page": n}} for n in range(3)]
        found = re.search(r"first=(\d+),.* offset=(\d+)", content)
        piece = content.partition("… (cut")[0].rpartition("\n(There is more")
        read.append(piece[0] or piece[2])
        if found is None:
            return "I have read all."
        return {"recall": {"first": int(found[1]), "offset": int(found[2])}}

    agent = nt.Agent(
        "reader",
        version="1.0.0",
        provider=nt.providers.scripted(play),
        tools=[read_page],
        context_tokens=8_000,
    )
    outcome = agent.run("r", goal="read", store=tmp_path / "a.db")
    assert outcome.state.answer == "I have read all."
    assert len(read) > 3, "it was cut, and read in pieces"
    whole = re.sub(r"^\[\d+\] ", "", "".join(re.sub(r"^\[\d+\] ", "", one) for one in read))
    assert whole == f"page 2\n{LONG}"


TOO_LONG = "x y " * 300_000
SHORT = {"goal": "read", "plan": ["begin"], "done_when": ["it is read"]}
ALL_TOO_LONG = {"goal": TOO_LONG, "plan": [TOO_LONG], "done_when": [TOO_LONG]}


@pytest.mark.parametrize("long", ["goal", "plan", "done_when", "all"])
def test_what_a_run_begins_with_does_not_outgrow_the_window(long: str, tmp_path: Path) -> None:
    given: Any = {name: (ALL_TOO_LONG if long in (name, "all") else SHORT)[name] for name in SHORT}
    evidence = {"show_evidence": {"condition": 1, "evidence": "seen"}}
    provider = Narrow([evidence, "I have begun.", evidence, "And I go on."], 300_000)
    agent = nt.Agent("reader", version="1.0.0", provider=provider, context_tokens=100_000)
    assert agent.run("r", **given, store=tmp_path / "a.db").state.answer == "I have begun."
    newest = "NEW TASK: " + "stop " * 14_000
    outcome = agent.run("r", message=newest, store=tmp_path / "a.db")
    assert outcome.state.answer == "And I go on."
    last = shown(Context("", provider.seen[-1].messages))
    assert newest in last, "the newest message is whole"
    assert "Read on with recall: first=-" in last
    assert outcome.state.goal == given["goal"], "on record it is whole"


@pytest.mark.parametrize("what", ["goal", "plan", "done_when"])
def test_a_model_can_read_on_where_its_task_or_plan_was_cut(what: str, tmp_path: Path) -> None:
    text = "".join(f"line {n:05}\n" for n in range(2_000))
    read: list[str] = []

    def play(request: ModelRequest) -> Any:
        last = request.messages[-1]
        seen = last.tool_results[-1].content if last.tool_results else last.text
        found = re.search(r"first=(-?\d+),.*? offset=(\d+)", seen)
        piece = seen.partition("… (cut")[0].partition("\n(There is more")[0]
        read.append(re.sub(r"^\[-\d\] ", "", piece))
        if found is None:
            return "I have read all."
        return {"recall": {"first": int(found[1]), "offset": int(found[2])}}

    provider = nt.providers.scripted(play)
    agent = nt.Agent("reader", version="1.0.0", provider=provider, context_tokens=8_000)
    given: Any = {"goal": "read", what: text if what == "goal" else [text]}
    agent.run("r", **given, store=tmp_path / "a.db")
    assert all(text not in piece for piece in read), "it was cut, and read in pieces"
    assert text in "".join(read)


def test_short_results_stay_whole_beside_a_long_one(tmp_path: Path) -> None:
    results = (ToolResult("a", "short"), ToolResult("b", "y" * 90_000), ToolResult("c", "brief"))
    plain = first_state({"goal": "g"})
    calls = tuple(ToolCall(one, "read", {}) for one in "abc")
    plain["transcript"] = [
        Message(Role.ASSISTANT, calls).to_plain(),
        Message(Role.USER, results).to_plain(),
    ]
    plain["window"] = move_window(plain, 2_000)
    context = default_context(RunState(plain), "")
    short, long, brief = context.messages[-1].tool_results
    assert (short.content, brief.content) == ("short", "brief")
    assert "cut: it has 90,000 characters" in long.content
    assert len(long.content) < 3_200
    assert estimate_tokens([one.to_plain() for one in context.messages]) < 2_000
