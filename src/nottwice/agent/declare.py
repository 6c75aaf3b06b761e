"""An agent as users write it: ``nt.Agent("triage", version="1.0.0", provider=..., tools=[...])``.

An agent is a graph whose nodes are the beats of the loop. So everything about graphs applies to it:
versions, checkpoints, reviews, forks, children, and resuming by running the same line again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from nottwice.agent import conditions, conversation, loop
from nottwice.agent.budget import Budget
from nottwice.agent.calls.effects import AgentEffect, effects_of
from nottwice.agent.conditions import CALLED
from nottwice.agent.context import Context, Summarise, default_context
from nottwice.agent.delegating.workers import costs_told, with_costs
from nottwice.agent.loop import ASYNC_BEATS, Beats, Check
from nottwice.agent.messages import Spoken, spoken
from nottwice.agent.provider import Provider, check_options
from nottwice.agent.requests.answering import AnswerType
from nottwice.agent.state import AgentState, RunState
from nottwice.agent.toolbox import Toolbox
from nottwice.engine.advance import NodeCode
from nottwice.engine.asks import Doing, Read
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.host import Policy
from nottwice.engine.opening import Opening
from nottwice.errors import ConditionUnknown, RunBusy, UsageError
from nottwice.graphs import running
from nottwice.graphs.binding import check_unchanged
from nottwice.graphs.declare import Graph
from nottwice.graphs.fingerprint import print_tool
from nottwice.graphs.outcome import Outcome
from nottwice.graphs.policed import Bonds, check_policed
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.frames import shows_one_frame
from nottwice.guard.ledger import AnyStore, ledger_of
from nottwice.guard.settings.policies import Policies, read_policies
from nottwice.model.graphs.body import OWN, hash_of_bytes
from nottwice.model.graphs.fingerprint import Fingerprint
from nottwice.model.graphs.graph import GraphDefinition
from nottwice.model.retry import RetryPolicy
from nottwice.model.run import RunRecord
from nottwice.model.runs.labels import read_labels
from nottwice.model.saving.cadence import Checkpoints
from nottwice.model.tool import Duration, parse_duration

BODY = "nottwice.agent 1"
"""The version of the beats' behaviour, which users do not bump."""
INSTRUCTIONS = (
    "You work on a task step by step, with tools. Plan first if the task has several steps, and "
    "say when a step is done. Each tool result tells what really happened; rely on nothing else. "
    "When the task is done, answer without calling a tool."
)


class Agent(Graph[RunState]):
    """An agent that can be killed at any moment and resumed by running the same line again.

    ``provider``: the model. ``tools``: protected functions, and other agents to hand tasks to.
    ``budget``: what a run may take before a person is asked. ``instructions``: what the model is
    told in every request. ``description``: what the model of a boss reads about this agent.
    ``answer``: the type of its answer, such as a pydantic model; ``state.value`` has it, and an
    answer that does not fit is asked for again. ``context``: a function from the run's state to
    what the model sees; ``context_tokens`` limits how much of the conversation it is shown.
    ``summarise``: a function from the user's messages that do not fit to a text, which is shown
    instead. ``checkpoints``: when beats become durable, as for every graph; each
    beat is a step. Replies and effects are always durable. ``done_when``: what must be true at the
    end of every run, in words or as a function of the state; a run can add conditions.
    ``policy``: one or more functions that see every call of its runs, and of the workers that it
    starts, before it is made, and may refuse it. ``options`` go to the provider's SDK.
    ``time_limit``: how long to wait for a reply; by default as long as the provider does.
    ``retry``: how often to ask at first when the model cannot answer; then the run waits on
    timers, and fails after ``give_up_after``.
    """

    converses = True

    @shows_one_frame
    def __init__(
        self,
        name: str,
        *,
        version: str,
        provider: Provider,
        tools: Iterable[Any] = (),
        budget: Budget | None = None,
        instructions: str = INSTRUCTIONS,
        description: str = "",
        answer: Any = None,
        context: Callable[[RunState], Context] | None = None,
        context_tokens: int = 100_000,
        summarise: Summarise | None = None,
        most_output_tokens: int = 4096,
        checkpoints: Checkpoints = "effects",
        done_when: Iterable[str | Check] = (),
        policy: Policies = None,
        retry: RetryPolicy | None = None,
        give_up_after: Duration = "24h",
        time_limit: Duration | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        offered = list(tools)
        functions = [each for each in offered if not isinstance(each, Graph)]
        self.workers = tuple(each for each in offered if isinstance(each, Graph))
        self.toolbox = Toolbox(name, offered)
        super().__init__(name, version=version, checkpoints=checkpoints, tools=functions)
        self.description = _checked_description(name, description)
        self.answer_type = None if answer is None else AnswerType(name, answer)
        show = None if self.answer_type is None else self.answer_type.show
        self.state = AgentState(agent=name, show=show)
        self.bonds = Bonds(read_policies(policy))
        for worker in self.workers:
            worker.bonds.add_starter(self)
        self.provider = _checked_provider(name, provider)
        self.budget = _checked_budget(name, Budget() if budget is None else budget, provider)
        _check_prices(name, self.budget, offered)
        self.instructions = instructions
        self.context_tokens = _above_zero(context_tokens, "context_tokens")
        self.most_output_tokens = _above_zero(most_output_tokens, "most_output_tokens")
        self.retry = retry or RetryPolicy(
            attempts=6, first_seconds=1.0, most_seconds=60.0, most_retry_after_seconds=60.0
        )
        self.give_up_seconds = parse_duration(give_up_after, what=f"Agent {name!r}: give_up_after")
        self.time_limit_seconds: float | None = None
        if time_limit is not None:
            self.time_limit_seconds = parse_duration(time_limit, what=f"Agent {name!r}: time_limit")
        self.options = _checked_options(name, options)
        self._context = context
        self.summarise = _checked_summarise(name, summarise)
        self.conditions, self._declared_checks = _read_conditions(name, done_when)
        conditions.check_functions(name, self.conditions, self._declared_checks)
        self._passed: dict[str, dict[str, Check]] = {}
        """The functions passed to the runs that this process is advancing, by run."""
        self.loop = Beats(self)
        loop.declare(self, self.loop)

    def belong_to(self, policies: tuple[Policy, ...], beside: Sequence[Graph[Any]]) -> None:
        """Join an app with these policies; the agents that work for this one join, too."""
        super().belong_to(policies, beside)
        for worker in self.workers:
            worker.belong_to(policies, beside)

    @property
    def hooks(self) -> dict[str, Callable[..., Any]]:
        """The user's functions that run in its beats and are not tools, by their role."""
        found: dict[str, Callable[..., Any]] = {}
        if self._context is not None:
            found["context"] = self._context
        if self.summarise is not None:
            found["summarise"] = self.summarise
        checks = self._declared_checks.items()
        return found | {f"done_when {name!r}": check for name, check in checks}

    def make_context(self, state: RunState) -> Context:
        """Return what the model sees in its next request."""
        if self._context is not None:
            return self._context(state)
        return self.default_context(state)

    def default_context(self, state: RunState) -> Context:
        """The task, what was compacted, the recent messages, and the state of the plan."""
        told = self.instructions
        if self.answer_type is not None:
            told = f"{told}\n\n{self.answer_type.instructions}"
        return default_context(state, told)

    @shows_one_frame
    def run(
        self,
        run_id: str,
        input: Any = None,
        *,
        goal: Spoken | None = None,
        done_when: Iterable[str | Check] = (),
        plan: Iterable[str] = (),
        message: Spoken | None = None,
        message_id: str | None = None,
        store: AnyStore = None,
        acquire_timeout: Duration | None = None,
        settle_timeout: Duration = "60s",
        wait: Duration | None = None,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> Outcome[RunState]:
        """Work on a task: start it, resume it, or report how it ended. The line is the same.

        ``goal``: what to do; like ``message``, a text, or a list of texts and files,
        ``["What is this?", nt.agent.File("scan.png")]``. ``done_when``: what must be true at the
        end, in words or as a function of the state; a condition without evidence sends the model
        back to work. Pass it with the goal; a process that resumes the run may pass its functions
        again. ``plan``: steps to begin with. ``message``: send a message to the run, which
        continues even if it had ended; ``message_id`` tells two messages with the same words
        apart. Returns when the run is finished or waits; ``store``, ``wait``, ``tags`` and
        ``group`` as for graphs.
        ``input``: all of it as one dict.
        """
        check_not_importing(f"Run {run_id!r} is opened")
        running.check_no_loop(self, "await agent.arun(...)")
        labels = read_labels(tags, group, what=f"Run {run_id!r}")
        with self._told(run_id, input, goal, done_when, plan) as (told, again):
            times = acquire_timeout, settle_timeout, wait
            opening = running.asked(ledger_of(store).host, run_id, told, *times, labels=labels)
            resumed = functools.partial(self._check_resumed, run_id, again, told)
            talked = _conversing(self, opening, message, message_id, resumed)
            return drive(talked, opening.host)

    @shows_one_frame
    async def arun(
        self,
        run_id: str,
        input: Any = None,
        *,
        goal: Spoken | None = None,
        done_when: Iterable[str | Check] = (),
        plan: Iterable[str] = (),
        message: Spoken | None = None,
        message_id: str | None = None,
        store: AnyStore = None,
        acquire_timeout: Duration | None = None,
        settle_timeout: Duration = "60s",
        wait: Duration | None = None,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> Outcome[RunState]:
        """Do the same without blocking the event loop; the model and async tools run in it."""
        check_not_importing(f"Run {run_id!r} is opened")
        labels = read_labels(tags, group, what=f"Run {run_id!r}")
        with self._told(run_id, input, goal, done_when, plan) as (told, again):
            times = acquire_timeout, settle_timeout, wait
            opening = running.asked(ledger_of(store).host, run_id, told, *times, labels=labels)
            resumed = functools.partial(self._check_resumed, run_id, again, told)
            talked = _conversing(_AsyncTwin(self), opening, message, message_id, resumed)
            return await drive_async(talked, opening.host)

    def outcome(self, run_id: str, *, store: AnyStore = None) -> Outcome[RunState]:
        """Return how far a run has come and what it has cost, from the ledger; nothing is run."""
        ledger = ledger_of(store, create=False)
        return with_costs(ledger.store, super().outcome(run_id, store=ledger))

    def effects(self, run_id: str, *, store: AnyStore = None) -> list[AgentEffect]:
        """Return what a run did to the world, from the ledger, oldest first."""
        return effects_of(ledger_of(store, create=False).store, run_id)

    def fingerprint(self) -> Fingerprint:
        """Return what identifies this agent: its loop and its tools. Its texts may change."""
        definition = self.definition()
        with self._guard:
            if self._fingerprint is None:
                tools = sorted(self._tools, key=lambda tool: tool.name)
                body = hash_of_bytes(BODY.encode(), kind=OWN)
                self._fingerprint = Fingerprint(
                    definition,
                    tuple(print_tool(tool) for tool in tools),
                    tuple(sorted((name, body) for name in self.code)),
                )
            return self._fingerprint

    def check_for(self, run_id: str, condition: str) -> Check | None:
        """Return the function that checks a condition; None: it is a condition in words."""
        name = conditions.function_of(condition)
        if name is None:
            return None
        check = self._passed.get(run_id, {}).get(name) or self._declared_checks.get(name)
        if check is None:
            raise ConditionUnknown(
                f"Run {run_id!r} is done when {condition} says so. This function was passed as "
                "done_when= when the run was started, and this process does not have it. The run "
                "keeps its state, and nothing is judged without the function. Resume it with "
                f"the function, agent.run({run_id!r}, done_when=[{name}]), or declare it with the "
                f"agent, Agent(..., done_when=[{name}]), in the process that resumes it.",
                run_id=run_id,
                condition=condition,
            )
        return check

    def _check_resumed(
        self,
        run_id: str,
        again: tuple[str, ...],
        told: Mapping[str, Any] | None,
        known: RunRecord | None,
        goes_on: bool,
    ) -> None:
        """Refuse a run whose conditions cannot be checked here, before anything happens."""
        if known is None:
            self._check_functions(run_id, told)
            if again:
                raise UsageError(
                    f"There is no run {run_id!r}, and done_when=... belongs to a goal. Nothing was "
                    f"started. Give both: agent.run({run_id!r}, goal='...', done_when=[...])."
                )
            return
        own = conditions.began_with(known)
        new = [one for one in again if one not in own and one not in self.conditions]
        if new:
            raise UsageError(
                f"Run {run_id!r} was started without the condition {new[0]!r}. Nothing was done. "
                "Leave it out; for all runs, declare it with the agent, done_when=[...]."
            )
        for condition in own if goes_on else ():
            self.check_for(run_id, condition)

    def _check_functions(self, run_id: str, told: Mapping[str, Any] | None) -> None:
        """Refuse to start a run that names a function which does not exist."""
        asked = (told or {}).get("done_when", ())
        for condition in asked if isinstance(asked, list | tuple) else ():
            try:
                if isinstance(condition, str):
                    self.check_for(run_id, condition)
            except ConditionUnknown:
                raise ConditionUnknown(
                    f"done_when has {condition!r}, which is the name of a function, and agent "
                    f"{self.name!r} has no such function. Nothing was started. Pass the function "
                    "itself, or write a condition in words: more than a name.",
                    run_id=run_id,
                    condition=condition,
                ) from None

    @contextlib.contextmanager
    def _told(
        self,
        run_id: str,
        given: Any,
        goal: Spoken | None,
        done_when: Iterable[str | Check],
        plan: Iterable[str],
    ) -> Iterator[tuple[dict[str, Any] | None, tuple[str, ...]]]:
        """Return the input of the run, or None if there is none, as for a run that is resumed.

        Also return the conditions that the caller passes again. Functions passed to a run are
        known while this process advances it.
        """
        if isinstance(plan, str):
            raise UsageError("plan takes a list of texts. Nothing was started. Write ['...'].")
        named, passed = _read_conditions(self.name, done_when)
        for name, check in passed.items():
            if self._declared_checks.get(name, check) is not check:
                raise UsageError(
                    f"Run {run_id!r} was given a function {name!r}, but agent {self.name!r} has "
                    "another function of that name in done_when. Nothing was started. A run adds "
                    "to the conditions of its agent; give yours another name."
                )
        steps = list(plan)
        told = None if given is None else dict(given)
        if goal is not None or steps or (named and given is not None):
            if given is not None or goal is None:
                raise UsageError(
                    "Give a task with goal=..., and with it done_when=... and plan=...; or all "
                    "of it as one dict, input={'goal': ...}. Nothing was started."
                )
            told = {**_task(goal), "done_when": list(named), "plan": steps}
        self._check_receipts(told)
        if passed:
            self._passed[run_id] = passed
        try:
            yield told, named if told is None else ()
        finally:
            if self._passed.get(run_id) is passed:
                del self._passed[run_id]

    def _check_receipts(self, told: Mapping[str, Any] | None) -> None:
        """Refuse a condition that needs a receipt of a tool which the agent does not have."""
        asked = (told or {}).get("done_when", ())
        for condition in (*self.conditions, *(asked if isinstance(asked, list | tuple) else ())):
            tool = conditions.bound_to(condition) if isinstance(condition, str) else None
            if tool is not None and tool not in self.toolbox.offered:
                raise UsageError(
                    f"Agent {self.name!r} is done when {condition!r}, but it has no tool {tool!r}, "
                    "so there could never be that receipt. Nothing was started. It has: "
                    f"{', '.join(self.toolbox.offered) or 'none'}."
                )


def _task(goal: Spoken) -> dict[str, Any]:
    """Return the goal in words, and the files that belong to it."""
    if isinstance(goal, str):
        return {"goal": goal}
    message = spoken(goal, word="goal")
    names = ", ".join(file.name for file in message.files)
    text = message.text or f"Look at {names}."
    return {"goal": text, "files": list(message.files)} if message.files else {"goal": text}


def _read_conditions(
    agent: str, given: Iterable[str | Check]
) -> tuple[tuple[str, ...], dict[str, Check]]:
    """Return the recorded form of the conditions, and their functions by name."""
    if isinstance(given, str):
        raise UsageError("done_when takes a list. Nothing was started. Write done_when=['...'].")
    asked = list(given)
    if any(isinstance(one, str) and not one.strip() for one in asked):
        raise UsageError("done_when has an empty text. Nothing was started. Say what must be true.")
    conditions.check_markers(asked)
    checks = checks_by_name(agent, [one for one in asked if not isinstance(one, str)])
    named = [one if isinstance(one, str) else one.__name__ + CALLED for one in asked]
    return tuple(dict.fromkeys(named)), checks


def checks_by_name(agent: str, checks: Iterable[Check]) -> dict[str, Check]:
    """Return the functions that check whether a task is done, by name: the name is on record."""
    found: dict[str, Check] = {}
    for check in checks:
        name = getattr(check, "__name__", "")
        if not callable(check) or not name.isidentifier():
            raise UsageError(
                f"done_when cannot use {check!r}. Nothing was started. Give text, or a function "
                "with a name: the name is what is on record."
            )
        if inspect.iscoroutinefunction(check):
            raise UsageError(
                f"The check {name!r} is async, and nottwice awaits no check. Nothing was started. "
                "Make it a plain function."
            )
        if found.setdefault(name, check) is not check:
            raise UsageError(
                f"Two functions {name!r} check whether agent {agent!r} is done. Nothing was "
                "started. Give one of them another name."
            )
    return found


def _conversing(
    graph: running.Runnable,
    opening: Opening,
    message: Spoken | None,
    message_id: str | None,
    check_resumed: Callable[[RunRecord | None, bool], None],
) -> Doing[Outcome[Any]]:
    """Send the message, if there is one, and advance the run until it has answered."""
    host, run_id = opening.host, opening.run_id
    check_policed(host.policies, graph, run_id)
    known = yield running.load(run_id)
    if known is None and opening.input is None and message is None:
        raise UsageError(
            f"There is no run {run_id!r} in {host.store.location}, and no goal was given. "
            f"Nothing was started. Give one: agent.run({run_id!r}, goal='...')."
        )
    if message is not None:
        conversation.check_hears(run_id, known)
    spoken_to = message is not None or (yield conversation.is_spoken_to(run_id))
    over_elsewhere = known is not None and running.is_over_elsewhere(graph, known)
    if known is not None and over_elsewhere and not spoken_to:
        return (yield from costs_told((yield from running.telling(host, graph, known))))
    # Other errors are raised before the message is sent.
    yield Read(lambda store: check_unchanged(store, graph))
    yield from running.beginning(graph, opening, known, moves=over_elsewhere)
    check_resumed(known, spoken_to or known is None or not known.status.is_final)
    if message is None:
        return (yield from _until_answered(graph, opening))
    yield from conversation.send_message(host, run_id, message, message_id=message_id)
    try:
        return (yield from _until_answered(graph, opening))
    except RunBusy as busy:
        raise conversation.is_on_record(busy) from None


def _until_answered(graph: running.Runnable, opening: Opening) -> Doing[Outcome[Any]]:
    """Advance the run until it has read every message, or it waits."""
    run_id = opening.run_id
    while True:
        if (yield conversation.is_spoken_to(run_id)):
            yield Read(lambda store: check_unchanged(store, graph))
            yield from conversation.reopen(graph, opening)
        outcome = yield from running.running(graph, opening)
        if not (yield conversation.is_spoken_to(run_id)):
            return (yield from costs_told(outcome))


class _AsyncTwin:
    """The same agent with beats that do not block an event loop."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.name, self.version, self.place = agent.name, agent.version, agent.place
        self.state, self.cadence = agent.state, agent.cadence
        self.found_whole, self.bonds = agent.found_whole, agent.bonds
        self.beside, self.converses = agent.beside, agent.converses
        self.id, self.record_json = agent.id, agent.record_json
        self.code: dict[str, NodeCode] = dict(agent.code)
        for name, method in ASYNC_BEATS.items():
            code: Any = agent.code[name]
            bare = getattr(agent.loop, method)
            self.code[name] = dataclasses.replace(code, bare=bare, is_async=True)

    def definition(self) -> GraphDefinition:
        return self._agent.definition()

    def fingerprint(self) -> Fingerprint:
        return self._agent.fingerprint()


def _checked_provider(name: str, provider: Any) -> Provider:
    if isinstance(provider, Provider):
        return provider
    raise UsageError(
        f"Agent {name!r} was given {provider!r} as its provider, but it is not one. Nothing "
        "happened. A provider has model, price, complete and acomplete."
    )


def _checked_budget(name: str, budget: Any, provider: Provider) -> Budget:
    if not isinstance(budget, Budget):
        raise UsageError(
            f"Agent {name!r} was given {budget!r} as its budget. Nothing happened. Write "
            "budget=nt.Budget(usd=2.00)."
        )
    if budget.usd is not None and provider.price is None:
        raise UsageError(
            f"Agent {name!r} has a budget in dollars, but the price of {provider.model!r} is not "
            "known, so it could not be kept. Nothing happened. Tell the provider its price, or "
            "give a budget in tokens."
        )
    return budget


def _checked_description(name: str, description: Any) -> str:
    if isinstance(description, str):
        return description
    raise UsageError(
        f"Agent {name!r} has description={description!r}, which is not a text. Nothing happened."
    )


def _checked_summarise(name: str, summarise: Any) -> Summarise | None:
    if summarise is None or (callable(summarise) and not inspect.iscoroutinefunction(summarise)):
        found: Summarise | None = summarise
        return found
    raise UsageError(
        f"Agent {name!r} has summarise={summarise!r}, which cannot be called. Nothing happened. "
        "Give a plain function from a list of messages to a text."
    )


def _check_prices(name: str, budget: Budget, offered: Iterable[Any]) -> None:
    """Refuse a budget in dollars that covers workers whose price is unknown."""
    if budget.usd is None:
        return
    for worker in offered:
        if not isinstance(worker, Agent):
            continue
        if worker.provider.price is None:
            raise UsageError(
                f"Agent {name!r} has a budget in dollars, which covers its worker {worker.name!r}, "
                f"and the price of {worker.provider.model!r} is not known. Nothing happened. Tell "
                "the provider its price, or give a budget in tokens."
            )
        _check_prices(name, budget, worker.workers)


def _checked_options(name: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    check_options(options or {}, who=f"Agent {name!r}")
    return dict(options or {})


def _above_zero(value: Any, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise UsageError(f"{what}={value!r} is not a number above 0. Nothing happened.")
