"""``nottwice demo``: what does a viewer see while agents are killed, and is it what we claim?

Only the telling is here; `nottwice.testing.showcase` does what is told. Every number comes from
there, and a sentence that explains a number is printed only if the number bears it out. If one
does not, the demo says so and ends with exit code 1.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from nottwice.cli import demo_agent
from nottwice.cli.demo_keys import Keyboard, somebody_is_there
from nottwice.engine.blocking import call_text
from nottwice.errors import NottwiceError
from nottwice.model.review import Verb
from nottwice.reviews.queue import Case
from nottwice.testing.showcase import (
    WAITS_FOR_A_PERSON,
    Errand,
    Showcase,
    Shown,
    Verdict,
    Way,
    look_at_the_shop,
)
from nottwice.testing.world import Effect

AFTER_REFUND = "after the effect of refund"
AFTER_MAIL = "after the effect of send_email"
SECONDS_TO_DECIDE = 5
SECONDS_TO_READ = 2.0
WIDTH = 88


@click.command()
@click.option("--no-input", is_flag=True, help="Ask nothing; the demo looks for itself.")
@click.option(
    "--points", type=click.IntRange(min=1), help="Kill at so many points only, in part 3."
)
def demo(no_input: bool, points: int | None) -> None:
    """Watch an agent being killed, with and without nottwice (about a minute)."""
    folder = Path(tempfile.mkdtemp(prefix="nottwice-demo-"))
    try:
        with Showcase(folder, command=_child_command()) as showcase:
            stage = Stage(showcase, ask=not no_input and somebody_is_there())
            stage.introduce()
            stage.same_kill_three_ways()
            stage.on_call()
            stage.killed_everywhere(points)
            stage.close()
    except NottwiceError as error:
        raise click.ClickException(f"The demo could not go on. {error}") from error
    if stage.broken_claims:
        sys.exit(1)


def _child_command() -> list[str]:
    # -P: a module of the folder that the viewer happens to be in must not get in the way.
    return [sys.executable, "-P", "-m", "nottwice.cli.demo_child"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the closing table."""

    way: str
    shown: Sequence[Shown] = field(repr=False)

    @property
    def refunds(self) -> int:
        return sum(one.refunds for one in self.shown)

    @property
    def mails(self) -> int:
        return sum(one.mails for one in self.shown)

    @property
    def done_twice(self) -> int:
        return sum(one.done_twice for one in self.shown)

    @property
    def lost(self) -> int:
        return sum(one.lost for one in self.shown)


class Stage:
    """The screen, and what has been shown on it."""

    def __init__(self, showcase: Showcase, *, ask: bool) -> None:
        self.showcase = showcase
        self.ask = ask
        self.broken_claims: list[str] = []
        self._console = Console(highlight=False)
        self._console.width = min(self._console.width, WIDTH)
        self._lines: list[Line] = []
        self._on_call_ticket = ""

    # The parts

    def introduce(self) -> None:
        self._say(
            "",
            "[bold]nottwice demo[/]",
            "",
            "A small agent handles a ticket: look up an order, refund it, e-mail the customer.",
            f"A small shop, process {self.showcase.world.pid}, counts what really reaches it.",
            "We kill the agent with SIGKILL (kill -9), start it again, and count at the shop.",
            "All of this happens now. No number below was written down beforehand.",
        )
        self._give_time_to_read()

    def same_kill_three_ways(self) -> None:
        self._title("1", "The same kill, three agents")
        self._say("Each agent is killed right after its refund has reached the shop.", "")
        without = self._kill_one("keeps no state", Way.NO_STATE)
        saving = self._kill_one("saves after each act", Way.CHECKPOINT)
        guarded = self._kill_one("uses nottwice", Way.NOTTWICE)
        self._say("")
        self._claim(
            without.refunds == saving.refunds == 2,
            "Two refunds: started again, neither of the first two agents could know of the "
            "first one. The second was killed before it could save.",
        )
        rows = self.showcase.calls(guarded.errand)
        settled_by = {row.identity.tool_name: row.settled_by for row in rows}
        self._claim(
            guarded.refunds == 1 and settled_by["refund"] == "verify",
            "One refund: nottwice writes down what it is about to do. So after the kill it knew "
            "what to ask the shop, was told that the refund had happened, and went on.",
        )
        self._give_time_to_read()

    def on_call(self) -> None:
        self._title("2", "You are on call")
        self._say(
            "The e-mail is harder: our agent has no way to look into the shop's outbox.",
            "It is killed right after the mail went out, and started again.",
        )
        answers: list[tuple[Verdict, int]] = []

        def decide(case: Case, received: Sequence[Effect]) -> Verdict:
            self._show_case(case, received)
            verdict = self._ask_person(received) if self.ask else None
            verdict = verdict or look_at_the_shop(case, received)
            answers.append((verdict, len(received)))
            return verdict

        errand = self.showcase.errand(Way.NOTTWICE, die_at=AFTER_MAIL)
        shown = self.showcase.kill_and_resume(errand, decide)
        self._on_call_ticket = errand.ticket
        self._lines.append(Line("nottwice, killed after the mail", [shown]))
        if not self._claim(len(answers) == 1, ""):
            return
        verdict, before = answers[0]
        self._tell_decision(shown, verdict, before)
        self._give_time_to_read()

    def killed_everywhere(self, limit: int | None) -> None:
        every = self.showcase.points(Way.NOTTWICE)
        points = _most_telling(every, limit)
        of_all = "" if len(points) == len(every) else f"{len(points)} of "
        self._title("3", "Killed everywhere")
        self._say(
            "The agent can die before and after each write to its ledger (that is where nottwice "
            f"notes things) and each request to the shop: {of_all}{len(every)} points. "
            "One agent is killed at each of them and started again.",
            "",
        )
        sound = self._sweep("nottwice, killed everywhere", points, intents=True)
        asked = sum(one.reviews for one in sound.shown)
        self._claim(
            sound.done_twice == sound.lost == 0,
            f"[green]Nothing was done twice, nothing was lost.[/] {_times(asked)} nottwice could "
            "not know and waited for a person; the demo looked at the shop and answered.",
        )
        self._say(
            "",
            "Would this test notice a mistake? nottwice notes each act before it does it (the "
            '"intent"). The same kills again, with a nottwice that forgets its intents:',
            "",
        )
        broken = self._sweep("the same, without intents", points, intents=False)
        self._claim(
            broken.done_twice > 0,
            f"[red]{broken.done_twice} done twice.[/] So the test can fail, and the intents are "
            "what makes it pass.",
        )
        self._give_time_to_read()

    def close(self) -> None:
        waiting = self._leave_one_waiting()
        self._title("", "What the shop counted")
        self._console.print(self._table())
        script = str(Path(demo_agent.__file__).resolve())
        store = shlex.quote(str(waiting.ledger))
        self._say("The agent that was killed is a short script. Read it:")
        self._say_unbroken(f"  {script}")
        self._say("", f"Try these ({waiting.ticket} was left waiting, for you):")
        self._say_unbroken(
            f"  nottwice show {self._on_call_ticket} --store {store}",
            f"  nottwice reviews --store {store}",
            f"  nottwice check {shlex.quote(script)}",
        )
        self._say("", "Next: docs/start.md protects a tool of your own in five minutes.")
        for claim in self.broken_claims:
            self._say(f"[red]This did not hold:[/] {claim}")

    # What the parts are made of

    def _kill_one(self, name: str, way: Way) -> Shown:
        errand = self.showcase.errand(way, die_at=AFTER_REFUND)
        shown = self.showcase.kill_and_resume(errand)
        killed, *again = shown.pids
        colour = "green" if shown.refunds == 1 else "red"
        self._say(
            f"  {name:<22}killed: pid {killed}, again: pid {again[-1]}"
            f"   [{colour}]refunds: {shown.refunds}[/]"
        )
        self._lines.append(Line(f"{name}, killed after the refund", [shown]))
        return shown

    def _show_case(self, case: Case, received: Sequence[Effect]) -> None:
        call = call_text(case.row) if case.row else case.review.identity.tool_name
        self._say("[bold]The run waits instead of guessing:[/]", "")
        self._say(f"  the call     {escape(call)}")
        for item in case.evidence:
            self._say(f"  {item.source:<12} {escape(item.text)}")
        self._say(f"  the outbox   {_mails(len(received))} of this order", "")

    def _ask_person(self, received: Sequence[Effect]) -> Verdict | None:
        """What the person at the keyboard says; None if nobody says anything in time."""
        question = "[bold]Did the mail go out?[/]  y = yes, it did   n = no, it did not"
        with Keyboard() as keyboard:
            for left in range(SECONDS_TO_DECIDE, 0, -1):
                self._console.print(f"{question}   ({left} s)", end="\r")
                key = keyboard.wait_for("yn\n", seconds=1.0)
                if key is not None:
                    break
        self._say("")
        if key is None or key == "\n":
            return None
        verb = Verb.HAPPENED if key == "y" else Verb.DID_NOT_HAPPEN
        return Verdict(verb, "you", f"pressed {key}, with {_mails(len(received))} in the outbox")

    def _tell_decision(self, shown: Shown, verdict: Verdict, before: int) -> None:
        did = "it happened" if verdict.verb is Verb.HAPPENED else "it did not happen"
        if verdict.by == "you":
            self._say(f"You said: {did}. That is on record, and the agent went on.")
        else:
            self._say(f"Nobody answered, so the demo looked at the outbox: {did}.")
        again = 1 if verdict.verb is Verb.DID_NOT_HAPPEN else 0
        colour = "green" if shown.mails == 1 else "red"
        self._claim(
            shown.mails == before + again,
            f"[{colour}]Mails at the shop: {shown.mails}.[/]"
            + (" The outbox had known better: nottwice did what you said." if again else ""),
        )

    def _sweep(self, name: str, points: Sequence[str], *, intents: bool) -> Line:
        results = self.showcase.sweep(points, Way.NOTTWICE, intents=intents)
        line = Line(name, list(self._with_progress(results, len(points))))
        self._lines.append(line)
        self._say(f"  {len(line.shown)} kills: {line.refunds} refunds, {_mails(line.mails)}")
        return line

    def _with_progress(self, results: Iterable[Shown], total: int) -> Iterable[Shown]:
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("killed {task.description}"))
        with Progress(
            TextColumn(" "),
            *columns,
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        ) as progress:
            task = progress.add_task("", total=total)
            for shown in results:
                progress.update(task, advance=1, description=shown.errand.die_at or "")
                yield shown

    def _leave_one_waiting(self) -> Errand:
        """A run that the viewer can decide about after the demo."""
        errand = self.showcase.errand(Way.NOTTWICE, die_at=AFTER_MAIL)
        self.showcase.kill(errand)
        waits = self.showcase.start_again(errand).returncode == WAITS_FOR_A_PERSON
        self._claim(waits, "")
        return errand

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("the agent")
        for name in ("kills", "refunds", "mails", "done twice", "lost"):
            table.add_column(name, justify="right")
        for line in self._lines:
            colour = "red" if line.done_twice or line.lost else "green"
            numbers = (len(line.shown), line.refunds, line.mails)
            table.add_row(
                line.way,
                *(str(number) for number in numbers),
                f"[{colour}]{line.done_twice}[/]",
                f"[{colour}]{line.lost}[/]",
            )
        return table

    def _claim(self, holds: bool, text: str) -> bool:
        """Say what was claimed, if what was counted bears it out; remember it otherwise."""
        if holds and text:
            self._say(text)
        elif not holds:
            self.broken_claims.append(text)
            self._say("[red]That is not what was claimed.[/]")
        return holds
