"""What does a process do whose model asks for three effects in one reply?

    python -m tests.kill.ordered_programs LEDGER FILE sync|async [PLACE]

Each effect is a line in FILE. The process dies by SIGKILL at PLACE, such as ``before commit``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import nottwice as nt

EFFECTS = ("write", "commit", "push")


def declare(file: Path, place: str | None, *, is_async: bool) -> list[Any]:
    """Three tools; the first takes longest, and what happened is looked up in the file."""

    def reach(here: str) -> None:
        if here == place:
            os.kill(os.getpid(), signal.SIGKILL)

    def look(call: nt.Call) -> nt.Verification:
        lines = file.read_text().splitlines() if file.exists() else []
        return nt.happened("done") if call.tool in lines else nt.did_not_happen()

    def do(name: str) -> str:
        # Whatever runs at the same time as the first one overtakes it.
        time.sleep(0.05 if name == EFFECTS[0] else 0)
        reach(f"before {name}")
        with file.open("a") as lines:
            lines.write(f"{name}\n")
        reach(f"after {name}")
        return "done"

    def make(name: str) -> Any:
        if is_async:

            @nt.tool("unsafe_on_replay", name=name, verify=look, settles="1ms")
            async def effect(what: str) -> str:
                return await asyncio.to_thread(do, name)

        else:

            @nt.tool("unsafe_on_replay", name=name, verify=look, settles="1ms")
            def effect(what: str) -> str:
                return do(name)

        return effect

    return [make(name) for name in EFFECTS]


def main(ledger: str, file: str, mode: str, place: str | None = None) -> None:
    is_async = mode == "async"
    tools = declare(Path(file), place, is_async=is_async)
    reply = [{name: {"what": "a"}} for name in EFFECTS]
    agent = nt.Agent(
        "ordered", version="1.0.0", provider=nt.providers.scripted([reply, "done"]), tools=tools
    )
    if is_async:
        outcome = asyncio.run(agent.arun("r", goal="push it", store=ledger))
    else:
        outcome = agent.run("r", goal="push it", store=ledger)
    assert outcome.status == "completed", outcome


if __name__ == "__main__":
    main(*sys.argv[1:])
