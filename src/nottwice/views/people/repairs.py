"""What helps if rows of a run are not as nottwice wrote them? Each way out with its command.

Promise kept here: P410 (a person sees what helps, although nothing can be decided).
"""

from __future__ import annotations

from typing import Annotated

from nottwice.model.data.records import frozen_record
from nottwice.views.commands import CommandLine


@frozen_record(frozen=True, slots=True, kw_only=True)
class Repair:
    """One thing that a person can do about rows that cannot be trusted."""

    text: Annotated[str, "what to do, or what the command does"]
    command: Annotated[str | None, "the command to type, or null"]


def repairs_of(run_id: str, commands: CommandLine) -> tuple[Repair, ...]:
    """What helps for a run, in the order in which a person tries it."""
    return (
        Repair(
            text="See everything in this run that is not as nottwice wrote it:",
            command=commands.command("audit --verify", run_id),
        ),
        Repair(
            text="If rows were changed, restore them from a backup and open the run again. If "
            "everything fits, it continues.",
            command=None,
        ),
        Repair(
            text="If you know that the rows are right as they are, vouch for them. Your name and "
            "reason are kept:",
            command=commands.command("audit --adopt --why TEXT", run_id),
        ),
    )
