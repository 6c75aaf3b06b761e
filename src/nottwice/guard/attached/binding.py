"""How does code find its run where the context does not know it? ``run.bind(function)`` (P246).

A new thread has no context, and an async generator runs in the context of the task that asks for
its next value. So the run is set again around each piece of work.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, ParamSpec, TypeVar, cast

from nottwice.engine.session import Scope, Session, current_scope

P = ParamSpec("P")
R = TypeVar("R")


def bound(function: Callable[P, R], find: Callable[[], Session]) -> Callable[P, R]:
    """Return a function that runs in the session that ``find`` returns when it is called."""
    given: Any = function
    if inspect.isasyncgenfunction(given):

        @functools.wraps(given)
        async def generate(*args: Any, **kwargs: Any) -> Any:
            scope, values = scope_in(find()), given(*args, **kwargs)
            try:
                while True:
                    # Each value may be asked for by another task, in another context.
                    with entered(scope):
                        try:
                            value = await anext(values)
                        except StopAsyncIteration:
                            return
                    yield value
            finally:
                with entered(scope):
                    await values.aclose()

        return cast("Callable[P, R]", generate)
    if is_coroutine_function(given):

        @functools.wraps(given)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            with entered(scope_in(find())):
                return await cast("Awaitable[Any]", given(*args, **kwargs))

        return cast("Callable[P, R]", wait)

    @functools.wraps(given)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with entered(scope_in(find())):
            return function(*args, **kwargs)

    return run


@contextlib.contextmanager
def entered(scope: Scope) -> Iterator[None]:
    """Make this the scope of the code in the block."""
    token = current_scope.set(scope)
    try:
        yield
    finally:
        current_scope.reset(token)


def scope_in(session: Session) -> Scope:
    """Return the scope of the whole run, which code is in while it is attached."""
    known = current_scope.get()
    # Code inside a step or a branch of the same run stays there.
    return known if known is not None and known.session is session else Scope(session)


def is_coroutine_function(body: Any) -> bool:
    """Whether calling it returns a coroutine; an object may have an async ``__call__``."""
    made = getattr(body, "__call__", None)  # noqa: B004 - an object may have an async one
    return inspect.iscoroutinefunction(body) or inspect.iscoroutinefunction(made)
