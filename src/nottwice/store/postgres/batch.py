"""How are the intents, or the receipts, of many runs written by one statement?

The server takes longer to plan such a statement than to execute it, and without prepared statements
(which not every pooler supports) it plans it each time. So all plain intents of a batch are one
statement and all plain receipts another. Every row includes the preconditions of its own commit, as
in quick.py, and the result says for each row whether it was written. Promises kept here: P5, P6,
P7, P9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nottwice.model.data.records import frozen_record
from nottwice.store import effects
from nottwice.store.interface import Commit
from nottwice.store.notices import notices_of
from nottwice.store.postgres.functions import INTENT, RECEIPT
from nottwice.store.postgres.quick import quick
from nottwice.store.postgres.statements import SQL, as_arrays
from nottwice.store.statements import Statement
from nottwice.store.tables import GRAPHS, OUTBOX, RUNS

_TAGS = ("tag", "workflow_id")


@frozen_record(frozen=True, slots=True)
class Fast:
    """One statement, and the members of the batch that it writes, by their numbers."""

    statement: Statement
    """Without its first parameter, which is the start time of the server that it is meant for."""
    members: tuple[int, ...]
    names: tuple[tuple[str, str], ...] | None = None
    """The call and the attempt of each member, if several members share the statement; of a run
    that is enqueued, its id."""

    def written(self, cursor: Any) -> list[tuple[int, bool]]:
        """For each member, whether it was written."""
        if self.names is None:
            return [(self.members[0], cursor.rowcount == 1)]
        found = set(cursor.fetchall())
        return [
            (member, name in found) for member, name in zip(self.members, self.names, strict=True)
        ]


def arrange(commits: Sequence[Commit]) -> tuple[list[Fast], list[int]]:
    """The statements for a batch, and the members that need more than one statement."""
    if len(commits) == 1:
        statement = quick(commits[0])
        return ([], [0]) if statement is None else ([Fast(statement, (0,))], [])
    alone: list[Fast] = []
    slow: list[int] = []
    alike: dict[str, list[int]] = {INTENT: [], RECEIPT: []}
    queued: dict[str, int] = {}
    for number, commit in enumerate(commits):
        if _only_enqueues(commit) and queued.setdefault(commit.workflow_id, number) == number:
            continue
        statement = quick(commit)
        if statement is None:
            slow.append(number)
        elif statement[0] in alike:
            alike[statement[0]].append(number)
        else:
            alone.append(Fast(statement, (number,)))
    # Sorted, so that two processes do not wait for each other.
    alone.sort(key=lambda one: commits[one.members[0]].workflow_id)
    shared = [fast for sql, numbers in alike.items() for fast in _share(commits, sql, numbers)]
    if queued:
        shared.append(_enqueue([commits[number] for number in queued.values()], queued))
    return [*shared, *alone], slow


def _only_enqueues(commit: Commit) -> bool:
    """Whether a commit enqueues a new run, and does nothing else."""
    claim = commit.claim
    return (
        claim is not None
        and claim.after_epoch is None
        and claim.run.holder_id is None
        and claim.run.epoch == 0
        and commit == Commit(commit.workflow_id, claim=claim, graph=commit.graph)
    )


def _enqueue(commits: Sequence[Commit], numbers: Mapping[str, int]) -> Fast:
    """One statement for all new runs of a batch. A run that exists is left as it is."""
    claimed = [commit.claim.run for commit in commits if commit.claim is not None]
    graphs = {one.graph.graph_id: one.graph for one in commits if one.graph is not None}
    notices = [notice for commit in commits for notice in notices_of(commit, None)]
    tags = [(text, run.workflow_id) for run in claimed for text in run.labels.texts()]
    arrays = (
        *as_arrays([RUNS.row(run) for run in claimed], width=len(RUNS.names)),
        *as_arrays([OUTBOX.row(one) for one in notices], width=len(OUTBOX.names)),
        *as_arrays(tags, width=len(_TAGS)),
        *as_arrays([GRAPHS.row(one) for one in graphs.values()], width=len(GRAPHS.names)),
    )
    names = tuple((run_id, "") for run_id in numbers)
    return Fast((SQL["enqueue_runs"], arrays), tuple(numbers.values()), names)


def _share(commits: Sequence[Commit], sql: str, numbers: Sequence[int]) -> list[Fast]:
    """One statement for members of the same kind. Two with the same call and attempt are split."""
    names: dict[tuple[str, str], int] = {}
    twins = []
    for number in numbers:
        row = commits[number].calls[0].row
        if names.setdefault((row.call_id, row.attempt_id), number) != number:
            twins.append(number)
    if len(names) < 2:
        twins, names = list(numbers), {}
    single = [Fast(statement, (n,)) for n in twins if (statement := quick(commits[n])) is not None]
    if not names:
        return single
    written = [_values(commits[number], sql) for number in names.values()]
    arrays = as_arrays(written, width=len(written[0]))
    runs = sorted({commits[number].workflow_id for number in names.values()})
    many = SQL["write_intents" if sql == INTENT else "write_receipts"]
    return [Fast((many, (*arrays, runs)), tuple(names.values()), tuple(names)), *single]


def _values(commit: Commit, sql: str) -> tuple[Any, ...]:
    row, fence = commit.calls[0].row, commit.fence
    assert fence is not None
    if sql == INTENT:
        values = effects.intent_row(row)
    else:
        receipt = effects.receipt_row(row)
        values = None if receipt is None else (*receipt, row.attempt_id)
    assert values is not None
    return (*values, fence.epoch, fence.holder_id)
