"""A plain process that its host starts again until it succeeds: Jobs, cron, tasks (P300, P302).

The process is real and so is the SIGKILL. The host is a loop that follows the verdicts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import nottwice as nt
from tests.nursery import starting

JOB = """
import os, signal, sys
import nottwice as nt

store, world, name, dies, how = sys.argv[1:6]

def reached(point):
    marker = world + "." + dies
    if point == dies and not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)

def send(to: str) -> str:
    reached("before the effect")
    with open(world, "a") as file:
        file.write(to + "\\n")
    reached("after the effect")
    return "sent"

def look(call: nt.Call) -> nt.Verification:
    found = os.path.exists(world) and call.args["to"] in open(world).read().split()
    return nt.happened("sent") if found else nt.did_not_happen()

if how == "bare":
    send(name)
    sys.exit(0)
options = {"verify": look, "settles": "50ms"} if how == "verified" else {}
tool = nt.tool("unsafe_on_replay", **options)(send)
with nt.Ledger(store) as ledger:
    try:
        made = ledger.once("night shift", name, tool, {"to": name})
    except nt.NottwiceError as error:
        verdict = nt.hosts.verdict(error)
        print(verdict.what, *verdict.reviews)
        sys.exit(2 if verdict.what == "give_up" else 75)
reached("after the receipt")
print(made.value)
"""
KILLS = ["before the effect", "after the effect", "after the receipt"]


class Job:
    """A job, and the host that starts it again."""

    def __init__(self, folder: Path, store: str, how: str) -> None:
        self._program, self._world = folder / "job.py", folder / "world"
        self._program.write_text(JOB)
        self._store, self._how = store, how

    def attempt(self, name: str = "ann", *, dies: str = "never") -> tuple[int, str]:
        words = [self._store, str(self._world), name, dies, self._how]
        ran = starting.run([sys.executable, str(self._program), *words])
        return ran.returncode, ran.stdout.strip()

    def until_done(self, *, dies: str) -> str:
        for _ in range(5):
            code, said = self.attempt(dies=dies)
            if code == 0:
                return said
            assert code in (-9, 75), said
        raise AssertionError("The host has tried five times.")

    @property
    def effects(self) -> list[str]:
        return self._world.read_text().split() if self._world.exists() else []


@pytest.fixture(params=["SQLite", "JSON files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "SQLite":
        return str(tmp_path / "agent.db")
    return f"file:{tmp_path / 'agent'}"


def test_a_bare_job_that_was_killed_takes_effect_twice(tmp_path: Path) -> None:
    """The control: without it, one effect below would prove nothing."""
    job = Job(tmp_path, "unused", "bare")
    job.until_done(dies="after the effect")
    assert job.effects == ["ann", "ann"]


@pytest.mark.parametrize("dies", KILLS)
def test_a_job_that_is_killed_and_started_again_takes_effect_once(
    tmp_path: Path, store: str, dies: str
) -> None:
    job = Job(tmp_path, store, "verified")
    assert job.until_done(dies=dies) == "sent"
    assert job.effects == ["ann"]
    assert job.attempt() == (0, "sent")
    assert job.effects == ["ann"]


def test_a_job_in_doubt_waits_for_a_person_and_holds_back_its_group(
    tmp_path: Path, store: str
) -> None:
    """P301 across processes: other names of the group wait, too, and continue afterwards."""
    job = Job(tmp_path, store, "asked")
    assert job.attempt(dies="after the effect")[0] == -9
    code, said = job.attempt()
    word, review = said.split()
    assert (code, word) == (75, "person")
    assert job.attempt("bob") == (75, f"person {review}")
    with nt.Reviews(store) as inbox:
        inbox.decide(review, "happened", by="ann", why="saw it", result="sent")
    assert job.attempt("bob") == (0, "sent")
    assert job.attempt() == (0, "sent")
    assert job.effects == ["ann", "bob"]
    with nt.Ledger(store) as ledger:
        kinds = [notice.kind for notice in ledger.notices(run_id="night shift/ann")]
        assert sorted(kinds) == ["review_decided", "review_opened", "run_over", "run_ready"]
