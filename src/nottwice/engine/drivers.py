"""Do what the engine asks for, sync and async. All I/O of driving a run happens here.

Tools are invoked here too. Cancelling a waiter never cancels the effect: the async driver runs each
call in a separate task. A sync tool with a time limit runs in a non-daemon thread, so an attempt
that cannot be stopped keeps its process alive.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import inspect
import threading
import types
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import Any, TypeVar, assert_never

from nottwice import lazy
from nottwice.engine import bodies, events, hooks
from nottwice.engine.asks import (
    Apart,
    Ask,
    CanInvoke,
    Doing,
    Fire,
    Invoked,
    Join,
    Pause,
    Read,
    Rule,
    Together,
    Verify,
    Visit,
    Write,
)
from nottwice.engine.calls.in_flight import DRAIN_SECONDS, InFlight
from nottwice.engine.host import Host
from nottwice.engine.reading import read_in_thread
from nottwice.engine.session import Scope, current_attempt, current_scope
from nottwice.errors import Ambiguous, Permanent, UsageError
from nottwice.model.tool import Tool
from nottwice.store.soon import awaitable

T = TypeVar("T")
_apart_tasks: set[lazy.asyncio.Future[Any]] = set()
"""What is done to its end. An event loop does not keep its tasks alive."""


def drive(doing: Doing[T], host: Host) -> T:
    """Run an engine generator to its end in this thread."""
    place = current_scope.get(), current_attempt.get()
    try:
        ask = next(doing)
        while True:
            driver = host.driver  # The jump back must not lead to a `try:`, which protects nothing.
            try:
                answer = driver.answer(ask, host)
            except BaseException as error:
                _return_to(*place)
                ask = doing.throw(error)
            else:
                ask = doing.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
    except BaseException as interrupt:
        if inspect.getgeneratorstate(doing) != inspect.GEN_SUSPENDED:
            raise
        return drive(_interrupted(doing, interrupt), host)


def _return_to(scope: Scope | None, attempt: InFlight | None) -> None:
    """Be in this scope again. An interrupt may have struck before code of the user left its own."""
    current_scope.set(scope)
    current_attempt.set(attempt)


async def drive_async(doing: Doing[T], host: Host) -> T:
    """Run an engine generator to its end without blocking the event loop."""
    try:
        ask = next(doing)
        while True:
            driver = host.driver  # The jump back must not lead to a `try:`, which protects nothing.
            try:
                answer = await driver.answer_async(ask, host)
            except BaseException as error:
                ask = doing.throw(error)
            else:
                ask = doing.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
    except BaseException as interrupt:
        if inspect.getgeneratorstate(doing) != inspect.GEN_SUSPENDED:
            raise
        return await drive_async(_interrupted(doing, interrupt), host)


def _interrupted(doing: Doing[T], interrupt: BaseException) -> Doing[T]:
    """Continue a generator with an interrupt that struck its driver between two asks (P118).

    Without it the call would stay in flight, and the run held, while the traceback is alive.
    """
    try:
        ask = doing.throw(interrupt)
        while True:
            try:
                answer = yield ask
            except BaseException as error:
                ask = doing.throw(error)
            else:
                ask = doing.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


class UsualDriver:
    """The driver that really performs each ask."""

    def __repr__(self) -> str:
        return "UsualDriver()"

    def answer(self, ask: Ask, host: Host) -> Any:
        match ask:
            case Write():
                began = host.clock.now() if events.listeners else None
                host.store.commit(ask.commit)
                if began is not None:
                    seconds = host.clock.now() - began
                    events.tell_of_commit(ask.commit, host.store, seconds=seconds)
                # Do not return what the store returned: only None can be sent to any iterable.
                return None
            case Fire():
                return _fire(ask)
            case Read():
                return ask.query(host.store)
            case Verify() | Rule():
                return hooks.ask(_hook_of(ask), ask.limit_seconds)
            case CanInvoke():
                return not _is_async(ask.tool) or lazy.running_loop() is None
            case Pause():
                return host.clock.pause(ask.seconds)
            case Join():
                return _join(ask)
            case Visit():
                return _visit(ask)
            case Apart():
                return drive(ask.doing, host)
            case Together():
                return _together(ask, host)
            case _:
                assert_never(ask)

    async def answer_async(self, ask: Ask, host: Host) -> Any:
        match ask:
            case Write():
                began = host.clock.now() if events.listeners else None
                soon = host.store.commit_soon(ask.commit)
                try:
                    await awaitable(soon)
                except lazy.asyncio.CancelledError:
                    # The engine may have to undo it, so it must not become durable after that.
                    await _until_over(soon)
                    raise
                if began is not None:
                    seconds = host.clock.now() - began
                    events.tell_of_commit(ask.commit, host.store, seconds=seconds)
                return None
            case Read():
                if host.store.reads_can_block:
                    return await read_in_thread(ask.query, host.store)
                return ask.query(host.store)
            case Fire():
                if ask.tool.is_async:
                    limit = ask.tool.time_limit_seconds
                    return await _await(
                        lambda: ask.tool.function(*ask.args, **ask.kwargs), ask.in_flight, limit
                    )
                return await _in_thread(_fire, ask)
            case Verify() | Rule():
                return await hooks.ask_async(_hook_of(ask), ask.limit_seconds)
            case CanInvoke():
                return True
            case Pause():
                return await host.clock.pause_async(ask.seconds)
            case Join():
                assert ask.in_flight.over is not None
                over = lazy.asyncio.wrap_future(ask.in_flight.over)
                done, _ = await lazy.asyncio.wait([over], timeout=ask.seconds)
                return bool(done)
            case Visit():
                return await _visit_async(ask)
            case Apart():
                return await _apart(ask, host)
            case Together():
                return await _together_async(ask, host)
            case _:
                assert_never(ask)


USUAL = UsualDriver()


def _fire(fire: Fire) -> Invoked:
    tool = fire.tool
    call: Callable[[], Any] = partial(tool.function, *fire.args, **fire.kwargs)
    if tool.is_async:
        awaited = call
        call = lambda: lazy.asyncio.run(_coroutine(awaited()))  # noqa: E731
    if tool.time_limit_seconds is None:
        return _invoke(call, tool, fire.in_flight)
    return _limited(call, tool, fire.in_flight, tool.time_limit_seconds, fire.late)


def _invoke(call: Callable[[], Any], tool: Tool, in_flight: InFlight | None) -> Invoked:
    """The only place that invokes a sync tool."""
    with _Being(in_flight):
        try:
            value = call()
        except BaseException as error:
            return Invoked(error=error)
    if isinstance(value, types.CoroutineType):
        # This is an async function behind a plain wrapper. It has not started and never will, but
        # the wrapper has run, and what it did before it returned is unknown.
        value.close()
        text = "it returned a coroutine, which was not run; declare the tool with async def"
        failed = Ambiguous if tool.replay_class.effectful else Permanent
        return Invoked(error=failed(text))
    return Invoked(value=value, invoked=True)


class _Being:
    """Lets a tool's body see its call, in the scope in which the call was made.

    This is a class because a generator-based context manager costs three times as much.
    """

    __slots__ = ("_attempt", "_in_flight", "_scope", "_told", "stopped")

    def __init__(self, in_flight: InFlight | None) -> None:
        self._in_flight = in_flight
        self.stopped = False
        """The body was cancelled. What it started may still be running, so it stays registered."""

    def __enter__(self) -> _Being:
        in_flight = self._in_flight
        self._attempt = current_attempt.set(in_flight)
        self._scope: contextvars.Token[Scope | None] | None = None
        if in_flight is not None and in_flight.scope is not None:
            self._scope = current_scope.set(in_flight.scope)
        self._told = bool(events.listeners) and in_flight is not None
        if self._told:
            bodies.attempt_began(in_flight)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._in_flight is not None and not self.stopped:
            self._in_flight.body_ended()
        if self._told:
            bodies.attempt_returned(self._in_flight)
        if self._scope is not None:
            current_scope.reset(self._scope)
        current_attempt.reset(self._attempt)


async def _await(
    call: Callable[[], Any], in_flight: InFlight | None, limit_seconds: float | None
) -> Invoked:
    """The only place that invokes an async tool."""
    limit = None if limit_seconds is None else lazy.asyncio.timeout(limit_seconds)
    task = lazy.asyncio.current_task()
    assert task is not None
    cancelled_before = task.cancelling()
    with _Being(in_flight) as being:
        try:
            if limit is None:
                return Invoked(value=await call(), invoked=True)
            async with limit:
                return Invoked(value=await call(), invoked=True)
        except BaseException as error:
            expired = limit is not None and limit.expired()
            # A body may turn its cancellation into another error, so the type proves nothing.
            cancelled = task.cancelling() > cancelled_before
            stopped = expired or cancelled or isinstance(error, lazy.asyncio.CancelledError)
            being.stopped = stopped
            return Invoked(error=error, stopped=stopped)


def _limited(
    call: Callable[[], Any],
    tool: Tool,
    in_flight: InFlight | None,
    limit_seconds: float,
    late: Callable[[Invoked], None],
) -> Invoked:
    """Invoke in a thread and wait up to the limit. A later outcome goes to ``late``."""
    ended: Future[Invoked] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = context.run(_invoke, call, tool, in_flight)
        # Either the waiter takes the outcome, or it stopped waiting and ``late`` gets it.
        if ended.set_running_or_notify_cancel():
            ended.set_result(outcome)
        else:
            context.run(late, outcome)

    interrupt: BaseException | None = None
    try:
        threading.Thread(target=work, name="nottwice-tool").start()
        return ended.result(timeout=limit_seconds)
    except FutureTimeout:
        pass
    except BaseException as error:
        interrupt = error
    if ended.cancel():
        return Invoked(still_running=True, interrupt=interrupt)
    return dataclasses.replace(ended.result(), interrupt=interrupt)


async def _in_thread(function: Callable[..., Invoked], *args: Any) -> Invoked:
    """Run blocking work for an event loop, in this context, even if the waiter is cancelled.

    A thread cannot be cancelled, so a cancellation is raised only once the outcome is known.
    """
    # This is a future and not a task, so a shutdown that cancels all tasks does not find it.
    thread = lazy.asyncio.get_running_loop().run_in_executor(
        None, contextvars.copy_context().run, function, *args
    )
    interrupt: BaseException | None = None
    while not thread.done():
        try:
            await lazy.asyncio.wait([thread])
        except lazy.asyncio.CancelledError as error:
            interrupt = error
    return dataclasses.replace(thread.result(), interrupt=interrupt)


def _hook_of(ask: Verify | Rule) -> hooks.Hook:
    if isinstance(ask, Rule):
        return hooks.Hook(partial(_rule, ask), is_coroutine_function(ask.policy))
    verify = ask.tool.verify
    assert verify is not None
    return hooks.Hook(partial(verify, ask.call), inspect.iscoroutinefunction(verify))


def _rule(ask: Rule) -> Any:
    """Run a policy outside of the run, because it must not call the run's tools."""
    current_scope.set(None)
    return ask.policy(ask.call)


def is_coroutine_function(function: Any) -> bool:
    """Whether a call of it must be awaited. An object may have an async ``__call__``."""
    while isinstance(function, partial):
        function = function.func
    made = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(made)


async def _coroutine(awaitable: Any) -> Any:
    return await awaitable


def _is_async(tool: Tool) -> bool:
    return tool.is_async or inspect.iscoroutinefunction(tool.verify)


def _join(ask: Join) -> bool:
    assert ask.in_flight.over is not None
    try:
        ask.in_flight.over.result(timeout=ask.seconds)
    except FutureTimeout:
        return False
    return True


# Nodes and branches


def _visit(ask: Visit) -> Invoked:
    """The only place that runs a sync node."""
    call: Callable[[], Any] = lambda: ask.function(ask.argument)  # noqa: E731
    if ask.is_async:
        if lazy.running_loop() is not None:
            raise UsageError(
                "The graph has async nodes and was started with run() inside an event loop. "
                "Nothing happened. Use: await graph.arun(...)"
            )
        awaited = call
        call = lambda: lazy.asyncio.run(_coroutine(awaited()))  # noqa: E731
    with bodies.NodeBody(ask.scope) as body:
        try:
            return Invoked(value=call(), invoked=True)
        except Exception as error:
            body.error = error
            return Invoked(error=error)


async def _visit_async(ask: Visit) -> Invoked:
    if not ask.is_async:
        # If the waiter is cancelled, the node runs on without it, and can make no call any more.
        return await lazy.asyncio.get_running_loop().run_in_executor(
            None, contextvars.copy_context().run, _visit, ask
        )
    with bodies.NodeBody(ask.scope) as body:
        try:
            return Invoked(value=await ask.function(ask.argument), invoked=True)
        except Exception as error:
            body.error = error
            return Invoked(error=error)


async def _until_over(commit: Future[None]) -> None:
    """Wait for a commit whose waiter was cancelled, even if it is cancelled again."""
    over = lazy.asyncio.wrap_future(commit)
    while not over.done():
        with contextlib.suppress(lazy.asyncio.CancelledError):
            await lazy.asyncio.wait([over], timeout=DRAIN_SECONDS)
            break
    if over.done():
        # An error that was never looked at would be logged.
        error_of(over)


async def _apart(ask: Apart, host: Host) -> Any:
    task = lazy.asyncio.ensure_future(drive_async(ask.doing, host))
    _apart_tasks.add(task)
    task.add_done_callback(_forget)
    try:
        await lazy.asyncio.wait([task])
    except lazy.asyncio.CancelledError:
        await lazy.asyncio.wait([task], timeout=DRAIN_SECONDS)
        # An interrupt is not raised again: it has ended the event loop, which now ends its tasks.
        if task.done() and isinstance(error_of(task), Exception):
            _cancel_later()
            return task.result()
        raise
    return task.result()


def _forget(task: lazy.asyncio.Future[Any]) -> None:
    _apart_tasks.discard(task)
    # An error that was never looked at would be logged.
    error_of(task)


def _cancel_later() -> None:
    """Deliver a cancellation again, at the next await: first comes what else has happened."""
    task = lazy.asyncio.current_task()
    assert task is not None
    task.uncancel()
    task.cancel()


def _together(ask: Together, host: Host) -> list[Invoked]:
    with ThreadPoolExecutor(len(ask.doings), thread_name_prefix="nottwice-branch") as pool:
        branches = [
            pool.submit(contextvars.copy_context().run, drive, doing, host) for doing in ask.doings
        ]
    return [_ended(branch.exception(), branch.result) for branch in branches]


async def _together_async(ask: Together, host: Host) -> list[Invoked]:
    tasks = [lazy.asyncio.ensure_future(drive_async(doing, host)) for doing in ask.doings]
    await until_all_ended(tasks)
    return [ended_task(task) for task in tasks]


async def until_all_ended(tasks: Sequence[lazy.asyncio.Future[Any]]) -> None:
    """Wait for tasks. If cancelled, they start nothing new; what they have sent stays sent."""
    try:
        if tasks:
            await lazy.asyncio.wait(tasks)
    except lazy.asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await lazy.asyncio.wait(tasks)
        for task in tasks:
            # An error that was never looked at would be logged.
            error_of(task)
        raise


def error_of(task: lazy.asyncio.Future[Any]) -> BaseException | None:
    """How a task that is over failed; None if it did not."""
    return lazy.asyncio.CancelledError() if task.cancelled() else task.exception()


def ended_task(task: lazy.asyncio.Future[Any]) -> Invoked:
    """How a task ended that is over."""
    return _ended(error_of(task), task.result)


def _ended(error: BaseException | None, result: Callable[[], Any]) -> Invoked:
    return Invoked(error=error) if error is not None else Invoked(value=result(), invoked=True)
