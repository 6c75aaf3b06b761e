"""A bug-fix pipeline in phases: read the bug, write a fix, comment on the issue, commit.

    python examples/bug_fix.py           # works in the folder bug-fix/, with a real git repository

Kill it in any phase and run it again: there is one comment and one commit. The run is one readable
file, bug-fix/runs/ae-33995.json. Open it while the pipeline runs: it shows the phases and their
steps, which of them is in progress, and which file each one wrote.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", ".")) / "bug-fix"
REPOSITORY = FOLDER / "repository"
ISSUE = FOLDER / "issue.jsonl"
State = dict[str, Any]

write_file = nt.recipes.write_file(REPOSITORY)
git_commit = nt.recipes.git_commit(REPOSITORY, author=("Bot", "bot@example.com"))


def already_commented(call: nt.Call) -> nt.Verification:
    """Each comment contains the id of its call as a marker."""
    lines = ISSUE.read_text().splitlines() if ISSUE.exists() else []
    markers = [json.loads(line)["marker"] for line in lines]
    return nt.happened(markers.index(call.id)) if call.id in markers else nt.did_not_happen()


@nt.tool("unsafe_on_replay", verify=already_commented, settles="1s")
def comment(key: str, text: str) -> int:
    """Add a comment to the issue. Return its number."""
    with ISSUE.open("a") as issue:
        issue.write(json.dumps({"key": key, "text": text, "marker": nt.current_call().id}) + "\n")
    return len(ISSUE.read_text().splitlines()) - 1


def fetch(state: State) -> State:
    """Phase 1: what is wrong? The result of `write_file` names the file that it wrote."""
    bug = {"key": state["key"], "title": "Totals are off by one"}
    return {"bug": bug, "info": write_file(path="bug_info.json", text=json.dumps(bug))}


def write_fix(state: State) -> State:
    """Phase 2: the fix."""
    text = "def total(items):\n    return sum(items)\n"
    return {"fix": write_file(path="totals.py", text=text)}


def tell(state: State) -> State:
    """Phase 3, step 1: one comment."""
    return {"comment": comment(key=state["key"], text=f"Fixed in {state['fix']['output_file']}.")}


def publish(state: State) -> State:
    """Phase 3, step 2: one commit."""
    message = f"{state['key']}: {state['bug']['title']}"
    return {"commit": git_commit(message=message, paths=["totals.py"])["commit"]}


PHASES = {"understand": [fetch], "fix": [write_fix], "publish": [tell, publish]}
flow = nt.phases("bug-fix", version="1.3.0", phases=PHASES)
app = nt.App(graphs=[flow], store=f"file:{FOLDER / 'runs'}")

if __name__ == "__main__":
    (FOLDER / "runs").mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "--quiet", str(REPOSITORY)], check=True)
    outcome = app.run("bug-fix", "ae-33995", {"key": "AE-33995"})
    for mark in outcome.nodes:
        print(f"{mark.status:>12}  {mark.node}")
    print(f"{outcome.run_id} is {outcome.status}: commit {outcome.state.get('commit', '-')[:12]}")
