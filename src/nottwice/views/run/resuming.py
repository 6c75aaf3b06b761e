"""Who continues a run? A process that holds it, a living worker that has its code, or a person.

Workers say in the ledger which graphs they have the code for, also while they wait for work. A
process that is no worker is known only by the runs of the same graph that it has held. Promise kept
here: P325.
"""

from __future__ import annotations

from typing import Annotated

from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.run import Life
from nottwice.model.runs.workers import WorkerState
from nottwice.store.interface import Store
from nottwice.views.commands import CommandLine
from nottwice.views.ledger.workers import StatesOfWorkers, states_of
from nottwice.views.run.waits import resume_command
from nottwice.views.runs import Holders, RunView

MOST_RUNS = 20
"""How many runs of the same graph are looked at for processes that have its code."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Resumption:
    """What continues a run."""

    text: Annotated[str, "who continues it, or that no process will"]
    command: Annotated[str | None, "what a person can type, or null"]
    alive: Annotated[tuple[str, ...], "the processes that have its code and are alive"]
    is_finding: Annotated[bool, "whether no living process is known that would continue it"]


def who_resumes(
    ledger: Ledger, run: RunView, commands: CommandLine, workers: StatesOfWorkers | None = None
) -> Resumption:
    """Who continues a run once it can continue. ``workers``: if they were read already."""
    if run.is_final:
        return _resumption(f"It is {run.state}. Nothing continues it.")
    if run.holder_life is Life.ALIVE:
        return _resumption(
            f"{run.holder} holds it and uses a decision at its next effect.",
            alive=(run.holder or "",),
        )
    if run.graph is None:
        text = "Only your program can continue it: run it again."
        return _resumption(text, is_finding=True)
    command = resume_command(run, commands)
    if run.origin is not None:
        text = "It is a fork, which no worker picks up. Run it yourself."
        return _resumption(text, command=command or commands.resume(run.run_id), is_finding=True)
    holders = Holders(ledger.store)
    workers = states_of(ledger, holders) if workers is None else workers
    able = [one for one in workers if one[0].has_code_for(run.graph)]
    serving = _processes(able, WorkerState.ALIVE, holders)
    if serving:
        one_of_them = "It continues" if len(serving) == 1 else "One of them continues"
        return _resumption(
            f"{_listed(serving, 'is a living worker', 'are living workers')} with {run.graph}. "
            f"{one_of_them} the run by itself.",
            command=command,
            alive=serving,
        )
    silent = _processes(able, WorkerState.SILENT, holders)
    alive = tuple(one for one in processes_with(ledger.store, run.graph) if one not in silent)
    if alive:
        return _resumption(
            f"{_listed(alive, 'has held runs', 'have held runs')} of {run.graph} and "
            f"{'is' if len(alive) == 1 else 'are'} alive. A worker among them continues the run by "
            "itself.",
            command=command,
            alive=alive,
        )
    but = f" {_listed(silent, 'has it, but is', 'have it, but are')} silent." if silent else ""
    return _resumption(
        f"No living worker has {run.graph}.{but} Start a worker.",
        command=command or commands.worker(),
        is_finding=True,
    )


def processes_with(store: Store, graph: str) -> tuple[str, ...]:
    """The living processes that have held one of the last runs of a graph."""
    holders = Holders(store)
    found: dict[str, None] = {}
    for run in store.runs(graph=graph, limit=MOST_RUNS):
        for opening in store.openings(run.workflow_id)[-3:]:
            found.setdefault(opening.holder_id)
    return tuple(
        holders.describe(holder_id) for holder_id in found if holders.life(holder_id) is Life.ALIVE
    )


def _processes(workers: StatesOfWorkers, wanted: WorkerState, holders: Holders) -> tuple[str, ...]:
    """The processes of the workers that are in a state."""
    found = [holders.describe(worker.holder_id) for worker, state in workers if state is wanted]
    return tuple(dict.fromkeys(found))


def _listed(processes: tuple[str, ...], one: str, several: str) -> str:
    if len(processes) == 1:
        return f"{processes[0]} {one}"
    return f"{processes[0]} and {len(processes) - 1} more {several}"


def _resumption(
    text: str,
    *,
    command: str | None = None,
    alive: tuple[str, ...] = (),
    is_finding: bool = False,
) -> Resumption:
    return Resumption(text=text, command=command, alive=alive, is_finding=is_finding)
