"""Resume a recorded checkpoint through the real engine, with a driver that never fires.

The record is loaded into a ledger in memory. Whatever a run in that ledger asks of a driver is
answered from the record: a tool's function, its ``verify`` and its ``classify`` are not called, no
policy is asked, nothing waits, and a node that uses the network is stopped. A call that the record
does not contain is noted. It is answered from its nearest counterpart if there is one, and
otherwise ends the replay. Runs in other ledgers of this process are driven as usual.
Promise kept here: P50.
"""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nottwice.engine.asks import Ask, CanInvoke, Fire, Invoked, Pause, Rule, Verify
from nottwice.engine.clock import Clock
from nottwice.engine.drivers import USUAL
from nottwice.engine.events import silence_here
from nottwice.engine.host import Host
from nottwice.engine.stepping.steps import SPAWN
from nottwice.engine.waits.stops import is_wait
from nottwice.errors import NottwiceError, ReplayUnsafeError
from nottwice.graphs.declare import Graph
from nottwice.graphs.outcome import Outcome as RunOutcome
from nottwice.graphs.outcome import status_text
from nottwice.guard.ledger import Ledger
from nottwice.guard.settings.policies import NoneAsked
from nottwice.guard.stand_ins import stand_in_everywhere, stand_in_here
from nottwice.model import values
from nottwice.model.call import ROOT_NODE, CallIdentity, CallRow, CallStatus, branch_node
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review
from nottwice.model.run import CheckpointRecord, RunRecord, RunStatus, StepRecord
from nottwice.model.tool import OWN_PREFIX, Tool
from nottwice.policy.rulings import allow
from nottwice.store.interface import Commit, Store
from nottwice.store.memory import MemoryStore
from nottwice.testing.replay.blind import BlindKey, BlindKeys
from nottwice.testing.replay.fixture import Fixture
from nottwice.testing.replay.plain import BLOCK, PlainProgram, block_of

LIMIT_SECONDS = 60.0


class Stopped(BaseException):
    """The replay ends here. User code cannot catch it, as it could not catch a crash."""

    def __init__(self, error: NottwiceError | None = None) -> None:
        super().__init__("the replay ends here")
        self.error = error


class ReachedOut(Stopped):
    """A node tried to use the network directly."""


@frozen_record(frozen=True, slots=True)
class Miss:
    """A call that the code made and the record does not contain."""

    identity: CallIdentity
    args: Any
    effectful: bool
    answered: bool
    """It was answered from elsewhere, and the replay continued."""
    during: tuple[str, str] | None = None
    """The step that was entered last."""


@dataclass(slots=True)
class Trace:
    """What a replay did: everything that can be compared with the record."""

    asked: dict[CallIdentity, None] = field(default_factory=dict)
    misses: list[Miss] = field(default_factory=list)
    unreadable: list[tuple[CallIdentity, str]] = field(default_factory=list)
    """Recorded results that the code can no longer read."""
    visits: dict[tuple[str, str], None] = field(default_factory=dict)
    """The steps that were entered, in order."""
    steps: Mapping[tuple[str, str], StepRecord] = field(default_factory=dict)
    reviews: Mapping[str, Review] = field(default_factory=dict)
    outcome: RunOutcome[Any] | None = None
    error: BaseException | None = None
    hangs: bool = False
    opened: bool = False
    """The run was opened."""

    @property
    def stopped(self) -> bool:
        """Whether the replay ended before the code did."""
        return isinstance(self.error, Stopped)


def run_fixture(
    graph: Graph[Any] | PlainProgram,
    fixture: Fixture,
    *,
    answers: Mapping[str, Any] | None = None,
    limit_seconds: float = LIMIT_SECONDS,
) -> Trace:
    """Resume a checkpoint as far as its record goes, and return what happened. Never raises."""
    store = ReplayStore(fixture, answers or {})
    clock, keys = _StandingClock(fixture.at), BlindKeys(BlindKey())
    driver = ReplayDriver(store)
    ledger = Ledger(store, clock=clock, policy=NoneAsked(), key=keys, driver=driver)
    trace = store.trace

    def work() -> None:
        _replaying.set(True)
        silence_here()
        try:
            if isinstance(graph, PlainProgram):
                _resume(graph, fixture.run_id, _OnlyLedger(store, clock, keys))
            else:
                trace.outcome = graph.run(fixture.run_id, store=ledger)
        except BaseException as error:
            trace.error = error

    _close_the_network()
    # A separate thread: no event loop is in the way, and a replay that hangs is not waited for. It
    # may wake up at any time, but cannot reach anything then either.
    thread = threading.Thread(target=work, name="nottwice-replay", daemon=True)
    thread.start()
    thread.join(limit_seconds)
    trace.hangs = thread.is_alive()
    if trace.hangs:
        store.end()
    trace.steps = {(node, visit): step for (_, node, visit), step in store.data.steps.items()}
    trace.reviews = dict(store.data.reviews)
    if fixture.is_plain:
        _end_block(trace, store.data.runs[fixture.run_id])
    return trace


def _end_block(trace: Trace, run: RunRecord) -> None:
    """Describe how the block of a run without a graph ended, as a step and as an outcome."""
    if is_wait(trace.error):
        trace.error = None
    if trace.error is None or run.status is RunStatus.COMPLETED:
        trace.outcome = RunOutcome(run.workflow_id, "", status_text(run), None, 0, waits=run.waits)
    trace.visits = {BLOCK: None, **trace.visits}
    trace.steps = {**trace.steps, BLOCK: block_of(run)}


class ReplayStore(MemoryStore):
    """A ledger with one recorded checkpoint and what followed. It notes what is requested."""

    location = "the recorded checkpoint"

    def __init__(self, fixture: Fixture, answers: Mapping[str, Any]) -> None:
        super().__init__(now=fixture.at)
        self.trace = Trace()
        self._fixture = fixture
        self._answers = answers
        self._guard = threading.Lock()
        self._lent: set[CallIdentity] = set()
        """Recorded rows that answered for a call which the record does not contain."""
        self._ended = False
        self._recorded = {row.identity: row for row in fixture.calls}
        self._load(fixture)

    def _load(self, fixture: Fixture) -> None:
        image = {"state": fixture.state, "position": fixture.position}
        data, run_id = self.data, fixture.run_id
        data.runs[run_id] = RunRecord(
            workflow_id=run_id,
            status=RunStatus.RUNNING,
            epoch=1,
            holder_id=None,
            created_at=fixture.at,
            updated_at=fixture.at,
            graph_id=fixture.graph_id or None,
            input_json=None if fixture.input is None else values.encode(fixture.input),
        )
        if not fixture.is_plain:
            data.checkpoints[(run_id, fixture.version)] = CheckpointRecord(
                run_id,
                fixture.version,
                fixture.version,
                fixture.after,
                values.encode(image),
                fixture.at,
            )
        # A call in doubt is made again by the code that started it. Nothing is reconciled here.
        data.calls.update((row.identity, row) for row in fixture.calls if is_settled(row))
        data.reviews.update((review.review_id, review) for review in fixture.reviews)
        data.events.update(((run_id, event.event_id), event) for event in fixture.events)

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        self.trace.asked[identity] = None
        return super().load_call(identity)

    def load_step(self, workflow_id: str, node_id: str, checkpoint_id: str) -> StepRecord | None:
        self.trace.visits[(node_id, checkpoint_id)] = None
        return super().load_step(workflow_id, node_id, checkpoint_id)

    def commit(self, commit: Commit) -> None:
        if commit.claim is not None and commit.workflow_id != self._fixture.run_id:
            self._stop_at_child(commit.claim.run)
        self.trace.opened |= commit.claim is not None
        super().commit(commit)

    def end(self) -> None:
        """Stop every caller from now on."""
        self._ended = True

    def reply(self, ask: Fire | Verify | Rule | CanInvoke | Pause) -> Any:
        """Return what a driver would answer, without doing any of it."""
        if self._ended:
            raise Stopped
        match ask:
            case Fire():
                ask.in_flight.body_ended()
                return self._fire(ask)
            case Pause():
                return None
            case CanInvoke():
                return True
            case Rule():
                # Recorded calls were allowed, and nothing else is done.
                return Invoked(value=allow(), invoked=True)
            case Verify():
                raise Stopped

    def _fire(self, fire: Fire) -> Invoked:
        tool, row = fire.tool, fire.in_flight.row
        assert row is not None
        identity = row.identity
        self.trace.asked[identity] = None
        if tool.name in _VALUES:
            return Invoked(value=_own_value(tool, identity, self._fixture.at), invoked=True)
        recorded = self._recorded.get(identity)
        if recorded is not None:
            return self._try_again(tool, recorded)
        return self._miss(tool, row)

    def _try_again(self, tool: Tool, recorded: CallRow) -> Invoked:
        """Handle another attempt at a recorded call: that would need the world."""
        if recorded.status is CallStatus.DONE:
            # This only happens if its result cannot be read any more.
            self._read(tool, recorded)
        raise Stopped

    def _miss(self, tool: Tool, row: CallRow) -> Invoked:
        args = values.decode_object(row.args_json)
        effectful = tool.replay_class.effectful
        with self._guard:
            counterpart = self._counterpart(row, effectful=effectful)
            if counterpart is not None:
                self._lent.add(counterpart.identity)
            answered = counterpart is not None or (not effectful and tool.name in self._answers)
            self._note(row.identity, args, effectful=effectful, answered=answered)
        if counterpart is not None:
            return Invoked(value=self._read(tool, counterpart), invoked=True)
        if answered:
            stored = tool.adopt_result(self._answers[tool.name])
            return Invoked(value=tool.decode_result(stored), invoked=True)
        raise Stopped(_unsafe(row) if effectful else None)

    def _note(self, identity: CallIdentity, args: Any, *, effectful: bool, answered: bool) -> None:
        entered = list(self.trace.visits)
        during = entered[-1] if entered else None
        self.trace.misses.append(Miss(identity, args, effectful, answered, during))

    def _counterpart(self, row: CallRow, *, effectful: bool) -> CallRow | None:
        """Return the recorded call that answers this one: same place and tool, not used yet.

        A pure tool that was called with the same arguments elsewhere answers the same here.
        """
        done = [one for one in self._fixture.calls if one.status is CallStatus.DONE]
        for one in done:
            is_free = one.identity not in self.trace.asked and one.identity not in self._lent
            if is_free and is_same_place(one.identity, row.identity):
                return one
        for one in done:
            if one.identity[3:] == row.identity[3:] and not effectful:
                return one
        return None

    def _read(self, tool: Tool, row: CallRow) -> Any:
        assert row.result is not None
        try:
            return tool.decode_result(row.result)
        except NottwiceError as error:
            self.trace.unreadable.append((row.identity, str(error)))
            raise Stopped from error

    def _stop_at_child(self, child: RunRecord) -> None:
        """Stop at an unfinished child, which is a separate run with its own checkpoints."""
        asked = [one for one in list(self.trace.asked) if one.tool_name == SPAWN]
        for identity in asked:
            if identity.call_id[:16] in child.workflow_id and identity not in self._recorded:
                started = values.decode(child.input_json or "{}")
                name = (child.graph_id or "").partition("@")[0]
                args = {"graph": name, "input": started, "label": None}
                self._note(identity, args, effectful=True, answered=False)
        raise Stopped


def is_same_place(one: CallIdentity, other: CallIdentity) -> bool:
    """Whether two calls of one tool were made in one place.

    A call of the run as a whole may be in its own branch, named after its hash.
    """
    if one.tool_name != other.tool_name or one.checkpoint_id != other.checkpoint_id:
        return False
    own_branches = is_own_branch(one) and is_own_branch(other)
    return one.node_id == other.node_id or own_branches


def is_own_branch(identity: CallIdentity) -> bool:
    """Return whether a call is in a branch that is named after it (``agent/toolbox.py``)."""
    return identity.node_id == branch_node(ROOT_NODE, int(identity.input_hash[:8], 16))


def is_settled(row: CallRow) -> bool:
    """Return whether a row is an answer: neither in doubt, nor failed with a retry due."""
    return not row.status.in_doubt and row.retry_at is None


class _StandingClock:
    """The time is always when the run last changed: what was due then is due, nothing else is."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def pause(self, seconds: float) -> None:
        return None

    async def pause_async(self, seconds: float) -> None:
        return None

    def random_unit(self) -> float:
        return 0.5

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        return None


_VALUES = tuple(f"{OWN_PREFIX}{name}" for name in ("now", "uuid", "random"))


def _own_value(tool: Tool, identity: CallIdentity, now: float) -> Any:
    """Return a time, an id or a number that the record lacks: the same in every replay."""
    match tool.name.removeprefix(OWN_PREFIX):
        case "now":
            return datetime.fromtimestamp(now, UTC)
        case "uuid":
            return uuid.uuid5(uuid.NAMESPACE_OID, identity.call_id)
        case _:
            return 0.5


def _unsafe(row: CallRow) -> ReplayUnsafeError:
    return ReplayUnsafeError(
        f"{row.identity.tool_name} has no receipt in the recorded checkpoint. It was not run.",
        call_id=row.call_id,
        run_id=row.identity.workflow_id,
    )


class ReplayDriver:
    """Answers from a record what the usual driver would do. Reads and writes stay in memory."""

    def __init__(self, store: ReplayStore) -> None:
        self._store = store

    def answer(self, ask: Ask, host: Host) -> Any:
        if isinstance(ask, Fire | Verify | Rule | CanInvoke | Pause):
            return self._store.reply(ask)
        return USUAL.answer(ask, host)

    async def answer_async(self, ask: Ask, host: Host) -> Any:
        if isinstance(ask, Fire | Verify | Rule | CanInvoke | Pause):
            return self._store.reply(ask)
        return await USUAL.answer_async(ask, host)


@frozen_record(frozen=True, slots=True)
class _OnlyLedger:
    """Uses the record, whatever ledger the code names or has opened before."""

    record: ReplayStore
    time: Clock
    keyring: BlindKeys

    def opened(self, given: str | Path | None) -> Store | None:
        return self.record

    def host(self, named: Host) -> Host:
        return replace(
            named,
            store=self.record,
            clock=self.time,
            driver=ReplayDriver(self.record),
            keys=lambda: self.keyring,
        )


# The network: what a node could do without a driver.

_replaying: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "nottwice_replaying", default=False
)
_REACHES_OUT = frozenset(
    f"socket.{name}"
    for name in ("connect", "getaddrinfo", "gethostbyname", "gethostbyaddr", "sendmsg", "sendto")
)


_one_program = threading.Lock()


def _resume(program: PlainProgram, run_id: str, only: _OnlyLedger) -> None:
    """Run a program in which nothing is real. Its threads do not know that they are replayed."""
    stand_in_here(only)
    with _one_program:
        stand_in_everywhere(only)
        try:
            program.resume(run_id)
        finally:
            stand_in_everywhere(None)


@functools.cache
def _close_the_network() -> None:
    """Stop replayed code from connecting to anything, with a Python audit hook."""
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _REACHES_OUT and _replaying.get():
        raise ReachedOut
