"""Do the shipped examples do what they say, also when they are killed on the way?"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.testing import crash_test
from tests.nursery import starting

ROOT = Path(__file__).parents[1]
LIMIT_SECONDS = 60.0


def program(example: str | Path, *words: str) -> list[str]:
    """``example``: its name, or the file of another version of it."""
    return [sys.executable, f"{ROOT / 'examples' / str(example).removesuffix('.py')}.py", *words]


def start(example: str | Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        program(example, *words),
        env={**os.environ, "EXAMPLE_FOLDER": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(example: str | Path, folder: Path, *words: str) -> str:
    variables = {**os.environ, "EXAMPLE_FOLDER": str(folder)}
    ended = starting.run(program(example, *words), env=variables)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def nottwice(*words: str) -> str:
    command = [sys.executable, "-m", "nottwice", *words]
    ended = starting.run(command)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_no_two_examples_write_the_same_file() -> None:
    """Run one after the other in one folder, one would count the effects of the other."""
    owners: dict[str, str] = {}
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        (own_folder,) = re.findall(r"^FOLDER = .*?\)\)(.*)$", code, re.MULTILINE)
        for name in set(re.findall(r'FOLDER / "([\w-]+\.(?:txt|db))"', code)):
            assert owners.setdefault(own_folder + name, path.name) == path.name, name


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def kill_when(
    example: str,
    folder: Path,
    path: Path,
    *,
    lines: int,
    words: tuple[str, ...] = (),
    while_it_runs: Callable[[], None] = lambda: None,
) -> None:
    """Start an example and kill it as soon as a file of its world has this many lines."""
    process = start(example, folder, *words)
    deadline = time.monotonic() + LIMIT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if len(lines_of(path)) >= lines:
            break
        while_it_runs()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=LIMIT_SECONDS)


def decide_all(output: str) -> None:
    for command in re.findall(r"nottwice (decide \w+ approve --store \S+)", output):
        nottwice(*command.split(), "--by", "ann", "--why", "it is due")


def test_the_five_nodes_wait_for_a_person_and_pay_once(tmp_path: Path) -> None:
    waiting = run("approval", tmp_path)
    assert "ticket-7 is waiting" in waiting
    assert run("approval", tmp_path).split(":")[0] == "ticket-7 is waiting"
    decide_all(waiting)
    for _ in range(2):
        assert "ticket-7 is completed" in run("approval", tmp_path)
    world = (tmp_path / "approval-world.txt").read_text().splitlines()
    assert [line.split()[0] for line in world] == ["email:ann@example.com", "refund:7:4007"]


@pytest.mark.parametrize("lines", [1, 2])
def test_the_five_nodes_killed_after_an_effect_do_not_repeat_it(tmp_path: Path, lines: int) -> None:
    world = tmp_path / "approval-world.txt"
    if lines == 2:
        decide_all(run("approval", tmp_path))
    kill_when("approval", tmp_path, world, lines=lines)
    assert len(world.read_text().splitlines()) == lines
    decide_all(run("approval", tmp_path))
    assert "ticket-7 is completed" in run("approval", tmp_path)
    assert len(world.read_text().splitlines()) == 2


def deployed(tmp_path: Path, *edits: tuple[str, str]) -> Path:
    """The five nodes after an edit."""
    text = (ROOT / "examples" / "approval.py").read_text()
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    edited = tmp_path / "edited" / "approval.py"
    edited.parent.mkdir(exist_ok=True)
    edited.write_text(text)
    return edited


WORDING = ('f"refund:{', 'f"refunded:{')


@pytest.mark.parametrize("lines", [0, 1])
def test_the_five_nodes_that_wait_are_resumed_by_a_patch_that_was_deployed_meanwhile(
    tmp_path: Path, lines: int
) -> None:
    world = tmp_path / "approval-world.txt"
    if lines:
        kill_when("approval", tmp_path, world, lines=lines)
    waiting = run("approval", tmp_path)
    patch = deployed(tmp_path, WORDING, ('version="1.0.0"', 'version="1.0.1"'))
    assert "ticket-7 is waiting" in run(patch, tmp_path)
    decide_all(waiting)
    assert "ticket-7 is completed" in run(patch, tmp_path)
    done = [line.split()[0] for line in lines_of(world)]
    assert done == ["email:ann@example.com", "refunded:7:4007"]


def test_the_five_nodes_that_were_edited_in_place_are_refused_and_pay_nothing(
    tmp_path: Path,
) -> None:
    decide_all(run("approval", tmp_path))
    process = start(deployed(tmp_path, WORDING), tmp_path)
    _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 1
    assert "GraphChangedInPlace" in errors
    assert len(lines_of(tmp_path / "approval-world.txt")) == 1


def check_every_mail_is_on_record(folder: Path) -> None:
    """What has happened has a row in the ledger, whenever it is read."""
    happened = [line.split()[1] for line in lines_of(folder / "approval-world.txt")]
    if not happened:
        return
    with nt.Ledger(folder / "approval.db", create=False) as ledger:
        runs = [run.id for run in ledger.runs()]
        calls = {call.id: call.status for run in runs for call in ledger.calls(run)}
    assert {calls[one] for one in happened} <= {"pending", "done"}


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("lines", [1, 2, 3, 4])
def test_a_ticket_that_waits_during_a_deploy_ends_on_the_version_that_it_began_with(
    tmp_path: Path, lines: int
) -> None:
    """A minor version beside the old one, killed after each effect, and read while it runs."""
    world = tmp_path / "approval-world.txt"
    assert "ticket-7 is waiting: approval@1.0.0" in run("approval", tmp_path)

    def killed(*, at: int) -> None:
        kill_when(
            "approval",
            tmp_path,
            world,
            lines=at,
            words=("1.1.0",),
            while_it_runs=lambda: check_every_mail_is_on_record(tmp_path),
        )

    if lines == 1:
        killed(at=2)
    waiting = run("approval", tmp_path, "1.1.0")
    assert "ticket-8 is waiting: approval@1.1.0" in waiting
    decide_all(waiting)
    if lines > 1:
        killed(at=lines + 1)
    ended = run("approval", tmp_path, "1.1.0")
    assert "ticket-7 is completed: approval@1.0.0" in ended
    assert "ticket-8 is completed: approval@1.1.0" in ended
    mail = "email:ann@example.com"
    done = [line.split()[0] for line in lines_of(world)]
    assert done == [mail, mail, "refund:7:4007", "thanks:ann@example.com", "refund:8:4008"]
    store = str(tmp_path / "approval.db")
    versions = json.loads(nottwice("runs", "--by-version", "--json", "--store", store))["versions"]
    assert {one["graph"]: one["open"] for one in versions} == {
        "approval@1.0.0": 0,
        "approval@1.1.0": 0,
    }


def head_of(folder: Path) -> dict[str, Any]:
    """The file of the bug fix as it is now; empty before it is there."""
    file = folder / "runs" / "ae-33995.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def check_head_is_true(folder: Path) -> None:
    """What the run's file says must be so, whenever it is read."""
    head = head_of(folder)
    steps = {
        name: step
        for phase in head.get("phases", {}).values()
        for name, step in phase["steps"].items()
    }
    for step in steps.values():
        assert ("completed_at" in step) == (step["status"] == "done")
        if "output_file" in step:
            assert (folder / "repository" / step["output_file"]).exists()
    order = [steps[name]["status"] for name in ("fetch", "write_fix", "tell", "publish") if steps]
    done = order.count("done")
    assert order[:done] == ["done"] * done
    assert set(order[done + 1 :]) <= {"pending"}
    # The comment is behind a commit that says in which step it is made.
    if lines_of(folder / "issue.jsonl"):
        assert head_of(folder)["phases"]["publish"]["status"] in ("in_progress", "done")


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("runs/ae-33995.json", 1),
        ("repository/bug_info.json", 1),
        ("repository/totals.py", 1),
        ("issue.jsonl", 1),
        ("repository/.git/logs/HEAD", 1),
        (None, 0),
    ],
)
def test_the_bug_fix_leaves_one_comment_and_one_commit_and_its_file_is_true_at_all_times(
    tmp_path: Path, path: str | None, lines: int
) -> None:
    folder = tmp_path / "bug-fix"
    if path is not None:
        kill_when(
            "bug_fix",
            tmp_path,
            folder / path,
            lines=lines,
            while_it_runs=lambda: check_head_is_true(folder),
        )
        check_head_is_true(folder)
    assert "ae-33995 is completed" in run("bug_fix", tmp_path)
    run("bug_fix", tmp_path)
    check_head_is_true(folder)
    assert len((folder / "issue.jsonl").read_text().splitlines()) == 1
    log = ["git", "-C", str(folder / "repository"), "log", "--format=%s"]
    commits = subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines()
    assert commits == ["AE-33995: Totals are off by one"]


def test_the_file_of_the_bug_fix_shows_its_phases(tmp_path: Path) -> None:
    run("bug_fix", tmp_path)
    shown = json.loads((tmp_path / "bug-fix" / "runs" / "ae-33995.json").read_text())
    assert shown["workflow_version"] == "1.3.0"
    assert {name: phase["status"] for name, phase in shown["phases"].items()} == {
        "understand": "done",
        "fix": "done",
        "publish": "done",
    }
    assert list(shown["phases"]["publish"]["steps"]) == ["tell", "publish"]
    assert shown["phases"]["understand"]["output_file"] == "bug_info.json"
    assert shown["phases"]["fix"]["steps"]["write_fix"]["output_file"] == "totals.py"
    assert all("completed_at" in phase for phase in shown["phases"].values())


def comments_on_record(folder: Path) -> int:
    store = str(folder / "night-shift.db")
    shown = json.loads(nottwice("show", "night-shift", "--store", store, "--all", "--json"))
    calls = [call for call in shown["calls"] if call["tool"] == "comment"]
    return len([call for call in calls if call["status"] == "DONE"])


DIES_AT = """
import os, runpy, signal, sys

opened = 0

def watch(event, given):
    global opened
    if event == "open" and str(given[0]).endswith("tracker.txt") and given[1] == "a":
        opened += 1
        if opened == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
runpy.run_path(sys.argv[1], run_name="__main__")
"""
"""Runs an example and kills it when it is about to write this comment."""


@pytest.mark.parametrize(
    "step", [141, *(pytest.param(step, marks=pytest.mark.deep(part="sweeps")) for step in (1, 159))]
)
def test_the_night_shift_continues_with_the_step_that_it_was_killed_in(
    tmp_path: Path, step: int
) -> None:
    example = str(ROOT / "examples" / "night_shift.py")
    variables = {**os.environ, "EXAMPLE_FOLDER": str(tmp_path)}
    command = [sys.executable, "-c", DIES_AT, example, str(step)]
    assert starting.run(command, env=variables).returncode == -signal.SIGKILL
    assert (
        len(lines_of(tmp_path / "night-shift-tracker.txt"))
        == comments_on_record(tmp_path)
        == step - 1
    )
    assert len(lines_of(tmp_path / "night-shift-requests.txt")) == step
    output = run("night_shift", tmp_path)
    assert "160 comments, 0 of them twice; 161 requests" in output
    steps = [line.split()[0] for line in lines_of(tmp_path / "night-shift-tracker.txt")]
    assert steps == [f"step-{number}" for number in range(1, 161)]


@pytest.mark.deep(part="sweeps")
def test_the_record_of_the_night_shift_is_at_most_one_step_behind_while_it_works(
    tmp_path: Path,
) -> None:
    tracker = tmp_path / "night-shift-tracker.txt"

    def look() -> None:
        before = len(lines_of(tracker))
        if before:
            assert before - 1 <= comments_on_record(tmp_path) <= len(lines_of(tracker))

    kill_when("night_shift", tmp_path, tracker, lines=160, while_it_runs=look)
    assert comments_on_record(tmp_path) >= 159


@pytest.mark.parametrize("lines", [1, 30, 99])
def test_a_hundred_letters_killed_in_the_middle_all_go_out_once(tmp_path: Path, lines: int) -> None:
    kill_when("hundred_items", tmp_path, tmp_path / "letters.txt", lines=lines)
    assert "100 letters, 0 of them twice" in run("hundred_items", tmp_path)


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("requests", [1, 3, 5, 9])
def test_the_agent_closes_its_ticket_once_though_it_is_killed(
    tmp_path: Path, requests: int
) -> None:
    kill_when("agent", tmp_path, tmp_path / "requests.txt", lines=requests)
    check_ticket_is_closed(tmp_path)


def test_the_agent_that_is_killed_after_the_bank_has_paid_does_not_pay_again(
    tmp_path: Path,
) -> None:
    killed = start("agent", tmp_path, "kill")
    killed.communicate(timeout=LIMIT_SECONDS)
    assert killed.returncode == -signal.SIGKILL
    assert len(lines_of(tmp_path / "bank.txt")) == 1
    check_ticket_is_closed(tmp_path)


def check_ticket_is_closed(folder: Path) -> None:
    output = run("agent", folder)
    assert "ticket-7 is completed: Ticket 7 is closed: 40.00 refunded" in output
    assert "plan: 3 of 3 steps; evidence: 2" in output
    assert "1 refund, 1 mail" in output
    assert "10 replies" in output
    # Eight of the agent, two of the clerk, and the one that was under way.
    assert len(lines_of(folder / "requests.txt")) <= 11
    assert [" 4000 cents " in line for line in lines_of(folder / "bank.txt")] == [True]
    assert run("agent", folder) == output


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize("killed_by", [None, "notes/sales.md", "repository/2026/may.md"])
def test_the_report_is_written_noted_and_committed_once(
    tmp_path: Path, killed_by: str | None
) -> None:
    folder = tmp_path / "report"
    if killed_by is not None:
        kill_when("report", tmp_path, folder / killed_by, lines=1)
    output = run("report", tmp_path)
    assert "may is completed: The report for May is committed." in output
    assert output.count("Report for May, Nottwice-Call: ") == 1
    assert output.endswith("noted: May: 42 orders, 1,680.00\n")
    assert run("report", tmp_path) == output


@pytest.mark.deep(part="sweeps")
def test_a_hundred_orders_whose_worker_is_killed_all_ship_once(tmp_path: Path) -> None:
    assert "100 new orders" in run("orders", tmp_path)
    assert "100 already enqueued" in run("orders", tmp_path)
    app = f"{ROOT / 'examples' / 'orders.py'}:app"
    words = [sys.executable, "-m", "nottwice", "worker", "--app", app, "--until-idle"]
    environment = {**os.environ, "EXAMPLE_FOLDER": str(tmp_path)}
    shipped = tmp_path / "shipped.txt"
    doomed = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline and doomed.poll() is None:
        if shipped.exists() and len(shipped.read_text().splitlines()) >= 20:
            break
    doomed.kill()
    doomed.communicate()
    ended = starting.run([*words, "--json"], env=environment, check=True)
    assert json.loads(ended.stdout)["worker"]["failed"] == 0
    lines = [line.split()[0] for line in shipped.read_text().splitlines()]
    # The five largest wait for a person.
    assert sorted(lines) == sorted(f"order-{number}" for number in range(1, 96))


def test_four_agents_at_once_lose_a_beat_each_when_their_host_dies(tmp_path: Path) -> None:
    """Killed twice, at a time of chance, the last time perhaps while it resumes (P74)."""
    requests, kills = tmp_path / "fleet-requests.txt", 2
    chance = random.Random(os.environ.get("NOTTWICE_SEED"))
    for kill in range(kills):
        asked = len(requests.read_text().splitlines()) if requests.exists() else 0
        kill_when("fleet", tmp_path, requests, lines=asked + chance.randint(1, 9 + kill))
    output = run("fleet", tmp_path)
    assert "review-1 is completed: All files are reviewed." in output
    assert all(f"{file}: 10 comments." in output for file in ("loop.py", "tests.py"))
    found = re.search(r"40 comments, 0 of them twice; (\d+) requests", output)
    assert found is not None, output
    # Ten comments and a last word of each worker, two replies of the lead; a beat each for a kill.
    assert 46 <= int(found[1]) <= 46 + 5 * kills


# Killed before and after every commit and every effect, in forked processes

WRITTEN = {"sha256": "0", "bytes": 1}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Imports an example, as a test of its author does."""
    monkeypatch.setenv("EXAMPLE_FOLDER", str(tmp_path))

    def loaded(example: str, *words: str) -> Any:
        monkeypatch.setattr(sys, "argv", [example, *words])
        place = ROOT / "examples" / f"{example}.py"
        spec = importlib.util.spec_from_file_location(f"example_{example}", place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return loaded


@pytest.mark.deep(part="sweeps")
def test_the_five_nodes_survive_every_kill_before_during_and_after_the_deploy(
    load: Callable[..., Any],
) -> None:
    example = load("approval", "1.1.0")

    def work() -> list[str]:
        before = nt.App(graphs=[example.old], store=example.app.store)
        before.run("approval", "ticket-7", {"order_id": 7})
        tickets = [("ticket-8", 8), ("ticket-7", 7)]
        after = [example.app.run("approval", run, {"order_id": id}) for run, id in tickets]
        return [outcome.graph for outcome in after]

    verdict = crash_test(work, tools={"happen": lambda args: args["what"]}, at_most_repeated=0)
    assert verdict.failures == ()


@pytest.mark.deep(part="sweeps")
def test_the_bug_fix_survives_every_kill(load: Callable[..., Any]) -> None:
    example = load("bug_fix")
    verdict = crash_test(
        lambda: example.app.run("bug-fix", "ae-33995", {"key": "AE-33995"}).status,
        tools={
            "write_file": lambda args: {"output_file": args["path"], **WRITTEN},
            "comment": 0,
            "git_commit": {"commit": "c0ffee"},
        },
        at_most_repeated=0,
    )
    assert verdict.failures == ()


@pytest.mark.deep(part="sweeps")
def test_the_night_shift_survives_every_kill_and_pays_for_at_most_one_reply_twice(
    load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shorter night: every place is killed, and a step is like the next one."""
    example = load("night_shift")
    monkeypatch.setattr(example, "STEPS", 3)
    verdict = crash_test(
        lambda: example.agent.run("night-shift", goal="Note it", store="night-shift.db").status,
        tools={"comment": "noted"},
        at_most_repeated=1,
    )
    assert verdict.failures == ()
    assert verdict.repeated == 1


# These need a framework that this environment does not have.
OF_FRAMEWORKS = {"langchain_agent", "mcp_server"}
EXAMPLES = sorted({path.stem for path in (ROOT / "examples").glob("*.py")} - OF_FRAMEWORKS)


@pytest.mark.sampled(part="sweeps", keep=3)
@pytest.mark.parametrize("example", EXAMPLES)
def test_no_example_has_an_effect_outside_of_a_tool(example: str, tmp_path: Path) -> None:
    words = ["check", "--strict", str(ROOT / "examples" / f"{example}.py")]
    ended = starting.run(
        [sys.executable, "-m", "nottwice", *words],
        env={**os.environ, "EXAMPLE_FOLDER": str(tmp_path)},
    )
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.endswith(" 0 errors, 0 warnings\n")


@pytest.mark.parametrize("example", ["approval", "bug_fix", "night_shift"])
def test_an_example_fits_on_a_page(example: str) -> None:
    assert len(lines_of(ROOT / "examples" / f"{example}.py")) < 80
