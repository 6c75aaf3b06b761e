"""What still runs on which version of the code? `nottwice runs --by-version`."""

from __future__ import annotations

from typing import Any

from nottwice.cli.inputs.deployed import ledger_for, need_app
from nottwice.cli.inputs.settings import Settings
from nottwice.cli.render.output import age_text, iso_text, show_json, show_line, show_table
from nottwice.versions.draining import VersionView, drains


def show_versions(settings: Settings, *, prefix: str, graph: str | None) -> None:
    """Print every version with its open runs, and whether its code can be removed."""
    if settings.application() is None:
        deployed, opened = None, settings.open_ledger()
    else:
        app = need_app(settings, what_for="--by-version").app
        deployed = [each.id for each in app.graphs if graph in (None, each.name, each.id)]
        opened = ledger_for(settings, app, create=False)
    with opened as ledger:
        now, location = ledger.clock.now(), ledger.location
        tally = ledger.store.tally(now=now, prefix=prefix, graph=graph)
        versions = drains(tally.groups, deployed=deployed)
    if settings.as_json:
        documents = [version_document(version) for version in versions]
        show_json({"ledger": location, "versions": documents})
        return
    if not versions:
        show_line("No runs of graphs, and none that nt.run opened with a version.")
        return
    rows = [
        (
            version.graph_id or f"nt.run {version.version}",
            version.open,
            None if version.oldest_at is None else age_text(now - version.oldest_at),
            ", ".join(f"{number} {what}" for what, number in version.waits) or None,
            _taker(version, known=deployed is not None),
            version.removal.value,
        )
        for version in versions
    ]
    show_table(("graph", "open", "oldest", "how they stand", "taken by", "safe to remove"), rows)
    if deployed is None:
        show_line("What is deployed is known with --app module:app.")


def _taker(version: VersionView, *, known: bool) -> str | None:
    if version.graph_id is None:
        # No app lists the blocks of code that open runs by themselves.
        return None
    return version.taken_by or "no" if known else "?"


def version_document(version: VersionView) -> dict[str, Any]:
    return {
        "graph": version.graph_id,
        "version": version.version,
        "runs": version.runs,
        "open": version.open,
        "oldest_at": iso_text(version.oldest_at),
        "stand": dict(version.waits),
        "taken_by": version.taken_by,
        "removal": version.removal.name.lower(),
    }
