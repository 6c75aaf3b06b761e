"""What does a process do that dies in the fourth of five phases?

    python -m tests.kill.phase_programs LAYER STORE HOW

HOW it is there: ``works`` for an hour without an effect, ``acts`` and dies in its first effect, or
``dies`` before it does anything.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import nottwice as nt

PHASES = ["read", "plan", "draft", "publish", "tell"]


@nt.tool("unsafe_on_replay")
def publish() -> None:
    """The process dies while this is under way."""
    os.kill(os.getpid(), signal.SIGKILL)


def work(phase: str, how: str) -> dict[str, str]:
    """All phases but the fourth have ended before any test has looked."""
    if phase != "publish":
        return {"output_file": f"{phase}.json"}
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "acts":
        publish()
    # It works until the test kills it.
    sys.stdin.read()
    raise AssertionError("was to be killed")


def by_phases(store: str, how: str, *, checkpoints: str = "effects") -> None:
    def step_of(phase: str) -> Any:
        def step(state: dict[str, Any]) -> dict[str, str]:
            return work(phase, how)

        return step

    run_phases(store, {phase: [step_of(phase)] for phase in PHASES}, checkpoints)


def by_phases_at_every_step(store: str, how: str) -> None:
    by_phases(store, how, checkpoints="every_step")


def by_async_phases(store: str, how: str) -> None:
    def step_of(phase: str) -> Any:
        async def step(state: dict[str, Any]) -> dict[str, str]:
            return await asyncio.to_thread(work, phase, how)

        return step

    run_phases(store, {phase: [step_of(phase)] for phase in PHASES}, "effects")


def run_phases(store: str, phases: dict[str, Any], checkpoints: str) -> None:
    flow = nt.phases("pipeline", version="1.0.0", phases=phases, checkpoints=checkpoints)
    flow.run("r", {}, store=store)


def by_steps(store: str, how: str) -> None:
    with nt.run("r", store=store):
        for phase in PHASES:
            with nt.step(phase), nt.step("step"):
                work(phase, how)


if __name__ == "__main__":
    layer, place, what = sys.argv[1:]
    globals()[f"by_{layer}"](place, what)
