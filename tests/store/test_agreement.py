"""Do all stores give the same answers to the same commits? The commits are generated at random.

The suite asks what its authors thought of. Here commits are thrown together from a small stock of
ids, epochs and versions, so that they often meet what is there, and every store must give the same
answer and show the same records after each of them.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nottwice.model.call import CallStatus
from nottwice.model.replay_class import ReplayClass
from nottwice.model.run import Fence, RunStatus
from nottwice.model.runs.openings import OpeningEnd
from nottwice.store.files.store import JsonFileStore
from nottwice.store.interface import (
    CallWrite,
    Claim,
    Commit,
    EventWrite,
    ReviewWrite,
    RunUpdate,
    Store,
)
from nottwice.store.memory import MemoryStore
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing.conformance.bench import everything
from tests.store.own_store import FolderStore
from tests.store.samples import (
    FAILURE,
    NOW,
    RESULT,
    WAITS,
    audit,
    checkpoint,
    decision,
    event,
    evidence,
    graph,
    identity,
    pending,
    review,
    run_record,
    step,
)

RUNS = ("run", "Run", "a/b")
TAGS = (("customer", "acme"), ("tier", "gold"))
SEEDS = range(8)
COMMITS = 150


class Chance:
    """Makes commits. The same seed makes the same ones.

    It looks into one of the stores, so that most of what it makes could be right.
    """

    def __init__(self, seed: int, store: Store) -> None:
        self._dice = random.Random(seed)
        self._store = store
        self._made: list[Commit] = []

    def commit(self) -> Commit:
        dice = self._dice
        if self._made and dice.random() < 0.15:
            return dice.choice(self._made)
        run = dice.choice(RUNS)
        commit = self._claim(run) if dice.random() < 0.1 else self._write(run)
        self._made.append(commit)
        return commit

    def _claim(self, run: str) -> Commit:
        dice = self._dice
        known = self._store.load_run(run)
        seen = dice.choice((None if known is None else known.epoch, None, 1))
        holder = dice.choice(("holder", "holder", "other", None))
        record = run_record(
            run,
            epoch=(seen or 0) + dice.choice((1, 1, 1, 0)),
            holder_id=holder,
            claimed_at=NOW + dice.randrange(2),
            graph_id=dice.choice(("refund@1.0.0", "refund@1.0.0", None)),
            tags=dice.choice(((), TAGS, TAGS[:1])),
            group=dice.choice((None, "group")),
        )
        at = dice.choice((None, NOW + dice.randrange(2)))
        left = dice.choice((OpeningEnd.KILLED, OpeningEnd.TAKEN_OVER))
        return Commit(workflow_id=run, claim=Claim(record, seen, at, left))

    def _write(self, run: str) -> Commit:
        dice = self._dice
        fence = None
        known = self._store.load_run(run)
        if known is not None and dice.random() < 0.8:
            right = Fence(str(known.holder_id), known.epoch)
            fence = dice.choice((right,) * 8 + (Fence("other", 1), replace(right, epoch=9)))
        commit = Commit(
            workflow_id=run,
            fence=fence,
            unless_blocked=dice.random() < 0.2,
            reviews=self._some(lambda: self._review(run)),
            evidence=self._some(
                lambda: evidence(f"{dice.randrange(3)}", run, at=NOW + dice.randrange(2))
            ),
            audit=self._some(lambda: audit(f"{dice.randrange(3)}", run)),
            events=self._some(lambda: EventWrite(event(f"{dice.randrange(3)}", run))),
            graph=graph(text=f'{{"n":{dice.randrange(3)}}}') if dice.random() < 0.1 else None,
        )
        return commit if fence is None else self._held(commit, run)

    def _held(self, commit: Commit, run: str) -> Commit:
        dice = self._dice
        taken = self._some(lambda: EventWrite(self._taken(run)))
        update = None
        if dice.random() < 0.3:
            status = dice.choice((RunStatus.RUNNING, RunStatus.WAITING, RunStatus.FAILED))
            waits = WAITS if status is RunStatus.WAITING else ()
            at = NOW + dice.randrange(3)
            bound = dice.choice((None, None, "flow@1.0.0", "flow@2.0.0"))
            release = dice.random() < 0.1
            update = RunUpdate(status, at, release=release, waits=waits, graph_id=bound)
        return replace(
            commit,
            run=update,
            calls=self._some(lambda: self._call(run)),
            steps=self._some(lambda: self._step(run)),
            checkpoints=self._some(
                lambda: checkpoint(dice.randrange(1, 4), 1, f"{dice.randrange(9)}", workflow_id=run)
            ),
            dropped=(dice.randrange(1, 4),) if dice.random() < 0.1 else (),
            events=taken or commit.events,
        )

    def _step(self, run: str) -> Any:
        node = self._dice.choice("ab")
        return step(run, node, ordinal="ba".index(node), started_at=NOW + self._dice.randrange(2))

    def _some(self, make: Any) -> tuple[Any, ...]:
        return (make(),) if self._dice.random() < 0.35 else ()

    def _taken(self, run: str) -> Any:
        by = f"call {self._dice.randrange(2)}"
        return event(f"{self._dice.randrange(3)}", run, received_by=by, received_at=NOW)

    def _review(self, run: str) -> ReviewWrite:
        dice = self._dice
        made = review(f"{dice.randrange(2)}", run)
        stages = [made, made.decided(decision(by=dice.choice(("ann", "bob"))))]
        stages.append(stages[-1].used(now=NOW))
        known = self._store.load_review(made.review_id)
        version = None if known is None else known.version
        stage = stages[min(version or 0, 2)] if dice.random() < 0.8 else dice.choice(stages)
        return ReviewWrite(stage, dice.choice((version,) * 5 + (1, None)))

    def _call(self, run: str) -> CallWrite:
        dice = self._dice
        pure = dice.random() < 0.2
        key = dice.choice((None, "key 1", "key 2"))
        row = pending(
            identity(run, tool=dice.choice(("send", "pay")), arguments=f"{dice.randrange(3)}"),
            replay_class=ReplayClass.PURE if pure else ReplayClass.UNSAFE_ON_REPLAY,
            attempt_id=f"attempt-{dice.randrange(2)}",
            created_at=NOW + dice.randrange(3),
            key=key,
            key_since=None if key is None else NOW,
        )
        known = self._store.load_call(row.identity)
        if known is None:
            return CallWrite(row)
        row = row._replace(attempt_id=known.attempt_id)
        seen = dice.choice((known.state,) * 4 + ((CallStatus.UNKNOWN, "attempt-9"), None))
        match dice.randrange(4):
            case 0:
                return CallWrite(row.done(RESULT, now=NOW), seen)
            case 1:
                return CallWrite(row.unknown(FAILURE, now=NOW), seen)
        return CallWrite(row, seen)


def answer(store: Store, commit: Commit) -> str:
    try:
        store.commit(commit)
    except Exception as error:
        return type(error).__name__
    return "done"


def shown(store: Store) -> dict[str, Any]:
    found = {run: everything(store, run) for run in RUNS}
    ledger = {
        "runs": store.runs(),
        "tagged": store.runs(tags=TAGS[:1]),
        "grouped": store.runs(group="group"),
        "openings": [opening for run in RUNS for opening in store.openings(run)],
        "reviews": store.reviews(),
        "open": store.open_reviews(),
        "in doubt": [store.calls_in_doubt(run) for run in RUNS],
        "held": [store.runs_held_by(holder) for holder in store.holders_of_runs()],
        "ready": [
            store.ready_runs(begun=begun, now=NOW + later, limit=9)
            for begun in (False, True)
            for later in (0, 45, 90)
        ],
        "counted": [
            [(one.graph_id, one.runs) for one in store.count_ready(now=NOW + later, limit=9)]
            for later in (0, 45, 90)
        ],
        "versions": [store.checkpoints(run) for run in RUNS],
    }
    return {**found, **ledger}


def test_chance_brings_every_answer_about() -> None:
    heard: set[str] = set()
    ready: set[int] = set()
    for seed in SEEDS:
        store = MemoryStore(now=NOW)
        chance = Chance(seed, store)
        for _ in range(COMMITS):
            heard.add(answer(store, chance.commit()))
            ready.add(len(store.ready_runs(begun=True, now=NOW + 90, limit=9)))
    assert heard == {"done", "OwnershipLost", "Outdated", "Blocked", "KeyConflict"}
    assert len(ready) > 1


@pytest.mark.sampled(part="sweeps", keep=3)
@pytest.mark.parametrize("seed", SEEDS)
def test_all_stores_agree_on_commits_thrown_together(tmp_path: Path, seed: int) -> None:
    sqlite = SqliteStore(tmp_path / "ledger.db", now=NOW)
    stores: dict[str, Store] = {
        "memory": MemoryStore(now=NOW),
        "sqlite": sqlite,
        "file": JsonFileStore(tmp_path / "runs", now=NOW),
        "own": FolderStore(tmp_path / "own", now=NOW),
    }
    chance = Chance(seed, stores["memory"])
    for number in range(COMMITS):
        commit = chance.commit()
        answers = {name: answer(store, commit) for name, store in stores.items()}
        assert len(set(answers.values())) == 1, (number, answers, commit)
        if number % 10 == 9:
            wanted = shown(stores["memory"])
            # Another store on the same files, which remembers nothing.
            again = JsonFileStore(tmp_path / "runs", now=NOW)
            # What follows from the records of a SQL store is what its own statements say.
            derived = MemoryStore(sqlite.all_records())
            assert [sqlite.records(run).list_runs() for run in RUNS] == [
                [] if (found := sqlite.load_run(run)) is None else [found] for run in RUNS
            ]
            for store in (sqlite, stores["file"], stores["own"], again, derived):
                assert shown(store) == wanted, (number, store)
    for store in stores.values():
        store.close()
