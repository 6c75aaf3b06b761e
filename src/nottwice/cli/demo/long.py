"""The second act of ``nottwice demo``: an agent of 160 steps, killed at step 141 and resumed.

Each step asks a model, a script here, and writes one comment to a tracker, a file. The process dies
for real, right after the comment of step 141 was written and before that was recorded.

    python -m nottwice.cli.demo.long FOLDER STEPS DIES_AT
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.agent.provider import ModelRequest
from nottwice.agent.providers.scripted import requests_in
from nottwice.model.data.records import frozen_record

STEPS = 160
DIES_AT = 141
SHORT = (16, 14)
"""The number of steps and the step of the kill, in a short demo."""
COMMAND = (sys.executable, "-P", "-m", "nottwice.cli.demo.long")
LIMIT_SECONDS = 240.0


@frozen_record(frozen=True, slots=True)
class LongRun:
    """What was counted of the long run, after the kill and after the resume."""

    killed_as: int
    resumed_as: int
    done_before: int
    """How many comments were in the tracker when it died."""
    comments: int
    twice: int
    requests: int
    tokens: int
    tokens_again: int
    """Tokens of requests for a reply that had been asked for before."""
    resume_seconds: float
    """From opening the ledger to the first question to the model."""
    status: str


def live_and_die_and_live(
    folder: Path,
    *,
    command: Sequence[str] = COMMAND,
    steps: int = STEPS,
    dies_at: int = DIES_AT,
) -> LongRun:
    """Kill a long run, resume it in a new process, and count."""
    folder.mkdir(parents=True, exist_ok=True)
    killed = _start(command, folder, steps, dies_at)
    done_before = len(_comments(folder))
    resumed = _start(command, folder, steps, 0)
    told = json.loads(resumed.stdout) if resumed.returncode == 0 else {}
    comments = _comments(folder)
    requests = requests_in(folder / "requests.txt")
    again = len(requests) - len(set(requests))
    each = told.get("tokens", 0) // max(1, len(set(requests)))
    return LongRun(
        killed_as=_process_id(killed),
        resumed_as=_process_id(resumed),
        done_before=done_before,
        comments=len(comments),
        twice=len(comments) - len(set(comments)),
        requests=len(requests),
        tokens=told.get("tokens", 0),
        tokens_again=again * each,
        resume_seconds=told.get("resume_seconds", 0.0),
        status=told.get("status", f"ended with {resumed.returncode}: {resumed.stderr[-500:]}"),
    )


def _start(
    command: Sequence[str], folder: Path, steps: int, dies_at: int
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, str(folder), str(steps), str(dies_at)],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


def _process_id(ended: subprocess.CompletedProcess[str]) -> int:
    """The first line of stderr; a killed process writes no more."""
    first = ended.stderr.partition("\n")[0]
    return int(first) if first.isdigit() else 0


def _comments(folder: Path) -> list[str]:
    """What is in the tracker, without the marks of the calls."""
    tracker = folder / "tracker.txt"
    lines = tracker.read_text(encoding="utf-8").splitlines() if tracker.exists() else []
    return [line.rpartition(" ")[0] for line in lines]


def main(folder: Path, steps: int, dies_at: int) -> None:
    """One life of the agent."""
    print(os.getpid(), file=sys.stderr, flush=True)
    tracker = folder / "tracker.txt"
    asked_at: list[float] = []

    def in_tracker(call: nt.Call) -> nt.Verification:
        lines = tracker.read_text(encoding="utf-8").splitlines() if tracker.exists() else []
        found = any(line.endswith(call.id) for line in lines)
        return nt.happened("noted") if found else nt.did_not_happen()

    @nt.tool("unsafe_on_replay", verify=in_tracker, settles="1ms")
    def comment(step: int) -> str:
        """Write a comment to the tracker."""
        with tracker.open("a", encoding="utf-8") as file:
            file.write(f"step {step} {nt.current_call().id}\n")
        if step == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return "noted"

    def reply(request: ModelRequest) -> Any:
        asked_at.append(time.perf_counter())
        return {"comment": {"step": request.turn}} if request.turn <= steps else "All is noted."

    agent = nt.Agent(
        "notes",
        version="1.0.0",
        provider=nt.providers.scripted(reply, log=folder / "requests.txt"),
        tools=[comment],
        context_tokens=4000,
        # More than an agent may take by itself.
        budget=nt.Budget(turns=400),
    )
    began = time.perf_counter()
    outcome = agent.run("night-shift", goal="Note every step", store=folder / "notes.db")
    print(
        json.dumps(
            {
                "status": outcome.status,
                "tokens": outcome.state.spent.tokens,
                "resume_seconds": round(asked_at[0] - began, 3) if asked_at else 0.0,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
