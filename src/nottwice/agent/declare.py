"""An agent as users write it: ``nt.Agent("triage", version="1.0.0", provider=..., tools=[...])``.

An agent is a graph whose nodes are the beats of the loop, so what holds for graphs holds for it:
versions, checkpoints, reviews, forks, children, and a resume by running the same line again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from nottwice.agent import conversation, loop
from nottwice.agent.budget import Budget
from nottwice.agent.context import Context, default_context
from nottwice.agent.effects import Effect, effects_of
from nottwice.agent.loop import ASYNC_BEATS, Beats, Check
from nottwice.agent.provider import Provider
from nottwice.agent.state import AgentState, RunState
from nottwice.agent.toolbox import Toolbox
from nottwice.agent.workers import costs_told, with_costs
from nottwice.engine.advance import NodeCode
from nottwice.engine.asks import Doing, Read
from nottwice.engine.drivers import drive, drive_async
from nottwice.errors import RunBusy, UsageError
from nottwice.graphs import running
from nottwice.graphs.binding import check_unchanged
from nottwice.graphs.declare import AnyStore, Graph
from nottwice.graphs.fingerprint import print_tool
from nottwice.graphs.outcome import Outcome
from nottwice.guard.importing import check_not_importing
from nottwice.guard.ledger import ledger_of
from nottwice.model.body import hash_of_bytes
from nottwice.model.cadence import Checkpoints
from nottwice.model.call import check_id
from nottwice.model.failure import RetryPolicy
from nottwice.model.fingerprint import Fingerprint
from nottwice.model.graph import GraphDefinition
from nottwice.model.tool import Duration, parse_duration

BODY = "nottwice.agent 1"
"""What the beats say, as far as versions are concerned: they are not the user's to bump."""
CALLED = "()"
"""What a condition ends with that is the name of a function."""
INSTRUCTIONS = (
    "You work on a task step by step, with tools. Plan first if the task has several steps, and "
    "say when a step is done. Each tool result tells what really happened; rely on nothing else. "
    "When the task is done, answer without calling a tool."
)


class Agent(Graph[RunState]):
    """An agent that can be killed at any moment and resumed by running the same line again.

    ``provider``: the model. ``tools``: protected functions, and other agents to hand tasks to.
    ``budget``: what a run may take before a person is asked. ``instructions``: what the model is
    told in every request. ``context``: a function from the run's state to what the model sees;
    ``context_tokens`` bounds how much of the conversation it is shown. ``checkpoints``: when
    beats become durable, in the words of every graph; each beat is a step, and replies and effects
    always are. ``done_when``: functions that tell whether a task is done; a run
    names them as ``"name()"``, beside conditions in words. ``options`` go to the provider's SDK.
    ``time_limit``: how long to wait for a reply; else as long as the provider does. ``retry``: how
    often to ask at first when the model cannot answer; then the run waits on timers, and fails
    after ``give_up_after``.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str,
        provider: Provider,
        tools: Iterable[Any] = (),
        budget: Budget | None = None,
        instructions: str = INSTRUCTIONS,
        context: Callable[[RunState], Context] | None = None,
        context_tokens: int = 100_000,
        most_output_tokens: int = 4096,
        checkpoints: Checkpoints = "effects",
        done_when: Iterable[Check] = (),
        retry: RetryPolicy | None = None,
        give_up_after: Duration = "24h",
        time_limit: Duration | None = None,
        options: Mapping[str, Any] | None = None,
        cadence: None = None,
    ) -> None:
        _refuse_old_word(name, cadence)
        offered = list(tools)
        functions = [each for each in offered if not isinstance(each, Graph)]
        self.workers = tuple(each for each in offered if isinstance(each, Graph))
        self.toolbox = Toolbox(name, offered)
        super().__init__(name, version=version, checkpoints=checkpoints, tools=functions)
        self.state = AgentState(agent=name)
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
        self._declared_checks = checks_by_name(name, done_when)
        self._passed: dict[str, dict[str, Check]] = {}
        """The functions that runs which are being advanced were given, by run."""
        self.loop = Beats(self)
        loop.declare(self, self.loop)

    @property
    def hooks(self) -> dict[str, Callable[..., Any]]:
        """The functions of the user that run in its beats and are no tools, by what they are."""
        found: dict[str, Callable[..., Any]] = {}
        if self._context is not None:
            found["context"] = self._context
        checks = self._declared_checks.items()
        return found | {f"done_when {name!r}": check for name, check in checks}

    def make_context(self, state: RunState) -> Context:
        """What the model sees in its next request."""
        if self._context is not None:
            return self._context(state)
        return self.default_context(state)

    def default_context(self, state: RunState) -> Context:
        """The task, what was compacted, what was said lately, and where the plan stands."""
        return default_context(state, self.instructions)

    def run(
        self,
        run_id: str,
        input: Any = None,
        *,
        goal: str | None = None,
        done_when: Iterable[str | Check] = (),
        plan: Iterable[str] = (),
        message: str | None = None,
        message_id: str | None = None,
        store: AnyStore = None,
        wait_seconds: float = 0.0,
        patience: Duration = "60s",
        stay: Duration | None = None,
    ) -> Outcome[RunState]:
        """Work on a task: start it, resume it, or tell how it ended; there is no difference.

        ``goal``: what is to be done. ``done_when``: what must be true then, in words or as a
        function of the state; one that is not known to be true sends the model back to work.
        ``plan``: steps to begin with. ``message``: say something to the run, which goes on even if
        it had ended; ``message_id`` tells two messages of the same words apart. Returns when the
        run is finished or waits; ``stay`` as for graphs. ``input`` is all of it as one dict.
        """
        check_not_importing(f"Run {run_id!r} is opened")
        running.check_no_loop(self, "await agent.arun(...)")
        with self._told(run_id, input, goal, done_when, plan) as told:
            ledger = ledger_of(store)
            asked = running.Asked(self, run_id, told, wait_seconds, patience, stay)
            return drive(_conversing(ledger, asked, message, message_id), ledger)

    async def arun(
        self,
        run_id: str,
        input: Any = None,
        *,
        goal: str | None = None,
        done_when: Iterable[str | Check] = (),
        plan: Iterable[str] = (),
        message: str | None = None,
        message_id: str | None = None,
        store: AnyStore = None,
        wait_seconds: float = 0.0,
        patience: Duration = "60s",
        stay: Duration | None = None,
    ) -> Outcome[RunState]:
        """The same without blocking the event loop; the model and async tools run in it."""
        check_not_importing(f"Run {run_id!r} is opened")
        with self._told(run_id, input, goal, done_when, plan) as told:
            ledger = ledger_of(store)
            asked = running.Asked(_AsyncTwin(self), run_id, told, wait_seconds, patience, stay)
            return await drive_async(_conversing(ledger, asked, message, message_id), ledger)

    def outcome(self, run_id: str, *, store: AnyStore = None) -> Outcome[RunState]:
        """How far a run came, as the ledger has it, and what it has cost; nothing is run."""
        ledger = ledger_of(store, create=False)
        return with_costs(ledger.store, super().outcome(run_id, store=ledger))

    def effects(self, run_id: str, *, store: AnyStore = None) -> list[Effect]:
        """What a run did to the world, as the ledger has it, oldest first."""
        return effects_of(ledger_of(store, create=False).store, run_id)

    def fingerprint(self) -> Fingerprint:
        """What makes this agent this agent: its loop and its tools. What it is told may change."""
        definition = self.definition()
        with self._guard:
            if self._fingerprint is None:
                tools = sorted(self._tools, key=lambda tool: tool.name)
                body = hash_of_bytes(BODY.encode(), kind="own")
                self._fingerprint = Fingerprint(
                    definition,
                    tuple(print_tool(tool) for tool in tools),
                    tuple(sorted((name, body) for name in self.code)),
                )
            return self._fingerprint

    def check_for(self, run_id: str, condition: str) -> Check | None:
        """The function that tells whether a condition is met; None: it is one in words."""
        name = condition.removesuffix(CALLED)
        if name == condition:
            return None
        check = self._passed.get(run_id, {}).get(name) or self._declared_checks.get(name)
        if check is None:
            raise UsageError(
                f"Run {run_id!r} is done when {condition} says so, and this process does not know "
                f"that function. The run stays where it is. Declare it with the agent, "
                f"done_when=[{name}], or pass it to run() again."
            )
        return check

    @contextlib.contextmanager
    def _told(
        self,
        run_id: str,
        given: Any,
        goal: str | None,
        done_when: Iterable[str | Check],
        plan: Iterable[str],
    ) -> Iterator[dict[str, Any] | None]:
        """What the run begins with; None if nothing is said, as for a run that is resumed.

        Functions that are passed to a run are known for as long as it is advanced.
        """
        if isinstance(done_when, str) or isinstance(plan, str):
            raise UsageError(
                "done_when and plan take lists of texts. Nothing was started. Write ['...']."
            )
        asked, steps = list(done_when), list(plan)
        passed = checks_by_name(self.name, [one for one in asked if not isinstance(one, str)])
        conditions = [one if isinstance(one, str) else one.__name__ + CALLED for one in asked]
        told = None if given is None else dict(given)
        if goal is not None or conditions or steps:
            if given is not None or goal is None:
                raise UsageError(
                    "A task is told with goal=..., and with it done_when=... and plan=...; or all "
                    "of it as one dict, input={'goal': ...}. Nothing was started."
                )
            told = {"goal": goal, "done_when": conditions, "plan": steps}
        if passed:
            self._passed[run_id] = passed
        try:
            yield told
        finally:
            if self._passed.get(run_id) is passed:
                del self._passed[run_id]


def checks_by_name(agent: str, checks: Iterable[Check]) -> dict[str, Check]:
    """Functions that tell whether a task is done, each by its name, which is what is on record."""
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
                f"The check {name!r} is async, and nobody would await it. Nothing was started. "
                "Make it a plain function."
            )
        if found.setdefault(name, check) is not check:
            raise UsageError(
                f"Two functions {name!r} tell whether agent {agent!r} is done. Nothing was "
                "started. Give one of them another name."
            )
    return found


def _conversing(
    seat: running.PolicedSeat, asked: running.Asked, message: str | None, message_id: str | None
) -> Doing[Outcome[Any]]:
    """Take part in a conversation: say something, and advance the run until it has answered."""
    graph, run_id = asked.graph, check_id(asked.run_id, what="The run id")
    known = yield running.load(run_id)
    if known is None and asked.input is None and message is None:
        raise UsageError(
            f"There is no run {run_id!r} in {seat.store.location}, and nothing says what is to be "
            f"done. Nothing was started. Say it: agent.run({run_id!r}, goal='...')."
        )
    if known is not None and message is None and running.is_over_elsewhere(graph, known):
        return (yield from costs_told((yield from running.telling(seat, graph, known))))
    # Whatever is wrong with the rest is said before the message is.
    yield from running.beginning(asked, known, now=seat.clock.now())
    if message is None:
        return (yield from _advancing(seat, asked, run_id))
    yield from conversation.send_message(seat, run_id, message, message_id=message_id)
    try:
        return (yield from _advancing(seat, asked, run_id))
    except RunBusy as busy:
        raise conversation.busy_but_heard(busy) from busy


def _advancing(seat: running.PolicedSeat, asked: running.Asked, run_id: str) -> Doing[Outcome[Any]]:
    """Advance the run until it has answered all that was said to it."""
    graph = asked.graph
    while True:
        if (yield conversation.is_spoken_to(run_id)):
            yield Read(lambda store: check_unchanged(store, graph))
            yield from conversation.reopen(
                seat, graph.definition(), run_id, wait_seconds=asked.wait_seconds
            )
        outcome = yield from running.running(seat, asked)
        if not (yield conversation.is_spoken_to(run_id)):
            return (yield from costs_told(outcome))


class _AsyncTwin:
    """The same agent with beats that do not block an event loop."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.name, self.version, self.place = agent.name, agent.version, agent.place
        self.state, self.cadence = agent.state, agent.cadence
        self.found_whole = agent.found_whole
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


def _refuse_old_word(name: str, cadence: Any) -> None:
    if cadence is not None:
        same = "every_step" if cadence == "every_beat" else cadence
        raise UsageError(
            f"Agent {name!r} has cadence={cadence!r}. The word is checkpoints=, as for runs and "
            f"graphs. Nothing happened. Write checkpoints={same!r}."
        )


def _checked_provider(name: str, provider: Any) -> Provider:
    if isinstance(provider, Provider):
        return provider
    raise UsageError(
        f"Agent {name!r} was given {provider!r} as its provider, which cannot be asked. Nothing "
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
            f"Agent {name!r} has a budget in dollars, and the price of {provider.model!r} is not "
            "known, so nobody could keep it. Nothing happened. Tell the provider its price, or "
            "give a budget in tokens."
        )
    return budget


def _check_prices(name: str, budget: Budget, offered: Iterable[Any]) -> None:
    """Refuse a budget in dollars that covers workers of which nobody knows what they cost."""
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
    for limit in ("max_tokens", "max_output_tokens", "max_completion_tokens"):
        if limit in (options or {}):
            raise UsageError(
                f"Agent {name!r} has options={{{limit!r}: ...}}, of which its budget would not "
                "know. Nothing happened. Say it with most_output_tokens=..."
            )
    return dict(options or {})


def _above_zero(value: Any, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise UsageError(f"{what}={value!r} is no number above 0. Nothing happened.")
