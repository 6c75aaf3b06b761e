"""How does a step of a Restate handler take effect at most once? (P289)

Restate runs the closure of ``ctx.run`` again if it does not know how it ended. So the closure makes
the call by ``ledger.aonce``, named by the invocation and the step, and finds the receipt. A call
that has to wait is not an error of the closure: the closure returns that it waits, the handler
waits with a timer or an awakeable of Restate, and then makes the next step, for the same call.

Like ``ctx.run``, the first step is in the journal when ``run`` returns a future, so Restate's
``gather`` makes several calls in parallel. What comes after a wait is put in the journal by the
await of its future, so its order is the order of the awaits, in every attempt.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias

import restate
from restate.exceptions import TerminalError
from restate.server_context import ServerDurableFuture

from nottwice.errors import InvalidTool, NottwiceError
from nottwice.guard.attached.calling import AnyTool
from nottwice.guard.ledger import AnyStore, Ledger, ledger_of
from nottwice.hosts.calls import tool_of
from nottwice.hosts.ordinals import Ordinals
from nottwice.hosts.verdict import verdict
from nottwice.model.call import ResultKind, StoredResult
from nottwice.model.data.records import frozen_record
from nottwice.model.tool import Duration, parse_duration

Look: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
OnReview: TypeAlias = Callable[[str, list[str]], Awaitable[None] | None]
WITHIN = "45s"
"""How long one look may wait. After a minute without news, Restate asks a handler to suspend."""
MOST_SECONDS = {"later": 60.0, "person": 3600.0}
"""Each look is two entries of the journal, so the looks become rarer, down to these."""


def run(
    context: restate.Context,
    name: str,
    tool: Callable[..., Any],
    arguments: Mapping[str, Any] | None = None,
    *,
    store: AnyStore = None,
    group: str | None = None,
    settle_timeout: Duration = "60s",
    look_again: Duration = "30s",
    on_review: OnReview | None = None,
) -> Awaitable[Any]:
    """Make a call of a protected tool as a step of a Restate handler, in place of ``ctx.run``.

    To make several in parallel, give them to ``restate.gather``, and then await each.
    ``arguments``: the arguments of the tool by name. ``store``: where the ledger is, as for
    ``nt.run``; all services need the same one. ``group``: what the call belongs to; by default the
    invocation. ``settle_timeout``: how long to ask ``verify`` before a person is asked.
    ``look_again``: when a step that waits for a person first looks for the decision; then it looks
    less and less often. ``on_review(awakeable_id, review_ids)`` is called when a person is asked,
    once or more often; to resolve the awakeable lets the step look immediately.
    """
    every = parse_duration(look_again, what="look_again")
    step = _Step(_checked(tool), arguments or {}, store, settle_timeout, every)
    look = step.look(group or str(context.request().id), _next_name(context, name))
    return _started(context, name, look, _Waiting(context, name, on_review), step)


def _started(
    context: restate.Context, name: str, look: Look, waiting: _Waiting, step: _Step
) -> Awaitable[Any]:
    """Return a future of Restate. It stands for the first look, and is awaited until the end."""
    first: Any = context.run(name, look)

    async def until_done() -> Any:
        """Look, and wait, and look again."""
        looks, said = 0, await first
        while "waits" in said:
            most = MOST_SECONDS[said["waits"]]
            # Never later than the first time, if that is beyond the limit already.
            seconds = min(said["retry_in"] * 2 ** min(looks, 12), max(most, said["retry_in"]))
            await waiting.wait(max(0.1, seconds), said["reviews"])
            said = await context.run(name, look)
            looks += 1
        return step.value_of(said)

    future: Awaitable[Any] = ServerDurableFuture(first.context, first.handle, until_done)
    return future


def _checked(function: Callable[..., Any]) -> AnyTool:
    tool = tool_of(function)
    if tool is None:
        name = getattr(function, "__name__", function)
        raise _terminal(
            InvalidTool(
                f"{name!r} is not a protected tool with an effect. Nothing was done. Declare it "
                "with @nt.tool(...), or use ctx.run for a function without effects."
            )
        )
    return tool


@frozen_record(frozen=True, slots=True)
class _Step:
    """One call, and how Restate's journal keeps what came of it."""

    tool: AnyTool
    arguments: Mapping[str, Any]
    store: AnyStore
    settle_timeout: Duration
    look_again_seconds: float

    def look(self, group: str, name: str) -> Look:
        """Return the closure: make the call or find its receipt, or say that it waits."""

        async def look() -> dict[str, Any]:
            try:
                # Opening a ledger may wait for a disk or a server.
                ledger = await asyncio.to_thread(self._ledger)
                options: dict[str, Any] = {"settle_timeout": self.settle_timeout, "within": WITHIN}
                made = await ledger.aonce(group, name, self.tool, self.arguments, **options)
            except NottwiceError as error:
                said = verdict(error, look_again=self.look_again_seconds)
                assert said is not None
                if said.retry_in is None:
                    raise _terminal(error) from error
                reviews = list(said.reviews)
                waits = {"waits": said.what, "retry_in": said.retry_in, "reviews": reviews}
                return {**waits, "reason": said.reason}
            kept = self.tool.tool.encode_result(made.value)
            return {"done": kept.kind.value, "json": kept.json}

        return look

    def _ledger(self) -> Ledger:
        return ledger_of(self.store)

    def value_of(self, said: dict[str, Any]) -> Any:
        """Return the result that the journal keeps."""
        try:
            kept = StoredResult(ResultKind(said["done"]), said["json"])
            return self.tool.tool.decode_result(kept)
        except NottwiceError as error:
            raise _terminal(error) from error


def _terminal(error: NottwiceError) -> TerminalError:
    """Return the same as an error that Restate does not retry."""
    return TerminalError(f"nottwice.{type(error).__name__}: {error}")


class _Waiting:
    """Waits in the handler, durably and without a process."""

    def __init__(self, context: restate.Context, name: str, on_review: OnReview | None) -> None:
        self._context, self._name, self._on_review = context, name, on_review
        self._awakeable: tuple[str, Any] | None = None
        self._told: list[str] = []

    async def wait(self, seconds: float, reviews: list[str]) -> None:
        """Wait for a time, or until the awakeable is resolved."""
        timer = self._context.sleep(timedelta(seconds=seconds))
        if self._on_review is None or not reviews:
            await timer
            return
        if self._awakeable is None:
            self._awakeable, self._told = self._context.awakeable(), []
        awakeable_id, woken = self._awakeable
        if reviews != self._told:
            await self._context.run(
                f"{self._name}: on_review", self._telling(awakeable_id, reviews)
            )
            self._told = reviews
        first, _ = await restate.select(woken=woken, later=timer)
        if first == "woken":
            # It is used up. If a person is still asked, there is another one.
            self._awakeable = None

    def _telling(self, awakeable_id: str, reviews: list[str]) -> Callable[[], Awaitable[None]]:
        on_review = self._on_review
        assert on_review is not None

        async def tell() -> None:
            said = on_review(awakeable_id, reviews)
            if inspect.isawaitable(said):
                await said

        return tell


_ordinals: weakref.WeakKeyDictionary[restate.Context, Ordinals] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


def _next_name(context: restate.Context, name: str) -> str:
    """Return the name of the next call. Every attempt of an invocation has a new context, and its
    handler begins to count again, as its code does."""
    with _guard:
        return _ordinals.setdefault(context, Ordinals()).next(name)
