"""Four agents work in parallel for a fifth. After a kill, each repeats at most one step.

    python examples/fleet.py     # kill it at any point, run it again: it resumes where it was

Each worker writes ten comments to a tracker, which is a file here. The models are scripts.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.agent.providers.scripted import requests_in

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
TRACKER = FOLDER / "fleet-tracker.txt"
REQUESTS = FOLDER / "fleet-requests.txt"
COMMENTS = 10
FILES = ("loop.py", "state.py", "tools.py", "tests.py")


def in_tracker(call: nt.Call) -> nt.Verification:
    """Every comment contains the id of its call."""
    lines = TRACKER.read_text().splitlines() if TRACKER.exists() else []
    return nt.happened("noted") if any(call.id in line for line in lines) else nt.did_not_happen()


@nt.tool("unsafe_on_replay", verify=in_tracker, settles="1ms")
def comment(file: str, number: int) -> str:
    """Write a comment about a file to the tracker."""
    with TRACKER.open("a") as tracker:
        tracker.write(f"{file} {number} {nt.current_call().id}\n")
    return "noted"


def review(request: nt.providers.ModelRequest) -> Any:
    """Script of a reviewer: a comment in each turn, then that it is done."""
    time.sleep(0.01)
    file = request.messages[0].text.split()[3]
    if request.turn <= COMMENTS:
        return {"comment": {"file": file, "number": request.turn}}
    return f"{file}: {COMMENTS} comments."


reviewer = nt.Agent(
    "reviewer",
    version="1.0.0",
    description="Reviews one file and writes its comments to the tracker.",
    provider=nt.providers.scripted(review, log=REQUESTS),
    tools=[comment],
    budget=nt.Budget(usd=1.00),
)
lead = nt.Agent(
    "lead",
    version="1.0.0",
    provider=nt.providers.scripted(
        [[{"reviewer": {"goal": f"review {file}"}} for file in FILES], "All files are reviewed."],
        log=REQUESTS,
    ),
    tools=[reviewer],
    budget=nt.Budget(usd=5.00),
)
app = nt.App(graphs=[lead, reviewer], store=FOLDER / "fleet.db")


def main() -> None:
    """Have all files reviewed, or the rest of them."""
    began = time.perf_counter()
    outcome = lead.run("review-1", goal="Have all files reviewed", store=app)
    lines = TRACKER.read_text().splitlines()
    twice = len(lines) - len({tuple(line.split()[:2]) for line in lines})
    reports = outcome.state.transcript[1].tool_results
    print(f"{outcome.run_id} is {outcome.status}: {outcome.state.answer}")
    print("\n".join(report.content for report in reports))
    print(f"{len(lines)} comments, {twice} of them twice; {len(requests_in(REQUESTS))} requests")
    print(f"it took {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
