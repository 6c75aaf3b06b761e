"""Are the newest checkpoints chosen, some of every kind, and the same ones each time?"""

from __future__ import annotations

import random
from typing import Any

import nottwice as nt
from nottwice.model.run import CheckpointRecord, RunRecord, RunStatus
from nottwice.testing.replay.choosing import Candidate, candidates, choose
from tests.fakes import Host


def candidate(
    run_id: str,
    node: str,
    version: int,
    *,
    at: float = 0.0,
    status: RunStatus = RunStatus.COMPLETED,
    graph: str = "refund@1.0.0",
) -> Candidate:
    run = RunRecord(run_id, status, 1, None, 0.0, 0.0, graph_id=graph)
    return Candidate(run, CheckpointRecord(run_id, version, version, node, "", at))


COMMON = [candidate(f"run-{number}", "pay", 1, at=float(number)) for number in range(100)]
RARE = [
    candidate("run-1", "refuse", 2, at=1.0),
    candidate("run-2", "pay", 1, at=1.0, status=RunStatus.WAITING),
    candidate("run-3", "pay", 1, at=1.0, graph="refund@2.0.0"),
]


def test_rare_ones_are_in_however_many_others_there_are() -> None:
    chosen = choose([*COMMON, *RARE], 5)
    assert set(RARE) < set(chosen)
    assert [one.run.workflow_id for one in chosen if one not in RARE] == ["run-99", "run-98"]


def test_fewer_than_there_are_kinds_takes_the_rarest() -> None:
    assert choose([*COMMON, *RARE], 3) == sorted(RARE, key=lambda one: one.kind)


def test_the_order_in_which_they_are_found_does_not_matter() -> None:
    found = [*COMMON, *RARE]
    expected = choose(found, 20)
    for seed in range(5):
        random.Random(seed).shuffle(found)
        assert choose(found, 20) == expected


def test_each_run_has_its_turn_before_one_has_its_second() -> None:
    loop = [candidate("loop", "turn", version, at=100.0 + version) for version in range(50)]
    others = [candidate(f"run-{number}", "turn", 1, at=float(number)) for number in range(3)]
    chosen = choose([*loop, *others], 5)
    assert [one.run.workflow_id for one in chosen] == ["loop", "run-2", "run-1", "run-0", "loop"]


def test_branches_of_a_node_are_of_one_kind() -> None:
    kinds = {candidate("run-1", f"/[{index}]/mail", index).kind for index in range(9)}
    assert kinds == {("refund@1.0.0", "mail", "completed")}


def test_all_are_chosen_where_there_are_few() -> None:
    assert set(choose(RARE, 50)) == set(RARE)
    assert choose([], 50) == []


def test_wherever_a_run_was_killed_no_checkpoint_without_work_left_is_a_candidate() -> None:
    flow: nt.Graph[Any] = nt.Graph("two", version="1.0.0", checkpoints="every_step")
    flow.node(name="first")(lambda state: {"first": True})
    flow.node(name="second")(lambda state: {"second": True})
    seen = []
    for point in range(1, 40):
        host = Host()
        with host.process(dies_at=point) as ledger:
            flow.run("two-1", {}, store=ledger)
        survived = host.points < point
        with host.process() as ledger:
            after = [one.checkpoint.node_id for one in candidates(ledger.store)]
            saved = [one.node_id for one in ledger.store.checkpoints("two-1")]
        assert after == [node for node in saved if node != "second"]
        seen.append(saved)
        if survived:
            break
    assert ["/", "first"] in seen
    assert seen[-1] == ["/", "first", "second"]
