"""Is the ledger as nottwice wrote it? `nottwice audit --verify` and `--adopt` (L9)."""

from __future__ import annotations

from typing import Any

import click

from nottwice.cli.case import login_name
from nottwice.cli.output import safe, show_json, show_line, show_progress, show_table
from nottwice.cli.settings import Settings
from nottwice.engine.clock import Clock
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.seals import Verified, adopt, verify

MOST_ROWS = 50
FOUND_SOMETHING = 3
PROGRESS_SECONDS = 1.0


def verify_ledger(settings: Settings, ledger: Ledger, run_id: str | None, *, whole: bool) -> None:
    """Show what does not fit; exit code 3 if anything does not."""
    verified = verify(ledger, run_id, on_progress=_Progress(ledger.clock))
    if settings.as_json:
        show_json({"ledger": ledger.location, **verified_document(verified)})
    else:
        _show(verified, settings, whole=whole)
    if verified.flaws:
        click.get_current_context().exit(FOUND_SOMETHING)


def adopt_ledger(
    settings: Settings, ledger: Ledger, run_id: str | None, *, by: str | None, why: str | None
) -> None:
    """Seal what is there as it is, on somebody's word."""
    if not why or not why.strip():
        raise click.UsageError(
            "--adopt takes your word for every row: say how you know, with --why TEXT."
        )
    who = login_name() if by is None else by
    count = adopt(ledger, run_id, by=who, why=why, on_progress=_Progress(ledger.clock))
    if settings.as_json:
        show_json({"ledger": ledger.location, "adopted": count})
        return
    show_line(f"Sealed {_runs(count)} as they are now, on the word of {safe(who)}.")
    show_line(f"Check: {safe(settings.command('audit --verify'))}")


def verified_document(verified: Verified) -> dict[str, Any]:
    """What was found as JSON; its fields are documented in ``keeping_documents.py``."""
    return {
        "key": verified.key_id,
        "runs": len(verified.heads),
        "flaws": [{"run_id": flaw.run_id, "flaw": flaw.text} for flaw in verified.flaws],
        "heads": verified.heads,
    }


class _Progress:
    """Says every second how far it is, to whoever watches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said_at = clock.now()

    def __call__(self, done: int, of: int) -> None:
        now = self._clock.now()
        if now - self._said_at >= PROGRESS_SECONDS:
            self._said_at = now
            show_progress(f"  {done:,} of {of:,} runs")


def _show(verified: Verified, settings: Settings, *, whole: bool) -> None:
    count = len(verified.heads)
    if not verified.flaws:
        show_line(f"Every row of {_runs(count)} carries a seal that fits, and no call is missing.")
        show_line(
            "Not covered: reviews, events, charges and audit entries that were deleted, or put "
            "back to what they said before."
        )
        return
    shown = verified.flaws[:MOST_ROWS]
    show_table(("run", "what does not fit"), [(flaw.run_id, flaw.text) for flaw in shown])
    if len(shown) < len(verified.flaws):
        show_line(f"… and {len(verified.flaws) - len(shown):,} more: --json shows all")
    broken = sorted({flaw.run_id for flaw in verified.flaws if flaw.run_id})
    show_line(f"{len(verified.flaws):,} things do not fit, in {_runs(len(broken))} of {count:,}.")
    show_line("Such a run is not believed: whoever opens it makes it wait for a person.")
    show_line("Restore what was changed from a backup. If you know that a run is right as it is:")
    name = broken[0] if broken and not whole else "RUN"
    show_line(f"  {safe(settings.command(f'audit --adopt {name} --why TEXT'))}")


def _runs(count: int) -> str:
    return f"{count:,} run" if count == 1 else f"{count:,} runs"
