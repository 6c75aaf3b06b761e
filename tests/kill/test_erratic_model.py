"""Does an agent with an erratic model that is killed repeatedly do anything twice?

The model is in ``erratic_model.py``. Processes die of a real SIGKILL at random commits, effects and
requests; the window is so small that it is compacted all the time; a person looks in the world and
decides what the run waits for. Then the run must have ended, and the world must be in order.
"""

from __future__ import annotations

import functools
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.asking.asked import Question, WantedCall, shown_in
from nottwice.reviews.queue import Case
from tests.agent.calls.test_wording import FOR_PROGRAMMERS
from tests.kill.erratic_model import IN_ORDER, RUN, TURNS, Desk, live, make_agent
from tests.recipes.killing import fork

SEEDS = [int(each) for each in os.environ.get("ERRATIC_SEEDS", "1 2 3 4").split()]
KILLS = 20
MOST_LIVES = 200


class Person:
    """Decides every review, by a look in the world or by a coin, and remembers what it allowed."""

    def __init__(self, desk: Desk, chance: random.Random) -> None:
        self._desk = desk
        self._chance = chance
        self.allowed: Counter[tuple[str, str]] = Counter()
        self.kinds: Counter[str] = Counter()

    def decide_all(self, ledger: Path) -> int:
        with nt.Reviews(ledger) as reviews:
            waiting = [case for case in reviews.open() if case.review.decision is None]
            for case in waiting:
                verb, result = self._decision(case)
                given: dict[str, Any] = {} if result is None else {"result": result}
                review_id = case.review.review_id
                reviews.decide(review_id, verb, by="ann", why="I looked", **given)
        return len(waiting)

    def _decision(self, case: Case) -> tuple[str, object]:
        review = case.review
        self.kinds[review.kind.value] += 1
        shown = shown_in(review)
        match shown:
            case WantedCall():
                assert "the model asks for it again" in review.summary
                assert "receipt" in review.summary
                if self._chance.random() < 0.5:
                    return "reject", None
                self.allowed[shown.tool, str(_identity(shown))] += 1
                return "approve", None
            case Question():
                return "raise", shown.about["suggested"]
            case None:
                found = self._desk.find(review.call_id)
                return ("did-not-happen", None) if found is None else ("happened", found)


def _identity(wanted: WantedCall) -> list[object]:
    """What distinguishes the effect from others, as the world writes it."""
    args = wanted.args
    names = {
        "erratic_mail": ("to", "order_id"),
        "erratic_refund": ("order_id", "cents"),
        "erratic_pay": ("order_id",),
    }
    return [args[name] for name in names[wanted.tool]]


def live_and_die(folder: Path, seed: int, chance: random.Random) -> tuple[Person, int]:
    """Processes, one after the other, until the run has ended; how many of them were killed."""
    person, killed = Person(Desk(folder), chance), 0
    status = folder / "status.txt"
    for _ in range(MOST_LIVES):
        status.write_text("")
        die_at = chance.randint(2, 20) if killed < KILLS else None
        pid = fork(functools.partial(live, folder, seed, die_at))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, -signal.SIGKILL), "the process failed by itself"
        killed += code != 0
        if status.read_text() == "completed":
            return person, killed
        decided = person.decide_all(folder / "agent.db")
        assert code != 0 or decided, "it waits, and nothing names a way out"
    raise AssertionError(f"it has not ended after {MOST_LIVES} processes")


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize("seed", SEEDS)
def test_an_erratic_model_does_nothing_twice_and_its_run_ends(seed: int, tmp_path: Path) -> None:
    person, killed = live_and_die(tmp_path, seed, random.Random(seed))
    assert killed >= 3, "too few kills to show anything"
    lines = Desk(tmp_path).lines
    assert len(lines) > 5, "the model did too little to show anything"

    by_call = Counter(line["call"] for line in lines)
    assert set(by_call.values()) == {1}, "one call took effect twice"
    by_effect = Counter((line["tool"], str(line["what"])) for line in lines)
    for effect, count in by_effect.items():
        assert count <= 1 + person.allowed[effect], f"{effect} happened {count} times"

    for batch in {line["what"][0] for line in lines if line["tool"] == "erratic_write"}:
        order = [line["tool"] for line in lines if line["what"] == [batch]]
        assert [one for one in order if one.removeprefix("erratic_") in IN_ORDER] == [
            f"erratic_{name}" for name in IN_ORDER
        ]

    agent = make_agent(Desk(tmp_path), seed)
    outcome = agent.run(RUN, store=tmp_path / "agent.db")
    assert outcome.state.turn == TURNS + 1
    assert outcome.state.first_recent > 0, "nothing was compacted"
    done = {effect.receipt_id for effect in agent.effects(RUN, store=tmp_path / "agent.db")}
    helpers = {line["call"] for line in lines if str(line["what"][0]).startswith("customer")}
    assert {line["call"] for line in lines} - helpers <= done, "an effect is not on record"
    told = [one for message in outcome.state.transcript for one in message.tool_results]
    for result in told:
        assert FOR_PROGRAMMERS.search(result.content) is None, result.content
