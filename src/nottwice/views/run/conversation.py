"""What was said in the run of an agent, turn by turn, and what did each turn cost?

Promise kept here: P358.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from nottwice.guard.ledger import Ledger
from nottwice.model.call import CallRow
from nottwice.model.data.records import frozen_record
from nottwice.store.interface import Store
from nottwice.views.run.agent import AgentView
from nottwice.views.shape import Timestamp

if TYPE_CHECKING:
    from nottwice.agent.messages import Message
    from nottwice.agent.state import RunState

PAGE = 500


@frozen_record(frozen=True, slots=True, kw_only=True)
class SaidView:
    """One thing that was said, called or answered."""

    kind: Annotated[str, "reason, call, result, hear (a user) or remark (the harness)"]
    text: Annotated[str, "what was said"]
    is_error: Annotated[bool, "whether it is the result of a call that failed"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class TurnView:
    """One request to the model, with what was said until the next one."""

    number: Annotated[int, "which turn it is, from 1 on; 0: what was said before the first"]
    model: Annotated[str, "the model that answered, or an empty text"]
    began_at: Annotated[Timestamp | None, "when it was first asked, or null if not on record"]
    seconds: Annotated[float | None, "how long the answer took, or null"]
    attempts: Annotated[int, "how often it was asked"]
    input_tokens: Annotated[int, "the tokens that it read, without those from a cache"]
    output_tokens: Annotated[int, "the tokens that it wrote"]
    cached_tokens: Annotated[int, "the tokens that it read from a cache or wrote to one"]
    usd: Annotated[float | None, "what the answer cost; null if the price is not known"]
    said: Annotated[tuple[SaidView, ...], "what was said in it, in order; see said"]

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cached_tokens


def turns_of(ledger: Ledger, run_id: str, agent: AgentView) -> tuple[TurnView, ...]:
    """The conversation of an agent's run by turns, each with its cost."""
    answers = list(_answers(ledger.store, run_id))
    said: list[list[SaidView]] = [[]]
    for kind, text, is_error in said_lines(agent.state):
        if kind == "turn":
            said.append([])
        else:
            said[-1].append(SaidView(kind=kind, text=text, is_error=is_error))
    for text in agent.unanswered:
        said[-1].append(SaidView(kind="hear", text=text, is_error=False))
    found = [_turn(number, None, lines) for number, lines in enumerate(said)]
    # An answer that is on record and not in the state yet is of a turn that has just begun.
    for number, row in enumerate(answers, start=1):
        lines = said[number] if number < len(said) else []
        turn = _turn(number, row, lines)
        found[number : number + 1] = [turn]
    return tuple(turn for turn in found if turn.number or turn.said)


def said_lines(state: RunState) -> Iterator[tuple[str, str, bool]]:
    """What was said, in order: what it is, its text, and whether it is an error."""
    from nottwice.agent.messages import Role

    heard = {*state.plain["heard"]}
    turn = 0
    for number, message in enumerate(state.transcript):
        if message.role is Role.ASSISTANT:
            turn += 1
            yield "turn", str(turn), False
            yield from _said_by_model(message)
            continue
        for result in message.tool_results:
            yield "result", result.content or "(nothing)", result.is_error
        if message.text:
            yield "hear" if number in heard else "remark", message.text, False


def _said_by_model(message: Message) -> Iterator[tuple[str, str, bool]]:
    yield "reason", message.text or "(no words)", False
    for call in message.tool_calls:
        arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        yield "call", f"{call.name}({arguments})", False


def _answers(store: Store, run_id: str) -> Iterator[CallRow]:
    """The answers of the model that are on record, oldest first."""
    from nottwice.agent.requests.asking import MODEL

    found: list[CallRow] = []
    page = store.last_calls(run_id, limit=PAGE)
    while page:
        found[:0] = [row for row in page if row.identity.tool_name == MODEL and row.result]
        if len(page) < PAGE:
            break
        page = store.last_calls(run_id, limit=PAGE, before=page[0].identity)
    return iter(found)


def _turn(number: int, row: CallRow | None, said: list[SaidView]) -> TurnView:
    answer = _decoded(row)
    reply = answer.get("reply") or {}
    usage = reply.get("usage") or {}
    ended = None if row is None else row.finished_at
    return TurnView(
        number=number,
        model=str(reply.get("model") or ""),
        began_at=None if row is None else Timestamp(row.created_at),
        seconds=None if row is None or ended is None else max(0.0, ended - row.started_at),
        attempts=0 if row is None else row.attempt,
        input_tokens=int(usage.get("input_tokens", 0)),
        output_tokens=int(usage.get("output_tokens", 0)),
        cached_tokens=int(usage.get("cache_read_tokens", 0))
        + int(usage.get("cache_write_tokens", 0)),
        usd=answer.get("usd"),
        said=tuple(said),
    )


def _decoded(row: CallRow | None) -> dict[str, Any]:
    """The answer on record; empty if it was not kept, or is not one of ours."""
    if row is None or row.result is None:
        return {}
    try:
        found = json.loads(row.result.json)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
