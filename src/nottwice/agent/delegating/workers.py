"""What may the workers of an agent spend, and what have they spent (A4, A5)?

A boss records its limits before it hands over a task. Every request of a worker is charged to a
meter of each run above it, up to the topmost, in the commit that reserves it. The store refuses a
charge beyond the limit. So a budget covers the whole tree, in all processes that advance its parts,
and through crashes: nothing depends on the memory of a process. Promise kept here: P190.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nottwice.agent.budget import Amount, Budget, Overrun
from nottwice.agent.requests.raising import (
    ask_raise,
    charge,
    find_call,
    from_units,
    lent_to,
    units,
)
from nottwice.agent.state import Cost, RunState, cost_of, is_state
from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls.requests import Request
from nottwice.engine.session import Scope, Session
from nottwice.engine.waits import waiting
from nottwice.graphs.children import child_run_id
from nottwice.graphs.outcome import Outcome
from nottwice.guard.recorded import own_tool, request_for
from nottwice.model import values
from nottwice.model.call import (
    FIRST_CHECKPOINT,
    ROOT_NODE,
    CallIdentity,
    CallRow,
    ResultKind,
    StoredResult,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import not_believed
from nottwice.model.review import ReviewKind, ReviewStatus
from nottwice.model.saving.image import load_image
from nottwice.model.tool import Tool
from nottwice.store.interface import CallWrite, ChargeWrite, Outdated, Store

ALLOWANCE = "nottwice.allowance"
MONEY = ("usd", "tokens")


def taken_for(run_id: str, name: str) -> str:
    """Return the meter of what the workers of this run have taken, reserved requests included."""
    return f"nottwice.workers/{name}/{run_id}"


def under_way_for(run_id: str, name: str) -> str:
    """Return the meter of what is reserved for requests of its workers that are in progress."""
    return f"nottwice.under-way/{name}/{run_id}"


def lost_by(run_id: str, name: str) -> str:
    """Return the meter of what a run reserved for requests whose answer never came."""
    return f"nottwice.unanswered/{name}/{run_id}"


def shown(store: Store, meter: Any, run_id: str, *, besides: str = "") -> Amount:
    """Read the meters of one kind for a run, in tokens and dollars."""
    tokens, usd = (store.charged(meter(run_id, name), besides=besides) for name in MONEY[::-1])
    return Amount(tokens, from_units("usd", usd))


# The bosses


@frozen_record(frozen=True, slots=True)
class Boss:
    """A run that another one works for: its limits, and what counts against them so far."""

    run_id: str
    limits: Mapping[str, float | None]
    own: Mapping[str, float]
    """What it has taken itself."""
    taken: Mapping[str, float]
    """What its workers have taken."""
    under_way: Mapping[str, float]
    """The part of ``taken`` that is only reserved, and may turn out to be less."""

    def at_most(self, name: str) -> int | None:
        """Return the most that the meter of its workers may show."""
        limit = self.limits.get(name)
        return None if limit is None else units(name, limit) - units(name, self.own.get(name, 0))

    def overrun(self, name: str, following: float, *, patient: bool = False) -> Overrun | None:
        """Return the limit if this would exceed it; ``patient``: if it also would later."""
        limit = self.limits.get(name)
        if limit is None:
            return None
        # In whole units, like the store, which checks again: both must get the same result.
        so_far = units(name, self.own.get(name, 0)) + units(name, self.taken.get(name, 0))
        waits_for = units(name, self.under_way.get(name, 0)) if patient else 0
        if so_far + units(name, following) - waits_for <= units(name, limit):
            return None
        return Overrun(name, limit, from_units(name, so_far), following, of=self.run_id)


def bosses_of(session: Session, call_id: str) -> Doing[tuple[Boss, ...]]:
    """Return the runs that this one works for, nearest first, without the charges of this call."""
    if session.run.parent_id is None:
        return ()
    found: tuple[Boss, ...] = yield Read(
        lambda store: tuple(_bosses(store, session.run.parent_id, call_id))
    )
    return found


def _bosses(store: Store, run_id: str | None, call_id: str) -> Iterable[Boss]:
    while run_id is not None:
        run = store.load_run(run_id)
        row = store.load_call(_allowance_of(run_id))
        if row is not None:
            limits, own = _read(row)
            for name, limit in limits.items():
                if limit is not None:
                    lent = store.charged(lent_to(run_id, name))
                    limits[name] = limit + from_units(name, lent)
            limited = [name for name, limit in limits.items() if limit is not None]

            def look(meter: Any, boss: str, names: Sequence[str]) -> dict[str, float]:
                return {
                    name: from_units(name, store.charged(meter(boss, name), besides=call_id))
                    for name in names
                }

            yield Boss(
                run_id,
                limits,
                own,
                look(taken_for, run_id, limited),
                look(under_way_for, run_id, [name for name in limited if name in MONEY]),
            )
        run_id = None if run is None else run.parent_id


def is_raised_below(run_id: str | None, *, besides: str) -> Read:
    """Ask whether a person has allowed a worker of this run more, which it has not used yet."""

    def look(store: Store) -> bool:
        return run_id is not None and any(
            review.kind is ReviewKind.BUDGET and review.status is ReviewStatus.DECIDED
            for worker in _below(store, run_id)
            if worker != besides
            for review in store.open_reviews(worker)
        )

    return Read(look)


def _below(store: Store, run_id: str) -> Iterable[str]:
    for child in store.children(run_id):
        yield child.workflow_id
        yield from _below(store, child.workflow_id)


def charges_above(
    session: Session,
    bosses: Iterable[Boss],
    identity: CallIdentity,
    *,
    taken: Amount,
    under_way: Amount,
    limited: bool,
) -> tuple[ChargeWrite, ...]:
    """Return the charges of a request to the bosses; ``limited``: only if they fit."""
    writes: list[ChargeWrite] = []
    for boss in bosses:
        for name in MONEY:
            amount = units(name, getattr(taken, name))
            record = charge(session, identity, taken_for(boss.run_id, name), amount)
            writes.append(ChargeWrite(record, boss.at_most(name) if limited else None))
            if boss.limits.get(name) is not None:
                amount = units(name, getattr(under_way, name))
                record = charge(session, identity, under_way_for(boss.run_id, name), amount)
                writes.append(ChargeWrite(record))
    return tuple(writes)


# The workers


def allowance(
    session: Session, budget: Budget, raised: Mapping[str, float], own: Amount
) -> Doing[tuple[CallWrite, ...]]:
    """Return the write that records what workers of this run may take, unless it is on record."""
    limits = {
        name: None if limit is None else limit + raised.get(name, 0)
        for name in (*MONEY, "workers")
        for limit in (budget.limit(name),)
    }
    plain = {"limits": limits, "own": own.to_plain()}
    identity = _allowance_of(session.run_id)
    before = yield from find_call(session, identity)
    if before is not None and values.decode(before.kept_result().json) == plain:
        return ()
    blank = waiting.blank_row(_allowance_request(session, identity))
    if before is not None:
        blank = before.next_attempt(
            attempt_id=session.new_attempt_id(),
            holder_id=session.holder.holder_id,
            now=session.clock.now(),
        )
    stored = StoredResult(ResultKind.PLAIN, values.encode(plain))
    row = blank.done(stored, now=session.clock.now())
    return (CallWrite(row, before.state if before else None),)


def inherited(state: RunState, taken: Amount) -> Amount:
    """Return what workers took before this run was forked; the meters belong to the original run.

    ``taken``: what the meters show for the fork's own workers.
    """
    known = sum(map(cost_of, state.plain["workers"].values()), Cost())
    return Amount(max(0, known.tokens - taken.tokens), max(0.0, round(known.usd - taken.usd, 9)))


def has_workers(session: Session) -> Doing[bool]:
    """Whether this run has handed over a task."""
    row = yield from find_call(session, _allowance_of(session.run_id))
    return row is not None


def admit_workers(
    scope: Scope, state: RunState, budget: Budget, wanted: Sequence[CallIdentity]
) -> Doing[dict[str, float]]:
    """Allow these tasks to be handed over, each counted once, or make the run wait for a person.

    Returns the raises. Durable: what the workers may take, when it returns.
    """
    session, asked = scope.session, Counter[str | None]()
    raised = dict(state.plain["raised"])
    lost: Amount = yield Read(lambda store: shown(store, lost_by, session.run_id))
    taken: Amount = yield Read(lambda store: shown(store, taken_for, session.run_id))
    own = Amount(state.spent.own.tokens, state.spent.own.usd) + lost + inherited(state, taken)
    for identity in dict.fromkeys(wanted):
        while True:
            bosses = yield from bosses_of(session, identity.call_id)
            me = yield from _as_boss(session, budget, raised, identity.call_id)
            overruns = [boss.overrun("workers", 1) for boss in (me, *bosses)]
            overrun = next((one for one in overruns if one is not None), None)
            if overrun is not None:
                mine = overrun.of == session.run_id
                overrun = dataclasses.replace(overrun, of=None if mine else overrun.of)
                raised = yield from ask_raise(scope, overrun, asked[overrun.of], raised)
                asked[overrun.of] += 1
                continue
            try:
                yield from session.commit(
                    calls=(yield from allowance(session, budget, raised, own)),
                    charges=tuple(
                        ChargeWrite(
                            charge(session, identity, taken_for(boss.run_id, "workers"), 1),
                            boss.at_most("workers"),
                        )
                        for boss in (me, *bosses)
                    ),
                )
            except Outdated:
                # Another worker of the same boss has handed over a task meanwhile: check again.
                continue
            break
    return raised


def _as_boss(
    session: Session, budget: Budget, raised: Mapping[str, float], call_id: str
) -> Doing[Boss]:
    run_id, limit = session.run_id, budget.workers
    meters = taken_for(run_id, "workers"), lent_to(run_id, "workers")
    count: int = yield Read(lambda store: store.charged(meters[0], besides=call_id))
    lent: int = yield Read(lambda store: store.charged(meters[1]))
    most = None if limit is None else limit + raised.get("workers", 0) + lent
    return Boss(run_id, {"workers": most}, {}, {"workers": count}, {})


def _allowance_of(run_id: str) -> CallIdentity:
    return CallIdentity(run_id, ROOT_NODE, FIRST_CHECKPOINT, ALLOWANCE, values.hash_of({}))


def _allowance_request(session: Session, identity: CallIdentity) -> Request:
    request = request_for(Scope(session, ROOT_NODE, FIRST_CHECKPOINT), _ALLOWANCE, {})
    return dataclasses.replace(request, identity=identity)


def _read(row: CallRow) -> tuple[dict[str, float | None], dict[str, float]]:
    with not_believed(f"What the workers of run {row.identity.workflow_id!r} may take"):
        plain = values.decode_object(row.kept_result().json)
        return dict(plain["limits"]), dict(plain["own"])


# The costs


def costs_of(run_ids: Iterable[str]) -> Read:
    """Ask what runs and their workers have cost, each as plain data."""

    def look(store: Store) -> dict[str, dict[str, Any]]:
        return {run_id: _cost(store, run_id).answered() for run_id in run_ids}

    return Read(look)


def spawned_by(session: Session, wanted: Iterable[CallIdentity]) -> list[str]:
    """Return the ids of the runs that these calls spawn."""
    return [child_run_id(session.run_id, identity) for identity in dict.fromkeys(wanted)]


def with_costs(store: Store, outcome: Outcome[Any]) -> Outcome[Any]:
    """Return the outcome with the costs from the ledger in its state: lost requests, workers."""
    if not isinstance(outcome.state, RunState):
        return outcome
    return dataclasses.replace(outcome, state=costed(store, outcome.run_id, outcome.state))


def costed(store: Store, run_id: str, state: RunState) -> RunState:
    """Return the state of a run with the costs from the ledger."""
    own = _with_lost(store, run_id, cost_of(state.plain["spent"]))
    workers = sum((_cost(store, child.workflow_id) for child in store.children(run_id)), Cost())
    return state.costing(own, workers)


def costs_told(outcome: Outcome[Any]) -> Doing[Outcome[Any]]:
    """Do the same inside the engine."""
    told: Outcome[Any] = yield Read(lambda store: with_costs(store, outcome))
    return told


def _cost(store: Store, run_id: str) -> Cost:
    """Return what a run and its children have cost; only agents ask a model."""
    cost, chain = Cost(), store.checkpoint_chain(run_id)
    state = load_image(chain)["state"] if chain else {}
    if is_state(state):
        cost = _with_lost(store, run_id, cost_of(state["spent"]))
    return sum((_cost(store, child.workflow_id) for child in store.children(run_id)), cost)


def _with_lost(store: Store, run_id: str, cost: Cost) -> Cost:
    lost = shown(store, lost_by, run_id)
    return dataclasses.replace(cost, unanswered_usd=lost.usd, unanswered_tokens=lost.tokens)


def _no_function(*args: Any) -> Any:
    raise AssertionError("the engine records it, and nothing calls it")


_ALLOWANCE: Tool = own_tool("allowance", _no_function, Any, what="what workers may take")
