"""Reads leave the event loop where they may have to wait, and stay in it where they cannot (P127).

What a locked table and an absent server do to it is in tests/postgres/test_reading.py.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nottwice as nt
from nottwice.model.call import CallIdentity, CallRow
from nottwice.store.memory import MemoryStore

LOCKING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""

FORKING = """
import asyncio, os
import nottwice as nt
from nottwice.store.memory import MemoryStore

class Distant(MemoryStore):
    reads_can_block = True

@nt.tool("unsafe_on_replay")
async def send(to: str) -> str:
    return "sent"

async def work(run_id: str) -> None:
    async with nt.Ledger(Distant()).run(run_id):
        await send("ann")

if __name__ == "__main__":
    asyncio.run(work("parent"))
    child = os.fork()
    if not child:
        asyncio.run(work("child"))
        os._exit(0)
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Distant(MemoryStore):
    """A ledger that says of itself that reading it may take a while."""

    reads_can_block = True


@nt.tool("unsafe_on_replay", name="send and read")
async def send(to: str) -> str:
    return f"sent to {to}"


def test_a_sqlite_ledger_that_another_process_has_locked_keeps_no_reader_waiting(
    tmp_path: Path,
) -> None:
    """So its reads stay in the loop. A writer waits in a thread, and the loop continues."""
    path = tmp_path / "agent.db"
    ledger = nt.Ledger(path)

    async def main() -> None:
        async with ledger.run("r"):
            await send("ann")
        async with ledger.run("r"):
            other = subprocess.Popen(
                [sys.executable, "-c", LOCKING, str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert other.stdin is not None
            assert other.stdout is not None
            assert await asyncio.to_thread(other.stdout.readline) == b"locked\n"
            assert await send("ann") == "sent to ann"
            new = asyncio.ensure_future(send("bob"))
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert not new.done()
            other.communicate(b"\n")
            assert await new == "sent to bob"

    asyncio.run(main())
    assert ledger.store.count_calls("r") == 2


def test_reads_do_not_wait_behind_tools_that_fill_the_pool_of_the_loop() -> None:
    """This tool may wait for something that another task can only do once it has read."""
    ledger, sent = nt.Ledger(Distant()), threading.Event()

    @nt.tool("unsafe_on_replay", name="wait for the other task")
    def wait_for_it() -> bool:
        return sent.wait(10)

    async def main() -> list[bool]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with ledger.run("one"):
            waits = asyncio.ensure_future(asyncio.to_thread(wait_for_it))
            await asyncio.sleep(0.05)
            async with ledger.run("two"):
                await send("ann")
            sent.set()
            return [await waits]

    assert asyncio.run(main()) == [True]


def test_a_cancelled_waiter_does_not_wait_for_its_read() -> None:
    reading, may_end = threading.Event(), threading.Event()

    class Slow(Distant):
        def load_call(self, identity: CallIdentity) -> CallRow | None:
            reading.set()
            may_end.wait(30)
            return super().load_call(identity)

    ledger = nt.Ledger(Slow())

    async def main() -> str:
        async with ledger.run("r"):
            call = asyncio.ensure_future(send("ann"))
            await asyncio.to_thread(reading.wait, 10)
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
            may_end.set()
            return await send("ann")

    assert asyncio.run(main()) == "sent to ann"


def test_a_forked_child_reads_with_threads_of_its_own() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
