"""Record what is deployed, for review and for CI: `nottwice lock`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from nottwice.cli.inputs.deployed import need_app
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line
from nottwice.errors import GraphChangedInPlace
from nottwice.graphs.app import App
from nottwice.guard.check.report import Finding, Level
from nottwice.versions.lock import compare, read_lock, write_lock
from nottwice.views.outcomes import Locked
from nottwice.views.text import safe

LOCK_FILE = "nottwice.lock"


@click.command(cls=Command)
@click.option("--file", "path", default=LOCK_FILE, metavar="PATH", help=f"Default: {LOCK_FILE}.")
@click.option("--replace", is_flag=True, help="Also write graphs that changed under their version.")
@common_options
@pass_settings
def lock(settings: Settings, path: str, replace: bool) -> None:
    """Write a file that says what each deployed graph is: nodes, routes, state, tools, bodies.

    Commit it with your code: a code review then shows what a change means for open runs, and
    `nottwice check` fails a build whose graphs changed more than their versions say. A graph that
    changed more than its version says is not written, unless --replace says that it was never
    deployed. Graphs with version 0.0.x are drafts and left out.

    \b
    Examples:
      nottwice lock --app agent:app
      nottwice check --app agent:app
    """
    app = need_app(settings, what_for="lock").app
    file = Path(path)
    prints = [graph.fingerprint() for graph in app.graphs]
    locked = {}
    if file.exists() and not replace:
        locked = read_lock(file.read_text(encoding="utf-8"), path=path)
        refused = [each for each in compare(locked, prints) if each.says_too_little]
        if refused:
            raise GraphChangedInPlace(
                f"{refused[0].text}. Nothing was written. Now {refused[0].fix}. If that graph was "
                "never deployed: nottwice lock --replace"
            )
    text = write_lock(prints)
    before = file.read_text(encoding="utf-8") if file.exists() else None
    if text != before:
        _write(file, text)
    graphs = sorted(read_lock(text, path=path))
    if settings.as_json:
        show_json(Locked(file=path, graphs=graphs, changed=text != before))
        return
    state = "is unchanged" if text == before else "was written"
    show_line(f"{safe(path)} {state}: {safe(', '.join(graphs)) or 'no graph'}")


def lock_findings(app: App, path: str | None) -> list[Finding]:
    """In what the code is apart from its lock file; nothing where there is none."""
    file = Path(LOCK_FILE if path is None else path)
    if path is None and not file.exists():
        return []
    locked = read_lock(file.read_text(encoding="utf-8"), path=str(file))
    return [
        Finding(Level.WARNING if each.is_harmless else Level.ERROR, each.text, each.fix)
        for each in compare(locked, (graph.fingerprint() for graph in app.graphs))
    ]


def _write(file: Path, text: str) -> None:
    """Write the file completely or not at all: a kill leaves the old one."""
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, file)
