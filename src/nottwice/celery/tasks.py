"""How does a Celery task take effect at most once? (P288)

A message may be delivered again, or sent again under a new task id. So the call is named by an
argument of the task: its group is the value of the argument, its name the name of the tool. A call
that has to wait is retried by Celery, without limit, when it is worth looking again.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, cast

from celery import Celery
from celery.exceptions import Reject

from nottwice.engine.clock import SystemClock
from nottwice.errors import InvalidTool, NottwiceError
from nottwice.guard.attached.calling import AnyTool
from nottwice.guard.ledger import AnyStore, ledger_of
from nottwice.hosts.calls import arguments_of, bare, check_not_unbound, tool_of
from nottwice.hosts.naming import NamesWork, checked_naming, work_of
from nottwice.hosts.verdict import verdict
from nottwice.model.tool import Duration, parse_duration

MOST_SECONDS = 600.0
"""The longest countdown. Redis delivers again what a worker keeps for longer than its visibility
timeout, an hour by default."""
MARGIN_SECONDS = 1.0
"""How long before Celery ends a task nottwice stops waiting, to say when to come back. Half of a
limit that is shorter than twice this."""
BROKER_SECONDS = 1.0
"""How long to wait for a broker that took no message."""
log = logging.getLogger("nottwice.celery")
_REDELIVERED = {
    "acks_late": True,
    "reject_on_worker_lost": True,
    "max_retries": None,
    # What is worth another try is retried here, at the right time.
    "dont_autoretry_for": (NottwiceError,),
}


def task(
    app: Celery,
    *,
    run: NamesWork | None = None,
    store: AnyStore = None,
    settle_timeout: Duration = "60s",
    look_again: Duration = "30s",
    **options: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """Make a protected tool a task: ``@nt.celery.task(app, run="order_id")`` over ``@nt.tool``.

    ``run``: the argument that says which work this is, such as the order; or a function that gets
    the arguments by name and returns it. ``store``: where the ledger is, as for ``nt.run``; all
    workers need the same one. ``settle_timeout``: how long to ask ``verify`` before a person is
    asked. ``look_again``: how often a task that waits for a person looks for the decision.
    ``options``: as for ``app.task``. A lost worker means redelivery (``acks_late``,
    ``reject_on_worker_lost``), and retries have no limit, unless you say otherwise.
    """
    every = parse_duration(look_again, what="look_again")
    parse_duration(settle_timeout, what="settle_timeout")

    def decorate(function: Callable[..., Any]) -> Any:
        tool = _checked(function, options)
        named = checked_naming(tool, run, decorator="nt.celery.task")
        made = _Made(tool, named, store, settle_timeout, every)
        return app.task(**{**_REDELIVERED, **options, "bind": True})(made.body())

    return decorate


def _checked(function: Callable[..., Any], options: dict[str, Any]) -> AnyTool:
    """Return the tool, or say what its declaration as a task lacks."""
    name = getattr(function, "__name__", str(function))
    tool = tool_of(function)
    if tool is None:
        raise InvalidTool(
            f"{name!r} is not a protected tool with an effect. Nothing was declared. Put "
            "@nt.celery.task(...) over @nt.tool(...), or use @app.task for a function without "
            "effects."
        )
    check_not_unbound(tool, decorator="nt.celery.task")
    if tool.tool.is_async:
        raise InvalidTool(
            f"{name!r} is async, and Celery runs plain functions. Nothing was declared. Write it "
            "with def, and call asyncio.run inside it."
        )
    if "bind" in options:
        raise InvalidTool(
            f"{name!r} was not declared: a tool does not get the task as its first argument. "
            "Leave bind out."
        )
    return tool


class _Made:
    """One tool as a task."""

    def __init__(
        self,
        tool: AnyTool,
        run: NamesWork,
        store: AnyStore,
        settle_timeout: Duration,
        look_again_seconds: float,
    ) -> None:
        self._tool, self._run, self._store = tool, run, store
        self._settle, self._look_again = settle_timeout, look_again_seconds

    def body(self) -> Callable[..., Any]:
        """The function that Celery calls, with the name and the signature of the tool."""
        function = bare(self._tool)

        @functools.wraps(function)
        def perform(task: Any, /, *args: Any, **kwargs: Any) -> Any:
            left = _time_left(task)
            ends = None if left is None else SystemClock.now() + parse_duration(left, what="limit")
            try:
                return self._once(left, args, kwargs)
            except NottwiceError as error:
                seconds = self._retry_in(error)
                if seconds is None or task.request.called_directly or task.request.is_eager:
                    raise
                raise _retried(task, error, seconds, ends) from error

        # Celery compares the arguments of a message with this before it is sent.
        mine = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        whole = inspect.signature(function)
        parameters = [mine, *whole.parameters.values()]
        cast("Any", perform).__signature__ = whole.replace(parameters=parameters)
        return perform

    def _once(self, left: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arguments = arguments_of(self._tool, args, kwargs)
        # Opened here: a worker forks its processes after this module was imported.
        made = ledger_of(self._store).once(
            work_of(self._tool, self._run, arguments),
            self._tool.tool.name,
            self._tool,
            arguments,
            settle_timeout=self._settle,
            within=left,
        )
        return made.value

    def _retry_in(self, error: NottwiceError) -> float | None:
        said = verdict(error, look_again=self._look_again)
        assert said is not None
        return None if said.retry_in is None else min(max(0.1, said.retry_in), MOST_SECONDS)


def _retried(task: Any, error: NottwiceError, seconds: float, ends: float | None) -> Exception:
    """Send the message of a retry. Return what tells Celery of it.

    Celery would drop the task if the broker does not take the message. So it is sent again while
    there is time, and then the broker gets the first message back.
    """
    while True:
        try:
            return cast("Exception", task.retry(exc=error, countdown=seconds, throw=False))
        except Reject as refused:
            log.warning("%s waits: its broker took no message: %s", task.name, refused.reason)
            if ends is not None and SystemClock.now() >= ends:
                return cast("Exception", Reject(refused.reason, requeue=True))
            SystemClock().pause(BROKER_SECONDS)


def _time_left(task: Any) -> str | None:
    """Return how long Celery lets this task run. None: as long as it takes."""
    hard, soft = task.request.timelimit or (None, None)
    configured = task.app.conf
    limits = [
        hard or task.time_limit or configured.task_time_limit,
        soft or task.soft_time_limit or configured.task_soft_time_limit,
    ]
    known = [float(limit) for limit in limits if limit]
    if not known:
        return None
    limit = min(known)
    left = max(limit - MARGIN_SECONDS, limit / 2)
    return f"{round(left * 1000)}ms"
