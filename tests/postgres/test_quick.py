"""Does one statement write exactly what the long way writes, and nothing if it may not? (P5, P6)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nottwice.errors import OwnershipLost
from nottwice.model.call import CallStatus
from nottwice.model.run import Fence, StepStatus
from nottwice.store.interface import CallWrite, Commit, Outdated
from nottwice.store.memory import MemoryStore
from nottwice.store.postgres.quick import quick
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.bench import everything
from tests.store.samples import (
    NOW,
    RESULT,
    checkpoint,
    claim,
    follow,
    identity,
    intent,
    pending,
    step,
)

BEGAN = step(node="notify", ordinal=1)
ENDED = replace(BEGAN, status=StepStatus.DONE, finished_at=NOW + 1)
DONE = pending()._replace(status=CallStatus.DONE, finished_at=NOW + 1, result=RESULT)
RIDERS: dict[str, Any] = {
    "steps": (ENDED, step(node="next", ordinal=2)),
    "checkpoints": (checkpoint(2, 1),),
}
"""What a node leaves when the next one begins."""


def of_a_node(fence: Fence) -> dict[str, Commit]:
    """The commits that a node of a graph makes, one after the other."""
    return {
        "begin": Commit(
            workflow_id="run", fence=fence, steps=(BEGAN,), checkpoints=(checkpoint(1, 1),)
        ),
        "intent": intent(
            pending(), fence, unless_blocked=True, steps=(BEGAN,), checkpoints=(checkpoint(1, 1),)
        ),
        "receipt": follow(DONE, pending(), fence, **RIDERS),
        "end": Commit(workflow_id="run", fence=fence, **RIDERS),
    }


@pytest.mark.parametrize("kinds", [("begin", "end"), ("intent", "receipt"), ("intent", "end")])
def test_a_node_of_a_graph_leaves_the_same_in_one_statement_a_commit(
    ledger: PostgresStore, kinds: tuple[str, ...]
) -> None:
    plain = MemoryStore(now=NOW)
    for store in (plain, ledger):
        fence = claim(store)
        for kind in kinds:
            commit = of_a_node(fence)[kind]
            assert quick(commit) is not None, kind
            store.commit(commit)
    # They differ in who holds the run.
    assert {**everything(ledger), "run": None} == {**everything(plain), "run": None}


@pytest.mark.parametrize("kind", ["begin", "intent", "end"])
def test_who_was_overtaken_writes_nothing(ledger: PostgresStore, kind: str) -> None:
    fence = claim(ledger)
    before = everything(ledger)
    with pytest.raises(OwnershipLost):
        ledger.commit(of_a_node(replace(fence, epoch=fence.epoch + 1))[kind])
    assert everything(ledger) == before


def test_pending_writes_are_not_written_without_the_call_that_they_wait_for(
    ledger: PostgresStore,
) -> None:
    fence = claim(ledger)
    ledger.commit(intent(pending(attempt_id="somebody else's"), fence))
    before = everything(ledger)
    for kind in ("intent", "receipt"):
        with pytest.raises(Outdated):
            ledger.commit(of_a_node(fence)[kind])
    assert everything(ledger) == before


def test_two_marks_of_one_step_take_the_long_way(ledger: PostgresStore) -> None:
    fence = claim(ledger)
    commit = Commit(workflow_id="run", fence=fence, steps=(BEGAN, ENDED))
    assert quick(commit) is None
    ledger.commit(commit)
    assert ledger.steps("run") == [ENDED]


@pytest.mark.parametrize(
    "more",
    [
        {"unless_blocked": True},
        {"calls": (CallWrite(pending()), CallWrite(pending(identity(tool="other"))))},
        {"dropped": (1,)},
    ],
)
def test_what_one_statement_cannot_say_takes_the_long_way(more: dict[str, Any]) -> None:
    assert quick(replace(of_a_node(Fence("holder", 1))["end"], **more)) is None
