"""What did an agent say, call, get and cost? Read from the ledger alone.

Promise kept here: P214.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from nottwice.engine.upkeep.history import load_whole
from nottwice.graphs.recorded import recorded_fingerprint
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.run import RunRecord
from nottwice.model.saving.frozen import thaw
from nottwice.store.interface import Store

if TYPE_CHECKING:
    from nottwice.agent.state import RunState
else:
    # Most runs are not runs of an agent, so the room is imported for those that are (P226).
    RunState = Any


@frozen_record(frozen=True, slots=True, kw_only=True)
class AgentView:
    """The run of an agent: its task, its conversation, its cost."""

    goal: Annotated[str, "what it was to do at first"]
    done_when: Annotated[
        list[dict[str, Any]], "what must be true at the end: `condition` and `evidence`, or null"
    ]
    plan: Annotated[tuple[str, ...], "the steps that were planned"]
    cursor: Annotated[int, "how many of them are done"]
    turns: Annotated[int, "how often the model was asked"]
    answer: Annotated[str | None, "what it said when it had finished, or null"]
    value: Annotated[Any, "the answer as data, if the agent declares its type, or null"]
    spent: Annotated[
        dict[str, Any],
        "what the replies cost: `own` and `with_workers`, each with `usd`, "
        "`unanswered_usd` and so on",
    ]
    conversation: Annotated[list[Any], "everything that was said, as plain data, oldest first"]
    unanswered: Annotated[
        list[str], "what the user has said since, about which no model was asked yet"
    ]
    state: RunState
    """The same as the agent's own record, with typed messages."""


def agent_of(store: Store, run: RunRecord) -> AgentView | None:
    """The agent of a run; None if it is not a run of an agent, or was removed."""
    record = None if run.graph_id is None else store.load_graph(run.graph_id)
    if record is None or not recorded_fingerprint(record).is_agent:
        return None
    if store.checkpoints(run.workflow_id):
        return agent_view(store, run.workflow_id, load_whole(store, run.workflow_id)["state"])
    if run.input_json is None:
        return None
    return agent_view(store, run.workflow_id, values.decode_object(run.input_json))


def agent_view(store: Store, run_id: str, plain: Mapping[str, Any]) -> AgentView:
    """The state of an agent's run, with what its workers and its lost requests cost."""
    from nottwice.agent.delegating.workers import costed
    from nottwice.agent.state import RunState

    state = costed(store, run_id, RunState(plain))
    return AgentView(
        goal=state.goal,
        done_when=[
            {"condition": one, "evidence": state.evidence.get(one)} for one in state.done_when
        ],
        plan=tuple(state.plan),
        cursor=state.cursor,
        turns=state.turn,
        answer=state.answer,
        value=thaw(state.plain["value"]),
        spent={
            "own": dataclasses.asdict(state.spent.own),
            "with_workers": dataclasses.asdict(state.spent.with_workers),
        },
        conversation=[thaw(dict(message)) for message in state.plain["transcript"]],
        unanswered=_unanswered(store, run_id, state),
        state=state,
    )


def _unanswered(store: Store, run_id: str, state: RunState) -> list[str]:
    """What the user has said to a run and its state does not have, because the run waits, say."""
    from nottwice.agent.messages import described, from_payload
    from nottwice.agent.requests.hearing import MESSAGE

    known = Counter(described(message) for message in state.heard)
    found: list[str] = []
    for event in store.events(run_id, MESSAGE):
        text = described(from_payload(values.decode(event.json)))
        if known[text]:
            known[text] -= 1
        else:
            found.append(text)
    return found
