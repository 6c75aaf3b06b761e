"""Reads that may block, kept out of the event loop.

A locked table or a restarting server would otherwise block every task of the loop. The threads
belong to nottwice: in the loop's default pool, reads would queue behind the tools that run there,
and a tool may wait for what is read. Promise kept here: P127.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nottwice import lazy
from nottwice.store.interface import Store

# This many reads may wait for one database without blocking reads from another.
MOST_THREADS = 32

_pool: ThreadPoolExecutor | None = None
_guard = threading.Lock()


def _forget_after_fork() -> None:
    """Drop the executor: a forked child has none of its parent's threads."""
    global _pool, _guard
    _pool, _guard = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


async def read_in_thread(query: Callable[[Store], Any], store: Store) -> Any:
    """Run the query in a thread. If the waiter is cancelled, the read ends on its own."""
    return await lazy.asyncio.get_running_loop().run_in_executor(_threads(), query, store)


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _guard:
        if _pool is None:
            _pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="nottwice-read")
        return _pool
