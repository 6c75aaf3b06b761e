"""How does a step of a DBOS workflow take effect at most once? (P307)

DBOS records permanently what a step returned or raised. So a call that has to wait neither returns
nor raises: it waits inside its step. A recovered workflow makes the step again, for the same call.
The call is named by the workflow, the tool, and how many calls of the tool the workflow has made so
far.

The workflow itself must not wait and then make another step for the call. DBOS finds records by a
number that counts the steps as they begin. Calls that wait side by side begin their next steps in
any order, so after a recovery a call would find the record of another call, and return its result.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from dbos import DBOS
from dbos._context import DBOSContext, get_local_dbos_context

from nottwice.dbos.waiting import StepWait
from nottwice.engine.clock import SystemClock
from nottwice.errors import InvalidTool, NotInRun, NottwiceError
from nottwice.guard.attached.calling import AnyTool
from nottwice.guard.ledger import AnyStore, Ledger, ledger_of
from nottwice.hosts.calls import arguments_of, check_not_unbound, tool_of
from nottwice.hosts.ordinals import Ordinals
from nottwice.hosts.watched import watched
from nottwice.model.tool import Duration, parse_duration

P = ParamSpec("P")
R = TypeVar("R")


def step(
    store: AnyStore = None, *, settle_timeout: Duration = "60s", look_again: Duration = "30s"
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a protected tool a step of DBOS workflows: ``@nt.dbos.step(...)`` over ``@nt.tool``.

    Call it in a workflow as before. ``store``: where the ledger is, as for ``nt.run``; all
    executors need the same one. ``settle_timeout``: how long to ask ``verify`` before a person is
    asked. A step that waits for a person sees the decision within a second. ``look_again``: when it
    asks the ledger again without one; then it does so less and less often.
    """
    first_wait = parse_duration(look_again, what="look_again")
    parse_duration(settle_timeout, what="settle_timeout")

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        tool = tool_of(function)
        if tool is None:
            raise InvalidTool(
                f"{getattr(function, '__name__', function)!r} is not a protected tool with an "
                "effect. Nothing was declared. Put @nt.dbos.step(...) over @nt.tool(...), or use "
                "@DBOS.step() for a function without effects."
            )
        check_not_unbound(tool, decorator="nt.dbos.step")
        made = _Step(tool, store, settle_timeout, first_wait)
        wrapped = made.asynchronous() if tool.tool.is_async else made.synchronous()
        return cast("Callable[P, R]", functools.wraps(cast("Any", tool).fn)(wrapped))

    return decorate


class _Step:
    """One tool as a step."""

    def __init__(
        self, tool: AnyTool, store: AnyStore, settle_timeout: Duration, first_wait: float
    ) -> None:
        self._tool, self._store, self._settle = tool, store, settle_timeout
        self._first_wait = first_wait
        self._ledger: Ledger | None = None

    def synchronous(self) -> Callable[..., Any]:
        @DBOS.step(name=f"nottwice.{self._tool.tool.name}")
        def once(group: str, name: str, arguments: dict[str, Any]) -> Any:
            options: dict[str, Any] = {"settle_timeout": self._settle}
            wait = StepWait(group, self._opened, self._first_wait)
            while True:
                try:
                    ledger = self._watched(wait)
                    return ledger.once(group, name, self._tool, arguments, **options).value
                except NottwiceError as error:
                    wait.begin(error)
                while not wait.is_over():
                    SystemClock().pause(wait.pause_seconds)

        def call(*args: Any, **kwargs: Any) -> Any:
            group, name = _next_call(self._tool.tool.name)
            return once(group, name, arguments_of(self._tool, args, kwargs))

        return call

    def asynchronous(self) -> Callable[..., Any]:
        @DBOS.step(name=f"nottwice.{self._tool.tool.name}")
        async def once(group: str, name: str, arguments: dict[str, Any]) -> Any:
            options: dict[str, Any] = {"settle_timeout": self._settle}
            wait = StepWait(group, self._opened, self._first_wait)
            while True:
                try:
                    ledger = self._watched(wait)
                    made = await ledger.aonce(group, name, self._tool, arguments, **options)
                    return made.value
                except NottwiceError as error:
                    wait.begin(error)
                while not await asyncio.to_thread(wait.is_over):
                    await SystemClock().pause_async(wait.pause_seconds)

        async def call(*args: Any, **kwargs: Any) -> Any:
            group, name = _next_call(self._tool.tool.name)
            return await once(group, name, arguments_of(self._tool, args, kwargs))

        return call

    def _watched(self, wait: StepWait) -> Ledger:
        """The ledger for one call, whose waits end with the workflow."""
        return watched(self._opened(), wait.end)

    def _opened(self) -> Ledger:
        if self._ledger is None:
            self._ledger = ledger_of(self._store)
        return self._ledger


class _Execution:
    """One execution of a workflow: what it counts, and how far DBOS had counted."""

    def __init__(self, workflow_id: str, group: str) -> None:
        self.workflow_id, self.group = workflow_id, group
        self.ordinals, self.last_step = Ordinals(), -1


_executions: weakref.WeakKeyDictionary[DBOSContext, _Execution] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


def _next_call(tool_name: str) -> tuple[str, str]:
    """Return the group and the name of the next call of a workflow.

    A workflow that is recovered or resumed begins to count again, as its code does. DBOS's own
    count tells: within one execution it only grows.
    """
    context = get_local_dbos_context()
    if context is None or not context.is_workflow():
        raise NotInRun(
            f"Tool {tool_name!r} was not run: it is a DBOS step, and was called outside of a "
            "workflow, so it could not be named. Nothing was sent. Call it in a @DBOS.workflow()."
        )
    with _guard:
        known = _executions.get(context)
        is_new = known is None or known.workflow_id != context.workflow_id
        if known is None or is_new or context.function_id < known.last_step:
            known = _Execution(context.workflow_id, context.workflow_id)
            _executions[context] = known
        known.last_step = context.function_id + 1
        return known.group, known.ordinals.next(tool_name)
