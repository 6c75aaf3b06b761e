"""Steps and parallel branches as user code writes them: ``nt.step``, ``nt.map``, ``nt.gather``."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from reprlib import repr as _short
from types import TracebackType
from typing import Any, TypeVar

from nottwice.engine import bodies, events
from nottwice.engine.drivers import (
    drive,
    drive_async,
    error_of,
    is_coroutine_function,
    until_all_ended,
)
from nottwice.engine.hiding import classify
from nottwice.engine.session import Scope, current_attempt, current_scope
from nottwice.engine.stepping import steps
from nottwice.engine.waits.stops import is_wait, urgency
from nottwice.errors import InvalidId, NotInRun, UsageError
from nottwice.model.call import MAX_ID_CHARACTERS, Call, check_id
from nottwice.model.failure import Failure, is_ledger_trouble

T = TypeVar("T")
R = TypeVar("R")
log = logging.getLogger("nottwice")


def current_call() -> Call:
    """The call that this code is part of: its id, key, first start and attempt."""
    attempt = current_attempt.get()
    call = attempt.call if attempt is not None else None
    if call is None:
        raise NotInRun(
            "nt.current_call() was called outside a protected tool. It only works inside one, "
            "while it runs in a run; a bare .fn(...) has no call."
        )
    return call


class step(AbstractContextManager["step"], AbstractAsyncContextManager["step"]):
    """A named part of a run in which one call means one call.

    ``with nt.step("notify", at=turn):`` — ``at`` tells one visit from another. A step that was
    interrupted is resumed: it replays what is recorded, and may add to it. A finished step only
    replays.
    """

    def __init__(self, name: str, *, at: str | int | None = None) -> None:
        self.name = check_id(name, what="The step's name")
        if isinstance(at, bool) or not (at is None or isinstance(at, str | int)):
            raise UsageError(
                f"at={at!r} cannot tell visits of step {self.name!r} apart. Nothing happened. Use "
                "text or a whole number that is the same when the run is resumed."
            )
        if isinstance(at, int) and at.bit_length() > MAX_ID_CHARACTERS:
            raise InvalidId(
                "The step's at is too long a number. Nothing happened. Use a shorter one."
            )
        self.at = check_id(at, what="The step's at") if isinstance(at, str) else at
        self._token: contextvars.Token[Scope | None] | None = None
        self._scope: Scope | None = None

    def __repr__(self) -> str:
        at = "" if self.at is None else f", at={self.at!r}"
        return f"step({self.name!r}{at})"

    def __enter__(self) -> step:
        scope = self._fresh_scope()
        return self._entered(drive(steps.open_step(scope, self.name, self.at), scope.session.host))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        scope = self._left(error)
        if _is_over(error):
            drive(steps.close_step(scope, _failure(error, scope)), scope.session.host)

    async def __aenter__(self) -> step:
        scope = self._fresh_scope()
        doing = steps.open_step(scope, self.name, self.at)
        return self._entered(await drive_async(doing, scope.session.host))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        scope = self._left(error)
        if _is_over(error):
            await drive_async(steps.close_step(scope, _failure(error, scope)), scope.session.host)

    def _fresh_scope(self) -> Scope:
        if self._scope is not None:
            raise UsageError(
                f"Step {self.name!r} is entered already. Nothing happened. Make a new nt.step(...)."
            )
        return scope_of(f"nt.step({self.name!r})")

    def _entered(self, scope: Scope) -> step:
        self._scope = scope
        self._token = current_scope.set(scope)
        if events.listeners:
            bodies.step_began(scope)
        return self

    def _left(self, error: BaseException | None) -> Scope:
        scope, token = self._scope, self._token
        assert scope is not None
        assert token is not None
        self._scope = self._token = None
        if events.listeners:
            bodies.step_returned(scope, error)
        try:
            current_scope.reset(token)
        except ValueError:
            # An async generator may be closed in another context, which has no scope to reset.
            log.debug("step %r was left in another context than it was entered in", self.name)
        return scope


def map(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    name: str | None = None,
    threads: int = 8,
) -> list[R]:
    """Call ``function`` with every item, in parallel threads, each a branch with its own identity.

    Inside a step the branches belong to it. Outside, they form their own step, named ``name`` or
    after the function. All branches end before the first error is raised.
    """
    if not callable(function):
        raise UsageError(
            f"nt.map calls a function with each item, and {_short(function)} is not one. Nothing "
            "happened. Use: nt.map(f, items)"
        )
    if is_coroutine_function(function):
        raise UsageError(
            f"nt.map calls functions in threads, and {_name_of(function)!r} is async, so it would "
            "never be awaited. Nothing happened. Use: await nt.gather(*[f(item) for item in items])"
        )
    if not isinstance(threads, int) or threads < 1:
        raise UsageError(
            f"nt.map: threads={_short(threads)} must be a whole number of at least 1. Nothing "
            "happened."
        )
    work = list(_iterated(items))
    with _own_step("nt.map", name or f"map {_name_of(function)}"):
        scope = scope_of("nt.map")
        with ThreadPoolExecutor(max(1, min(threads, len(work) or 1))) as pool:
            futures = [
                pool.submit(_branch_context(scope, index).run, function, item)
                for index, item in enumerate(work)
            ]
        return _all_or_first_error([future.exception() for future in futures], futures)


async def gather(*awaitables: Awaitable[T], name: str | None = None) -> list[T]:
    """Await all, each in a branch with its own identity; the async twin of ``nt.map``.

    All branches end before the first error is raised.
    """
    tasks: list[asyncio.Task[T]] = []
    try:
        _check_awaitable(awaitables)
        async with _own_step("nt.gather", name or f"gather {', '.join(map_names(awaitables))}"):
            scope = scope_of("nt.gather")
            tasks += [
                asyncio.get_running_loop().create_task(
                    _as_coroutine(awaitable), context=_branch_context(scope, index)
                )
                for index, awaitable in enumerate(awaitables)
            ]
            await until_all_ended(tasks)
            return _all_or_first_error([error_of(task) for task in tasks], tasks)
    finally:
        if not tasks:
            # They were refused. Otherwise Python warns later, elsewhere, about missing awaits.
            for awaitable in awaitables:
                if asyncio.iscoroutine(awaitable):
                    awaitable.close()


def _iterated(items: Iterable[T]) -> Iterator[T]:
    try:
        return iter(items)
    except TypeError:
        raise UsageError(
            f"nt.map calls its function with each item of a list, and {_short(items)} has none. "
            "Nothing happened. Use: nt.map(f, [a, b])"
        ) from None


def _check_awaitable(given: Iterable[object]) -> None:
    for number, one in enumerate(given, 1):
        if not inspect.isawaitable(one):
            raise UsageError(
                f"nt.gather awaits what it is given, and argument {number}, {_short(one)}, cannot "
                "be awaited. Nothing happened. Use: await nt.gather(*[f(item) for item in items])"
            )


def map_names(awaitables: Iterable[Any]) -> list[str]:
    """Return the names of coroutines, each once, for the name of their step."""
    return list(dict.fromkeys(getattr(one, "__name__", "awaitable") for one in awaitables))


async def _as_coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _own_step(what: str, name: str) -> Any:
    """Return a step for branches outside any step, so that they are checked for drift, too."""
    scope = scope_of(what)
    return step(name) if not scope.steps else _Nothing()


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *error: object) -> None:
        return None


def _branch_context(scope: Scope, index: int) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(current_scope.set, steps.branch(scope, index))
    return context


def _all_or_first_error(errors: list[BaseException | None], branches: list[Any]) -> list[Any]:
    """Return the results, or raise the most urgent error."""
    found = [error for error in errors if error is not None]
    found.sort(key=urgency)
    if found:
        for other in found[1:]:
            found[0].add_note(f"Another branch ended with {type(other).__name__}: {other}")
        raise found[0]
    return [branch.result() for branch in branches]


def scope_of(what: str) -> Scope:
    scope = current_scope.get()
    if scope is None:
        raise NotInRun(
            f"{what} was used outside a run. Nothing happened. Open one around it: "
            "with nt.run('ticket-7', store='agent.db'): ..."
        )
    scope.session.check_usable()
    return scope


def _is_over(error: BaseException | None) -> bool:
    """Whether a step has ended. One that waits, or was interrupted (P86), stays in progress."""
    return not is_wait(error) and not is_ledger_trouble(error)


def _failure(error: BaseException | None, scope: Scope) -> Failure | None:
    if error is None:
        return None
    return classify(error, effectful=False, now=scope.session.clock.now())


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__).replace("<lambda>", "lambda")
