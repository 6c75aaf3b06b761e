"""What does a caller ask for when it opens a run? One record, for every kind of run.

A block of code, a graph, an agent, a worker and a host make one each. The process that resumes a
run makes its own: nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nottwice.engine.driven import Preclaimed
from nottwice.engine.host import Host
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.graph import Version
from nottwice.model.run import GraphRecord, RunRecord
from nottwice.model.runs.labels import NO_LABELS, Labels
from nottwice.model.saving.cadence import AT_EFFECTS, Cadence


@frozen_record(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a caller opens a run. Its session keeps it."""

    host: Host
    run_id: str
    lists_tools: bool = False
    """The code lists all its tools, as an agent does. A tool that is not declared is gone."""
    acquire_seconds: float = 0.0
    """How long to wait for a run that another process drives."""
    settle_seconds: float = 60.0
    """How long to ask about a doubt before a person is asked."""
    wait_seconds: float = 0.0
    """How long to wait here for what a run of a graph waits for."""
    until: float | None = None
    """When the host of the caller ends the call. Nothing is waited for beyond this (P304)."""
    cadence: Cadence = AT_EFFECTS
    input: Any = None
    """What the caller wants a run of a graph to begin with. None: what it has."""
    # What a new run is created with. A run that exists keeps its own.
    graph: GraphRecord | None = None
    input_json: str | None = None
    parent: RunRecord | None = None
    """The run that spawns it."""
    origin: str | None = None
    """The run that it is a fork of."""
    plain: bool = False
    """The run is driven by a block of code and not by a graph. A run of a graph is refused, because
    the end of the block would count as the end of the graph."""
    version: Version | None = None
    """The version of that block of code, if it states one."""
    told_to_stop: Callable[[], bool] | None = None
    """Asked between two nodes: whether to hand the run back so that another process continues."""
    most_nodes: int | None = None
    """Hand the run back after this many nodes. A fan-out counts as one. None: no limit."""
    bound: str | None = None
    """The graph that the caller has the code for. A run of another graph is not touched."""
    joins: bool = False
    """Parts of a program attach to the run. A doubt about one call is the affair of the part that
    asks for this call, so it does not keep the others out (P241)."""
    labels: Labels = NO_LABELS
    """The tags and the group that the caller gives the run."""
    claimed: Preclaimed | None = None
    """The claim of this run, if it was made together with those of others (P308)."""
    is_single: bool = False
    """The run consists of one call. Its first commit is also its claim, and the commit of the
    outcome is also its release (P300)."""
    as_it_is: bool = False
    """Keep the status, the failure and the waits of the run, because none of its code will run."""
