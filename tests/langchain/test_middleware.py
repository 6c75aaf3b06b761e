"""Do the tools of LangChain and LangGraph act once, whatever is killed, and are people asked in
their way? (P260-P263, P265)

LangChain itself, in the environment of the frameworks; see `test_saver.py` for how.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.langchain.test_saver import run_inside, server
from tests.test_frameworks import python
from tests.tidy.source import ROOT

__all__ = ["python", "server"]

EXAMPLE = ROOT / "examples" / "langchain_agent.py"

pytestmark = pytest.mark.deep(part="adapters")


@pytest.mark.parametrize("suite", ["TestAgent", "TestNode", "TestTask"])
def test_the_suite_for_adapters_passes_and_its_bare_control_counts_two(
    python: Path, server: str, tmp_path: Path, suite: str
) -> None:
    run_inside(python, "check_suite.py", tmp_path, server=server, only=suite)


def test_agents_and_graphs_of_every_shape_act_once_and_ask_in_their_way(
    python: Path, server: str, tmp_path: Path
) -> None:
    run_inside(python, "check_middleware.py", tmp_path, server=server)


def test_a_tool_in_a_task_of_the_functional_api_acts_once_and_asks_in_its_way(
    python: Path, server: str, tmp_path: Path
) -> None:
    run_inside(python, "check_tasks.py", tmp_path, server=server)


def test_the_example_is_killed_after_it_paid_and_pays_once(python: Path, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "EXAMPLE_FOLDER": str(tmp_path),
            "PYTHONPATH": str(ROOT / "src"),
            "LANGSMITH_TRACING": "false",
        }
        command = [str(python), str(EXAMPLE), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    killed = run("kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    paused = run()
    assert "Did this happen? charge {'cents': 4000}" in paused.stdout, paused.stderr
    answered = run("it happened")
    assert "Done." in answered.stdout, answered.stderr
    assert (tmp_path / "langchain-bank.txt").read_text() == "4000\n"


def test_the_bare_example_pays_twice(python: Path, tmp_path: Path) -> None:
    """A negative control: the test above can fail."""
    environment = {
        **os.environ,
        "EXAMPLE_FOLDER": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
        "LANGSMITH_TRACING": "false",
    }
    for word in ("kill", ""):
        subprocess.run([str(python), str(EXAMPLE), "bare", word], env=environment, timeout=120)
    assert (tmp_path / "langchain-bank.txt").read_text() == "4000\n4000\n"
