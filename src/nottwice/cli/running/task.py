"""What task does an agent get on the command line, and how is its progress shown?"""

from __future__ import annotations

from typing import Any

import click

from nottwice.agent import telling
from nottwice.agent.declare import Agent
from nottwice.agent.telling import Told
from nottwice.cli.render.agent import MOST_CHARACTERS
from nottwice.cli.render.output import show_progress
from nottwice.cli.render.progress import RunDisplay
from nottwice.engine import said as words
from nottwice.engine.said import Said
from nottwice.errors import UsageError
from nottwice.graphs.app import App
from nottwice.model.data.records import frozen_record
from nottwice.model.decision import Action
from nottwice.model.tool import OWN_PREFIX
from nottwice.views.text import shorten


@frozen_record(frozen=True, slots=True)
class Task:
    """The task of an agent, as the command line gives it."""

    goal: str | None
    done_when: tuple[str, ...]
    message: str | None

    def __bool__(self) -> bool:
        return self.goal is not None or bool(self.done_when) or self.message is not None

    def input(self, given: Any) -> Any:
        """The first state of the run, if the command line gives one."""
        if self.goal is None and not self.done_when:
            return given
        if given is not None:
            raise click.UsageError("--goal and --done-when are the input; leave --input out.")
        if self.goal is None:
            raise click.UsageError("--done-when belongs to a --goal.")
        return {"goal": self.goal, "done_when": list(self.done_when)}

    def options(self, app: App, graph: str) -> dict[str, Any]:
        """Arguments for running the graph, beside its input; UsageError if it is not an agent."""
        if self and not is_agent(app, graph):
            raise UsageError(
                f"{graph!r} is a graph, not an agent. Nothing was started. --goal, --done-when and "
                "--message are for agents; give a graph its --input, and send it events: "
                "nottwice send"
            )
        return {} if self.message is None else {"message": self.message}


def is_agent(app: App, graph: str) -> bool:
    """Whether the app knows this as an agent."""
    known = [one for one in app.graphs if graph in (one.name, one.id)]
    return any(isinstance(one, Agent) for one in known)


class AgentDisplay(RunDisplay):
    """Shows what an agent says, calls, gets and pays, instead of its nodes."""

    def _show(self, said: Said, at: float) -> None:
        if isinstance(said, Told):
            self._show_heading()
            self._tell(said)
        elif said.step is None or said.run_id != self._run_id:
            super()._show(said, at)
        elif said.visit is not None and said.decision in (words.RESUME, words.FAILED):
            self._show_heading()
            what = "resume" if said.decision == words.RESUME else "failed"
            _show_line(what, f"{said.step}, turn {said.visit.rpartition('/')[2]}", "yellow")
        elif said.visit is None and said.tool is not None and not said.tool.startswith(OWN_PREFIX):
            if said.decision == Action.RETURN_RECEIPT.value:
                self._show_heading()
                _show_line("replay", f"{said.tool}: its receipt answers", "cyan")

    def _tell(self, told: Told) -> None:
        text = shorten(told.text, MOST_CHARACTERS)
        match told.decision:
            case telling.TURN:
                show_progress(f"turn {told.turn}", style="bold")
            case telling.HEARD:
                _show_line("hear", text, "bold")
            case telling.REPLIED:
                cost = f"{told.tokens:,} tokens"
                cost += ", cost unknown" if told.usd is None else f", ${told.usd:.4f}"
                replayed = ", replayed" if told.replayed else ""
                _show_line("reason", f"{text or '(no words)'}  [{cost}{replayed}]", None)
            case telling.CALLED:
                _show_line("call", text, "cyan")
            case telling.RESULT:
                _show_line("result", text, "red" if told.is_error else "green")
            case telling.NOT_BEGUN:
                _show_line("later", f"{text} is not started: it waits for its turn", "yellow")
            case telling.FINISHED:
                _show_line("done", text, "bold green")


def _show_line(what: str, text: str, style: str | None) -> None:
    show_progress(f"  {what:<6}  {text}", style=style)
