"""The loop: plan → context → reason → act → observe → learn, each beat a checkpoint (A2).

    plan     receives what the user has said, and starts a turn
    context  chooses what the model sees; compacts what no longer fits
    reason   asks the model, within the budget, about everything the user has said so far; its
             reply is durable before anything follows
    act      does what the reply asks for, each effect once for the whole run
    observe  checks whether the model goes in circles
    learn    keeps plan, evidence and memory; decides whether the task is done

Each is a node of a graph like any other: it gets the recorded state, and returns what changes.
Promises kept here: P67, P68, P74, P192, P193.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

from nottwice.agent import conditions, missing_checks, telling
from nottwice.agent.budget import Budget
from nottwice.agent.calls import acting, cycles, own_tools
from nottwice.agent.calls.own_tools import OWN_TOOLS, BadArguments, Changes
from nottwice.agent.context import Context, Summarise, move_window, summarise_heard
from nottwice.agent.delegating import workers
from nottwice.agent.messages import Message, ToolCall, said
from nottwice.agent.provider import ModelRequest, Provider, StopReason
from nottwice.agent.requests import hearing, refusal, rejected
from nottwice.agent.requests.answering import AnswerType, WrongAnswer
from nottwice.agent.requests.asking import AnsweredTurn, ask_model, is_answered, turn_of
from nottwice.agent.requests.reserving import ModelAsking
from nottwice.agent.requests.wire_ids import with_own_ids
from nottwice.agent.state import RunState
from nottwice.agent.toolbox import Toolbox
from nottwice.engine.asks import Doing
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.session import Scope
from nottwice.errors import ConditionUnknown, UsageError
from nottwice.graphs.state import Go
from nottwice.guard.scopes import scope_of
from nottwice.model import values
from nottwice.model.call import CallIdentity
from nottwice.model.graphs.graph import END
from nottwice.model.retry import RetryPolicy

BEATS = ("plan", "context", "reason", "act", "observe", "learn")
Check = Callable[[RunState], Any]


class Harness(Protocol):
    """What the beats need to know about their agent."""

    provider: Provider
    budget: Budget
    toolbox: Toolbox
    context_tokens: int
    most_output_tokens: int
    options: dict[str, Any]
    retry: RetryPolicy
    give_up_seconds: float
    time_limit_seconds: float | None
    conditions: tuple[str, ...]
    """What must be true at the end of every run, in addition to the run's own conditions."""
    summarise: Summarise | None
    answer_type: AnswerType | None

    def make_context(self, state: RunState) -> Context: ...

    def check_for(self, run_id: str, condition: str) -> Check | None: ...


class Beats:
    """The six nodes of an agent's graph."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def plan(self, state: RunState) -> dict[str, Any]:
        """Receive what the user said, and start a turn."""
        scope = _here()
        count = drive(hearing.to_hear(scope, is_answered=False), scope.session.host)
        messages = hearing.take_in(count)
        turn = state.turn + 1
        update: dict[str, Any] = {"turn": turn, **hearing.heard(state, messages, turn)}
        if state.answer is not None:
            update |= {"answer": None, "value": None}
        wanted = self._conditions(state)
        if wanted != list(state.done_when):
            update["done_when"] = wanted
        telling.begin_turn(scope, turn)
        telling.hear(scope, turn, messages)
        return update

    def context(self, state: RunState) -> dict[str, Any]:
        """Choose the part of the conversation that the model sees."""
        window = move_window(state.plain, self._harness.context_tokens)
        if window == state.plain["window"]:
            return {}
        seen = state.changed(window=window)
        return {"window": window, **summarise_heard(seen, self._harness.summarise)}

    def reason(self, state: RunState) -> dict[str, Any]:
        """Ask the model."""
        scope = _here()
        session = scope.session
        answered, update = None, dict[str, Any]()
        count = drive(_to_hear(scope), session.host)
        while answered is None:
            update = self._listen(scope, state, update, count)
            update |= drive(rejected.leave_out(scope, state, turn_of(scope)), session.host)
            heard = hearing.applied(state, update)
            answered = drive(ask_model(self._asking(scope, heard, is_async=False)), session.host)
            count = 0 if answered else drive(hearing.unheard(scope), session.host)
        return self._reasoned(scope, heard, update, answered)

    async def reason_async(self, state: RunState) -> dict[str, Any]:
        """Do the same without blocking the event loop."""
        scope = _here()
        session = scope.session
        answered, update = None, dict[str, Any]()
        count = await drive_async(_to_hear(scope), session.host)
        while answered is None:
            update = self._listen(scope, state, update, count)
            left_out = rejected.leave_out(scope, state, turn_of(scope))
            update |= await drive_async(left_out, session.host)
            heard = hearing.applied(state, update)
            asked = ask_model(self._asking(scope, heard, is_async=True))
            answered = await drive_async(asked, session.host)
            count = 0 if answered else await drive_async(hearing.unheard(scope), session.host)
        return self._reasoned(scope, heard, update, answered)

    def _listen(
        self, scope: Scope, state: RunState, update: dict[str, Any], count: int
    ) -> dict[str, Any]:
        """Receive what the user said since the turn began, and choose the window again."""
        if not count:
            return update
        messages = hearing.take_in(count)
        telling.hear(scope, state.turn, messages)
        before = [Message.from_plain(plain) for plain in update.get("transcript", ())]
        update = hearing.heard(state, [*before, *messages], state.turn)
        return {**update, **self.context(hearing.applied(state, update))}

    def act(self, state: RunState) -> dict[str, Any]:
        """Do what the model asked for."""
        scope, toolbox, calls = _here(), self._harness.toolbox, _wanted(state)
        if not calls:
            return {}
        hired = acting.hired(scope, toolbox, calls)
        if hired:
            raised = drive(self._admit(scope, state, hired), scope.session.host)
        update = _acted(scope, acting.act(scope, toolbox, state, calls))
        if hired:
            update |= {"raised": raised, **drive(_paid(scope, state, hired), scope.session.host)}
        return update

    async def act_async(self, state: RunState) -> dict[str, Any]:
        """Do the same without blocking the event loop."""
        scope, toolbox, calls = _here(), self._harness.toolbox, _wanted(state)
        if not calls:
            return {}
        hired, session = acting.hired(scope, toolbox, calls), scope.session
        if hired:
            raised = await drive_async(self._admit(scope, state, hired), session.host)
        update = _acted(scope, await acting.act_async(scope, toolbox, state, calls))
        if hired:
            paid = await drive_async(_paid(scope, state, hired), session.host)
            update |= {"raised": raised, **paid}
        return update

    def _admit(
        self, scope: Scope, state: RunState, hired: list[CallIdentity]
    ) -> Doing[dict[str, float]]:
        return workers.admit_workers(scope, state, self._harness.budget, hired)

    def observe(self, state: RunState) -> dict[str, Any]:
        """Count how often the model asked for exactly the same, or for the same things in turn."""
        calls = _wanted(state)
        if not calls:
            return {}
        of = values.hash_of([[call.name, dict(call.arguments)] for call in calls])
        return {"repeats": cycles.follow(state.plain["repeats"], of)}

    def learn(self, state: RunState) -> dict[str, Any] | Go:
        """Keep what the model noted, and decide whether the task is done."""
        scope = _here()
        reply = _reply(state)
        if refusal.is_refused(state.plain):
            return Go("again", self._refused(scope, state, reply))
        if reply.tool_calls:
            return Go("again", {**_noted(state, reply), "partial": ""})
        partial = state.plain["partial"] + reply.text
        stop = StopReason(state.plain["reply"]["stop"])
        if stop is StopReason.TRUNCATED:
            remark = _remark(state, "Your reply was cut off. Continue where it ends.")
            return Go("again", {**remark, "partial": partial})
        if stop is StopReason.OTHER:
            # It paused or was stopped. In any case it did not say that it had finished.
            remark = _remark(state, "You were interrupted. Continue.")
            return Go("again", {**remark, "partial": partial})
        if refusal.says_nothing(reply) and not partial.strip():
            text = "Your reply was empty. Continue with the task, or say what came of it."
            return Go("again", _remark(state, text))
        value = None
        if self._harness.answer_type is not None:
            try:
                value = self._harness.answer_type.read(partial)
            except WrongAnswer as error:
                return Go("again", {**_remark(state, str(error)), "partial": ""})
            state = state.changed(value=value)
        try:
            evidence, missing = self._judge(scope.session.run_id, state)
        except ConditionUnknown as unknown:
            if drive(hearing.unheard(scope), scope.session.host):
                # The user has said something since, so what follows it is judged instead.
                return Go("again", {"partial": ""})
            raise missing_checks.wait_for_check(scope, unknown, hearing.MESSAGE) from unknown
        if missing:
            remark = _remark(state, _reminder(self._conditions(state), missing))
            return Go("again", {**remark, "evidence": evidence, "partial": ""})
        round_ = state.plain["round"]
        telling.finish(scope, partial)
        finished = {**round_, "number": round_["number"] + 1}
        ended = {"answer": partial, "partial": "", "value": value, "evidence": evidence}
        return Go("done", {**ended, "round": finished})

    def _conditions(self, state: RunState) -> list[str]:
        """Return what must be true at the end: the conditions of the run and of its agent.

        The agent's conditions are the current ones: a new condition applies to runs that began
        before it, and a removed one no longer applies.
        """
        own = conditions.own(state.plain)
        return [*own, *(one for one in self._harness.conditions if one not in own)]

    def _refused(self, scope: Scope, state: RunState, reply: Message) -> dict[str, Any]:
        """Return what changes when a run continues after its model refused."""
        refused_by = [*state.plain["refused_by"], state.plain["reply"]["asked"]]
        if not drive(refusal.is_decided(scope, state.plain), scope.session.host):
            if drive(hearing.unheard(scope), scope.session.host):
                # The user has said something since, and the next turn receives it.
                return {"partial": ""}
            if self._harness.provider.model not in refused_by:
                return {"refused_by": refused_by, "partial": ""}
        words = drive(
            refusal.decide(scope, state.plain, reply, hearing.MESSAGE), scope.session.host
        )
        update: dict[str, Any] = {"refused_by": [], "partial": ""}
        if words.strip().lower() != refusal.ASK_AGAIN:
            heard = len(state.plain["transcript"])
            update |= {"transcript": [said(words).to_plain()], "heard": [heard]}
            update["repeats"] = dict(cycles.NONE)
            update["evidence"] = conditions.lasting(state.evidence)
        return update

    def _judge(self, run_id: str, state: RunState) -> tuple[dict[str, str], list[str]]:
        """Return the evidence for what must be true at the end, and what has no evidence."""
        evidence, missing = dict(state.evidence), list[str]()
        wanted = self._conditions(state)
        # All functions are looked up before one is called: if one is missing, nothing is judged.
        checks = {one: self._harness.check_for(run_id, one) for one in wanted}
        for condition, check in checks.items():
            if check is None:
                if condition not in evidence:
                    missing.append(condition)
                continue
            # A function is called every time, because its result may have changed.
            evidence.pop(condition, None)
            found = check(state)
            if found:
                evidence[condition] = found if isinstance(found, str) else "the check passed"
            else:
                missing.append(condition)
        return evidence, missing

    def _asking(self, scope: Scope, state: RunState, *, is_async: bool) -> ModelAsking:
        harness = self._harness
        return ModelAsking(
            scope=scope,
            state=state,
            provider=harness.provider,
            budget=harness.budget,
            render=lambda shrinks: self._render(state, shrinks),
            retry=harness.retry,
            give_up_seconds=harness.give_up_seconds,
            time_limit_seconds=harness.time_limit_seconds,
            is_async=is_async,
        )

    def _render(self, state: RunState, shrinks: int) -> ModelRequest:
        harness = self._harness
        if shrinks:
            window = move_window(state.plain, harness.context_tokens >> shrinks)
            state = state.changed(window=window)
        context = harness.make_context(rejected.shown(state))
        if not isinstance(context, Context):
            raise UsageError(
                "The context of an agent must be an nt.agent.Context, and is "
                f"{type(context).__name__}. "
                "No model was asked."
            )
        return ModelRequest(
            messages=with_own_ids(tuple(refusal.shown_to_model(context.messages))),
            system=context.system,
            tools=harness.toolbox.schemas,
            most_output_tokens=harness.most_output_tokens,
            options=harness.options,
            turn=state.turn,
        )

    def _reasoned(
        self, scope: Scope, state: RunState, heard: dict[str, Any], answered: AnsweredTurn
    ) -> dict[str, Any]:
        """Return what changes with a reply, and with messages received before it in this beat."""
        reply, before = answered.reply, state.plain["spent"]
        telling.reply(scope, state.turn, answered)
        message = refusal.marked(reply.message, reply.stop)
        update: dict[str, Any] = {
            **heard,
            "transcript": [*heard.get("transcript", ()), message.to_plain()],
            "reply": {
                "stop": reply.stop.value,
                "model": reply.model,
                "asked": self._harness.provider.model,
                "why": str(reply.extra.get("why", "")),
            },
            "spent": {
                "usd": round(before["usd"] + (answered.usd or 0.0), 9),
                "tokens": before["tokens"] + reply.usage.tokens,
                "requests": before["requests"] + 1,
                "unpriced": before["unpriced"] + (answered.usd is None),
            },
        }
        if answered.raised != state.plain["raised"]:
            update["raised"] = answered.raised
        return update


def _here() -> Scope:
    return scope_of("a beat of an agent")


def _to_hear(scope: Scope) -> Doing[int]:
    """Return how many messages the beat that asks the model has to receive."""
    answered = yield from is_answered(scope)
    return (yield from hearing.to_hear(scope, is_answered=answered))


def _reply(state: RunState) -> Message:
    """Return the reply of this turn: the newest message of the model."""
    transcript = state.plain["transcript"]
    for plain in reversed(transcript):
        if plain["role"] == "assistant":
            return Message.from_plain(plain)
    raise UsageError("The run has no reply of a model yet. Nothing was done.")


def _wanted(state: RunState) -> tuple[ToolCall, ...]:
    """Return the tool calls of this turn's reply that count."""
    return () if refusal.is_refused(state.plain) else _reply(state).tool_calls


def _paid(scope: Scope, state: RunState, hired: list[CallIdentity]) -> Doing[dict[str, Any]]:
    """Return what the workers of this turn have cost so far."""
    paid = yield workers.costs_of(workers.spawned_by(scope.session, hired))
    return {"workers": {**state.plain["workers"], **paid}}


def _acted(scope: Scope, acted: acting.Acted) -> dict[str, Any]:
    telling.results(scope, acted.message)
    return {"transcript": [acted.message.to_plain()], "asked": acted.asked}


def _noted(state: RunState, reply: Message) -> dict[str, Any]:
    """Return what the harness's own tools change, applied in the order of the calls."""
    calls = [call for call in reply.tool_calls if call.name in OWN_TOOLS]
    if not calls:
        return {}
    changes = Changes.of(state)
    for call in calls:
        try:
            if call.unreadable is None:
                own_tools.apply(state, changes, call)
        except BadArguments:
            # The model was told so when its call was answered.
            continue
    return changes.to_update()


def _remark(state: RunState, text: str) -> dict[str, Any]:
    """Say something to the model on behalf of the harness; too many repetitions stop the run."""
    of = values.hash_of(text)
    return {
        "transcript": [said(text).to_plain()],
        "repeats": cycles.follow(state.plain["repeats"], of),
    }


def _reminder(conditions: list[str], missing: list[str]) -> str:
    numbers = {condition: n for n, condition in enumerate(conditions, start=1)}
    lines = "\n".join(f"{numbers[condition]}. {condition}" for condition in missing)
    return (
        f"You are not done yet. There is no evidence for:\n{lines}\n"
        "Do what is missing; where you know that a condition is true, call show_evidence. "
        "A condition that is only a name, like_this(), is checked by itself and needs no evidence "
        "of yours."
    )


def declare(graph: Any, beats: Beats) -> None:
    """Make the beats the nodes of a graph."""
    most = 10**9
    for name, following in itertools.pairwise(BEATS):
        graph.node(name=name, then=following, most=most)(getattr(beats, name))
    graph.node(name="learn", then={"again": "plan", "done": END}, most=most)(beats.learn)


ASYNC_BEATS = {"reason": "reason_async", "act": "act_async"}
