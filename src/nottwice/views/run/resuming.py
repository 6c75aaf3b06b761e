"""Who continues a run? A process that holds it, one that has its code and is alive, or a person.

A worker without a run leaves no trace in a ledger. What can be known is which processes have held
runs of the same graph, and whether they are alive. Promise kept here: P325.
"""

from __future__ import annotations

from typing import Annotated

from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.run import Life
from nottwice.store.interface import Store
from nottwice.views.commands import CommandLine
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


def who_resumes(ledger: Ledger, run: RunView, commands: CommandLine) -> Resumption:
    """Who continues a run once it can continue."""
    if run.is_final:
        return _resumption(f"It is {run.state}. Nothing continues it.")
    if run.holder_life is Life.ALIVE:
        return _resumption(
            f"{run.holder} holds it and uses a decision at its next effect.",
            alive=(run.holder or "",),
        )
    if run.graph is None:
        text = "Nothing runs by itself. Run the program that owns it again."
        return _resumption(text, is_finding=True)
    command = resume_command(run, commands)
    alive = processes_with(ledger.store, run.graph)
    if alive:
        return _resumption(
            f"{_listed(alive)} of {run.graph} and is alive. If it is a worker, it continues the "
            "run by itself.",
            command=command,
            alive=alive,
        )
    return _resumption(
        f"No living process is known that has {run.graph}. Start a worker.",
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


def _listed(processes: tuple[str, ...]) -> str:
    more = f" and {len(processes) - 1} more" if len(processes) > 1 else ""
    return f"{processes[0]}{more} has held runs"


def _resumption(
    text: str,
    *,
    command: str | None = None,
    alive: tuple[str, ...] = (),
    is_finding: bool = False,
) -> Resumption:
    return Resumption(text=text, command=command, alive=alive, is_finding=is_finding)
