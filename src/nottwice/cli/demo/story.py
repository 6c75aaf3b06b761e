"""``nottwice demo``: what does a viewer see while agents are killed, and is it what we claim?

This file only prints; `nottwice.testing.showcase` does the work. Every number comes from there, and
a sentence that explains a number is printed only if the number bears it out. If one does not, the
demo says so and ends with exit code 1.
"""

from __future__ import annotations

import logging
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from nottwice.cli.demo.keys import Keyboard, person_is_there
from nottwice.cli.demo.long import DIES_AT, SHORT, STEPS, live_and_die_and_live
from nottwice.cli.demo.screen import Line, Screen
from nottwice.cli.demo.trying import has_page, program_name, protected_lines, serve_page
from nottwice.engine.doubts.blocking import call_text
from nottwice.errors import NottwiceError
from nottwice.model.review import Verb
from nottwice.reviews.queue import Case
from nottwice.testing.showcase import (
    WAITS_FOR_A_PERSON,
    Showcase,
    ShowcaseErrand,
    ShowcaseVerdict,
    Shown,
    Way,
    look_at_the_shop,
)
from nottwice.testing.world import Effect

AFTER_REFUND = "after the effect of refund"
AFTER_MAIL = "after the effect of send_email"
SECONDS_TO_DECIDE = 5
AGENT = Path(__file__).with_name("agent.py")
# -P: a module in the viewer's current folder must not take the place of one of ours.
NURSERY = (sys.executable, "-P", "-m", "nottwice.cli.demo.child")


@click.command()
@click.option("--no-input", is_flag=True, help="Ask nothing, and do not wait for a reader.")
@click.option("--points", type=click.IntRange(min=1), help="Kill at this many points only.")
@click.option(
    "--page", is_flag=True, help="At the end, open the operator's page of the demo's ledger."
)
def demo(no_input: bool, points: int | None, page: bool) -> None:
    """Watch an agent being killed, with and without nottwice.

    It takes about a minute, starts real processes and kills them, asks you one question, and
    counts. Exit code 1: what it showed is not what nottwice promises.
    """
    if page and not has_page():
        raise click.ClickException(
            "The page is not installed, so the demo was not started. Install it: pip install "
            "'nottwice[web]'"
        )
    # It does not matter if a ledger of the demo disappears, so there are no warnings about that.
    logging.getLogger("nottwice").addHandler(logging.NullHandler())
    screen = Screen(person=person_is_there() and not no_input)
    folder = Path(tempfile.mkdtemp(prefix="nottwice-demo-")).resolve()
    # A copy, because this one runs, and this one the viewer may change.
    script = Path(shutil.copy(AGENT, folder / "agent.py"))
    try:
        with Showcase(folder, script=script, command=NURSERY) as showcase:
            waiting = Demo(showcase, screen).show(points)
        if page:
            _open_page(waiting.ledger, screen)
    except NottwiceError as error:
        raise click.ClickException(f"The demo could not continue. {error}") from error
    if screen.broken_claims:
        sys.exit(1)


class Demo:
    """The parts of the demo, in order, and the lines they add to the closing table."""

    def __init__(self, showcase: Showcase, screen: Screen) -> None:
        self.showcase = showcase
        self.screen = screen
        self.lines: list[Line] = []

    def show(self, points: int | None) -> ShowcaseErrand:
        """All of it. Returns the errand that was left waiting for the viewer."""
        self.introduce()
        self.kill_three_ways()
        decided = self.put_on_call()
        self.kill_everywhere(points)
        # With fewer kills, the long run is shorter, too.
        self.kill_a_long_run(*((STEPS, DIES_AT) if points is None else SHORT))
        return self.close(decided)

    def introduce(self) -> None:
        """Say what the agent and the shop are."""
        self.screen.title("nottwice demo")
        self.screen.say(
            "A small agent handles a ticket: look up an order, refund it, e-mail the",
            f"customer. A small shop, process {self.showcase.world.pid}, counts what reaches it.",
            "We kill the agent (kill -9), start it again, and count at the shop.",
            "All of it happens now: no number below was written down beforehand.",
            "",
            "This protects the mail. The refund is declared the same way, with a verify",
            "that asks the shop whether it happened. The rest is ordinary code:",
            "",
        )
        self.screen.say_unbroken(*(f"    {one}".rstrip() for one in protected_lines(AGENT)))
        self.screen.give_time_to_read()

    def kill_three_ways(self) -> None:
        """Part 1: no state, a checkpoint, nottwice; one kill each, at the same instant."""
        say, claim = self.screen.say, self.screen.claim
        self.screen.title("1. The same kill, three agents")
        say("Each is killed right after its refund has reached the shop.", "")
        forgetful = self._kill_after_refund("keeps no state", Way.NO_STATE)
        saving = self._kill_after_refund("saves after each act", Way.CHECKPOINT)
        guarded = self._kill_after_refund("uses nottwice", Way.NOTTWICE)
        say("")
        claim(
            "The agents without nottwice refund twice.",
            holds=forgetful.refunds == saving.refunds == 2,
            text="The first two could not know that they had refunded already:\n"
            "one keeps nothing, the other was killed before it could save.",
        )
        rows = self.showcase.calls(guarded.errand)
        found = [row.identity.tool_name for row in rows if row.settled_by == "verify"]
        claim(
            "The agent with nottwice finds its refund and does not repeat it.",
            holds=guarded.refunds == guarded.mails == 1 and found == ["refund"],
            text="nottwice writes down what it is about to do. After the kill it knew what\n"
            "to look for (a tool can say how: its [bold]verify[/]), found the refund, continued.",
        )
        self.screen.give_time_to_read()

    def put_on_call(self) -> ShowcaseErrand:
        """Part 2: an effect that only a person can look up."""
        say, claim = self.screen.say, self.screen.claim
        self.screen.title("2. You are on call")
        say(
            "The mail is harder: its tool has no verify. The agent is killed right after",
            "the mail went out, and started again. It waits instead of guessing:",
            "",
        )
        answers: list[tuple[ShowcaseVerdict, int]] = []

        def answer(case: Case, received: Sequence[Effect]) -> ShowcaseVerdict:
            verdict = self._decide(case, received)
            answers.append((verdict, len(received)))
            return verdict

        errand = self.showcase.errand(Way.NOTTWICE, die_at=AFTER_MAIL)
        shown = self.showcase.kill_and_resume(errand, answer)
        claim("The run waits for one decision.", holds=len(answers) == 1)
        agent = "uses nottwice"
        for verdict, received in answers:
            repeats = int(verdict.verb is Verb.DID_NOT_HAPPEN)
            text = f"The agent continued. Mails at the shop: [bold]{shown.mails}[/]."
            if repeats and received:
                agent += ", told n"
                text += " The outbox knew better,\nbut nottwice does what the person on call says."
            claim(
                "The agent continues, and mails only if you said that it had not.",
                holds=shown.mails == received + repeats,
                text=text,
            )
        self.lines.append(Line(agent, "after mail", [shown]))
        self.screen.give_time_to_read()
        return errand

    def kill_everywhere(self, limit: int | None) -> None:
        """Part 3: every point there is; then again, with the guard broken on purpose."""
        say, claim = self.screen.say, self.screen.claim
        every = self.showcase.points(Way.NOTTWICE)
        points = most_telling(every, limit)
        some = "" if len(points) == len(every) else f"{len(points)} of "
        self.screen.title("3. Killed everywhere")
        say(
            "The same agent, killed before and after everything it writes down and",
            f"everything it asks of the shop: {some}{len(every)} points, one kill at each.",
            "",
        )
        sound = self._sweep("uses nottwice", points, intents=True)
        asked = sum(one.reviews for one in sound.shown)
        claim(
            "With nottwice nothing is done twice and nothing is lost.",
            holds=sound.done_twice == sound.lost == 0,
            text="  [green]Nothing was done twice, nothing was lost.[/]",
        )
        if asked:
            say(f"  Runs that waited for a person: {asked}. The demo looked into the outbox.")
        say(
            "",
            "Would this test notice a mistake? What nottwice writes down before it acts",
            "is called the intent. The same kills, with a nottwice that skips the intents:",
            "",
        )
        broken = self._sweep("intents switched off", points, intents=False)
        claim(
            "Without intents, effects are done twice.",
            holds=broken.done_twice > 0,
            text=f"  [red]Done twice: {broken.done_twice}.[/] So this test can fail; "
            "the intents make it pass.",
        )
        self.screen.give_time_to_read()

    def kill_a_long_run(self, steps: int, dies_at: int) -> None:
        """Part 4: an agent that asks a model 160 times, killed at step 141."""
        say, claim = self.screen.say, self.screen.claim
        self.screen.title(f"4. Killed at 2 am, step {dies_at} of {steps}")
        say(
            "Another agent works through the night: it asks its model (a script), writes",
            "a comment, asks again. It is killed right after a comment was written.",
            "",
        )
        folder = self.showcase.folder / "night-shift"
        long = live_and_die_and_live(folder, steps=steps, dies_at=dies_at)
        say(
            f"  killed as {long.killed_as} with {long.done_before} comments in the tracker,",
            f"  resumed as {long.resumed_as}: it asked its model again after "
            f"{long.resume_seconds:.2f} s.",
            f"  Comments: [bold]{long.comments}[/], twice: [bold]{long.twice}[/]. Tokens: "
            f"{long.tokens:,}, spent again: [bold]{long.tokens_again}[/].",
            "",
        )
        claim(
            "The long run continues at its step, and neither pays nor acts twice.",
            holds=long.status == "completed"
            and (long.done_before, long.comments, long.twice) == (dies_at, steps, 0)
            and long.requests == steps + 1,
            text="Plan, transcript and money are in the ledger, not in the process.",
        )
        self.screen.give_time_to_read()

    def close(self, decided: ShowcaseErrand) -> ShowcaseErrand:
        """The table, and where to go from here."""
        waiting = self._leave_one_waiting()
        self.screen.title("What the shop counted")
        self.screen.table(self.lines)
        store, script = shlex.quote(waiting.ledger), shlex.quote(waiting.script)
        self.screen.say("The agent that uses nottwice is a short script, and now yours:")
        self.screen.say_unbroken(f"  {waiting.script}", "")
        self.screen.say(f"Commands to try ({waiting.ticket} was left waiting for you):")
        program = shlex.quote(program_name())
        self.screen.say_unbroken(
            f"  {program} show {decided.ticket} --store {store}",
            f"  {program} reviews --store {store}",
            f"  {program} check {script}",
            *([f"  {program} serve --port 0 --store {store}"] if has_page() else []),
            "",
        )
        self.screen.say("Next: docs/start.md shows how to protect your own tool, in five minutes.")
        for broken in self.screen.broken_claims:
            self.screen.say(f"[bold red]This did not hold:[/] {broken}")
        return waiting

    def _kill_after_refund(self, agent: str, way: Way) -> Shown:
        shown = self.showcase.kill_and_resume(self.showcase.errand(way, die_at=AFTER_REFUND))
        colour = "green" if shown.refunds == 1 else "red"
        self.screen.say(
            f"  {agent:<20}  killed as {shown.pids[0]}, started again as {shown.pids[-1]}:"
            f"  [{colour}]refunds: {shown.refunds}[/]"
        )
        self.lines.append(Line(agent, "after refund", [shown]))
        return shown

    def _decide(self, case: Case, received: Sequence[Effect]) -> ShowcaseVerdict:
        """Show what is known, and let the person on call say what is true."""
        call = call_text(case.row) if case.row else case.review.identity.tool_name
        process = case.holder.describe() if case.holder else "unknown"
        self.screen.facts(
            [
                ("the call", call),
                ("its process", f"{process}, {case.holder_life.value}"),
                ("the doubt", case.review.summary),
                ("the outbox", f"mails of this order: {len(received)}"),
            ]
        )
        self.screen.say("")
        pressed = self._ask() if self.screen.person else None
        if pressed is None:
            verdict = look_at_the_shop(case, received)
            who = "No answer" if self.screen.person else "There is no keyboard"
            self.screen.say(f"{who}, so the demo looked into the outbox: {_said(verdict.verb)}.")
            return verdict
        verb = Verb.HAPPENED if pressed == "y" else Verb.DID_NOT_HAPPEN
        self.screen.say(f"You said: {_said(verb)}. It is on record.")
        return ShowcaseVerdict(verb, "you", f"pressed {pressed} in the demo")

    def _ask(self) -> str | None:
        """The key that was pressed in time, y or n."""
        key = None
        with Keyboard(sys.stdin.fileno()) as keyboard:
            for left in range(SECONDS_TO_DECIDE, 0, -1):
                self.screen.ask_on_one_line(
                    f"[bold]Did the mail go out?[/]  y = it did   n = it did not   ({left} s)"
                )
                key = keyboard.wait_for("yn\n", seconds=1.0)
                if key is not None:
                    break
        self.screen.say("", "")
        return None if key == "\n" else key

    def _sweep(self, agent: str, points: Sequence[str], *, intents: bool) -> Line:
        results = self.showcase.sweep(points, Way.NOTTWICE, intents=intents)
        shown = list(self.screen.with_progress(results, len(points)))
        where = "at 1 point" if len(shown) == 1 else f"at {len(shown)} points"
        line = Line(agent, where, shown)
        self.lines.append(line)
        self.screen.say(f"  Kills: {line.kills}. Refunds: {line.refunds}. Mails: {line.mails}.")
        return line

    def _leave_one_waiting(self) -> ShowcaseErrand:
        """A run that the viewer can decide about when the demo has ended."""
        errand = self.showcase.errand(Way.NOTTWICE, die_at=AFTER_MAIL)
        self.showcase.kill(errand)
        ended = self.showcase.start_again(errand)
        self.screen.claim(
            "A run with a mail in doubt waits.", holds=ended.returncode == WAITS_FOR_A_PERSON
        )
        return errand


def _open_page(ledger: str, screen: Screen) -> None:
    def announce(link: str) -> None:
        screen.say("", "The operator's page, with the mail that is in doubt:")
        screen.say_unbroken(f"  {link}")
        screen.say("Ctrl-C stops it.")
        sys.stdout.flush()

    serve_page(ledger, announce=announce, open_browser=screen.person)


def most_telling(points: Sequence[str], limit: int | None) -> list[str]:
    """The first ``limit`` points, those right after an effect before all others, in run order."""
    by_weight = sorted(points, key=lambda point: not point.startswith("after the effect"))
    chosen = set(by_weight[:limit])
    return [point for point in points if point in chosen]


def _said(verb: Verb) -> str:
    return "it went out" if verb is Verb.HAPPENED else "it did not go out"
