"""A Restate service that a test kills: ``python restate_service.py PORT NAME FOLDER [bare]``.

With ``bare`` it has the same steps without nottwice, as the control.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path
from typing import Any

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config
from restate import InvocationRetryPolicy

import nottwice as nt
from tests.hosts.inside.tools import (
    die_after_a_receipt,
    dying_after_its_return,
    functions,
    store_of,
)

PORT, NAME, FOLDER = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
BARE = sys.argv[4:] == ["bare"]
FUNCTIONS, STORE = functions(FOLDER, bare=BARE), store_of(FOLDER)
SECOND = timedelta(seconds=1)
# An attempt that tells nothing for two seconds is aborted, and made again.
PATIENCE = SECOND * (3600 if (FOLDER / "patient").exists() else 1)
service = restate.Service(
    NAME,
    inactivity_timeout=PATIENCE,
    abort_timeout=PATIENCE,
    journal_retention=timedelta(minutes=10),
    invocation_retry_policy=InvocationRetryPolicy(
        initial_interval=SECOND / 10, max_interval=SECOND / 2, max_attempts=None
    ),
)


def step(ctx: restate.Context, name: str, line: str, group: str | None = None) -> Awaitable[Any]:
    with (FOLDER / "attempts").open("a") as file:
        file.write(f"{line}\n")
    if not BARE:
        options: dict[str, Any] = {"store": STORE, "group": group, "look_again": "500ms"}
        if (FOLDER / "told").exists():
            options |= {"look_again": "1h", "on_review": note_review}
        return nt.restate.run(ctx, name, FUNCTIONS[name], {"line": line}, **options)

    def act() -> Any:
        return dying_after_its_return(FOLDER, FUNCTIONS[name])(line)

    started: Awaitable[Any] = ctx.run(name, act)
    return started


def note_review(awakeable_id: str, review_ids: list[str]) -> None:
    (FOLDER / "awakeable").write_text(f"{awakeable_id} {' '.join(review_ids)}")


@service.handler()
async def task(ctx: restate.Context, plan: list[list[str]]) -> list[Any]:
    """The steps of a plan, one after another."""
    return [await step(ctx, *each) for each in plan]


@service.handler()
async def gathered(ctx: restate.Context, plan: list[list[str]]) -> list[Any]:
    """The steps of a plan in parallel, in this invocation."""
    steps = [step(ctx, *each) for each in plan]
    return [await each for each in await restate.gather(*steps)]


@service.handler()
async def together(ctx: restate.Context, plan: list[list[str]]) -> list[Any]:
    """The steps of a plan in parallel, each in an invocation of its own."""
    calls = [ctx.service_call(task, arg=[each]) for each in plan]
    return [(await each)[0] for each in await restate.gather(*calls)]


async def main() -> None:
    die_after_a_receipt(FOLDER)
    config = Config()
    config.bind = [f"127.0.0.1:{PORT}"]
    await serve(restate.app([service]), config)


if __name__ == "__main__":
    asyncio.run(main())
