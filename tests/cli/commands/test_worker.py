"""`nottwice worker`, as a process: it works, logs, and ends in order when it is told to (P65)."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import nottwice as nt
from nottwice.cli.main import main
from nottwice.cli.render.json_log import JsonLines
from tests.tidy.source import ROOT

APP = """
import time
from pathlib import Path

import nottwice as nt

here = Path(__file__).parent

@nt.tool("unsafe_on_replay", name=f"{__name__} act")
def act(what: str) -> str:
    with (here / "world.txt").open("a") as file:
        file.write(what + "\\n")
    return what

flow = nt.Graph("flow", version="1.0.0")

@flow.node
def first(state):
    (here / "inside").touch()
    while (here / "hold").exists():
        time.sleep(0.005)
    act(f"{state['name']} first")

@flow.node
def second(state):
    act(f"{state['name']} second")

asking = nt.Graph("asking", version="1.0.0")

@asking.node
def ask(state):
    return {"answer": nt.ask("Go on?")}

app = nt.App(graphs=[flow, asking], store=str(here / "agent.db"))
"""
SECONDS = 30.0


class Place:
    """A folder with an app, and workers in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Of its own for each test: this very process imports it, too.
        self.module = f"fleet_{uuid.uuid4().hex}"
        self.write(APP)
        self.workers: list[subprocess.Popen[str]] = []

    @property
    def store(self) -> str:
        return str(self.folder / "agent.db")

    def worker(self, *words: str) -> subprocess.Popen[str]:
        line = [sys.executable, "-m", "nottwice", "worker", "--app", f"{self.module}:app", *words]
        started = subprocess.Popen(
            line,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.workers.append(started)
        if "-v" in words:
            assert started.stderr is not None
            while "worker started" not in started.stderr.readline():
                assert started.poll() is None
        return started

    def enqueue(self, *names: str, graph: str = "flow") -> None:
        lines = "".join(json.dumps({"id": name, "input": {"name": name}}) + "\n" for name in names)
        ended = self.here("run", graph, "--detach", "--batch", "-", stdin=lines)
        assert ended.exit_code == 0, ended.stderr

    def finish(self) -> None:
        """A worker in this process that does what is left."""
        assert self.here("worker", "--until-idle").exit_code == 0

    def here(self, *words: str, stdin: str | None = None) -> Result:
        app = f"{self.folder / self.module}.py:app"
        return CliRunner().invoke(main, [*words, "--app", app], input=stdin)

    def write(self, app: str) -> None:
        (self.folder / f"{self.module}.py").write_text(app)

    def hold(self) -> None:
        (self.folder / "hold").touch()

    def release(self) -> None:
        (self.folder / "hold").unlink()

    def wait_until_inside(self) -> None:
        wait_for(lambda: (self.folder / "inside").exists())

    def world(self) -> list[str]:
        file = self.folder / "world.txt"
        return sorted(file.read_text().splitlines()) if file.exists() else []

    def run(self, run_id: str) -> Any:
        with nt.Ledger(self.store) as ledger:
            return ledger.store.load_run(run_id)


def wait_for(condition: Any) -> None:
    over = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < over, "it never came"
        time.sleep(0.005)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for worker in place.workers:
        worker.kill()
        worker.communicate()


def test_until_idle_it_does_what_there_is_and_ends_with_its_figures(place: Place) -> None:
    place.enqueue("a", "b")
    worker = place.worker("--until-idle", "--json", "--log-json", "--concurrency", "2")
    out, err = worker.communicate(timeout=SECONDS)
    assert worker.returncode == 0, err
    assert json.loads(out)["worker"]["completed"] == 2
    assert place.world() == ["a first", "a second", "b first", "b second"]
    logged = [json.loads(line) for line in err.splitlines()]
    assert {line["run_id"] for line in logged if line.get("decision") == "advance the run"} == {
        "a",
        "b",
    }
    assert all({"at", "level", "message"} <= line.keys() for line in logged)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_it_finish_the_node_and_hand_the_run_back(
    place: Place, number: signal.Signals
) -> None:
    place.hold()
    place.enqueue("a")
    worker = place.worker()
    place.wait_until_inside()
    worker.send_signal(number)
    time.sleep(0.1)
    assert worker.poll() is None
    place.release()
    out, err = worker.communicate(timeout=SECONDS)
    assert (worker.returncode, err) == (0, "")
    assert "1 handed back" in out
    assert place.world() == ["a first"]
    run = place.run("a")
    assert (run.status.value, run.holder_id) == ("running", None)
    place.finish()
    assert place.world() == ["a first", "a second"]


def test_a_second_signal_ends_it_immediately_and_the_next_worker_continues(place: Place) -> None:
    place.hold()
    place.enqueue("a")
    worker = place.worker()
    place.wait_until_inside()
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=SECONDS)
    assert worker.returncode == 128 + signal.SIGTERM
    place.release()
    place.finish()
    assert place.world() == ["a first", "a second"]


def test_a_node_that_does_not_end_within_drain_is_left_with_exit_code_1(place: Place) -> None:
    place.hold()
    place.enqueue("a")
    worker = place.worker("--drain", "100ms")
    place.wait_until_inside()
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=SECONDS)
    assert worker.returncode == 1
    assert "did not finish their node within 100ms: 'a'" in err
    place.release()
    place.finish()
    assert place.world() == ["a first", "a second"]


def test_a_worker_that_is_killed_loses_nothing_and_another_one_takes_over_immediately(
    place: Place,
) -> None:
    place.hold()
    place.enqueue("a")
    doomed = place.worker()
    place.wait_until_inside()
    other = place.worker("-v")
    wait_for(lambda: place.run("a").epoch == 1)
    doomed.kill()
    doomed.wait()
    killed_at = time.monotonic()
    place.release()
    wait_for(lambda: place.run("a").status.value == "completed")
    print(f"taken over and completed {time.monotonic() - killed_at:.3f} s after the kill")
    assert place.world() == ["a first", "a second"]
    assert place.run("a").epoch == 2
    other.terminate()
    assert other.wait(SECONDS) == 0


def test_a_decision_continues_its_run_within_a_second(place: Place) -> None:
    place.enqueue("q", graph="asking")
    place.worker("-v")
    wait_for(lambda: place.run("q").status.value == "waiting")
    with nt.Reviews(place.store) as reviews:
        (case,) = reviews.open("q")
        reviews.decide(case.review.review_id, "answer", by="ann", result="yes")
        decided_at = time.monotonic()
    wait_for(lambda: place.run("q").status.value == "completed")
    took = time.monotonic() - decided_at
    print(f"continued and completed {took:.3f} s after the decision")
    assert took < 1.0


def test_a_worker_without_an_app_or_with_a_bad_option_says_so(place: Place) -> None:
    for words in (("--drain", "soon"), ("--concurrency", "0"), ("--concurrency", "many")):
        assert place.here("worker", *words).exit_code == 2, words
    place.module += "_other"
    place.write("app = 7\n")
    ended = place.here("worker", "--until-idle")
    assert ended.exit_code == 1
    assert "neither an app nor a graph" in ended.stderr


def test_what_is_logged_as_json_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("nottwice", logging.INFO, "", 0, "run=%s", ("\x1b[31mevil\n",), None)
    JsonLines().emit(record)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "run=\\x1b[31mevil\\n"
