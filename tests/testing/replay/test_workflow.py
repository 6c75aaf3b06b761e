"""Is the workflow to copy YAML that GitHub can read, and do its commands do what it says?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from nottwice.cli.main import main
from tests.tidy.source import ROOT

WORKFLOW = ROOT / "examples" / "replay-gate.yml"
AGENT = """
import nottwice as nt

@nt.tool("unsafe_on_replay")
def workflow_mail(to: str) -> str:
    return "sent"

flow = nt.Graph("support", version="1.0.0")

@flow.node
def tell(state):
    workflow_mail(to="ann")

app = nt.App(graphs=[flow])
"""


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    found = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def commands(job: dict[str, Any]) -> list[list[str]]:
    lines = [step["run"] for step in job["steps"] if "run" in step]
    return [shlex.split(line)[1:] for line in lines if line.startswith("nottwice ")]


def test_it_runs_on_every_pull_request_and_every_week(workflow: dict[Any, Any]) -> None:
    # YAML 1.1 takes the bare word for a truth value; GitHub does not.
    triggers = workflow[True]
    assert triggers.keys() == {"pull_request", "schedule", "workflow_dispatch"}
    (entry,) = triggers["schedule"]
    minute, hour, day, month, weekday = entry["cron"].split()
    assert (minute.isdigit(), hour.isdigit(), day, month) == (True, True, "*", "*")
    assert weekday.isdigit()


def test_every_step_does_one_thing_and_every_job_has_a_runner(workflow: dict[Any, Any]) -> None:
    assert workflow["jobs"].keys() == {"gate", "refresh"}
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])
        uses = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all("@v" in action for action in uses)


def test_the_guide_names_the_file() -> None:
    guide = (ROOT / "docs" / "guides" / "replay-gate.md").read_text(encoding="utf-8")
    assert f"../../{WORKFLOW.relative_to(ROOT)}" in guide


def test_its_commands_record_and_replay(
    workflow: dict[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gate,), (refresh,) = (commands(workflow["jobs"][name]) for name in ("gate", "refresh"))
    monkeypatch.chdir(tmp_path)
    Path("support_agent.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NOTTWICE_REPLAY_KEY", "of the workflow")
    begun = "run support --id r-1 --app support_agent.py --store agent.db"
    assert CliRunner().invoke(main, shlex.split(begun)).exit_code == 0
    refresh = ["agent.db" if word == "$NOTTWICE_STORE" else word for word in refresh]
    for words in (refresh, gate):
        ended = CliRunner().invoke(main, words)
        assert ended.exit_code == 0, ended.output
    assert len(list(Path("tests/checkpoints").glob("support-*.json"))) == 1
    assert 'failures="0"' in Path("replay.xml").read_text()
