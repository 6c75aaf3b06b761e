"""How is the progress of a run shown? One line on stderr when a node begins and when it ends."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nottwice.cli.render.output import show_progress
from nottwice.engine import events
from nottwice.engine import said as words
from nottwice.engine.clock import SystemClock
from nottwice.engine.events import Event
from nottwice.engine.hiding import hide
from nottwice.engine.said import Said
from nottwice.model.decision import Action
from nottwice.model.runs.places import is_inside, shown_node

_OURS = str(Path(__file__).parents[2]) + os.sep


@dataclass(slots=True)
class _Visit:
    """A node that is running."""

    began_at: float
    calls: int = 0
    replayed: int = 0


class RunDisplay:
    """Shows the nodes of a run, and of its children, as they begin and end; a listener."""

    def __init__(self, run_id: str, title: str, on_wait: Callable[[], None]) -> None:
        self._run_id = run_id
        self._heading = title
        self._on_wait = on_wait
        self._visits: dict[tuple[str, str], _Visit] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, Said):
            self._show(event, SystemClock().now())

    def _show_heading(self) -> None:
        """Show the heading with the first event: a refused run has not started."""
        if self._heading:
            show_progress(self._heading, style="bold")
            self._heading = ""

    def _show(self, said: Said, at: float) -> None:
        self._show_heading()
        if said.step is None:
            self._leave(said)
        elif said.visit is None:
            self._count(said)
        elif said.decision in (words.BEGIN, words.RESUME):
            self._begin(said, at)
        elif said.decision in (words.DONE, words.FAILED):
            self._end(said, at)

    def _leave(self, said: Said) -> None:
        """A run was released; nodes that wait have not ended, and will be resumed."""
        for key in [key for key in self._visits if key[0] == said.run_id]:
            del self._visits[key]
        if said.run_id == self._run_id and said.decision == words.WAIT:
            self._on_wait()

    def _begin(self, said: Said, at: float) -> None:
        if self._outer(said) is not None:
            # A step inside a node is part of the node.
            return
        assert said.step is not None
        self._visits[(said.run_id, said.step)] = _Visit(at)
        what = "resume" if said.decision == words.RESUME else "begin"
        _show_line(what, self._title(said), style="cyan")

    def _end(self, said: Said, at: float) -> None:
        assert said.step is not None
        visit = self._visits.pop((said.run_id, said.step), None)
        if visit is None:
            return
        facts = [f"{max(0.0, at - visit.began_at):.3f} s"]
        if visit.calls:
            facts.append(f"{visit.calls} {'call' if visit.calls == 1 else 'calls'}")
        if visit.replayed:
            facts.append(f"{visit.replayed} replayed")
        failed = said.decision == words.FAILED
        text = f"{self._title(said)}  {', '.join(facts)}"
        _show_line("failed" if failed else "done", text, style="red" if failed else "green")

    def _count(self, said: Said) -> None:
        visit = self._outer(said)
        if visit is None:
            # Before the first node: what an earlier process left in doubt is settled.
            _show_line("settle", f"{said.tool}: {said.decision}", style="yellow")
        elif said.decision == Action.RETURN_RECEIPT.value:
            visit.calls += 1
            visit.replayed += 1
        elif said.decision in (Action.RUN.value, Action.RECORD_AND_RUN.value):
            visit.calls += 1

    def _outer(self, said: Said) -> _Visit | None:
        """The node that something happens in."""
        assert said.step is not None
        for (run_id, node), visit in self._visits.items():
            if run_id == said.run_id and said.step != node and is_inside(said.step, node):
                return visit
            if run_id == said.run_id and said.step == node and said.visit is None:
                return visit
        return None

    def _title(self, said: Said) -> str:
        number = (said.visit or "").rpartition("/")[2]
        visit = f", visit {number}" if number not in ("", "1") else ""
        run = "" if said.run_id == self._run_id else f" of child run {said.run_id}"
        return f"{shown_node(said.step or '')}{visit}{run}"


def _show_line(what: str, text: str, *, style: str) -> None:
    show_progress(f"  {what:<6}  {text}", style=style)


@contextmanager
def watched(
    run_id: str,
    *,
    title: str,
    on_wait: Callable[[], None],
    show: type[RunDisplay] = RunDisplay,
) -> Iterator[None]:
    """Show the progress of a run while the block runs, beside what is logged anyway.

    ``title`` comes first, when something happens. ``on_wait`` is called whenever the run stops to
    wait. ``show``: what shows it.
    """
    stop = events.listen(show(run_id, title, on_wait))
    try:
        yield
    finally:
        stop()


def show_failure(error: BaseException) -> None:
    """Show where the user's own code failed, without the frames of nottwice."""
    trace = traceback.TracebackException.from_exception(error)
    _keep_own_frames(trace)
    for line in hide("".join(trace.format())).splitlines():
        show_progress(line)


def _keep_own_frames(trace: traceback.TracebackException) -> None:
    own = [frame for frame in trace.stack if not frame.filename.startswith(_OURS)]
    trace.stack = traceback.StackSummary.from_list(own)
    for other in (trace.__cause__, trace.__context__):
        if other is not None:
            _keep_own_frames(other)
