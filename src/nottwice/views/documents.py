"""Which JSON document does each command print, and what is it made of?

The reference page and the tests read this index; the documents themselves are the views.
"""

from __future__ import annotations

from typing import Any

from nottwice.views.ledger.activity import Activity, ToolActivity
from nottwice.views.ledger.overview import Overview
from nottwice.views.ledger.readiness import ReadyGraph, ReadyRuns
from nottwice.views.ledger.report import CostReport, ToolCost
from nottwice.views.ledger.tools import CheckReport, FormatView, ToolView
from nottwice.views.ledger.versions import VersionList, VersionRow
from nottwice.views.ledger.workers import WorkerList, WorkerView
from nottwice.views.outcomes import (
    Adopted,
    AuditTrail,
    BackupView,
    Cancelled,
    ClientEdited,
    Decided,
    Enqueued,
    EntryView,
    ErrorView,
    Forked,
    KeyMade,
    Locked,
    MigrationReport,
    MigrationView,
    NotifyOutcome,
    RecheckedView,
    RecheckReport,
    RemovalView,
    RemovedRunView,
    RunOutcome,
    SealReport,
    SentDocument,
    SentEvent,
    Served,
    SettingsWritten,
    ShownCase,
    SmokeReport,
    TalkOutcome,
    TrialView,
    WorkerFigures,
    WorkerStopped,
)
from nottwice.views.people.reviews import ReviewList, ReviewView
from nottwice.views.run.agent import AgentView
from nottwice.views.run.calls import AttemptView, CallView, EvidenceView, StepView
from nottwice.views.run.details import RunDetails
from nottwice.views.run.drawings import ArrowView, GraphOutline
from nottwice.views.run.graphs import (
    ChangeView,
    CheckpointView,
    History,
    NodeView,
    StateAt,
    StateDifference,
    ToldView,
)
from nottwice.views.runs import FailureView, OpeningView, RunList, RunView, WaitView

# What each command prints, under the words that come after `nottwice`.
DOCUMENTS: dict[str, type[Any]] = {
    "": Overview,
    "runs": RunList,
    "runs, with --by-version": VersionList,
    "runs, with --ready": ReadyRuns,
    "show": RunDetails,
    "reviews": ReviewList,
    "decide": Decided,
    "decide, without a verb": ShownCase,
    "notify": NotifyOutcome,
    "serve": Served,
    "report": CostReport,
    "recheck": RecheckReport,
    "send": SentDocument,
    "check": CheckReport,
    "check, with --smoke": SmokeReport,
    "run": RunOutcome,
    "run, with --detach": Enqueued,
    "talk": TalkOutcome,
    "worker": WorkerStopped,
    "workers": WorkerList,
    "lock": Locked,
    "proxy, with --wrap or --unwrap": ClientEdited,
    "cancel": Cancelled,
    "audit": AuditTrail,
    "audit, with --verify": SealReport,
    "audit, with --adopt": Adopted,
    "history": History,
    "history, with --at": StateAt,
    "history, with --diff": StateDifference,
    "graph": GraphOutline,
    "migrate": MigrationReport,
    "fork": Forked,
    "gc": RemovalView,
    "backup": BackupView,
    "key": KeyMade,
    "proxy, with --init": SettingsWritten,
}

# What those documents are made of, under the word that "see ..." in a meaning refers to.
SHAPES: dict[str, type[Any]] = {
    "run": RunView,
    "wait": WaitView,
    "opening": OpeningView,
    "step": StepView,
    "call": CallView,
    "attempt": AttemptView,
    "evidence": EvidenceView,
    "failure": FailureView,
    "review": ReviewView,
    "event": SentEvent,
    "rechecked": RecheckedView,
    "format": FormatView,
    "tool": ToolView,
    "error": ErrorView,
    "agent": AgentView,
    "trial": TrialView,
    "entry": EntryView,
    "version": VersionRow,
    "ready graph": ReadyGraph,
    "worker": WorkerFigures,
    "known worker": WorkerView,
    "node": NodeView,
    "checkpoint": CheckpointView,
    "told": ToldView,
    "arrow": ArrowView,
    "migration": MigrationView,
    "change": ChangeView,
    "removed run": RemovedRunView,
    "activity": Activity,
    "tool activity": ToolActivity,
    "tool cost": ToolCost,
}
