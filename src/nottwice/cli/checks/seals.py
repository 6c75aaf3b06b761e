"""Is the ledger as nottwice wrote it? `nottwice audit --verify` and `--adopt` (L9)."""

from __future__ import annotations

import click

from nottwice.cli.inputs.options import login_name
from nottwice.cli.inputs.settings import Settings
from nottwice.cli.render.output import show_command, show_json, show_line, show_table
from nottwice.cli.render.ticker import Ticker
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.seals import Verified, adopt, verify
from nottwice.views.outcomes import Adopted, seal_report
from nottwice.views.text import safe

MOST_ROWS = 50
FOUND_SOMETHING = 3


def verify_ledger(settings: Settings, ledger: Ledger, run_id: str | None, *, whole: bool) -> None:
    """Show what does not fit; exit code 3 if anything does not."""
    verified = verify(ledger, run_id, on_progress=Ticker(ledger.clock, _runs_done))
    if settings.as_json:
        show_json(seal_report(ledger, verified))
    else:
        _show(verified, settings, whole=whole)
    if verified.flaws:
        click.get_current_context().exit(FOUND_SOMETHING)


def adopt_ledger(
    settings: Settings, ledger: Ledger, run_id: str | None, *, by: str | None, why: str | None
) -> None:
    """Seal the rows as they are, because a person vouches for them."""
    if not why or not why.strip():
        raise click.UsageError(
            "--adopt trusts every row because you vouch for it: say how you know, with --why TEXT."
        )
    who = login_name() if by is None else by
    count = adopt(ledger, run_id, by=who, why=why, on_progress=Ticker(ledger.clock, _runs_done))
    if settings.as_json:
        show_json(Adopted(ledger=ledger.location, adopted=count))
        return
    show_line(f"Sealed {_runs(count)} as they are now, vouched for by {safe(who)}.")
    show_command("Check:", settings.command("audit --verify"))


def _runs_done(done: int, of: int) -> str:
    return f"  {done:,} of {of:,} runs"


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
    rows = [(flaw.run_id, flaw.text) for flaw in shown]
    show_table(("run", "what does not fit"), rows, wrap=("what does not fit",))
    if len(shown) < len(verified.flaws):
        show_line(f"… and {len(verified.flaws) - len(shown):,} more: --json shows all")
    broken = sorted({flaw.run_id for flaw in verified.flaws if flaw.run_id})
    things = "1 thing does" if len(verified.flaws) == 1 else f"{len(verified.flaws):,} things do"
    show_line(f"{things} not fit, in {_runs(len(broken))} of {count:,}.")
    show_line("Such a run is not trusted: when it is opened again, it waits for a person.")
    show_line("Restore what was changed from a backup. If you know that a run is right as it is:")
    command = settings.command("audit --adopt RUN --why TEXT")
    if broken and not whole:
        command = settings.command("audit --adopt --why TEXT", broken[0])
    show_line(f"  {safe(command)}", whole=True)


def _runs(count: int) -> str:
    return f"{count:,} run" if count == 1 else f"{count:,} runs"
