"""What a model asked for is done: each call once, in parallel, each result durable by itself (L5).

What the model did wrong (a tool that is not there, arguments that do not fit) and what failed
without effect is told to it. What may or may not have happened never is: that makes the run wait
for a person, because a model that sees an error tries again. A task handed to another agent is a
child run, spawned once. Promises kept here: P71, P73.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from nottwice.agent import own_tools
from nottwice.agent.messages import Message, Role, ToolCall, ToolResult
from nottwice.agent.own_tools import OWN_TOOLS, BadArguments, Changes
from nottwice.agent.state import RunState
from nottwice.agent.toolbox import Offered, Toolbox, Wanted, own_branch, result_text, run_wide
from nottwice.engine import steps, stops
from nottwice.engine.asks import Doing, Together
from nottwice.engine.asks import Outcome as Invoked
from nottwice.engine.dispatch import Receipt, perform
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.session import Scope, current_scope
from nottwice.errors import (
    InvalidArguments,
    InvalidId,
    InvalidKey,
    KeyConflict,
    NotPlainData,
    Retryable,
    ToolFailure,
)
from nottwice.graphs.children import child_identity, may_be_resumed, spawning
from nottwice.graphs.outcome import Outcome
from nottwice.guard.declare import call_async
from nottwice.model.call import CallIdentity
from nottwice.model.records import frozen_record

MOST_RESULT_CHARACTERS = 50_000
_TOLD = (ToolFailure, InvalidArguments, InvalidKey, KeyConflict, NotPlainData, InvalidId)
"""What a model is told: nothing took effect, or the effect is on record."""


@frozen_record(frozen=True, slots=True)
class Act:
    """One tool call of a reply on its way."""

    index: int
    call: ToolCall
    scope: Scope
    told: str | None = None
    """What the model is told without anything being called."""
    wrong: bool = False
    offered: Offered | None = None
    wanted: Wanted | None = None
    receipt_id: str | None = None
    earlier: Mapping[str, Any] | None = None


@frozen_record(frozen=True, slots=True)
class Acted:
    """What came of the tool calls of one reply."""

    message: Message
    asked: list[dict[str, Any]]


def act(scope: Scope, toolbox: Toolbox, state: RunState, calls: Sequence[ToolCall]) -> Acted:
    """Do what one reply asks for, in threads if it is more than one thing."""
    acts = _prepare(scope, toolbox, state, calls)
    doings = tuple(_doing(one) for one in acts if one.told is None)
    if len(doings) == 1:
        ended = [_ended(doings[0], scope)]
    else:
        ended = drive(_together(doings), scope.session) if doings else []
    return _finish(state, acts, ended)


async def act_async(
    scope: Scope, toolbox: Toolbox, state: RunState, calls: Sequence[ToolCall]
) -> Acted:
    """The same without blocking the event loop; async tools run in it."""
    acts = _prepare(scope, toolbox, state, calls)
    tasks = [
        asyncio.get_running_loop().create_task(_do_async(one)) for one in acts if one.told is None
    ]
    if tasks:
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
    return _finish(state, acts, [_ended_task(task) for task in tasks])


def _ended_task(task: asyncio.Task[Any]) -> Invoked:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    return Invoked(error=error) if error is not None else Invoked(value=task.result(), invoked=True)


def _together(doings: tuple[Doing[Any], ...]) -> Doing[list[Invoked]]:
    ended: list[Invoked] = yield Together(doings)
    return ended


def _ended(doing: Doing[Any], scope: Scope) -> Invoked:
    token = current_scope.set(current_scope.get())
    try:
        return Invoked(value=drive(doing, scope.session), invoked=True)
    except Exception as error:
        return Invoked(error=error)
    finally:
        current_scope.reset(token)


def _doing(one: Act) -> Doing[Receipt[Any] | Outcome[Any]]:
    # Calls that the tool's body makes belong to this branch of the beat.
    current_scope.set(one.scope)
    if one.wanted is not None:
        return (yield from perform(one.wanted.request, None))
    return (yield from _spawning(one))


def _spawning(one: Act) -> Doing[Outcome[Any]]:
    assert one.offered is not None
    assert one.offered.worker is not None
    return (
        yield from spawning(
            _place_of(one.scope, one.offered, one.call),
            one.offered.worker,
            {"goal": one.call.arguments["goal"]},
            None,
            check=False,
            # What else the reply asks for does not depend on it, so a resume may find it well.
            keeps_outage=False,
        )
    )


async def _do_async(one: Act) -> Receipt[Any] | Outcome[Any]:
    current_scope.set(one.scope)
    if one.wanted is not None:
        return await call_async(one.wanted.request)
    return await drive_async(_spawning(one), one.scope.session)


# Before


def _prepare(
    scope: Scope, toolbox: Toolbox, state: RunState, calls: Sequence[ToolCall]
) -> list[Act]:
    changes, asked = Changes.of(state), state.plain["asked"]
    acts: list[Act] = []
    for index, call in enumerate(calls):
        one = Act(index, call, steps.branch(scope, index))
        try:
            acts.append(_prepared(one, toolbox, state, changes, asked))
        except (BadArguments, *_TOLD) as error:
            text = error.message if isinstance(error, _TOLD) else str(error)
            acts.append(_answered(one, text, wrong=True))
    return acts


def _prepared(
    one: Act,
    toolbox: Toolbox,
    state: RunState,
    changes: Changes,
    asked: Sequence[Mapping[str, Any]],
) -> Act:
    call = one.call
    if call.unreadable is not None:
        raise BadArguments("Your arguments are no JSON object. Nothing was called. Write them so.")
    if call.name in OWN_TOOLS:
        return _answered(one, own_tools.answer(state, changes, call))
    offered = toolbox.offered.get(call.name)
    if offered is None:
        known = ", ".join([*toolbox.offered, *OWN_TOOLS])
        raise BadArguments(f"There is no tool {call.name!r}. Nothing was called. You have: {known}")
    if offered.worker is not None:
        return _worker(one, offered, asked)
    wanted = toolbox.want(one.scope, offered, call, asked)
    receipt_id = wanted.request.identity.call_id
    return Act(
        one.index,
        call,
        one.scope,
        offered=offered,
        wanted=wanted,
        receipt_id=receipt_id,
        earlier=wanted.earlier,
    )


def _worker(one: Act, offered: Offered, asked: Sequence[Mapping[str, Any]]) -> Act:
    goal = one.call.arguments.get("goal")
    if not isinstance(goal, str) or not goal.strip():
        raise BadArguments(f"{one.call.name} needs a goal, a text. Nothing was called.")
    assert offered.worker is not None
    place = _place_of(one.scope, offered, one.call)
    receipt_id = child_identity(place, offered.worker, {"goal": goal}, None).call_id
    known = {each["receipt_id"]: each for each in asked}
    return Act(
        one.index,
        one.call,
        one.scope,
        offered=offered,
        receipt_id=receipt_id,
        earlier=known.get(receipt_id),
    )


def _place_of(scope: Scope, offered: Offered, call: ToolCall) -> Scope:
    """Where a worker is spawned: for the run as a whole, in a branch of its own."""
    assert offered.worker is not None
    whole = run_wide(scope)
    identity = child_identity(whole, offered.worker, {"goal": call.arguments["goal"]}, None)
    return Scope(whole.session, own_branch(identity).node_id, whole.checkpoint_id)


def hired(scope: Scope, toolbox: Toolbox, calls: Sequence[ToolCall]) -> list[CallIdentity]:
    """The calls that hand a task to another agent, each under the identity of its child run."""
    found: list[CallIdentity] = []
    for call in calls:
        offered, goal = toolbox.offered.get(call.name), call.arguments.get("goal")
        if offered is None or offered.worker is None or not isinstance(goal, str):
            continue
        if call.unreadable is None and goal.strip():
            place = _place_of(scope, offered, call)
            found.append(child_identity(place, offered.worker, {"goal": goal}, None))
    return found


def _answered(one: Act, text: str, *, wrong: bool = False) -> Act:
    return Act(one.index, one.call, one.scope, told=text, wrong=wrong)


# After


def _finish(state: RunState, acts: Sequence[Act], ended: Sequence[Invoked]) -> Acted:
    """The results in the order of the calls; or the first reason why the run cannot go on."""
    errors = [one.error for one in ended if one.error is not None]
    serious = [error for error in errors if not isinstance(error, _TOLD)]
    if serious:
        raise min(serious, key=stops.urgency)
    outcomes = iter(ended)
    results: list[ToolResult] = []
    asked: list[dict[str, Any]] = []
    for one in acts:
        if one.told is not None:
            results.append(ToolResult(one.call.id, one.told, is_error=one.wrong))
            continue
        outcome = next(outcomes)
        results.append(_result(one, outcome, asked))
        if one.offered is not None and one.offered.effectful and not _is_known(one, asked):
            asked.append(_asked(state, one, outcome))
    return Acted(Message(Role.USER, tuple(results)), asked)


def _result(one: Act, outcome: Invoked, asked: Sequence[Mapping[str, Any]]) -> ToolResult:
    if outcome.error is not None:
        assert isinstance(outcome.error, _TOLD)
        text, wrong = outcome.error.message, True
    elif isinstance(outcome.value, Outcome):
        text, wrong = _report(outcome.value), outcome.value.status != "completed"
    else:
        assert one.offered is not None
        assert one.offered.tool is not None
        text = result_text(one.offered.tool, outcome.value.value, MOST_RESULT_CHARACTERS)
        wrong = False
    note = _note(one, asked, wrong=wrong)
    return ToolResult(
        one.call.id, f"{text}\n\n{note}" if note else text, wrong, receipt_id=one.receipt_id
    )


def _note(one: Act, asked: Sequence[Mapping[str, Any]], *, wrong: bool) -> str | None:
    """What a model must know about a receipt: that nothing was done now, and how to do it."""
    if one.offered is None or not one.offered.effectful:
        return None
    repeat = one.offered.repeat
    how = f" To do the very same thing again on purpose, add {repeat}='a new label'."
    if one.earlier is not None and one.earlier["outcome"] != "unavailable":
        turn = one.earlier["turn"]
        if wrong:
            return f"(You asked for this in turn {turn} already. This is how it failed then.)"
        return (
            f"(You asked for this in turn {turn} already. It was not done again: this is the "
            f"receipt of then.{how if repeat else ''})"
        )
    if any(known["receipt_id"] == one.receipt_id for known in asked):
        return f"(You asked for this twice at once. It was done once.{how if repeat else ''})"
    return None


def _is_known(one: Act, asked: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what became of it is on record as it is now."""
    if any(known["receipt_id"] == one.receipt_id for known in asked):
        return True
    return one.earlier is not None and one.earlier["outcome"] != "unavailable"


def _asked(state: RunState, one: Act, outcome: Invoked) -> dict[str, Any]:
    how = "done"
    if outcome.error is not None:
        how = "unavailable" if isinstance(outcome.error, Retryable) else "failed"
    elif isinstance(outcome.value, Outcome) and outcome.value.status != "completed":
        how = "unavailable" if may_be_resumed(outcome.value.failure) else "failed"
    return {
        "receipt_id": one.receipt_id,
        "tool": one.call.name,
        "turn": state.turn,
        "message": len(state.transcript) - 1,
        "index": one.index,
        "outcome": how,
    }


def _report(outcome: Outcome[Any]) -> str:
    """What a worker reports: its answer, or how it ended."""
    if outcome.status == "completed" and isinstance(outcome.state, RunState):
        evidence = [f"- {name}: {why}" for name, why in outcome.state.evidence.items()]
        return "\n".join([outcome.state.answer or "It is done.", *evidence])
    why = "" if outcome.failure is None else f": {outcome.failure.message}"
    return f"The worker {outcome.run_id} was {outcome.status}{why}"
