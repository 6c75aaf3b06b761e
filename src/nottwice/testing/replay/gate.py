"""The replay gate: can this code still resume the runs that are open? (P1)

Each recorded checkpoint is compared with the graph that would take its run, then resumed by it.
Nothing real is called, and no ledger is opened. Promises kept here: P50, P51.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nottwice.errors import MigrationRefused, NottwiceError, UsageError
from nottwice.graphs.app import App
from nottwice.graphs.declare import Graph
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.bump import is_draft, next_version, says_enough, what_bump
from nottwice.model.graphs.fingerprint import Fingerprint
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.graphs.position import Position
from nottwice.testing.replay.fixture import (
    Fixture,
    InvalidFixture,
    fixture_paths,
    read_fixture,
)
from nottwice.testing.replay.judging import judge
from nottwice.testing.replay.migrating import concerns, migrated
from nottwice.testing.replay.plain import PlainProgram, PlainVisits, programs
from nottwice.testing.replay.problems import Cause, Problem, distinct
from nottwice.testing.replay.runner import LIMIT_SECONDS, Trace, run_fixture
from nottwice.testing.replay.visits import Visits
from nottwice.versions.migrate_plan import MigrationOrder

# How model/graphs/bump.py describes a change of a graph, and the cause that is reported for it.
_CAUSES = (
    (re.compile(r'^node ".*" renamed to '), Cause.NODE_RENAMED),
    (re.compile(r'^node ".*" removed$'), Cause.NODE_REMOVED),
    (re.compile(r'^tool ".*" removed$'), Cause.TOOL_MISSING),
    (re.compile(r'^tool ".*" loosened '), Cause.TOOL_RECLASSIFIED),
    (re.compile(r'^node ".*" (added|leads to )|^option ".*|^it begins with '), Cause.ROUTE_CHANGED),
)
# These describe a change better than a replay of it could.
_FIRST = (
    Cause.NODE_RENAMED,
    Cause.NODE_REMOVED,
    Cause.TOOL_MISSING,
    Cause.TOOL_RECLASSIFIED,
    Cause.ROUTE_CHANGED,
)


@frozen_record(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one recorded checkpoint."""

    path: str
    fixture: Fixture | None = None
    problems: tuple[Problem, ...] = ()
    skipped: str | None = None
    """Why it was not replayed, if it does not have to be."""

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def cause(self) -> Cause | None:
        """The most important problem."""
        return self.problems[0].cause if self.problems else None


@frozen_record(frozen=True, slots=True, kw_only=True)
class Terms:
    """Settings for replaying checkpoints."""

    answers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What pure tools return if the record does not contain the call, by tool name."""
    drains_elsewhere: bool = False
    """Runs of versions that this code does not have finish on their own deployment."""
    limit_seconds: float = LIMIT_SECONDS
    migration: MigrationOrder | None = None
    """Migrate runs of other versions to this one, in memory, before they are resumed."""
    works: tuple[Callable[..., Any], ...] = ()
    """The functions that start and resume runs without a graph (``plain.py``)."""


def replay_folder(
    app: App | Graph[Any],
    folder: str | Path,
    *,
    terms: Terms | None = None,
    report: Callable[[int, int, Result], None] = lambda done, total, result: None,
) -> list[Result]:
    """Replay every recorded checkpoint of a folder. UsageError if there is none.

    ``report`` is called after each one: how many are done, how many there are, and the result.
    """
    paths = find_fixtures(folder)
    results = []
    for number, path in enumerate(paths, 1):
        results.append(replay_file(app, path, terms=terms))
        report(number, len(paths), results[-1])
    return results


def find_fixtures(folder: str | Path) -> list[Path]:
    """Return the recorded checkpoints of a folder, or the named file. Never empty."""
    path = Path(folder)
    paths = [path] if path.is_file() else fixture_paths(path)
    if not paths:
        raise UsageError(
            f"There is no recorded checkpoint in {folder}, so nothing was replayed. Record some "
            f"from the ledger of a deployment: nottwice replay --record 50 {folder}"
        )
    return paths


def replay_file(app: App | Graph[Any], path: str | Path, *, terms: Terms | None = None) -> Result:
    """Replay one recorded checkpoint. An unreadable file is reported as a problem."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        fixture = read_fixture(text, where=str(path))
    except (InvalidFixture, OSError, ValueError) as error:
        return Result(path=str(path), problems=(Problem(Cause.UNREADABLE, str(error)),))
    return dataclasses.replace(replay(app, fixture, terms=terms), path=str(path))


def replay(app: App | Graph[Any], fixture: Fixture, *, terms: Terms | None = None) -> Result:
    """Resume a recorded checkpoint with this code and report the differences."""
    terms = terms or Terms()
    if fixture.is_plain:
        return _plain(app, fixture, terms)
    order = terms.migration
    if order is not None and concerns(order, fixture):
        return _migrated(fixture, order, terms)
    graphs, graph = _graphs(app), taker(app, fixture.graph_id)
    if graph is None and terms.drains_elsewhere:
        graph = _later(graphs, fixture.graph_id)
        if graph is None:
            return Result(
                path=fixture.name, fixture=fixture, skipped=f"{fixture.graph_id} drains elsewhere"
            )
        fixture = _bound_to(fixture, graph.id)
    if graph is None:
        return Result(
            path=fixture.name, fixture=fixture, problems=(_version_missing(graphs, fixture),)
        )
    return Result(
        path=fixture.name, fixture=fixture, problems=distinct(_problems(graph, fixture, terms))
    )


def _plain(app: App | Graph[Any], fixture: Fixture, terms: Terms) -> Result:
    """Replay a run without a graph. Its whole record is resumed (P187)."""
    program = resumer(app, fixture, terms)
    if program is None:
        known = ", ".join(one.name for one in programs(terms.works)) or "none"
        text = (
            f"the run has no graph, and {fixture.work!r} resumes it; known functions: {known}; "
            "name it with --work MODULE:FUNCTION"
        )
        missing = Problem(Cause.VERSION_MISSING, text)
        return Result(path=fixture.name, fixture=fixture, problems=(missing,))
    trace = observe(program, fixture, terms)
    recorded = ((step.node_id, step.checkpoint_id) for step in fixture.steps)
    visits = PlainVisits((*recorded, *trace.visits))
    found = judge(fixture, trace, visits, answered=terms.answers.keys())
    return Result(path=fixture.name, fixture=fixture, problems=distinct(found))


def resumer(
    app: App | Graph[Any], fixture: Fixture, terms: Terms
) -> Graph[Any] | PlainProgram | None:
    """Return what resumes a run: a graph of the app, or the function of a run without a graph."""
    if not fixture.is_plain:
        return taker(app, fixture.graph_id)
    return next((one for one in programs(terms.works) if one.name == fixture.work), None)


def _migrated(fixture: Fixture, order: MigrationOrder, terms: Terms) -> Result:
    """Replay a checkpoint that is migrated first (P162)."""
    try:
        moved = migrated(fixture, order)
    except MigrationRefused as error:
        refused = Problem(Cause.NOT_MIGRATED, str(error))
        return Result(path=fixture.name, fixture=fixture, problems=(refused,))
    problems = distinct(_problems(order.to, moved, terms))
    return Result(path=fixture.name, fixture=fixture, problems=problems)


def observe(graph: Graph[Any] | PlainProgram, fixture: Fixture, terms: Terms) -> Trace:
    """Resume a checkpoint and return what was called, without judging it."""
    return run_fixture(graph, fixture, answers=terms.answers, limit_seconds=terms.limit_seconds)


def _problems(graph: Graph[Any], fixture: Fixture, terms: Terms) -> Iterator[Problem]:
    recorded, deployed = Fingerprint.from_plain(fixture.definition), graph.fingerprint()
    position = Position.from_plain(fixture.position)
    try:
        changed = list(_changes(recorded, deployed, graph))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        yield Problem(Cause.UNREADABLE, f"its definition of the graph cannot be read ({error!r})")
        return
    yield from (problem for problem in changed if problem.cause in _FIRST)
    due = [position.node, *(branch.node for branch in position.branches)]
    gone = [name for name in due if name is not None and deployed.graph.node(name) is None]
    if gone:
        yield from _node_gone(gone[0], recorded, deployed)
    else:
        yield from _replayed(graph, fixture, recorded, deployed, terms)
    yield from (problem for problem in changed if problem.cause not in _FIRST)


def _replayed(
    graph: Graph[Any],
    fixture: Fixture,
    recorded: Fingerprint,
    deployed: Fingerprint,
    terms: Terms,
) -> Iterator[Problem]:
    try:
        graph.state.hand_out(fixture.state)
    except NottwiceError as error:
        yield Problem(Cause.STATE, str(error), fixture.after)
        return
    trace = observe(graph, fixture, terms)
    visits = Visits(fixture.graph_id, recorded.graph, deployed.graph)
    yield from judge(fixture, trace, visits, answered=terms.answers.keys())


def _node_gone(name: str, recorded: Fingerprint, deployed: Fingerprint) -> Iterator[Problem]:
    """Report that the run is at a missing node. For a draft, nothing else reports it."""
    cause, text = (
        Cause.NODE_REMOVED,
        "the run resumes here, and the graph has no such node",
    )
    for reason in what_bump(recorded, deployed).reasons:
        if reason.text.startswith(f'node "{name}" renamed to '):
            cause, text = Cause.NODE_RENAMED, f"the run resumes here: {reason.text}"
    yield Problem(cause, text, name)


def _changes(old: Fingerprint, new: Fingerprint, graph: Graph[Any]) -> Iterator[Problem]:
    """Yield what makes a ledger refuse this graph, whatever the replay shows (V5)."""
    if is_draft(new.version):
        return
    bump = what_bump(old, new)
    if old.version[:2] == new.version[:2]:
        # Like a ledger: no other version that runs of this line take could declare it (P155).
        bump = bump.of_bound()
    if says_enough(old.version, new.version, bump.part):
        return
    needed = next_version(old.version, bump.part)
    for reason in bump.reasons:
        cause = next((one for form, one in _CAUSES if form.search(reason.text)), None)
        text = f'{reason.text} → needs {needed}, found {new.version}; write version="{needed}"'
        yield Problem(cause or Cause.CHANGED_IN_PLACE, f"{text} in {graph.place}")


def taker(app: App | Graph[Any], graph_id: str) -> Graph[Any] | None:
    """Return the graph that would take a run: the newest patch of its version (V2)."""
    return _newest(_graphs(app), graph_id, lambda mine, its: mine[:2] == its[:2])


def _graphs(app: App | Graph[Any]) -> tuple[Graph[Any], ...]:
    return app.graphs if isinstance(app, App) else (app,)


def _later(graphs: Sequence[Graph[Any]], graph_id: str) -> Graph[Any] | None:
    """Return a later minor version. It only adds, so it must be able to resume old runs."""
    return _newest(graphs, graph_id, lambda mine, its: mine[0] == its[0] > 0 and mine > its)


def _newest(
    graphs: Sequence[Graph[Any]], graph_id: str, fits: Callable[[Any, Any], bool]
) -> Graph[Any] | None:
    name, version = split_graph_id(graph_id)
    found = [one for one in graphs if one.name == name and fits(one.version, version)]
    return max(found, key=lambda one: one.version, default=None)


def _version_missing(graphs: Iterable[Graph[Any]], fixture: Fixture) -> Problem:
    name = split_graph_id(fixture.graph_id)[0]
    versions = sorted((one for one in graphs if one.name == name), key=lambda one: one.version)
    text = f"the run is bound to {fixture.graph_id}, and this code has no version of {name}"
    diff: tuple[str, ...] = ()
    if versions:
        here = ", ".join(one.id for one in versions)
        text = f"the run is bound to {fixture.graph_id}, and this code has {here}"
        old = Fingerprint.from_plain(fixture.definition)
        bump = what_bump(old, versions[-1].fingerprint())
        diff = tuple(reason.text for reason in bump.reasons[:8])
    more = (
        "deploy the old one beside it, nottwice migrate its runs (--to GRAPH --map OLD=NEW tries "
        "that here), or use --drains-elsewhere"
    )
    return Problem(Cause.VERSION_MISSING, f"{text}; {more}", None, diff)


def _bound_to(fixture: Fixture, graph_id: str) -> Fixture:
    """Return the checkpoint as if its run were bound to another version of its graph."""
    old, new = f"{fixture.graph_id}/", f"{graph_id}/"

    def moved(checkpoint_id: str) -> str:
        return new + checkpoint_id.removeprefix(old)

    def identified(record: Any) -> Any:
        identity = record.identity
        return identity._replace(checkpoint_id=moved(identity.checkpoint_id))

    return dataclasses.replace(
        fixture,
        graph_id=graph_id,
        calls=tuple(row._replace(identity=identified(row)) for row in fixture.calls),
        steps=tuple(
            dataclasses.replace(step, checkpoint_id=moved(step.checkpoint_id))
            for step in fixture.steps
        ),
        reviews=tuple(
            dataclasses.replace(review, identity=identified(review)) for review in fixture.reviews
        ),
    )
