"""Do what a model asked for: each call once, in order, each result durable by itself (L5).

The model is told what it did wrong (an unknown tool, arguments that do not fit) and what failed
without effect. It is never told about a call that may or may not have happened, because a model
that sees an error tries again. Such a call makes the run wait for a person, and later calls of the
same reply are not started. A task for another agent becomes a child run, spawned once.
Promises kept here: P71, P73, P200.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nottwice.agent import telling
from nottwice.agent.calls import gone as gone_tools
from nottwice.agent.calls import own_tools, receipts, wording
from nottwice.agent.calls.gone import Gone
from nottwice.agent.calls.order import Lane, stages_of
from nottwice.agent.calls.own_tools import OWN_TOOLS, BadArguments, Changes
from nottwice.agent.calls.wording import TOLD
from nottwice.agent.delegating import handing
from nottwice.agent.messages import Message, Role, ToolCall, ToolResult
from nottwice.agent.requests.files import files_in
from nottwice.agent.state import RunState
from nottwice.agent.toolbox import Offered, Toolbox, Wanted, result_text, run_wide
from nottwice.engine.asks import Doing, Read, Together
from nottwice.engine.asks import Invoked as Invoked
from nottwice.engine.calls.dispatch import perform
from nottwice.engine.calls.requests import Receipt
from nottwice.engine.doubts.blocking import written_call
from nottwice.engine.drivers import drive, drive_async, ended_task, until_all_ended
from nottwice.engine.session import Scope, current_scope
from nottwice.engine.stepping import steps
from nottwice.engine.waits import stops
from nottwice.errors import DeniedByPolicy, RejectedByReviewer, Retryable, ToolFailure
from nottwice.graphs.children import child_identity, may_be_resumed, spawning
from nottwice.graphs.outcome import Outcome
from nottwice.guard.declare import call_async
from nottwice.model.call import CallIdentity, own_branch
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Evidence, Review
from nottwice.model.tool import Tool

MOST_RESULT_CHARACTERS = 50_000


@frozen_record(frozen=True, slots=True)
class Act:
    """One tool call of a reply while it is processed."""

    index: int
    call: ToolCall
    scope: Scope
    lane: Lane
    told: str | None = None
    """What the model is told if nothing is called."""
    wrong: bool = False
    offered: Offered | None = None
    wanted: Wanted | None = None
    receipt_id: str | None = None
    earlier: Mapping[str, Any] | None = None
    gone: Gone | None = None
    """What is on record about it, if its tool was removed."""


@frozen_record(frozen=True, slots=True)
class Looked:
    """What the ledger knows about the calls of a reply and the toolbox does not."""

    gone: Mapping[int, Gone]
    """What became of calls whose tools were removed, by the index of the call."""
    receipts: Mapping[str, str]
    """The texts of receipts that the model wants to read, by the id that the model gave."""


@frozen_record(frozen=True, slots=True)
class Acted:
    """The result of the tool calls of one reply."""

    message: Message
    asked: list[dict[str, Any]]


def act(scope: Scope, toolbox: Toolbox, state: RunState, calls: Sequence[ToolCall]) -> Acted:
    """Do what one reply asks for, stage by stage; the calls of one stage run in threads."""
    looked = drive(_look_up(scope, toolbox, state, calls), scope.session.host)
    course = _Course(scope, _prepare(scope, toolbox, state, calls, looked))
    for todo in course.stages():
        doings = tuple(_doing(one) for one in todo)
        if len(doings) == 1:
            ended = [_ended(doings[0], scope)]
        else:
            ended = drive(_together(doings), scope.session.host)
        error = course.take(todo, ended)
        if error is not None:
            drive(course.tell_people(error), scope.session.host)
            raise error
    return _finish(state, course)


async def act_async(
    scope: Scope, toolbox: Toolbox, state: RunState, calls: Sequence[ToolCall]
) -> Acted:
    """Do the same without blocking the event loop; async tools run in it."""
    looked = await drive_async(_look_up(scope, toolbox, state, calls), scope.session.host)
    course = _Course(scope, _prepare(scope, toolbox, state, calls, looked))
    for todo in course.stages():
        tasks = [asyncio.get_running_loop().create_task(_do_async(one)) for one in todo]
        await until_all_ended(tasks)
        error = course.take(todo, [ended_task(task) for task in tasks])
        if error is not None:
            await drive_async(course.tell_people(error), scope.session.host)
            raise error
    return _finish(state, course)


class _Course:
    """The progress of a reply's tool calls: the result of each, and what is not started."""

    def __init__(self, scope: Scope, acts: Sequence[Act]) -> None:
        self.acts = acts
        self.ended: dict[int, Invoked] = {}
        self.held_by: dict[int, Act] = {}
        """Calls that were not started, each with the earlier call that did not happen."""
        self._scope = scope
        self._failed: Act | None = None

    def stages(self) -> Iterator[list[Act]]:
        """Yield the calls of each stage; the caller reports their results with ``take``."""
        for stage in stages_of([one.lane for one in self.acts]):
            acts = [self.acts[index] for index in stage]
            todo: list[Act] = []
            for one in acts:
                if one.told is not None:
                    continue
                if self._failed is not None and self._would_be_new(one):
                    self.held_by[one.index] = self._failed
                else:
                    todo.append(one)
            if todo:
                yield todo
            self._failed = self._failed or next(filter(self._did_not_happen, acts), None)

    def take(self, todo: Sequence[Act], ended: Sequence[Invoked]) -> BaseException | None:
        """Note how a stage ended; return the error that stops the run, if there is one."""
        self.ended |= {one.index: outcome for one, outcome in zip(todo, ended, strict=True)}
        errors = [one.error for one in ended if one.error is not None]
        serious = [error for error in errors if not isinstance(error, TOLD)]
        return min(serious, key=stops.urgency) if serious else None

    def tell_people(self, error: BaseException) -> Doing[None]:
        """Tell the person who decides about a call which calls of the same reply wait for it.

        Durable: when it returns.
        """
        session = self._scope.session
        behind = [
            written_call(one.call.name, one.call.arguments)
            for one in self.acts
            if one.told is None and one.index not in self.ended and not _has_answer(one)
        ]
        if not behind:
            return
        telling.not_begun(self._scope, behind)
        review_id = getattr(error, "review_id", None)
        review: Review | None = None
        if review_id is not None:
            review = yield Read(lambda store: store.load_review(review_id))
        if review is None:
            return
        run_id, call_id, text = session.run_id, review.call_id, _behind_text(behind)
        known: list[Evidence] = yield Read(lambda store: store.evidence(run_id, call_id))
        if all(item.text != text for item in known):
            now, attempt = session.clock.now(), review.attempt_id
            item = Evidence(run_id, call_id, attempt, now, "engine", text)
            yield from session.commit(evidence=(item,))

    def _would_be_new(self, one: Act) -> bool:
        """Whether it keeps the order, and no receipt answers it."""
        here = {self.acts[index].receipt_id for index in self.ended}
        return one.lane.keeps_order and not _has_answer(one) and one.receipt_id not in here

    def _did_not_happen(self, one: Act) -> bool:
        """Whether later calls that keep the order must not start: this one did not happen."""
        if not one.lane.keeps_order:
            return False
        if one.gone is not None:
            return one.gone.outcome != "done"
        if one.told is not None or one.index in self.held_by:
            return True
        outcome = self.ended[one.index]
        if isinstance(outcome.value, Outcome):
            return outcome.value.status != "completed"
        return outcome.error is not None


def _behind_text(behind: Sequence[str]) -> str:
    shown = ", then ".join(behind[:3])
    more = f" and {len(behind) - 3} more" if len(behind) > 3 else ""
    return (
        f"not begun: {shown}{more}. The model asked for it in the same reply, after this call; "
        "it starts only after this call has happened"
    )


def _together(doings: tuple[Doing[Any], ...]) -> Doing[list[Invoked]]:
    ended: list[Invoked] = yield Together(doings)
    return ended


def _ended(doing: Doing[Any], scope: Scope) -> Invoked:
    token = current_scope.set(current_scope.get())
    try:
        return Invoked(value=drive(doing, scope.session.host), invoked=True)
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
    place = _place_of(one.scope, one.offered, one.call)
    yield from handing.admit(place, one.offered.worker, one.call)
    return (
        yield from spawning(
            place,
            one.offered.worker,
            {"goal": one.call.arguments["goal"]},
            None,
            check=False,
            # No other call of the reply depends on the worker, so its outage need not be final.
            keeps_outage=False,
            # A worker that failed while this turn waited starts again only if the model asks.
            restarts=not one.scope.steps[0].resumed,
        )
    )


async def _do_async(one: Act) -> Receipt[Any] | Outcome[Any]:
    current_scope.set(one.scope)
    if one.wanted is not None:
        return await call_async(one.wanted.request)
    return await drive_async(_spawning(one), one.scope.session.host)


# Before


def _look_up(
    scope: Scope, toolbox: Toolbox, state: RunState, calls: Sequence[ToolCall]
) -> Doing[Looked]:
    offered = {*toolbox.offered, *OWN_TOOLS}
    gone = yield from gone_tools.on_record(scope, offered, state, calls)
    return Looked(gone, (yield from receipts.recalled(scope, state, calls)))


def _prepare(
    scope: Scope,
    toolbox: Toolbox,
    state: RunState,
    calls: Sequence[ToolCall],
    looked: Looked,
) -> list[Act]:
    changes, asked = Changes.of(state), state.plain["asked"]
    acts: list[Act] = []
    for index, call in enumerate(calls):
        lane = toolbox.lane_of(call.name)
        one = Act(index, call, steps.branch(scope, index), lane, gone=looked.gone.get(index))
        try:
            if call.name in OWN_TOOLS and call.unreadable is None:
                text = own_tools.answer(state, changes, call, looked.receipts)
                acts.append(_answered(one, text))
            else:
                acts.append(_prepared(one, toolbox, state, asked))
        except BadArguments as error:
            acts.append(_answered(one, str(error), wrong=True))
        except TOLD as error:
            text = wording.of_error(call, _tool_of(toolbox.offered.get(call.name)), error)
            acts.append(_answered(one, text, wrong=True))
    return acts


def _prepared(
    one: Act,
    toolbox: Toolbox,
    state: RunState,
    asked: Sequence[Mapping[str, Any]],
) -> Act:
    call = one.call
    if call.unreadable is not None:
        raise BadArguments(wording.unreadable(call))
    offered = toolbox.offered.get(call.name)
    if offered is None:
        known = [*toolbox.offered, *OWN_TOOLS]
        if one.gone is not None:
            text = one.gone.text(known, MOST_RESULT_CHARACTERS)
            return replace(one, told=text, wrong=one.gone.outcome != "done")
        gone = bool(own_tools.receipts(state, call.name))
        raise BadArguments(wording.no_such_tool(call, known, gone=gone))
    if offered.worker is not None:
        return _worker(one, offered, asked)
    wanted = toolbox.want(one.scope, offered, call, state)
    receipt_id = wanted.request.identity.call_id
    return Act(
        one.index,
        call,
        one.scope,
        one.lane,
        offered=offered,
        wanted=wanted,
        receipt_id=receipt_id,
        earlier=wanted.earlier,
    )


def _worker(one: Act, offered: Offered, asked: Sequence[Mapping[str, Any]]) -> Act:
    goal = one.call.arguments.get("goal")
    if not isinstance(goal, str) or not goal.strip():
        raise BadArguments(wording.no_goal(one.call))
    assert offered.worker is not None
    place = _place_of(one.scope, offered, one.call)
    receipt_id = child_identity(place, offered.worker, {"goal": goal}, None).call_id
    known = {each["receipt_id"]: each for each in asked}
    return Act(
        one.index,
        one.call,
        one.scope,
        one.lane,
        offered=offered,
        receipt_id=receipt_id,
        earlier=known.get(receipt_id),
    )


def _place_of(scope: Scope, offered: Offered, call: ToolCall) -> Scope:
    """Return where a worker is spawned: for the run as a whole, in its own branch."""
    assert offered.worker is not None
    whole = run_wide(scope)
    identity = child_identity(whole, offered.worker, {"goal": call.arguments["goal"]}, None)
    return Scope(whole.session, own_branch(identity).node_id, whole.checkpoint_id)


def hired(scope: Scope, toolbox: Toolbox, calls: Sequence[ToolCall]) -> list[CallIdentity]:
    """Return the calls that hand a task to another agent, as the identities of their child runs."""
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
    return Act(one.index, one.call, one.scope, one.lane, told=text, wrong=wrong)


# After


def _finish(state: RunState, course: _Course) -> Acted:
    """Return the results in the order of the calls."""
    results: list[ToolResult] = []
    asked: list[dict[str, Any]] = []
    for one in course.acts:
        if one.told is not None:
            receipt_id = None if one.gone is None else one.gone.receipt_id
            results.append(ToolResult(one.call.id, one.told, one.wrong, receipt_id=receipt_id))
            if one.gone is not None and all(each["receipt_id"] != receipt_id for each in asked):
                asked.append(_asked_for(state, one, receipt_id, one.gone.outcome))
            continue
        if one.index in course.held_by:
            failed = course.held_by[one.index]
            text = wording.not_begun(failed.call, failed.index + 1)
            results.append(ToolResult(one.call.id, text, is_error=True))
            continue
        outcome = course.ended[one.index]
        results.append(_result(state, course, one, outcome, asked))
        if one.offered is not None and one.offered.effectful and not _is_known(one, asked):
            asked.append(_asked(state, one, outcome))
    return Acted(Message(Role.USER, tuple(results)), asked)


def _result(
    state: RunState,
    course: _Course,
    one: Act,
    outcome: Invoked,
    asked: Sequence[Mapping[str, Any]],
) -> ToolResult:
    if outcome.error is not None:
        text, wrong = wording.of_error(one.call, _tool_of(one.offered), outcome.error), True
    elif isinstance(outcome.value, Outcome):
        text = wording.of_worker(one.call.name, outcome.value)
        wrong = outcome.value.status != "completed"
    else:
        assert one.offered is not None
        assert one.offered.tool is not None
        assert one.receipt_id is not None
        text = result_text(one.offered.tool, outcome.value.value)
        text, wrong = receipts.cut(text, one.receipt_id, MOST_RESULT_CHARACTERS), False
    note = _note(state, course, one, asked, wrong=wrong)
    return ToolResult(
        one.call.id,
        f"{text}\n\n{note}" if note else text,
        wrong,
        receipt_id=one.receipt_id,
        files=() if wrong else tuple(files_in(getattr(outcome.value, "value", None))),
    )


def _note(
    state: RunState,
    course: _Course,
    one: Act,
    asked: Sequence[Mapping[str, Any]],
    *,
    wrong: bool,
) -> str | None:
    """What the model must know about a receipt: nothing was done now, and how to do it again."""
    if one.offered is None or not one.offered.effectful:
        return None
    tool, repeat, earlier = one.offered.tool, one.offered.repeat, one.earlier
    twin = next((known for known in asked if known["receipt_id"] == one.receipt_id), None)
    if earlier is not None and _has_answer(one):
        turn, before = earlier["turn"], wording.call_of(state, earlier)
        if wrong:
            return wording.of_earlier_failure(turn)
        return wording.of_earlier(one.call, tool, before, turn, repeat=repeat)
    if twin is not None:
        before = course.acts[twin["index"]].call
        if wrong:
            return wording.of_failed_twin(one.call, tool, before)
        return wording.of_twin(one.call, tool, before, repeat=repeat)
    return None


def _tool_of(offered: Offered | None) -> Tool | None:
    return None if offered is None else offered.tool


def _is_known(one: Act, asked: Sequence[Mapping[str, Any]]) -> bool:
    """Whether its current outcome is on record."""
    return any(known["receipt_id"] == one.receipt_id for known in asked) or _has_answer(one)


def _has_answer(one: Act) -> bool:
    """Whether a call of an earlier turn answers it."""
    return one.earlier is not None and one.earlier["outcome"] != "unavailable"


def _asked(state: RunState, one: Act, outcome: Invoked) -> dict[str, Any]:
    how = "done"
    if isinstance(outcome.error, Retryable):
        how = "unavailable"
    elif outcome.error is not None:
        tried = isinstance(outcome.error, ToolFailure)
        allowed = not isinstance(outcome.error, DeniedByPolicy | RejectedByReviewer)
        how = "failed" if tried and allowed else "refused"
    elif isinstance(outcome.value, Outcome) and outcome.value.status != "completed":
        how = "unavailable" if may_be_resumed(outcome.value.failure) else "failed"
    return _asked_for(state, one, one.receipt_id, how)


def _asked_for(state: RunState, one: Act, receipt_id: str | None, how: str) -> dict[str, Any]:
    return {
        "receipt_id": receipt_id,
        "tool": one.call.name,
        "turn": state.turn,
        "message": len(state.transcript) - 1,
        "index": one.index,
        "outcome": how,
    }
