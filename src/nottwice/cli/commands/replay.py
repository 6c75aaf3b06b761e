"""Record checkpoints, and resume them with the current code: `nottwice replay`, for CI (P1)."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from nottwice.cli.commands.migrate import load_upgrade, read_mapping
from nottwice.cli.inputs.application import load_application
from nottwice.cli.inputs.deployed import ledger_for, need_app
from nottwice.cli.inputs.json_input import read_json
from nottwice.cli.inputs.options import (
    by_option,
    login_name,
    map_option,
    restart_steps_option,
    upgrade_option,
)
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line, show_note
from nottwice.errors import UsageError
from nottwice.graphs.app import App
from nottwice.guard.upkeep.backup import tell_of_export
from nottwice.testing.crash.progress import shown
from nottwice.testing.replay.fixture import LEFT_OUT_FILE
from nottwice.testing.replay.gate import Terms, replay_folder
from nottwice.testing.replay.recording import Recorded, record
from nottwice.testing.replay.report import failure_lines, junit, results_document, summary
from nottwice.versions.migrate_plan import MigrationOrder
from nottwice.views.text import safe

FAILED = 1
NOTHING_REPLAYED = 2
KEY_VARIABLE = "NOTTWICE_REPLAY_KEY"
_NOTHING = "Nothing was replayed."
Report = Callable[[int, int], None]

_HELP = """Resume every recorded checkpoint in FOLDER with your code; exit code 1 if one differs.

No tool, verify hook or network is used: each call is answered with what was recorded. Your
nodes do run. A checkpoint passes if its state loads, the code asks for every effect again with
the same arguments and for no new one, and the run takes the same route. The replay ends where
the record ends.

With --record, checkpoints are copied from the ledger: the newest of every graph, node and
status, rare ones first. Because data leaves the ledger, this adds an entry to the audit trail;
nothing else changes. E-mail addresses, card numbers, tokens, keys and what --secret names are
replaced by pseudonyms. Checkpoints that this code does not resume as recorded are left out;
left-out.json says why. An earlier recording in FOLDER is replaced; its subfolders are kept.

Runs that nt.run opens have no checkpoints. With --work they are recorded as a whole, and
FUNCTION resumes them.

With --to, checkpoints of another version are first migrated in memory, as `nottwice migrate`
would, and fail where it would refuse.

\b
Shown for a checkpoint that fails: its file, its contents, the smallest
difference, and the cause:
  arguments changed, new effect, effect no longer asked for, effects
  reordered, new pure call, migration refused, state no longer loads, result
  no longer loads, node renamed without mapping, node removed, route changed,
  tool missing, tool reclassified, graph version missing, graph changed in
  place, question changed, new wait, node raises, run not opened

\b
Exit codes:
  0  all as recorded
  1  a checkpoint failed
  2  nothing was replayed: there is no checkpoint, all were skipped, or wrong
     usage

\b
Examples:
  nottwice replay tests/checkpoints --app agent:app --junit replay.xml
  nottwice replay --record 50 tests/checkpoints --app agent:app
  nottwice replay --record 50 tests/checkpoints --secret email,customer.name
  nottwice replay tests/checkpoints --tools '{"get_discount": 5}' --json
  nottwice replay tests/checkpoints --to refund@2.0.0 --map notify=tell
"""


@click.command(cls=Command, help=_HELP)
@click.argument("folder", metavar="FOLDER")
@click.option(
    "--record",
    "number",
    metavar="NUMBER",
    type=click.IntRange(1, 10_000),
    help="Record this many checkpoints of the ledger into FOLDER, instead of replaying.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAMES",
    help="Fields whose values get pseudonyms, such as email,customer.name; in addition to those "
    "of replay.secrets under [tool.nottwice] in pyproject.toml.",
)
@click.option(
    "--work",
    "works",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="Starts and resumes runs that nt.run opens, given the id of one; can be given several "
    "times. Without it such runs are not recorded.",
)
@click.option("--tools", metavar="JSON", help="What new pure tools return, by name.")
@click.option(
    "--drains-elsewhere",
    is_flag=True,
    help="Runs of versions that this code lacks finish on another deployment.",
)
@click.option(
    "--to", metavar="GRAPH", help="Migrate checkpoints to this version, in memory, first."
)
@map_option("With --to: ")
@upgrade_option("With --to: ")
@restart_steps_option("With --to: ")
@click.option("--junit", "junit_file", metavar="FILE", help="Write the results as JUnit XML.")
@by_option
@common_options
@pass_settings
@click.pass_context
def replay(
    context: click.Context,
    settings: Settings,
    folder: str,
    number: int | None,
    secrets: tuple[str, ...],
    works: tuple[str, ...],
    tools: str | None,
    drains_elsewhere: bool,
    to: str | None,
    pairs: tuple[str, ...],
    upgrade: str | None,
    restart_steps: bool,
    junit_file: str | None,
    by: str | None,
) -> None:
    """Resume recorded checkpoints with this code."""
    app = _app(settings, works)
    terms = Terms(
        answers=_answers(tools),
        drains_elsewhere=drains_elsewhere,
        migration=_order(app, to, pairs, upgrade, restart_steps),
        works=tuple(_function(target) for target in works),
    )
    if number is not None:
        _refuse_words_of_replaying(junit_file)
        who = login_name() if by is None else by
        _record(settings, app, folder, number, _names(settings, secrets), terms, who)
        if not settings.as_json:
            show_line(f"Replay them: {_command(settings, folder, works)}")
        return
    _refuse_words_of_recording(by, secrets)
    context.exit(_replay(settings, app, folder, terms, junit_file, works))


def _command(settings: Settings, folder: str, works: tuple[str, ...], words: str = "") -> str:
    """A command for this folder that works as printed."""
    app = [] if settings.app is None else ["--app", settings.app]
    named = [word for work in works for word in ("--work", work)]
    return safe(f"nottwice replay {words}{shlex.join([folder, *app, *named])}")


def _refuse_words_of_replaying(junit_file: str | None) -> None:
    if junit_file is not None:
        raise click.UsageError(f"--junit reports replays, and --record replays nothing. {_NOTHING}")


def _refuse_words_of_recording(by: str | None, secrets: tuple[str, ...]) -> None:
    if by is not None:
        raise click.UsageError(f"--by is for recording: add --record 50. {_NOTHING}")
    if secrets:
        raise click.UsageError(f"--secret is for recording: add --record 50. {_NOTHING}")


def _app(settings: Settings, works: tuple[str, ...]) -> App:
    """What is deployed; a program without graphs has only functions."""
    if works and settings.application() is None:
        return App(graphs=[])
    return need_app(settings, what_for="replay").app


def _function(target: str) -> Callable[..., Any]:
    named: Any = load_application(target).named
    if ":" not in target or not callable(named):
        raise click.UsageError(f"{target} names no function. {_NOTHING} Write MODULE:FUNCTION.")
    function: Callable[..., Any] = named
    return function


def _order(
    app: App, to: str | None, pairs: tuple[str, ...], upgrade: str | None, restart_steps: bool
) -> MigrationOrder | None:
    """Which migration the command line asks for."""
    if to is None:
        if pairs or upgrade or restart_steps:
            raise click.UsageError(
                f"--map, --upgrade and --restart-steps say how to migrate. {_NOTHING} Say to which "
                "version: --to refund@2.0.0"
            )
        return None
    graph = next((one for one in app.graphs if one.id == to), None)
    if graph is None:
        known = ", ".join(one.id for one in app.graphs) or "none"
        raise click.UsageError(f"The app has no graph {to!r}. {_NOTHING} It has: {known}.")
    return MigrationOrder(
        to=graph,
        mapping=read_mapping(pairs),
        by="nottwice replay",
        why="a replay of recorded checkpoints",
        upgrade=load_upgrade(upgrade),
        restart_steps=restart_steps,
    )


def _replay(
    settings: Settings,
    app: App,
    folder: str,
    terms: Terms,
    junit_file: str | None,
    works: tuple[str, ...],
) -> int:
    """Replay and tell; the exit code. A gate that has replayed nothing does not pass (P147)."""
    with _progress(settings, "replaying") as report:
        try:
            results = replay_folder(
                app, folder, terms=terms, report=lambda done, total, result: report(done, total)
            )
        except UsageError as error:
            raise click.UsageError(str(error)) from None
    if junit_file is not None:
        Path(junit_file).write_text(junit(results), encoding="utf-8")
    left_out = _left_out(Path(folder))
    if settings.as_json:
        show_json(results_document(folder, results, left_out=left_out))
    else:
        for result in results:
            if not result.passed:
                for line in failure_lines(result):
                    show_line(safe(line), style="red" if line.startswith("FAILED") else None)
                show_line()
        for reason in sorted({result.skipped for result in results if result.skipped}):
            show_note(f"skipped: {reason}")
        show_line(safe(summary(results)))
        if left_out:
            show_note(f"{left_out} were left out when they were recorded: see {LEFT_OUT_FILE}")
    if any(not result.passed for result in results):
        return FAILED
    if all(result.skipped is not None for result in results):
        ledger = settings.commands().store_words()
        command = _command(settings, folder, works, "--record 50 ") + ledger
        show_note(
            "Every checkpoint was skipped, so nothing was replayed and nothing is known about this "
            f"code. Record checkpoints of its own runs: {command}"
        )
        return NOTHING_REPLAYED
    return 0


def _record(
    settings: Settings,
    app: App,
    folder: str,
    number: int,
    secrets: list[str],
    terms: Terms,
    who: str,
) -> None:
    key = os.environ.get(KEY_VARIABLE)
    ledger = ledger_for(settings, app, create=False)
    with ledger, _progress(settings, "recording") as report:
        what = f"at most {number} checkpoints with their calls, for replays"
        tell_of_export(ledger, by=who, to=folder, what=what)
        recorded = record(
            app,
            ledger.store,
            folder,
            number=number,
            secrets=secrets,
            key=key.encode() if key else None,
            terms=terms,
            report=report,
        )
    if settings.as_json:
        show_json(_recorded_document(recorded))
        return
    show_line(
        f"{len(recorded.kept)} checkpoints are in {safe(folder)}, with pseudonyms for "
        f"{recorded.secrets} values; {len(recorded.removed)} earlier ones were removed"
    )
    for one in recorded.left_out:
        show_note(f"left out: {one.name or one.graph} after {one.after}: {one.why}")


def _recorded_document(recorded: Recorded) -> dict[str, Any]:
    return {
        "folder": recorded.folder,
        "recorded": list(recorded.kept),
        "left_out": [one.to_plain() for one in recorded.left_out],
        "removed": list(recorded.removed),
        "secrets": recorded.secrets,
    }


def _answers(tools: str | None) -> dict[str, Any]:
    if tools is None:
        return {}
    found = read_json(tools, option="--tools", outcome=_NOTHING)
    if not isinstance(found, dict):
        raise click.UsageError(f"--tools must be a JSON object of names. {_NOTHING}")
    return found


def _names(settings: Settings, given: tuple[str, ...]) -> list[str]:
    names = [name.strip() for words in given for name in words.split(",")]
    return [*settings.replay_secrets(), *names]


def _left_out(folder: Path) -> int:
    """How many checkpoints a recording left out; an unreadable list counts as none."""
    try:
        return len(json.loads((folder / LEFT_OUT_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return 0


@contextlib.contextmanager
def _progress(settings: Settings, what: str) -> Iterator[Report]:
    """A bar for people who watch, and lines in a log; programs get one document."""
    if settings.as_json:
        yield lambda done, total: None
        return
    with shown(sys.stderr) as show:
        yield lambda done, total: show(what, done, total, "")
