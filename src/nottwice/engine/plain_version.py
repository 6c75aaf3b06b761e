"""May this code continue a run that has no graph? (V2)

A block of code has no nodes to compare, so the program states its version: ``nt.run("ticket-7",
version="1.2.0")``. The run keeps the version that it began with, and only code of the same major
and minor version continues it. A run that began without a version is not compared. Promise kept
here: P157.
"""

from __future__ import annotations

import shlex

from nottwice.errors import WorkflowVersionMismatch
from nottwice.model.graphs.graph import Version, parse_version
from nottwice.model.run import RunRecord


def check_version(run: RunRecord, version: Version | None, *, location: str) -> None:
    """Refuse a run that began with another version. Another patch version is accepted."""
    if run.version is None:
        return
    bound = parse_version(run.version, what=f"Run {run.workflow_id!r}")
    if version is None or version[:2] != bound[:2]:
        raise _mismatch(run, bound, version, location)


def _mismatch(
    run: RunRecord, bound: Version, version: Version | None, location: str
) -> WorkflowVersionMismatch:
    run_id, ledger = run.workflow_id, shlex.quote(location)
    here = "gives no version" if version is None else f"has version {version}"
    patch = str(Version(bound.major, bound.minor, bound.patch + 1))
    afresh = f", version={str(version)!r}" if version is not None else ""
    ways = (
        f"Run the old version: nt.run({run_id!r}, version={str(bound)!r}) with the code that began "
        "it, until it finishes",
        f"if what changed does not matter to the run, call it a patch: version={patch!r} continues "
        "it with its receipts",
        f"start again under another id: nt.run({run_id + '-2'!r}{afresh}); this repeats everything "
        "that this run has done",
        f"cancel it: nottwice cancel {shlex.quote(run_id)} --why TEXT --store {ledger}",
    )
    return WorkflowVersionMismatch(
        f"Run {run_id!r} began with version {bound}, and this code {here}. Nothing was done. You "
        "can: " + "; ".join(f"({number}) {way}" for number, way in enumerate(ways, 1)),
        run_id=run_id,
        bound=str(bound),
        deployed=None if version is None else str(version),
    )
