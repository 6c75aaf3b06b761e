"""A bug-fix pipeline in phases: read the bug, write a fix, comment on the issue, commit.

    python examples/bug_fix.py           # works in the folder bug-fix/, with a real git repository

Kill it in any phase and run it again: one comment, one commit. The run is one readable file,
bug-fix/runs/ae-33995.json, which shows the phases and their steps.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", ".")) / "bug-fix"
REPOSITORY = FOLDER / "repository"
ISSUE = FOLDER / "issue.jsonl"


def git(*words: str) -> str:
    """Run git in the repository, as nobody in particular."""
    who = ["-c", "user.name=bot", "-c", "user.email=bot@example.com"]
    command = ["git", *who, "-C", str(REPOSITORY), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@nt.tool("pure")
def read_bug(key: str) -> dict[str, Any]:
    """Fetch the bug."""
    return {"key": key, "title": "Totals are off by one", "file": "totals.py"}


def already_commented(call: nt.Call) -> nt.Verification:
    """Each comment carries the id of its call as a marker."""
    lines = ISSUE.read_text().splitlines() if ISSUE.exists() else []
    for number, line in enumerate(lines):
        if json.loads(line)["marker"] == call.id:
            return nt.happened(number)
    return nt.did_not_happen()


@nt.tool("unsafe_on_replay", verify=already_commented, settles="1s")
def comment(key: str, text: str) -> int:
    """Add a comment to the issue; returns its number."""
    entry = json.dumps({"key": key, "text": text, "marker": nt.current_call().id})
    with ISSUE.open("a") as issue:
        issue.write(entry + "\n")
    return len(ISSUE.read_text().splitlines()) - 1


def already_committed(call: nt.Call) -> nt.Verification:
    """Each commit names its call in its message."""
    found = git("log", "--all", f"--grep=Call: {call.id}", "--format=%H")
    return nt.happened(found.splitlines()[0]) if found else nt.did_not_happen()


@nt.tool("unsafe_on_replay", verify=already_committed, settles="1s")
def commit(message: str) -> str:
    """Commit everything; returns the commit's hash."""
    git("add", "--all")
    git("commit", "--quiet", "--message", f"{message}\n\nCall: {nt.current_call().id}")
    return git("rev-parse", "HEAD")


def fetch(state: dict[str, Any]) -> dict[str, Any]:
    """Phase 1: what is wrong?"""
    return {"bug": read_bug(key=state["key"])}


def prepare(state: dict[str, Any]) -> None:
    """Phase 2, step 1: a repository to work in. Making it again changes nothing."""
    REPOSITORY.mkdir(parents=True, exist_ok=True)
    git("init", "--quiet")


def write_fix(state: dict[str, Any]) -> dict[str, Any]:
    """Phase 2, step 2: overwriting a file with the same text changes nothing."""
    (REPOSITORY / state["bug"]["file"]).write_text("def total(items):\n    return sum(items)\n")
    return {"output_file": state["bug"]["file"]}


def tell(state: dict[str, Any]) -> dict[str, Any]:
    """Phase 3, step 1: one comment."""
    return {"comment": comment(key=state["key"], text=f"Fixed in {state['output_file']}.")}


def publish(state: dict[str, Any]) -> dict[str, Any]:
    """Phase 3, step 2: one commit."""
    return {"commit": commit(message=f"{state['key']}: {state['bug']['title']}")}


flow = nt.phases(
    "bug-fix",
    version="1.3.0",
    phases={
        "understand": [fetch],
        "fix": [prepare, write_fix],
        "publish": [tell, publish],
    },
)
app = nt.App(graphs=[flow], store=f"file:{FOLDER / 'runs'}")


def main() -> None:
    """Run the pipeline, or the rest of it."""
    (FOLDER / "runs").mkdir(parents=True, exist_ok=True)
    outcome = app.run("bug-fix", "ae-33995", {"key": "AE-33995"})
    for mark in outcome.nodes:
        print(f"{mark.status:>12}  {mark.node}")
    print(f"{outcome.run_id} is {outcome.status}: commit {outcome.state.get('commit', '-')[:12]}")


if __name__ == "__main__":
    main()
