"""How is a function that only looks asked, within a time? ``verify`` and policies are such hooks.

A hook has no effect. If it hangs, it blocks nothing, not even the exit of the process. A caller
that is cancelled leaves it immediately (P304), and what it says later is dropped.
"""

from __future__ import annotations

import contextvars
import threading
import types
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from nottwice import lazy
from nottwice.engine.asks import Invoked
from nottwice.engine.session import current_attempt
from nottwice.errors import Permanent
from nottwice.model.data.records import light_record


@light_record(frozen=True, slots=True)
class Hook:
    """A function that only looks, with its arguments."""

    function: Callable[[], Any]
    is_async: bool


def ask(hook: Hook, limit_seconds: float) -> Invoked:
    """Ask a hook in a thread, and wait up to the limit. Raises what interrupts the caller."""
    said = _asked(hook)
    try:
        return said.result(timeout=limit_seconds)
    except FutureTimeout:
        return Invoked(still_running=True) if said.cancel() else said.result()
    except BaseException:
        said.cancel()
        raise


async def ask_async(hook: Hook, limit_seconds: float) -> Invoked:
    """Do the same in an event loop, which awaits an async hook itself."""
    said: lazy.asyncio.Future[Invoked]
    if hook.is_async:
        # In its own task, because a hook may take its time to end after it was cancelled.
        said = lazy.asyncio.ensure_future(_awaited(hook))
    else:
        said = lazy.asyncio.wrap_future(_asked(hook))
    try:
        done, _ = await lazy.asyncio.wait([said], timeout=limit_seconds)
    except BaseException:
        said.cancel()
        raise
    if not done:
        said.cancel()
        return Invoked(still_running=True)
    outcome = said.result()
    if hook.is_async and isinstance(outcome.error, lazy.asyncio.CancelledError):
        # The event loop is ending, so this is no answer.
        raise outcome.error
    return outcome


def _asked(hook: Hook) -> Future[Invoked]:
    """Start a hook in a thread of its own."""
    said: Future[Invoked] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = context.run(_said, hook)
        if said.set_running_or_notify_cancel():
            said.set_result(outcome)

    threading.Thread(target=work, name="nottwice-hook", daemon=True).start()
    return said


def _said(hook: Hook) -> Invoked:
    current_attempt.set(None)
    try:
        value = lazy.asyncio.run(_coroutine(hook.function())) if hook.is_async else hook.function()
    except BaseException as error:
        return Invoked(error=error)
    if isinstance(value, types.CoroutineType):
        value.close()
        text = "it returned a coroutine, which was not run; declare the function with async def"
        return Invoked(error=Permanent(text))
    return Invoked(value=value, invoked=True)


async def _awaited(hook: Hook) -> Invoked:
    current_attempt.set(None)
    try:
        return Invoked(value=await hook.function(), invoked=True)
    except BaseException as error:
        return Invoked(error=error)


async def _coroutine(awaitable: Any) -> Any:
    return await awaitable
