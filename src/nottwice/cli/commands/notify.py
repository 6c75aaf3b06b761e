"""Tell people what needs them, from the ledger's outbox: `nottwice notify`."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import click

from nottwice.cli.inputs.application import load_application
from nottwice.cli.inputs.deployed import app_of, named_ledger
from nottwice.cli.inputs.notifying import settings_of
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line, show_note
from nottwice.errors import NottwiceError, UsageError
from nottwice.guard.ledger import Ledger
from nottwice.notify.attending import LOOK_SECONDS
from nottwice.notify.sender import Sender, SendReport, given_up
from nottwice.notify.settings import Notify
from nottwice.notify.transport import Undelivered
from nottwice.views.outcomes import NotifyOutcome
from nottwice.views.text import safe

FOUND_SOMETHING = 3
_DAY = 86_400.0


@click.command(cls=Command)
@click.option("--once", is_flag=True, help="Look once and end, for cron. This is the default.")
@click.option("--watch", is_flag=True, help="Look every few seconds, until told to stop.")
@click.option("--test", "trial", is_flag=True, help="Send one message that says it is a test.")
@click.option("--again", is_flag=True, help="Look once, and also retry what failed 8 times.")
@common_options
@pass_settings
@click.pass_context
def notify(
    context: click.Context, settings: Settings, once: bool, watch: bool, trial: bool, again: bool
) -> None:
    """Tell people what needs them: reviews that opened, grew old or were decided, failed runs.

    [tool.nottwice.notify] in pyproject.toml says who is told: a webhook, or a command. What
    happens is in the ledger's outbox. Programs, `worker` and `serve` also send it; they share the
    work, and no two send the same notice at the same time. Each message arrives at least once, with
    an id that stays the same if it comes again. More than ten in a minute become one.

    A message that does not arrive is tried 8 times in 21 hours. Then nottwice stops trying. Once
    the cause is fixed, --again sends such messages, as long as they are still worth telling.

    \b
    Ends with:
      0  everything that was due is sent
      1  there are no settings, a secret is not set, or another error
      3  a message did not arrive, or failed for the 8th time within the last 24
         hours

    \b
    Examples:
      nottwice notify --test
      nottwice notify             # from cron, every minute
      nottwice notify --watch
      nottwice notify --again
    """
    if sum((once, watch, trial, again)) > 1:
        raise click.UsageError("Give one of --once, --watch, --test and --again.")
    with named_ledger(settings) as ledger:
        sender = Sender(ledger.store, _settings(settings, ledger), ledger.clock)
        revived = sender.try_again() if again else 0
        if trial:
            report = _send_trial(sender)
        elif watch:
            report = _watch(sender)
        else:
            report = sender.send_due()
        lost = given_up(ledger.store, since=ledger.clock.now() - _DAY)
        outcome = NotifyOutcome(
            ledger=ledger.location,
            sent=report.sent,
            notices=report.notices,
            moot=report.moot,
            held=report.held,
            failed=report.failed,
            given_up=len(lost),
            again=revived,
            problems=(*report.problems, *(one.problem or "" for one in lost)),
        )
    if settings.as_json:
        show_json(outcome)
    else:
        _show(outcome, settings)
    if outcome.failed or outcome.given_up:
        context.exit(FOUND_SOMETHING)


def _settings(settings: Settings, ledger: Ledger) -> Notify:
    given = None
    if settings.app is not None:
        with contextlib.suppress(UsageError):
            given = app_of(load_application(settings.app)).notify
    found = settings_of(ledger, given)
    if found is None:
        raise UsageError(
            "There is no one to tell. Nothing was sent. Write into pyproject.toml: "
            "[tool.nottwice.notify] and below it: webhook_env = 'NOTTWICE_WEBHOOK'"
        )
    return found


def _send_trial(sender: Sender) -> SendReport:
    try:
        sender.send_trial()
    except Undelivered as error:
        return SendReport(failed=1, problems=[str(error)])
    return SendReport(sent=1)


def _watch(sender: Sender) -> SendReport:
    total = SendReport()
    with _until_told() as over:
        while not over.is_set():
            try:
                found = sender.send_due()
            except NottwiceError as error:
                # The database may be away. The outbox keeps everything.
                show_note(f"{error} Looking again.")
            else:
                for problem in found.problems:
                    show_note(f"A message did not arrive: {safe(problem)}.")
                # What waits is counted when it is sent.
                found.held = 0
                total.add(found)
            over.wait(LOOK_SECONDS)
    return total


@contextlib.contextmanager
def _until_told() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set."""
    over = threading.Event()

    def hear(number: int, frame: FrameType | None) -> None:
        over.set()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, hear) for number in numbers]
    try:
        yield over
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _notices(count: int) -> str:
    return "1 notice" if count == 1 else f"{count} notices"


def _show(outcome: NotifyOutcome, settings: Settings) -> None:
    if outcome.again:
        show_line(f"Trying {_notices(outcome.again)} again.")
        if outcome.moot:
            show_line(f"{outcome.moot} are no longer worth telling: decided, resumed, or too old.")
    if outcome.sent or not outcome.failed:
        what = "message" if outcome.sent == 1 else "messages"
        show_line(f"{outcome.sent} {what} sent, about {_notices(outcome.notices)}.")
    if outcome.held:
        show_line(f"{_notices(outcome.held)} held back until the next minute, for one message.")
    if outcome.failed:
        show_line(f"{outcome.failed} did not arrive, and will be tried again.")
    if outcome.given_up:
        show_line(f"{_notices(outcome.given_up)} failed 8 times, the last time within 24 hours.")
    for problem in outcome.problems:
        show_line(f"  {safe(problem)}")
    if outcome.given_up:
        show_command("Once the cause is fixed:", settings.command("notify --again"))
