"""Is a run that another process drives refused with a way out that can be typed?"""

from __future__ import annotations

import json

from tests.cli.workplace import Workplace

NESTED = """
import subprocess
import nottwice as nt

flow = nt.Graph("nested", version="1.0.0")
LINE = "nottwice run --id busy-1 --app nested:flow --store agent.db --json"

@flow.node
def again(state):
    ended = subprocess.run(LINE.split(), capture_output=True, text=True)
    return {"code": ended.returncode, "printed": ended.stdout, "said": ended.stderr}
"""
WAIT = "nottwice run --id busy-1 --app nested:flow --store agent.db --wait 10m"


def test_a_busy_run_is_refused_with_a_command_and_not_with_an_argument_of_python(
    empty: Workplace,
) -> None:
    (empty.folder / "nested.py").write_text(NESTED)
    line = "nottwice run nested --id busy-1 --app nested:flow --store agent.db --input {} --json"
    state = json.loads(empty.shell(line).stdout)["state"]
    assert state["code"] == 1
    assert f"Wait for it with: {WAIT}, or stop that process" in state["said"]
    assert "=..." not in state["said"]
    error = json.loads(state["printed"])["error"]
    assert error["type"] == "RunBusy"
    assert WAIT in error["message"]
