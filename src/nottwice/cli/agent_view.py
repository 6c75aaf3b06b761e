"""What did an agent say, call, get and cost? Told from the ledger, to people and to scripts.

Promise kept here: P214.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nottwice.agent.hearing import MESSAGE
from nottwice.agent.messages import Message, Role, described, from_payload
from nottwice.agent.state import Cost, RunState
from nottwice.agent.workers import costed
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
        return read_state(store, run.workflow_id, load_whole(store, run.workflow_id)["state"])
    if run.input_json is None:
        return None
    return read_state(store, run.workflow_id, values.decode_object(run.input_json))


def read_state(store: Store, run_id: str, plain: Mapping[str, Any]) -> RunState:
    """The state of an agent's run, with what its workers and its lost requests cost."""
    return costed(store, run_id, RunState(plain))


def agent_facts(state: RunState) -> list[tuple[str, object]]:
    """How far an agent came, for people: not all that was said."""
    spent = state.spent
    has_workers = spent.with_workers != spent.own
    lost = f"up to ${spent.unanswered_usd:.4f} more, for requests whose answer never came"
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
        ("spent", _cost_text(spent.with_workers)),
        ("of it own", _cost_text(spent.own) if has_workers else None),
        ("unanswered", lost if spent.with_workers.unanswered_tokens else None),
    ]


def _cost_text(cost: Cost) -> str:
    usd = f"${cost.usd:.4f}" if cost.unpriced == 0 else f"${cost.usd:.4f} and more"
    return f"{usd}, {cost.tokens:,} tokens in {cost.requests} requests"


def show_conversation(
    state: RunState, unanswered: Iterable[str] = (), *, limit: int | None, whole: str
) -> None:
    """What was said, called and answered, in the words of `nottwice run`; the last part of it.

    ``unanswered``: what the user has said to the run that its state does not know yet.
    """
    lines = list(_lines(state))
    lines += [("hear", f"{text} (no model was asked about it yet)", "bold") for text in unanswered]
    left_out = 0 if limit is None else max(0, len(lines) - limit)
    show_line("Conversation", style="bold")
    if left_out:
        show_line(f"  … and {left_out} lines before: {safe(whole)}")
    for what, text, style in lines[left_out:]:
        line = what if not text else f"  {what:<6}  {shorten(text, MOST_CHARACTERS)}"
        show_line(line, style=style)
    if not lines:
        show_line("  Nothing was said yet.")


def unanswered_messages(store: Store, run_id: str, state: RunState) -> list[str]:
    """What the user has said to a run and no model has answered, because the run waits, say."""
    known = Counter(described(message) for message in state.heard)
    found: list[str] = []
    for event in store.events(run_id, MESSAGE):
        text = described(from_payload(values.decode(event.json)))
        if known[text]:
            known[text] -= 1
        else:
            found.append(text)
    return found


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
        "spent": {
            "own": dataclasses.asdict(state.spent.own),
            "with_workers": dataclasses.asdict(state.spent.with_workers),
        },
        "conversation": [thaw(dict(message)) for message in state.plain["transcript"]],
    }
