"""Record checkpoints of a ledger as files, without any secret in them (P1).

The ledger is only read here. The command records in the ledger that data was exported. Each
checkpoint is replayed by this code before it is written. If even this code does not resume it as
recorded, it would fail every build, so it is left out, and a list states why. The same ledger, code
and settings give the same bytes. Promises kept here: P52, P53.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nottwice.errors import UsageError
from nottwice.graphs.app import App
from nottwice.graphs.recorded import recorded_definition
from nottwice.model import values
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.position import Position
from nottwice.model.review import Review
from nottwice.model.run import CANCEL, EventRecord, RunRecord
from nottwice.model.saving.checkpoint import path_of
from nottwice.model.saving.image import load_image
from nottwice.store.interface import Store
from nottwice.testing.replay.blind import blinded, blinded_review, is_blinded
from nottwice.testing.replay.choosing import MOST_RUNS, Candidate, candidates, choose
from nottwice.testing.replay.disguise import disguised, look_at
from nottwice.testing.replay.fixture import (
    LEFT_OUT_FILE,
    Fixture,
    is_fixture,
    nameless,
    read_fixture,
)
from nottwice.testing.replay.gate import Result, Terms, observe, replay, resumer, taker
from nottwice.testing.replay.learning import learned
from nottwice.testing.replay.plain import block_of, programs
from nottwice.testing.replay.problems import Cause
from nottwice.testing.replay.pseudonyms import Pseudonyms
from nottwice.testing.replay.sources import public_text
from nottwice.testing.replay.visits import Visits, is_past

_READS = 5


@frozen_record(frozen=True, slots=True)
class LeftOut:
    """A checkpoint that was not recorded, and why."""

    name: str
    graph: str
    after: str
    why: str
    """The cause, as a replay names it, or that the run was in progress."""
    text: str

    def to_plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@frozen_record(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a recording wrote."""

    folder: str
    kept: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    removed: tuple[str, ...]
    secrets: int
    """How many different values have a pseudonym."""


def record(
    app: App,
    store: Store,
    folder: str | Path,
    *,
    number: int = 50,
    secrets: Iterable[str] = (),
    key: bytes | None = None,
    terms: Terms | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Recorded:
    """Record ``number`` checkpoints into a folder. Files of an earlier recording are removed.

    ``secrets`` names what is secret in addition to what looks secret. ``key`` makes the
    pseudonyms. Without one, it is derived from data that only the ledger contains.
    """
    terms = terms or Terms()
    found = candidates(store, plain=bool(terms.works))
    if not found:
        raise UsageError(
            f"No run of a graph in {store.location} has a checkpoint with anything left to do. "
            "Nothing was recorded. Forks and aborted runs are not resumed. For runs that nt.run "
            "opened, name the function that resumes them: --work MODULE:FUNCTION"
        )
    known = [one for one in found if one.run.graph_id is None or taker(app, one.run.graph_id)]
    chosen = choose(known, number)
    pseudonyms = Pseudonyms(key or key_of(store), secrets, public=public_text(app, terms.works))
    read = [(one, _without_unneeded(app, _read(store, one), terms)) for one in chosen]
    for _, fixture in read:
        if fixture is not None:
            look_at(fixture, pseudonyms)
    kept: dict[str, str] = {}
    left_out = _of_other_code(found, known)
    for done, (candidate, fixture) in enumerate(read, 1):
        verdict = _keep(app, candidate, fixture, pseudonyms, terms)
        if isinstance(verdict, Fixture):
            kept[verdict.name] = verdict.to_text()
        else:
            left_out.append(verdict)
        report(done, len(read))
    if not kept:
        raise UsageError(_nothing_kept(left_out))
    removed = _write(Path(folder), kept, left_out)
    return Recorded(
        folder=str(folder),
        kept=tuple(sorted(kept)),
        left_out=tuple(left_out),
        removed=removed,
        secrets=len(pseudonyms),
    )


def key_of(store: Store) -> bytes:
    """Return a key that only a reader of the ledger can compute.

    Attempt ids are random and are never sent to an upstream or written to a recording. A reader of
    the ledger has the secrets anyway.
    """
    runs = store.runs(limit=MOST_RUNS)
    for run in sorted(runs, key=lambda run: (run.created_at, run.workflow_id)):
        for row in store.calls(run.workflow_id)[:1]:
            first = row.past[0].attempt_id if row.past else row.attempt_id
            return hashlib.sha256(f"nottwice replay {first}".encode()).digest()
    # There is no call at all, so there is no attempt id.
    return os.urandom(32)


def _nothing_kept(left_out: Sequence[LeftOut]) -> str:
    reasons = "; ".join(dict.fromkeys(f"{one.graph}: {one.text}" for one in left_out))
    return (
        f"None of {len(left_out)} checkpoints can be kept, so nothing was written, and the files "
        f"of an earlier recording were not changed. {reasons[:1000]}. Record with the deployed "
        "code."
    )


def _of_other_code(found: Sequence[Candidate], known: Sequence[Candidate]) -> list[LeftOut]:
    """Return what no graph of this app could resume: one entry for each of these graphs."""
    numbers = Counter(one.run.graph_id or "" for one in set(found) - set(known))
    why = Cause.VERSION_MISSING.value
    return [
        LeftOut("", graph, "", why, f"{number} checkpoints: no graph of this app takes their runs")
        for graph, number in sorted(numbers.items())
    ]


@frozen_record(frozen=True, slots=True)
class _Found:
    """A checkpoint as the ledger has it, with those of its calls that need not be made again.

    The body of a tool may have made them, or they belong to the run as a whole and were made before
    the checkpoint.
    """

    fixture: Fixture
    perhaps: frozenset[CallIdentity]


def _read(store: Store, candidate: Candidate) -> _Found | None:
    """Return a checkpoint with what it needs, or None if the run advances faster than the read."""
    before = _read_once(store, candidate)
    for _ in range(_READS):
        again = _read_once(store, candidate)
        if again == before:
            return again
        before = again
    return None


def _read_once(store: Store, candidate: Candidate) -> _Found | None:
    run_id, version = candidate.run.workflow_id, candidate.checkpoint.version
    run, chain = store.load_run(run_id), store.checkpoint_chain(run_id, version)
    if run is not None and run.graph_id is None:
        return _read_plain(store, run, after=candidate.checkpoint.node_id)
    graph = None if run is None or run.graph_id is None else store.load_graph(run.graph_id)
    if run is None or graph is None or not chain:
        return None
    image, definition = load_image(chain), values.decode_object(graph.json)
    recorded = recorded_definition(graph)
    position = Position.from_plain(image["position"])
    visits = Visits(graph.graph_id, recorded)

    def comes_after(node_id: str, checkpoint_id: str) -> bool:
        visit = visits.around(node_id, checkpoint_id)
        if visit is None:
            return visits.is_run_wide(checkpoint_id)
        return not is_past(visit, position, recorded)

    rows = [blinded(row) for row in store.calls(run_id) if comes_after(*row.identity[1:3])]
    fixture = Fixture(
        run_id=run_id,
        graph_id=graph.graph_id,
        status=run.status,
        at=run.updated_at,
        input=values.decode_object(run.input_json or "{}"),
        waits=run.waits,
        after=path_of(chain)[-1].node_id,
        version=version,
        state=image["state"],
        position=image["position"],
        definition=definition,
        steps=tuple(
            dataclasses.replace(step, started_at=run.updated_at, finished_at=None)
            for step in store.steps(run_id)
            if comes_after(step.node_id, step.checkpoint_id)
        ),
        calls=_in_order(rows, run.updated_at),
        reviews=tuple(
            blinded_review(_anonymous(review))
            for review in store.open_reviews(run_id)
            if review.kind.asks_first and comes_after(*review.identity[1:3])
        ),
        events=_not_taken(store, run_id),
    )
    of_the_run = {row.identity for row in rows if visits.is_run_wide(row.identity.checkpoint_id)}
    return _Found(fixture, frozenset({*_inner(rows), *of_the_run}))


def _read_plain(store: Store, run: RunRecord, *, after: str) -> _Found:
    """Return a whole run without a graph. The function that resumes it is found later."""
    run_id, at = run.workflow_id, run.updated_at
    rows = [blinded(row) for row in store.calls(run_id)]
    steps = (block_of(run), *store.steps(run_id))
    fixture = Fixture(
        run_id=run_id,
        graph_id="",
        work="",
        status=run.status,
        at=at,
        input=None if run.input_json is None else values.decode(run.input_json),
        waits=run.waits,
        after=after,
        version=0,
        state={},
        position={},
        definition={},
        steps=tuple(dataclasses.replace(step, started_at=at, finished_at=None) for step in steps),
        calls=_in_order(rows, at),
        reviews=tuple(
            blinded_review(_anonymous(review))
            for review in store.open_reviews(run_id)
            if review.kind.asks_first
        ),
        events=_not_taken(store, run_id),
    )
    return _Found(fixture, frozenset(_inner(rows)))


def _in_order(rows: Sequence[CallRow], at: float) -> tuple[CallRow, ...]:
    return tuple(
        nameless(row, order=order, at=at) for row, order in zip(rows, _orders(rows), strict=True)
    )


def _not_taken(store: Store, run_id: str) -> tuple[EventRecord, ...]:
    return tuple(
        event
        for event in store.events(run_id)
        if event.received_by is None and event.name != CANCEL
    )


def _anonymous(review: Review) -> Review:
    """Return a review without who decided it and why, which a resume does not need."""
    if review.decision is None:
        return review
    decision = dataclasses.replace(review.decision, by="a person", why="")
    return dataclasses.replace(review, decision=decision)


def _inner(rows: Sequence[CallRow]) -> Iterator[CallIdentity]:
    """Yield calls that started while another was in progress in the same place: perhaps in it."""
    by_place: dict[tuple[str, ...], list[CallRow]] = {}
    for row in rows:
        by_place.setdefault(row.identity[:3], []).append(row)
    for together in by_place.values():
        for row in together:
            if any(_was_under_way(outer, row) for outer in together if outer is not row):
                yield row.identity


def _orders(rows: Sequence[CallRow]) -> Iterator[int]:
    """Yield an order number per call: a new number where all earlier calls of a place had ended."""
    ended: dict[tuple[str, ...], float] = {}
    orders: dict[tuple[str, ...], int] = {}
    for row in rows:
        place = row.identity[:3]
        if row.created_at > ended.get(place, float("inf")):
            orders[place] += 1
        orders.setdefault(place, 0)
        until = float("inf") if row.finished_at is None else row.finished_at
        ended[place] = max(ended.get(place, 0.0), until)
        yield orders[place]


def _was_under_way(outer: CallRow, row: CallRow) -> bool:
    ended = outer.finished_at
    return ended is not None and outer.created_at <= row.created_at <= ended


def _without_unneeded(app: App, found: _Found | None, terms: Terms) -> Fixture | None:
    """Return the checkpoint without calls that this code does not make and need not make."""
    if found is None:
        return None
    if found.fixture.is_plain:
        found = dataclasses.replace(found, fixture=_with_work(app, found.fixture, terms))
    graph = resumer(app, found.fixture, terms)
    fixture = learned(app, found.fixture, terms) if is_blinded(found.fixture) else found.fixture
    if not found.perhaps or graph is None:
        return fixture
    asked = observe(graph, fixture, terms).asked
    kept = tuple(
        row
        for row, read in zip(fixture.calls, found.fixture.calls, strict=True)
        if row.identity in asked or read.identity not in found.perhaps
    )
    return dataclasses.replace(fixture, calls=kept)


def _with_work(app: App, fixture: Fixture, terms: Terms) -> Fixture:
    """Return a run without a graph with a function that opens it, if there is one.

    If several open it, use the first that resumes it as recorded: a function may open any run id.
    """
    opening = [
        dataclasses.replace(fixture, work=program.name)
        for program in programs(terms.works)
        if observe(program, fixture, terms).opened
    ]
    if len(opening) > 1:
        for named in opening:
            if _passes(app, learned(app, named, terms) if is_blinded(named) else named, terms):
                return named
    return opening[0] if opening else fixture


def _keep(
    app: App,
    candidate: Candidate,
    found: Fixture | None,
    pseudonyms: Pseudonyms,
    terms: Terms,
) -> Fixture | LeftOut:
    """Return the checkpoint as it is written, if this code resumes it as recorded."""
    if found is None:
        node = candidate.checkpoint.node_id
        why = "the run was in progress"
        text = "it advanced faster than it could be read, or it is gone"
        return LeftOut("", candidate.run.graph_id or "", node, why, text)
    hidden = disguised(found, pseudonyms)
    if hidden != found:
        hidden = learned(app, hidden, terms)
    # Judge what will be read from the file.
    written = read_fixture(hidden.to_text(), where=hidden.name)
    result = replay(app, written, terms=terms)
    if result.skipped is not None:
        return LeftOut(hidden.name, hidden.graph_id, hidden.after, "skipped", result.skipped)
    if result.passed:
        return written
    return _explained(result, written, is_disguised=hidden != found and _passes(app, found, terms))


def _passes(app: App, found: Fixture, terms: Terms) -> bool:
    return replay(app, found, terms=terms).passed


def _explained(result: Result, fixture: Fixture, *, is_disguised: bool) -> LeftOut:
    """Explain why a checkpoint is left out, without what its code called.

    Values that the code knows from elsewhere, like its environment, have no pseudonym.
    """
    first = result.problems[0]
    where = f" in {first.node}" if first.node is not None else ""
    text = f"the code that recorded it does not resume it as recorded: {first.cause.value}{where}"
    if is_disguised:
        text = (
            "it is resumed as recorded, but not with pseudonyms, so its code inspects a secret "
            f"value or knows it from elsewhere: {first.cause.value}{where}"
        )
    return LeftOut(fixture.name, fixture.graph_id, fixture.after, first.cause.value, text)


def _write(folder: Path, kept: dict[str, str], left_out: Sequence[LeftOut]) -> tuple[str, ...]:
    """Write new files, then remove those of an earlier recording. Return what was removed.

    This only affects files directly in the folder. Files in subfolders are kept on purpose.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = dict(kept)
    if left_out:
        plain = sorted((one.to_plain() for one in left_out), key=lambda one: str(one))
        files[LEFT_OUT_FILE] = json.dumps(plain, indent=2, ensure_ascii=False) + "\n"
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            beside = folder / f"{name}.{os.getpid()}.new"
            beside.write_text(text, encoding="utf-8")
            os.replace(beside, path)
    stale = [
        path
        for path in sorted(folder.glob("*.json"))
        if path.name not in files and (path.name == LEFT_OUT_FILE or is_fixture(path))
    ]
    for path in stale:
        path.unlink()
    return tuple(path.name for path in stale)
