"""The plugin in a user's suite: a real pytest in a separate folder, with warnings as errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.workplace import SEVERAL

AGENT = """
import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int) -> dict:
    raise RuntimeError("for real")

def handle(ticket: str) -> dict:
    with nt.run(ticket, store="agent.db"):
        return refund(order_id=7, cents=4000)
"""

TEST = """
from agent import handle

def test_my_agent(kill_everywhere):
    kill_everywhere(lambda: handle("ticket-7"), tools={"refund": {"ok": True}})
"""

BROKEN = """
from agent import handle
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing.fatal import without_intents

def test_broken(kill_everywhere, monkeypatch):
    whole = SqliteStore.commit
    broken = lambda self, commit: whole(self, without_intents(commit))
    monkeypatch.setattr(SqliteStore, "commit", broken)
    kill_everywhere(lambda: handle("ticket-7"), tools={"refund": {"ok": True}})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


def run_pytest(folder: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, *words], cwd=folder, capture_output=True, text=True, timeout=240
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_a_stranger_tests_an_agent_in_less_than_ten_lines(folder: Path) -> None:
    (folder / "test_agent.py").write_text(TEST)
    assert len(TEST.strip().splitlines()) < 10
    code, said = run_pytest(folder)
    assert code == 0, said
    assert "10 points" in said
    assert "the world saw refund ×1" in said
    # What it opened is elsewhere, and gone.
    assert sorted(path.suffix for path in folder.iterdir() if path.is_file()) == [".py", ".py"]


def test_a_failure_ends_with_a_line_that_shows_it_again(folder: Path) -> None:
    (folder / "test_broken.py").write_text(BROKEN)
    code, said = run_pytest(folder)
    assert code == 1, said
    again = re.search(r"again: pytest (test_broken\.py::test_broken) (--kill-at) (\d+)", said)
    assert again is not None, said
    shown = re.search(rf"boundaries {again[3]}: .*", said)
    assert shown is not None, said
    code, said = run_pytest(folder, *again.groups())
    assert code == 1
    assert shown[0] in said, said
    assert "1 points" in said


NOT_GREEN = """
import nottwice as nt

from agent import refund
from nottwice.testing.crash.faults import failing

def test_fails(kill_everywhere):
    kill_everywhere(lambda: 1 / 0)

def test_does_nothing(kill_everywhere):
    kill_everywhere(lambda: None)

def test_is_not_possible_here(kill_everywhere, monkeypatch):
    monkeypatch.setattr(failing, "why_no_tracing", lambda: "there is no strace")

    def handle():
        with nt.run("ticket", store="agent.db"):
            return refund(order_id=7, cents=4000)

    kill_everywhere(handle, tools={"refund": {"ok": True}}, levels=["io"])

def test_ends_as_it_should(kill_everywhere):
    def handle():
        with nt.run("ticket", store="agent.db"):
            refund(order_id=7, cents=4000)
            raise LookupError("no such order")

    kill_everywhere(handle, tools={"refund": {"ok": True}}, raises=LookupError, budget="1s")
"""


def test_work_that_never_works_fails_the_test_and_what_cannot_be_examined_is_skipped(
    folder: Path,
) -> None:
    (folder / "test_not_green.py").write_text(NOT_GREEN)
    code, said = run_pytest(folder, "-rs")
    assert code == 1, said
    assert "2 failed, 1 passed, 1 skipped" in said
    assert "test_fails raises ZeroDivisionError: division by zero" in said
    assert "test_does_nothing has no point at which it could be killed" in said
    assert "io: there is no strace" in said


def test_the_options_choose_level_and_budget_also_with_several_workers(folder: Path) -> None:
    (folder / "test_agent.py").write_text(TEST)
    words = ("--kill-level", "lines", "--kill-budget", "1s", "-n", "1")
    code, said = run_pytest(folder, *words)
    assert code == 0, said
    assert re.search(r"lines: \d+ of [\d,]+ points \(sampled, seed \d+\)", said), said


def test_a_suite_that_does_not_use_it_does_not_even_import_nottwice(folder: Path) -> None:
    (folder / "test_other.py").write_text(
        "import sys\n\ndef test_nothing():\n    assert 'nottwice' not in sys.modules\n"
    )
    code, said = run_pytest(folder)
    assert code == 0, said
    assert "crash" not in said


SUPPORT = """
import nottwice as nt

@nt.tool("unsafe_on_replay")
def mail(to: str) -> str:
    return "sent"

flow = nt.Graph("support", version="1.0.0")

@flow.node
def tell(state):
    mail(to="ann")

@flow.node
def close(state):
    return {"closed": True}

app = nt.App(graphs=[flow], store="support.db")
"""

GATE = """
from support import app

def test_checkpoint(replay_checkpoint):
    replay_checkpoint(app)
"""


def test_every_recorded_checkpoint_is_a_test(folder: Path) -> None:
    (folder / "support.py").write_text(SUPPORT)
    (folder / "test_gate.py").write_text(GATE)
    code, said = run_pytest(folder)
    assert code == 1
    assert "Record some: nottwice replay --record 50" in said
    lines = ["run support --id r-1", "replay --record 5 tests/checkpoints"]
    ended = subprocess.run(
        [sys.executable, "-c", SEVERAL],
        cwd=folder,
        input=json.dumps([f"{line} --app support:app" for line in lines]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert [code for code, _, _ in json.loads(ended.stdout.splitlines()[-1])] == [0, 0]
    changed = SUPPORT.replace('to="ann"', 'to="bob"').replace("1.0.0", "1.0.1")
    (folder / "support.py").write_text(changed)
    code, said = run_pytest(folder, "-vv")
    assert code == 1
    assert re.search(r"test_checkpoint\[support-start-[0-9a-f]{10}\.json\] FAILED", said), said
    assert re.search(r"test_checkpoint\[support-tell-[0-9a-f]{10}\.json\] PASSED", said), said
    assert '~ arguments.to: "ann" → "bob"' in said
