"""What did an agent say, call and get? Told from the ledger, to people and to scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nottwice.agent.messages import Message, Role
from nottwice.agent.state import RunState
from nottwice.cli.output import safe, shorten, show_line
from nottwice.engine.history import load_whole
from nottwice.graphs.recorded import recorded_fingerprint
from nottwice.model import values
from nottwice.model.frozen import thaw
from nottwice.model.run import RunRecord
from nottwice.store.interface import Store

MOST_CHARACTERS = 400
MOST_ANSWER_CHARACTERS = 2000


def agent_state(store: Store, run: RunRecord) -> RunState | None:
    """How far an agent came; None if this is not a run of one, or if it was removed."""
    record = None if run.graph_id is None else store.load_graph(run.graph_id)
    if record is None or not recorded_fingerprint(record).is_agent:
        return None
    if store.checkpoints(run.workflow_id):
        return RunState(load_whole(store, run.workflow_id)["state"])
    return None if run.input_json is None else RunState(values.decode_object(run.input_json))


def agent_facts(state: RunState) -> list[tuple[str, object]]:
    """How far an agent came, for people: not all that was said."""
    spent = state.spent
    cost = f"${spent.usd:.4f}, " if spent.unpriced == 0 else f"${spent.usd:.4f} and more, "
    steps = [
        f"[{'x' if number < state.cursor else ' '}] {step}"
        for number, step in enumerate(state.plan)
    ]
    return [
        ("goal", shorten(state.goal, MOST_CHARACTERS) or None),
        ("answer", None if state.answer is None else shorten(state.answer, MOST_ANSWER_CHARACTERS)),
        ("plan", " ".join(steps) or None),
        *(
            ("done when", shorten(f"{name}: {state.evidence.get(name, 'no evidence yet')}"))
            for name in state.done_when
        ),
        ("turns", state.turn),
        ("spent", f"{cost}{spent.tokens:,} tokens in {spent.requests} requests"),
    ]


def show_conversation(state: RunState, *, limit: int | None, whole: str) -> None:
    """What was said, called and answered, in the words of `nottwice run`; the last part of it."""
    lines = list(_lines(state))
    left_out = 0 if limit is None else max(0, len(lines) - limit)
    show_line("Conversation", style="bold")
    if left_out:
        show_line(f"  … and {left_out} lines before: {safe(whole)}")
    for what, text, style in lines[left_out:]:
        line = what if not text else f"  {what:<6}  {shorten(text, MOST_CHARACTERS)}"
        show_line(line, style=style)
    if not lines:
        show_line("  Nothing was said yet.")


def _lines(state: RunState) -> Iterator[tuple[str, str, str | None]]:
    """One line for each thing that was said: what it is, its words, its colour."""
    heard = {*state.plain["heard"]}
    turn = 0
    for number, message in enumerate(state.transcript):
        if message.role is Role.ASSISTANT:
            turn += 1
            yield f"turn {turn}", "", "bold"
            yield from _said_by_model(message)
            continue
        for result in message.tool_results:
            yield "result", result.content or "(nothing)", "red" if result.is_error else "green"
        if message.text:
            yield "hear" if number in heard else "remark", message.text, "bold"


def _said_by_model(message: Message) -> Iterator[tuple[str, str, str | None]]:
    yield "reason", message.text or "(no words)", None
    for call in message.tool_calls:
        arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        yield "call", f"{call.name}({arguments})", "cyan"


def agent_document(state: RunState | None) -> dict[str, Any] | None:
    """The same for scripts, whole; None: it is not a run of an agent."""
    if state is None:
        return None
    return {
        "goal": state.goal,
        "done_when": [
            {"condition": one, "evidence": state.evidence.get(one)} for one in state.done_when
        ],
        "plan": list(state.plan),
        "cursor": state.cursor,
        "turns": state.turn,
        "answer": state.answer,
        "value": thaw(state.plain["value"]),
        "spent": thaw(dict(state.plain["spent"])),
        "conversation": [thaw(dict(message)) for message in state.plain["transcript"]],
    }
