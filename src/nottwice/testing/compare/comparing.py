"""Kill every task once, in each of the three ways, resume it, and count the outcome.

The kill point is chosen at random among all moments that the same task has without a kill. The seed
is printed and gives the same kills again. Then the crash test kills nottwice at every boundary of
every task. With a budget, tasks run in an order chosen by the seed until the time is up (P161).
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import nottwice as nt
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review, ReviewKind
from nottwice.testing.compare.journey import Journey, JourneyMoment, moments_in
from nottwice.testing.compare.tasks import TOOLS, ComparedTask
from nottwice.testing.compare.ways import ANSWERS, LEDGER, WAYS, Results, run_graph
from nottwice.testing.crash.scenario import Asking, Scenario
from nottwice.testing.crash.sweep import Orders, sweep
from nottwice.testing.crash.verdict import Verdict
from nottwice.testing.world import World

IN_MEMORY = "in memory"
MOST_PROCESSES = 20
LEAST_SECONDS = 1.0
"""The least share of a small budget that a task gets, so that not all tasks get next to nothing."""
_RESULT, _OUTPUT = "result.json", "output.txt"


@frozen_record(frozen=True, slots=True, kw_only=True)
class Killed:
    """One task, killed once and resumed."""

    way: str
    task: str
    where: str
    survived: bool
    """It ended as it would have without the kill, and as the same run: it did not start over."""
    duplicates: int
    repeated: int
    """How many calls were repeated, including the one in progress: the work that the kill cost."""
    resume_seconds: float
    """From the start of the next process until it reached the point of the kill."""
    people: int
    """How often a person had to decide whether something had happened."""


@frozen_record(frozen=True, slots=True)
class ComparisonRow:
    """The results of all tasks in one way."""

    way: str
    tasks: int
    survived: int
    duplicates: int
    repeated_mean: float
    repeated_most: int
    resume_seconds_mean: float
    people: int


@frozen_record(frozen=True, slots=True)
class EveryPoint:
    """The results of nottwice, killed at every boundary of every task."""

    points: int
    total: int
    wrong: int
    first_wrong: str | None = None
    tasks: int = 0
    """How many tasks these points belong to."""
    repeated: int = 0
    """How many calls a single kill repeated, at most."""


Report = Callable[[str, int, int], None]
"""Receives what is being done, how many are done, and how many there are."""


def _silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


def compare(
    tasks: Sequence[ComparedTask],
    *,
    seed: int,
    budget_seconds: float | None,
    report: Report = _silent,
) -> tuple[list[Killed], EveryPoint]:
    """Kill each task once in each way, then use the time left to kill nottwice everywhere.

    Without a budget, every point is covered. With one, the first part gets half of it.
    """
    began = time.monotonic()
    half = None if budget_seconds is None else budget_seconds / 2
    killed = kill_once(tasks, seed=seed, budget_seconds=half, report=report)
    left = None
    if budget_seconds is not None:
        left = budget_seconds - (time.monotonic() - began)
    return killed, kill_everywhere(tasks, seed=seed, budget_seconds=left, report=report)


def kill_once(
    tasks: Sequence[ComparedTask],
    *,
    seed: int,
    budget_seconds: float | None = None,
    report: Report = _silent,
) -> list[Killed]:
    """Kill each task once in each way, at a moment chosen by the seed.

    With a budget, run as many tasks as it allows, at least one, and each in all ways.
    """
    killed: list[Killed] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nottwice-compare-") as root, World.start() as world:
        for task in _in_order(tasks, seed, budget_seconds):
            if killed and budget_seconds is not None:
                if time.monotonic() - began >= budget_seconds:
                    break
            for way in WAYS:
                # Each has its own random generator, so leaving a task out changes no other kill.
                chance = random.Random(f"{seed} {task.name} {way}")
                killed.append(_Runner(Path(root), world, task, way).kill(chance))
                report("three ways, each killed once", len(killed), len(tasks) * len(WAYS))
    return killed


def _in_order(
    tasks: Sequence[ComparedTask], seed: int, budget_seconds: float | None
) -> Sequence[ComparedTask]:
    """Return all tasks. If they may not all fit, the first ones are a fair sample."""
    if budget_seconds is None:
        return tasks
    return random.Random(seed).sample(list(tasks), len(tasks))


def summary(killed: Sequence[Killed]) -> list[ComparisonRow]:
    """Return one row per way."""
    return [_row(way, [one for one in killed if one.way == way]) for way in WAYS]


def _row(way: str, killed: list[Killed]) -> ComparisonRow:
    count = len(killed)
    return ComparisonRow(
        way=way,
        tasks=count,
        survived=sum(one.survived for one in killed),
        duplicates=sum(one.duplicates for one in killed),
        repeated_mean=sum(one.repeated for one in killed) / count,
        repeated_most=max(one.repeated for one in killed),
        resume_seconds_mean=sum(one.resume_seconds for one in killed) / count,
        people=sum(one.people for one in killed),
    )


class _Runner:
    """One task in one way: first without a kill, then with one."""

    def __init__(self, root: Path, world: World, task: ComparedTask, way: str) -> None:
        self._root, self._world, self._task, self._way = root, world, task, way
        self._people = 0

    def kill(self, chance: random.Random) -> Killed:
        expected, whole = self._live("whole", None)
        kill_at = chance.randint(1, len(whole))
        name = "killed"
        results, lived = self._live(name, kill_at)
        before, after = lived[:kill_at], lived[kill_at:]
        # Counted like in the crash test: calls made more often than without the kill.
        again = _calls(lived) - _calls(whole)
        return Killed(
            way=self._way,
            task=self._task.name,
            where=f"{before[-1].phase} {before[-1].beat}",
            # Without stored state, a task cannot survive a kill.
            survived=results is not None and results == expected and self._way != IN_MEMORY,
            duplicates=self._duplicates(name),
            repeated=again.total(),
            resume_seconds=_back_there(whole, before[-1], after) - before[-1].at,
            people=self._people,
        )

    def _live(self, name: str, kill_at: int | None) -> tuple[Results | None, list[JourneyMoment]]:
        """Start processes one after the other until the task is done. At most one is killed."""
        folder = self._root / f"{self._way} {self._task.name} {name}"
        folder.mkdir()
        for _ in range(MOST_PROCESSES):
            status = self._process(folder, kill_at)
            if status == 0:
                results = json.loads((folder / _RESULT).read_text(encoding="utf-8"))
                if results is not None:
                    return results, moments_in(folder)
                self._let_people_decide(folder)
            elif status > 0:
                said = (folder / _OUTPUT).read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"{folder.name} failed: {said[-2000:]}")
        return None, moments_in(folder)

    def _process(self, folder: Path, kill_at: int | None) -> int:
        """Run one process and return its exit code, or the negative signal that killed it."""
        pid = os.fork()
        if pid == 0:
            self._be_process(folder, kill_at)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def _be_process(self, folder: Path, kill_at: int | None) -> NoReturn:
        code = 1
        try:
            output = os.open(folder / _OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for descriptor in (1, 2):
                os.dup2(output, descriptor)
            journey = Journey(folder, name=folder.name, url=self._world.url, kill_at=kill_at)
            results = WAYS[self._way](self._task, journey)
            (folder / _RESULT).write_text(json.dumps(results), encoding="utf-8")
            code = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(code)

    def _let_people_decide(self, folder: Path) -> None:
        """Answer questions, and decide calls in doubt by looking into the world's log."""
        with nt.Reviews(folder / LEDGER) as reviews:
            for case in reviews.open():
                if case.review.decision is None:
                    self._decide(reviews, case.review)

    def _decide(self, reviews: nt.Reviews, review: Review) -> None:
        if review.kind is ReviewKind.QUESTION:
            reviews.decide(review.review_id, ANSWERS[0], by="a person")
            return
        self._people += 1
        tool = review.identity.tool_name.partition(".")[2]
        found = self._world.client().find(tool, call_id=review.call_id)
        told: dict[str, Any] = {} if found is None else {"result": found.result}
        verb = "did-not-happen" if found is None else "happened"
        reviews.decide(review.review_id, verb, by="a person", why="the log says so", **told)

    def _duplicates(self, name: str) -> int:
        run = f"{self._way} {self._task.name} {name}"
        effects = [one for one in self._world.effects() if one.args["run"] == run]
        counted = Counter((one.tool, one.args["beat"]) for one in effects)
        return sum(count - 1 for count in counted.values())


def _calls(moments: list[JourneyMoment]) -> Counter[str]:
    return Counter(one.beat for one in moments if one.phase == "before the act")


def _back_there(
    whole: list[JourneyMoment], killed: JourneyMoment, after: list[JourneyMoment]
) -> float:
    """Return when the next process reached or passed the beat at which the last one was killed."""
    order = list(dict.fromkeys(one.beat.partition("/")[0] for one in whole))
    there = order.index(killed.beat.partition("/")[0])
    for one in after:
        if order.index(one.beat.partition("/")[0]) >= there:
            return one.at
    # Everything was already done: the next process only had to report it.
    return time.monotonic()


def kill_everywhere(
    tasks: Sequence[ComparedTask],
    *,
    seed: int,
    budget_seconds: float | None,
    report: Report = _silent,
) -> EveryPoint:
    """Kill nottwice at every boundary of every task, or at as many as the budget allows.

    A repeated call also counts as wrong, unless it was in progress at the kill (P160).
    """
    began = time.monotonic()
    verdicts: list[Verdict] = []
    for number, task in enumerate(_in_order(tasks, seed, budget_seconds)):
        share = None
        if budget_seconds is not None:
            left = began + budget_seconds - time.monotonic()
            if verdicts and left <= 0:
                break
            share = min(max(left, 0.0), max(left / (len(tasks) - number), LEAST_SECONDS))
        verdicts.append(_sweep(task, seed, share))
        report("nottwice, killed everywhere", number + 1, len(tasks))
    wrong = [verdict for verdict in verdicts if verdict.failures]
    return EveryPoint(
        points=sum(verdict.examined for verdict in verdicts),
        total=sum(level.total for verdict in verdicts for level in verdict.levels),
        wrong=sum(len(verdict.failures) for verdict in wrong),
        first_wrong="\n".join(wrong[0].lines()) if wrong else None,
        tasks=len(verdicts),
        repeated=max((verdict.repeated for verdict in verdicts), default=0),
    )


def _sweep(task: ComparedTask, seed: int, budget_seconds: float | None) -> Verdict:
    scenario = Scenario(
        work=lambda: run_graph(task, task.name, "compare.db"),
        tools={f"compare.{tool}": _canned(tool) for tool in TOOLS},
        name=task.name,
    )
    return sweep(scenario, Orders(budget_seconds=budget_seconds, seed=seed, least_points=1))


def _canned(tool: str) -> Callable[[dict[str, Any], Asking], str]:
    def answer(args: dict[str, Any], asking: Asking) -> str:
        if args["fails_first"] and asking.earlier == 0:
            raise nt.Retryable("busy, and nothing was done")
        return f"{tool} {args['beat_id']}"

    return answer
