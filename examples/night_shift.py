"""An agent of 160 steps, each with a request to a model and a comment in a tracker.

    python examples/night_shift.py       # kill it at step 141, run it again: it continues there

No comment is written twice, and at most one reply is paid for twice. The model is a script and the
tracker is a file, so this runs without an API key. While it works, this shows its progress:

    nottwice show night-shift --store night-shift.db
"""

import os
import time
from pathlib import Path
from typing import Any

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
TRACKER = FOLDER / "night-shift-tracker.txt"
REQUESTS = FOLDER / "night-shift-requests.txt"
STEPS = 160


def in_tracker(call: nt.Call) -> nt.Verification:
    """Every comment contains the id of its call."""
    lines = TRACKER.read_text().splitlines() if TRACKER.exists() else []
    return nt.happened("noted") if any(call.id in line for line in lines) else nt.did_not_happen()


@nt.tool("unsafe_on_replay", verify=in_tracker, settles="1ms")
def comment(step: int) -> str:
    """Write a comment to the tracker."""
    with TRACKER.open("a") as tracker:
        tracker.write(f"step-{step} {nt.current_call().id}\n")
    return "noted"


def reply(request: nt.providers.ModelRequest) -> Any:
    """Script of the model: a comment for each step, then that it is done."""
    time.sleep(0.005)
    return {"comment": {"step": request.turn}} if request.turn <= STEPS else "All is noted."


agent = nt.Agent(
    "notes",
    version="1.0.0",
    provider=nt.providers.scripted(reply, log=REQUESTS),
    tools=[comment],
    context_tokens=4000,
    # It needs more than the default limit of a hundred turns.
    budget=nt.Budget(turns=400),
)
app = nt.App(graphs=[agent], store=FOLDER / "night-shift.db")

if __name__ == "__main__":
    outcome = agent.run("night-shift", goal="Note every step", store=app)
    steps = [line.split()[0] for line in TRACKER.read_text().splitlines()]
    asked = len(REQUESTS.read_text().splitlines())
    print(f"{outcome.run_id} is {outcome.status}: {outcome.state.answer}")
    print(f"{len(steps)} comments, {len(steps) - len(set(steps))} of them twice; {asked} requests")
