"""Reads that may have to wait, out of the event loop's way.

A table that somebody has locked, or a server that restarts, would otherwise silence every task of
the loop for as long as that lasts. The threads are nottwice's own: in the loop's default pool reads
would wait behind the tools that run there, and a tool may wait for what is read. Promise kept here:
P127.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nottwice.store.interface import Store

# As many as may wait for one database at once without keeping those from reading who use another.
MOST_THREADS = 32

_pool: ThreadPoolExecutor | None = None
_guard = threading.Lock()


def _forget_after_fork() -> None:
    """A forked child has none of its parent's threads."""
    global _pool, _guard
    _pool, _guard = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


async def read_in_thread(query: Callable[[Store], Any], store: Store) -> Any:
    """What the query finds. A waiter that is cancelled leaves; the read ends by itself."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), query, store)


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _guard:
        if _pool is None:
            _pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="nottwice-read")
        return _pool
