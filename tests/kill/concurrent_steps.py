"""A program with tasks or threads inside a step, killed at random moments until it ends.

``python -m tests.kill.concurrent_steps FOLDER KIND SEEDS`` forks one life after the other and says
in JSON how each ended. Every effect is a line of a file, so ``verify`` can look it up.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nottwice as nt

TASKS, PARTS = 5, 3
DELAYS_SECONDS = (0.0, 0.0, 0.002, 0.006)
world: list[Path] = []


def happened(call: nt.Call) -> nt.Verification:
    lines = world[0].read_text().splitlines() if world[0].exists() else []
    found = any(line.startswith(call.id) for line in lines)
    # A local file: what is not there by now will not come.
    return nt.happened("sent") if found else nt.did_not_happen()


@nt.tool("unsafe_on_replay", name="send_among_tasks", verify=happened, settles="0.001s")
def send(what: str) -> str:
    with world[0].open("a") as file:
        file.write(f"{nt.current_call().id} {what}\n")
    until_death.tick()
    return "sent"


class UntilDeath:
    """Kills the process a moment after this many sendings, however slow the machine is."""

    def __init__(self) -> None:
        self._left = 0
        self._moment_seconds = 0.0
        self._guard = threading.Lock()

    def draw(self, chance: random.Random) -> None:
        self._left, self._moment_seconds = chance.randint(1, 4), chance.uniform(0.0, 0.01)

    def tick(self) -> None:
        with self._guard:
            self._left -= 1
            if self._left == 0:
                killer = threading.Timer(
                    self._moment_seconds, os.kill, (os.getpid(), signal.SIGKILL)
                )
                killer.daemon = True
                killer.start()


until_death = UntilDeath()


def with_threads(store: str, chance: random.Random) -> None:
    def task(number: int) -> None:
        for part in range(PARTS):
            time.sleep(chance.choice(DELAYS_SECONDS))
            send(f"{number}.{part}")

    with nt.run("r", store=store), nt.step("all"), ThreadPoolExecutor(TASKS) as pool:
        tasks = [pool.submit(contextvars.copy_context().run, task, n) for n in range(TASKS)]
        for one in tasks:
            one.result()


def with_tasks(store: str, chance: random.Random) -> None:
    async def task(number: int) -> None:
        for part in range(PARTS):
            await asyncio.sleep(chance.choice(DELAYS_SECONDS))
            await asyncio.to_thread(send, f"{number}.{part}")

    async def main() -> None:
        async with nt.run("r", store=store), nt.step("all"):
            await asyncio.gather(*(task(number) for number in range(TASKS)))

    asyncio.run(main())


def with_steps(store: str, chance: random.Random) -> None:
    async def task(number: int) -> None:
        await asyncio.sleep(chance.choice(DELAYS_SECONDS))
        async with nt.step("item", at=number):
            for part in range(PARTS):
                await asyncio.sleep(chance.choice(DELAYS_SECONDS))
                # The same call in every visit.
                await asyncio.to_thread(send, f"all.{part}")

    async def main() -> None:
        async with nt.run("r", store=store):
            await asyncio.gather(*(task(number) for number in range(TASKS)))

    asyncio.run(main())


PROGRAMS = {"threads": with_threads, "tasks": with_tasks, "steps": with_steps}


def live(program: Callable[[str, random.Random], None], folder: Path, seed: int) -> str:
    """One process that may be killed at any moment; how it ended."""
    child = os.fork()
    if child == 0:
        chance = random.Random(seed)
        try:
            until_death.draw(chance)
            program(str(folder / "ledger.db"), chance)
        except BaseException:
            (folder / "error").write_text(traceback.format_exc())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 1:
        return (folder / "error").read_text()
    return "done" if code == 0 else "killed"


def main() -> None:
    folder, kind, seeds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    ended: list[list[str]] = []
    for seed in range(seeds):
        place = folder / f"{kind}-{seed}"
        place.mkdir()
        world[:] = [place / "sent"]
        ended.append([])
        while not ended[-1] or ended[-1][-1] == "killed":
            ended[-1].append(live(PROGRAMS[kind], place, seed * 1_000 + len(ended[-1])))
    sent = [
        sorted(line.split()[1] for line in (folder / f"{kind}-{seed}" / "sent").open())
        for seed in range(seeds)
    ]
    print(json.dumps({"ended": ended, "sent": sent}))


if __name__ == "__main__":
    main()
