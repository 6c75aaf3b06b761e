"""Advance runs as they become ready, in parallel, until told to stop: `nottwice worker`.

What nodes and tools print goes to stderr, like the log; stdout holds what was done, at the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

import click

from nottwice.cli.inputs.deployed import ledger_for, need_app
from nottwice.cli.inputs.notifying import notifying
from nottwice.cli.inputs.options import quiet_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.json_log import json_log
from nottwice.cli.render.output import encodable, output_to_stderr, show_json, show_line, show_note
from nottwice.engine.clock import SystemClock
from nottwice.errors import InvalidTool, StoreError
from nottwice.graphs.app import App
from nottwice.guard.ledger import Ledger
from nottwice.views.outcomes import WorkerFigures, WorkerStopped
from nottwice.views.text import count_text
from nottwice.worker.worker import MOST_CONCURRENCY, Worker, WorkerStats

GAVE_UP = 1
_SHOW_SECONDS = 0.5
MOST_WAIT_SECONDS = 120.0
_ASK_AGAIN_SECONDS = 3.0


@click.command(cls=Command)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1, MOST_CONCURRENCY),
    default=8,
    show_default=True,
    metavar="NUMBER",
    help="How many runs to advance in parallel.",
)
@click.option("--until-idle", is_flag=True, help="Stop when no run can continue now.")
@click.option(
    "--drain",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="How long to wait for nodes that are running, once told to stop.",
)
@click.option(
    "--undeployable-after",
    default="10m",
    show_default=True,
    metavar="DURATION",
    help="When to open a review for a run that no version here can take, and no other worker.",
)
@click.option(
    "--metrics",
    "metrics_at",
    metavar="PORT",
    help="Answer /metrics for Prometheus and /healthz on this port of this machine, or on "
    "ADDRESS:PORT.",
)
@click.option(
    "--metrics-host",
    "metrics_hosts",
    metavar="NAME",
    multiple=True,
    help="With --metrics: a host name that other machines use; can be given several times.",
)
@click.option(
    "--ledger-metrics",
    is_flag=True,
    help="With --metrics: also report the state of the ledger. Only one process should.",
)
@click.option("--log-json", is_flag=True, help="Log decisions to stderr as JSON, one per line.")
@quiet_option("No figures while it works.")
@common_options
@pass_settings
@click.pass_context
def worker(
    context: click.Context,
    settings: Settings,
    concurrency: int,
    until_idle: bool,
    drain: str,
    undeployable_after: str,
    metrics_at: str | None,
    metrics_hosts: tuple[str, ...],
    ledger_metrics: bool,
    log_json: bool,
    quiet: bool,
) -> None:
    """Advance the runs of your graphs as they become ready, in parallel.

    It picks up runs that were enqueued (`nottwice run --detach`, app.enqueue), runs whose timer is
    due, whose review was decided, whose event has arrived or whose child has ended, and runs whose
    process is dead. Start as many workers as you like on one ledger: no run is driven by two, and a
    worker that is killed loses nothing. The others take over its runs: immediately on the same
    machine, from another machine when its lease ends.

    It runs only graphs whose version it has, and leaves the rest to other workers. A run that fails
    stays failed until you enqueue it again: nottwice run GRAPH --detach --retry.

    If the project has [tool.nottwice.notify], it also tells people what needs them, like `nottwice
    notify`.

    If the database is not reachable when the worker starts, it waits for it, up to two minutes.

    SIGTERM or Ctrl-C: it takes nothing new, lets every run finish its current node, releases it,
    and ends. A second signal ends it immediately; that is no worse than a crash. Your graphs are
    found through --app, as for `nottwice run`, and the ledger is created if it does not exist.

    \b
    Ends with:
      0    told to stop, every run is released; or --until-idle, nothing is left
      1    a node did not end within --drain, and its call may be in doubt; or
           another error
      130  a second Ctrl-C (143: a second SIGTERM)

    \b
    Examples:
      nottwice worker --app agent:app --concurrency 64
      nottwice worker --until-idle --json
      nottwice worker --metrics 9464 --log-json 2>> worker.log
    """
    more = {"--metrics-host": metrics_hosts, "--ledger-metrics": ledger_metrics}
    place = _metrics_place(metrics_at, more)
    deployed = need_app(settings, what_for="worker")
    with _ledger_when_there(settings, deployed.app) as ledger:
        try:
            work = Worker(
                deployed.in_ledger(ledger),
                concurrency=concurrency,
                drain=drain,
                undeployable_after=undeployable_after,
            )
        except InvalidTool as error:
            raise click.UsageError(str(error)) from None
        logs = json_log() if log_json else contextlib.nullcontext()
        telling = notifying(ledger, deployed.app.notify)
        told = _measured(place, ledger, hosts=metrics_hosts, gauges=ledger_metrics)
        with logs, telling, told, _stopped_by_signals(work), _shown(work, quiet=quiet or log_json):
            with output_to_stderr():
                tally = work.run(until_idle=until_idle)
        _show_end(settings, ledger, tally)
        if tally.at_work:
            _show_left(tally, drain)
            _end_now(GAVE_UP)
    context.exit(0)


def _show_end(settings: Settings, ledger: Ledger, tally: WorkerStats) -> None:
    if settings.as_json:
        figures = WorkerFigures(**dataclasses.asdict(tally))
        show_json(WorkerStopped(ledger=ledger.location, worker=figures))
    else:
        show_line(f"Worker stopped. {_figures(tally)}")


def _show_left(tally: WorkerStats, drain: str) -> None:
    names = ", ".join(map(repr, tally.at_work))
    show_note(
        f"These runs did not finish their node within {drain}: {names}. They are left as if the "
        "process had been killed; the next worker takes them."
    )


def _ledger_when_there(settings: Settings, app: App) -> Ledger:
    """Open the ledger of an app; a database that restarts at this moment is waited for (P123)."""
    clock = SystemClock()
    until = clock.now() + MOST_WAIT_SECONDS
    while True:
        try:
            return ledger_for(settings, app, create=True)
        except StoreError as error:
            left = until - clock.now()
            if not error.is_away or left <= 0:
                raise
            show_note(f"{error} The worker waits for it, for {left:.0f} s at most.")
        clock.pause(_ASK_AGAIN_SECONDS)


def _metrics_place(given: str | None, more: Mapping[str, object]) -> tuple[str, int] | None:
    if given is not None:
        # Only here and below: most workers need no HTTP server.
        from nottwice.metrics.endpoint import read_place

        return read_place(given)
    for option, value in more.items():
        if value:
            raise click.UsageError(f"{option} adds to --metrics PORT, which is not given.")
    return None


@contextlib.contextmanager
def _measured(
    place: tuple[str, int] | None, ledger: Ledger, *, hosts: Sequence[str], gauges: bool
) -> Iterator[None]:
    """Answer /metrics and /healthz while the worker works."""
    if place is None:
        yield
        return
    from nottwice.metrics.endpoint import answering
    from nottwice.metrics.figures import count

    figures = count(ledger, gauges=gauges)
    try:
        with answering(place, figures, ledger, hosts=hosts) as address:
            show_note(f"Metrics: {address}")
            yield
    finally:
        figures.stop()


def _figures(tally: WorkerStats) -> str:
    counted = dataclasses.asdict(tally)
    counted["at_work"] = len(tally.at_work)
    named = ((name.replace("_", " "), number) for name, number in counted.items())
    return f"Runs: {count_text(named)}."


@contextlib.contextmanager
def _stopped_by_signals(work: Worker) -> Iterator[None]:
    """Let the first signal end the work in order, and the second one immediately."""
    told: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        if told:
            # Not through the interpreter: it would wait for threads.
            os._exit(128 + number)
        told.append(number)
        work.stop()

    numbers = (signal.SIGTERM, signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(number, hear) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextlib.contextmanager
def _shown(work: Worker, *, quiet: bool) -> Iterator[None]:
    """Show on a terminal, in one line that changes, what was done so far."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    over = threading.Event()

    def show() -> None:
        while not over.wait(_SHOW_SECONDS):
            sys.stderr.write(f"\r\x1b[2K{encodable(_figures(work.tally), sys.stderr)}")
            sys.stderr.flush()

    shower = threading.Thread(target=show, name="nottwice-figures", daemon=True)
    shower.start()
    try:
        yield
    finally:
        over.set()
        shower.join()
        sys.stderr.write("\r\x1b[2K")


def _end_now(code: int) -> None:
    """End without waiting for threads that are still at work."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
