"""The sweep catches every bug that is put into the engine. Otherwise it would prove nothing.

The bugs are the ones that this design invites: records that go separately and should go together,
visits and children that lose their identity, branches that share what they should not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine import advance
from nottwice.engine.pending import PendingWrites
from nottwice.engine.stepping import steps
from nottwice.graphs import children
from nottwice.graphs import fork as forking
from nottwice.model.call import CallRow
from nottwice.model.graphs import position
from nottwice.model.run import CheckpointRecord, StepRecord
from nottwice.store.interface import CallWrite
from tests.fakes import Host
from tests.graphs.effects import Effects
from tests.graphs.sweep import sweep, uninterrupted
from tests.graphs.test_fork import rounds

Patch = Callable[[pytest.MonkeyPatch], None]


def test_killed_at_every_commit_a_graph_ends_as_if_nothing_had_happened() -> None:
    assert sweep(uninterrupted()) > 50


def the_end_of_a_step_is_left_behind(patch: pytest.MonkeyPatch) -> None:
    whole = PendingWrites.add_checkpoint

    def broken(
        self: PendingWrites, one: CheckpointRecord, *, ends: StepRecord | None = None
    ) -> None:
        whole(self, one)

    patch.setattr(PendingWrites, "add_checkpoint", broken)


def the_checkpoint_is_left_behind(patch: pytest.MonkeyPatch) -> None:
    def broken(
        self: PendingWrites, one: CheckpointRecord, *, ends: StepRecord | None = None
    ) -> None:
        if ends is not None:
            self.add_step(ends)
        elif one.version == 0:
            self._checkpoints[0] = one

    patch.setattr(PendingWrites, "add_checkpoint", broken)


def the_checkpoint_has_the_state_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(advance, "_updated", lambda state, ending: dict(state))


def a_visit_has_no_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(position.Position, "visit", lambda self, node, *, index=None: 1)


def a_resume_begins_at_the_input(patch: pytest.MonkeyPatch) -> None:
    def broken(session: Any, plan: advance.GraphCode) -> Any:
        driven = advance.GraphRun(session, plan, dict(plan.first_state), position.start(plan.graph))
        driven.save("/")
        yield from ()
        return driven

    patch.setattr(advance, "_resume", broken)


def branches_share_what_they_change(patch: pytest.MonkeyPatch) -> None:
    whole = advance._overlaid

    def broken(driven: advance.GraphRun, update: Any) -> Any:
        everything: dict[str, Any] = {}
        for branch in driven.position.branches:
            everything.update(branch.update)
        return whole(driven, {**everything, **update})

    patch.setattr(advance, "_overlaid", broken)


def branches_meet_twice(patch: pytest.MonkeyPatch) -> None:
    whole = advance._merged

    def broken(driven: advance.GraphRun) -> dict[str, Any]:
        merged = whole(driven)
        append = driven.plan.graph.append
        return {key: value * 2 if key in append else value for key, value in merged.items()}

    patch.setattr(advance, "_merged", broken)


def branches_meet_without_the_last(patch: pytest.MonkeyPatch) -> None:
    whole = advance._merged

    def broken(driven: advance.GraphRun) -> dict[str, Any]:
        driven.position = replace(driven.position, branches=driven.position.branches[:-1])
        return whole(driven)

    patch.setattr(advance, "_merged", broken)


def branches_have_no_index(patch: pytest.MonkeyPatch) -> None:
    whole = position.around
    patch.setattr(position, "around", lambda node, index: whole(node, None))


def a_child_has_another_id_each_time(patch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    patch.setattr(children, "child_run_id", lambda parent, identity: f"{parent}.{next(numbers)}")


def how_a_child_ended_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    whole = PendingWrites.add_call

    def broken(self: PendingWrites, write: CallWrite) -> None:
        if write.row.identity.tool_name != "nottwice.spawn":
            whole(self, write)

    patch.setattr(PendingWrites, "add_call", broken)


BUGS: list[Patch] = [
    the_end_of_a_step_is_left_behind,
    the_checkpoint_is_left_behind,
    the_checkpoint_has_the_state_before,
    a_visit_has_no_number,
    a_resume_begins_at_the_input,
    branches_share_what_they_change,
    branches_meet_twice,
    branches_meet_without_the_last,
    branches_have_no_index,
    a_child_has_another_id_each_time,
    how_a_child_ended_is_not_kept,
]


@pytest.mark.parametrize("bug", BUGS)
def test_the_sweep_catches(monkeypatch: pytest.MonkeyPatch, bug: Patch) -> None:
    expected = uninterrupted()
    bug(monkeypatch)
    with pytest.raises((AssertionError, nt.NottwiceError)):
        sweep(expected)


def check_forks(effects: Effects) -> None:
    """A fork from every checkpoint ends like its origin, and does nothing."""
    host, flow = Host(), rounds(effects)
    with host.process() as ledger:
        origin = flow.run("r", {"most": 4}, store=ledger)
        done = effects.done.copy()
        for version in range(origin.version + 1):
            flow.fork("r", to=f"f{version}", at=version, store=ledger)
            assert flow.run(f"f{version}", store=ledger).state == origin.state
    assert effects.done == done


def copies_lose_their_visit(rows: list[CallRow], to: str) -> Iterator[CallWrite]:
    for row in rows:
        scope = row.identity.checkpoint_id.rpartition("/")[0] + "/1"
        yield CallWrite(
            row._replace(identity=row.identity._replace(workflow_id=to, checkpoint_id=scope))
        )


def copies_lose_their_receipts(rows: list[CallRow], to: str) -> Iterator[CallWrite]:
    yield from ()


def test_forks_end_like_their_origin(effects: Effects) -> None:
    check_forks(effects)


@pytest.mark.parametrize("copies", [copies_lose_their_visit, copies_lose_their_receipts])
def test_the_check_of_forks_catches(
    monkeypatch: pytest.MonkeyPatch, effects: Effects, copies: Any
) -> None:
    monkeypatch.setattr(forking, "_copies", copies)
    with pytest.raises((AssertionError, nt.NottwiceError)):
        check_forks(effects)


def test_the_check_of_forks_catches_one_that_forgets_its_origin(
    monkeypatch: pytest.MonkeyPatch, effects: Effects
) -> None:
    """Without its origin a fork would do what its receipts do not cover."""
    monkeypatch.setattr(forking, "_copies", copies_lose_their_receipts)
    monkeypatch.setattr(steps, "refuse_in_fork", lambda scope, identity: None)
    with pytest.raises(AssertionError):
        check_forks(effects)
