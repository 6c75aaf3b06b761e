"""`nottwice run --detach` enqueues one run or many, and runs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nottwice.cli.main import main

APP = """
import nottwice as nt
from dataclasses import dataclass

@dataclass
class Order:
    order_id: int

flow = nt.Graph("detached", version="1.0.0", state=Order)

@flow.node
def never(state):
    raise ValueError("it must not run here")
"""


@pytest.fixture
def nottwice(tmp_path: Path) -> Any:
    (tmp_path / "detached.py").write_text(APP)
    words = ["--app", str(tmp_path / "detached.py"), "--store", str(tmp_path / "a.db")]

    def invoke(*line: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, [*line, *words], input=stdin)

    return invoke


GOOD = {"id": "a", "input": {"order_id": 1}}


def lines(*items: Any) -> str:
    return "".join(f"{json.dumps(item)}\n" for item in items)


def states(nottwice: Any) -> dict[str, str]:
    document = json.loads(nottwice("runs", "--json").stdout)
    return {run["run_id"]: run["state"] for run in document["runs"]}


def test_a_run_is_queued_and_shown_as_such_everywhere(nottwice: Any) -> None:
    ended = nottwice("run", "detached", "--detach", "--id", "r", "--input", '{"order_id": 7}')
    assert (ended.exit_code, ended.stdout.splitlines()[0]) == (
        0,
        "Run r of detached@1.0.0 is queued.",
    )
    assert states(nottwice) == {"r": "queued"}
    assert "queued" in nottwice("show", "r").stdout
    status = nottwice()
    assert "1 queued" in status.stdout
    assert "nottwice worker" in status.stdout


def test_the_same_again_is_the_same_run_and_another_input_is_an_error(nottwice: Any) -> None:
    words = ("run", "detached", "--detach", "--id", "r", "--input")
    nottwice(*words, '{"order_id": 7}')
    again = nottwice(*words, '{"order_id": 7}')
    assert again.exit_code == 0
    assert "existed already: queued" in again.stdout
    other = nottwice(*words, '{"order_id": 8}')
    assert other.exit_code == 1
    assert "with another input. Nothing was enqueued" in other.stderr


def test_a_batch_is_enqueued_once_from_a_file_or_from_stdin(nottwice: Any, tmp_path: Path) -> None:
    batch = lines(*({"id": f"r{number}", "input": {"order_id": number}} for number in range(30)))
    file = tmp_path / "orders.jsonl"
    file.write_text(batch + "\n")
    first = nottwice("run", "detached", "--detach", "--batch", str(file), "--json")
    enqueued = {"graph": "detached@1.0.0", "new": 30, "known": 0}
    assert json.loads(first.stdout)["enqueued"] == enqueued
    more = batch + lines({"id": "new", "input": {"order_id": 1}})
    again = nottwice("run", "detached", "--detach", "--batch", "-", stdin=more)
    assert again.stdout.startswith("1 runs of detached@1.0.0 are queued; 30 existed already.")
    assert len(states(nottwice)) == 31


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ("", "holds no runs"),
        ("[1]\n", "line 1, is not an object"),
        ('{"id": 7}\n', "line 1, is not an object"),
        (lines(GOOD, {"id": "b", "inptu": {}}), "line 2, has 'inptu'"),
        (lines(GOOD) + "nonsense\n", "line 2, is not JSON"),
        (lines(GOOD, {"id": "a", "input": {}}), "line 2, has the id"),
    ],
)
def test_a_batch_that_cannot_be_read_is_refused_with_its_line(
    nottwice: Any, tmp_path: Path, batch: str, why: str
) -> None:
    ended = nottwice("run", "detached", "--detach", "--batch", "-", stdin=batch)
    assert ended.exit_code == 2
    assert why in ended.stderr
    assert "Nothing was enqueued" in ended.stderr
    assert not (tmp_path / "a.db").exists()


def test_a_batch_with_one_bad_input_enqueues_nothing(nottwice: Any, tmp_path: Path) -> None:
    batch = lines(GOOD, {"id": "b", "input": {"order_id": "x"}})
    words = ("run", "detached", "--detach", "--batch", "-")
    assert nottwice(*words, stdin=batch).exit_code == 1
    assert not (tmp_path / "a.db").exists()
    nottwice(*words, stdin=lines({"id": "c", "input": {"order_id": 3}}))
    assert nottwice(*words, stdin=batch).exit_code == 1
    assert states(nottwice) == {"c": "queued"}


@pytest.mark.parametrize(
    "words",
    [
        ("--detach",),
        ("detached", "--detach"),
        ("--detach", "--id", "r"),
        ("detached", "--batch", "-"),
        ("detached", "--retry", "--id", "r"),
        ("detached", "--detach", "--id", "r", "--batch", "-"),
        ("detached", "--detach", "--batch", "-", "--input", "{}"),
        ("detached", "--detach", "--id", "r", "--wait", "1h"),
        ("detached",),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    nottwice: Any, tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert nottwice("run", *words, stdin="{}").exit_code == 2
    assert not (tmp_path / "a.db").exists()


def test_a_run_that_failed_is_enqueued_again_with_retry(nottwice: Any) -> None:
    words = ("run", "detached", "--detach", "--id", "r", "--input", '{"order_id": 7}')
    nottwice(*words)
    assert nottwice("worker", "--until-idle").exit_code == 0
    assert states(nottwice) == {"r": "failed"}
    assert "existed already: failed" in nottwice(*words).stdout
    assert "is queued" in nottwice(*words, "--retry").stdout
    assert states(nottwice) == {"r": "interrupted"}
