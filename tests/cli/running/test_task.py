"""Can an agent be started, watched, killed, resumed and spoken to from the command line?"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.main import main
from tests.nursery import starting

ROOT = Path(__file__).parents[3]
START = ("triage", "--goal", "Close ticket 7")


def nottwice(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    app = ("--app", str(ROOT / "examples" / "agent.py"))
    return starting.run(
        [sys.executable, "-m", "nottwice", "run", "--id", "ticket-7", *words, *app],
        env={**os.environ, "EXAMPLE_FOLDER": str(folder)},
        cwd=folder,
    )


def test_a_task_is_worked_on_live_and_can_be_spoken_to(tmp_path: Path) -> None:
    ended = nottwice(tmp_path, *START)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stderr.splitlines()
    assert lines[0] == "Run ticket-7 of triage starts."
    assert lines[1] == "turn 1"
    assert lines[2].startswith("  reason  Let me look at the order first.  [")
    assert "$0.0" in lines[2]
    assert "  call    refund(order_id=7, cents=4000)" in lines
    assert "  result  refunded" in lines
    assert "  replay  send_email: its receipt answers" in lines
    assert "answer      Ticket 7 is closed" in ended.stdout
    assert "done when   refund_issued(): receipt " in ended.stdout
    assert "the customer was answered [receipt: send_email]: one mail" in ended.stdout
    assert "a model may refund up to 100.00" in ended.stderr
    assert "spent       $0.01" in ended.stdout

    again = nottwice(tmp_path, *START)
    assert (again.returncode, again.stdout, again.stderr) == (0, ended.stdout, "")

    said = nottwice(tmp_path, "--message", "Sure?", "--json")
    assert said.returncode == 0, said.stderr
    assert "  hear    Sure?" in said.stderr.splitlines()
    state = json.loads(said.stdout)["state"]
    assert state["answer"] == "Yes: there is a receipt for it."


TINY = """
import nottwice as nt

agent = nt.Agent("tiny", version="1.0.0", provider=nt.providers.scripted(["done"]))
flow = nt.Graph("flow", version="1.0.0")


@flow.node
def only(state):
    return None


app = nt.App(graphs=[agent, flow], store="tiny.db")
"""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("tiny --done-when x", "--done-when belongs to a --goal"),
        ("tiny --goal x --input {}", "leave --input out"),
        ("tiny", "no goal was given"),
        ("tiny --message ''", "says nothing"),
        ("tiny --goal x --message y --detach", "--detach says nothing to a run"),
        ("flow --goal x", "is a graph, not an agent"),
        ("flow --message x", "is a graph, not an agent"),
    ],
)
def test_what_is_no_task_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny_agent_task.py").write_text(TINY)
    app = ["--app", "tiny_agent_task.py:app"]
    ended = CliRunner().invoke(main, ["run", "--id", "x", *shlex.split(words), *app])
    assert ended.exit_code in (1, 2), ended.output
    assert why in ended.output
    with contextlib.suppress(nt.errors.NoLedger), nt.Ledger("tiny.db", create=False) as ledger:
        assert ledger.store.runs() == []
