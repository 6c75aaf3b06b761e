"""Which metrics are there? Each is declared once: for OpenTelemetry, Prometheus, and the docs.

The id of a run is never a label: every run would be a new time series. The dashboard and the alerts
in docs/guides/telemetry/ are checked against these. Promise kept here: P347.
"""

from __future__ import annotations

import enum

from nottwice.model.data.records import frozen_record

TOOL = "gen_ai.tool.name"
REPLAY_CLASS = "nottwice.replay_class"
OUTCOME = "nottwice.outcome"
REPLAYED = "nottwice.replayed"
SETTLED_BY = "nottwice.settled_by"
REVIEW_KIND = "nottwice.review.kind"
RUN_STATE = "nottwice.run.state"
WORKER_STATE = "nottwice.worker.state"
SECONDS = "s"
_SUFFIXES = {SECONDS: "_seconds"}


class Kind(enum.Enum):
    """How the values of a metric add up."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@frozen_record(frozen=True, slots=True, eq=False)
class Instrument:
    """One metric."""

    name: str
    kind: Kind
    unit: str
    """As OpenTelemetry writes units: ``s``, or what is counted, in braces."""
    about: str
    labels: tuple[str, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """Its name for Prometheus, as OpenTelemetry translates names."""
        name = prometheus_label(self.name) + _SUFFIXES.get(self.unit, "")
        return f"{name}_total" if self.kind is Kind.COUNTER else name


def prometheus_label(name: str) -> str:
    """Return the name of a label for Prometheus."""
    return name.replace(".", "_")


# What this process does


CALLS = Instrument(
    "nottwice.calls",
    Kind.COUNTER,
    "{call}",
    "Calls that got their answer: a receipt, new or recorded, or an error.",
    (TOOL, REPLAY_CLASS, OUTCOME, REPLAYED),
)
CALL_DURATION = Instrument(
    "nottwice.call.duration",
    Kind.HISTOGRAM,
    SECONDS,
    "How long callers waited for calls that were not answered from the record.",
    (TOOL, REPLAY_CLASS, OUTCOME),
)
COMMIT_DURATION = Instrument(
    "nottwice.commit.duration",
    Kind.HISTOGRAM,
    SECONDS,
    "How long it took until a commit was durable.",
)
DUPLICATES = Instrument(
    "nottwice.duplicates.prevented",
    Kind.COUNTER,
    "{call}",
    "Effects that code asked for although they had happened, and that were not made again.",
    (TOOL,),
)
DOUBTS_OPENED = Instrument(
    "nottwice.doubts.opened",
    Kind.COUNTER,
    "{doubt}",
    "Calls in doubt that a person was asked about.",
    (TOOL,),
)
DOUBTS_SETTLED = Instrument(
    "nottwice.doubts.settled",
    Kind.COUNTER,
    "{doubt}",
    "Calls in doubt that were settled, by verify, by a person, or by another attempt.",
    (TOOL, SETTLED_BY),
)
TOKENS_SAVED = Instrument(
    "nottwice.saved.tokens",
    Kind.COUNTER,
    "{token}",
    "Tokens of recorded replies of models that a resumed run used again.",
)
USD_SAVED = Instrument(
    "nottwice.saved.usd",
    Kind.COUNTER,
    "{USD}",
    "What those replies cost when they were made, in dollars.",
)

# How the ledger is. Exactly one process should report these, or sums count everything twice.

REVIEWS_OPEN = Instrument(
    "nottwice.reviews.open",
    Kind.GAUGE,
    "{review}",
    "Reviews that wait for a person.",
    (REVIEW_KIND,),
)
OLDEST_REVIEW = Instrument(
    "nottwice.reviews.oldest",
    Kind.GAUGE,
    SECONDS,
    "How long the oldest of them has waited; 0 if there is none.",
    (REVIEW_KIND,),
)
RUNS = Instrument("nottwice.runs", Kind.GAUGE, "{run}", "Runs by their state.", (RUN_STATE,))
OLDEST_READY = Instrument(
    "nottwice.runs.oldest_ready",
    Kind.GAUGE,
    SECONDS,
    "How long the run that could continue longest has waited for a worker; 0 if there is none.",
)
WORKERS = Instrument(
    "nottwice.workers",
    Kind.GAUGE,
    "{worker}",
    "Workers that are alive, silent (three heartbeats are missing) or dead.",
    (WORKER_STATE,),
)

OF_PROCESS = (
    CALLS,
    CALL_DURATION,
    COMMIT_DURATION,
    DUPLICATES,
    DOUBTS_OPENED,
    DOUBTS_SETTLED,
    TOKENS_SAVED,
    USD_SAVED,
)
OF_LEDGER = (REVIEWS_OPEN, OLDEST_REVIEW, RUNS, OLDEST_READY, WORKERS)
ALL = (*OF_PROCESS, *OF_LEDGER)
_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
BOUNDS = (*_FAST, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The buckets of durations, in seconds: from a commit to a slow model."""
