"""How does a step of a DBOS workflow take effect at most once? (P307)

DBOS records what a step returned or raised, for good. So a call that has to wait is not an error of
the step: the step returns that it waits, the workflow waits with ``DBOS.recv``, and then makes the
next step, for the same call. The call is named by the workflow, the tool, and how many calls of the
tool the workflow has made so far. DBOS numbers steps too, but it counts every try.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from dbos import DBOS
from dbos._context import DBOSContext, get_local_dbos_context

from nottwice.errors import InvalidTool, NotInRun, NottwiceError
from nottwice.guard.attached.calling import AnyTool
from nottwice.guard.ledger import AnyStore, Ledger, ledger_of
from nottwice.hosts.calls import arguments_of, tool_of
from nottwice.hosts.ordinals import Ordinals
from nottwice.hosts.verdict import verdict
from nottwice.model.tool import Duration, parse_duration

P = ParamSpec("P")
R = TypeVar("R")
TOPIC = "nottwice"
MOST_SECONDS = 3600.0
"""Each look is two records of the workflow, so the looks become rarer, down to one an hour."""
_DONE, _WAITS = "done", "waits"


def step(
    store: AnyStore = None, *, settle_timeout: Duration = "60s", look_again: Duration = "30s"
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a protected tool a step of DBOS workflows: ``@nt.dbos.step(...)`` over ``@nt.tool``.

    Call it in a workflow as before. ``store``: where the ledger is, as for ``nt.run``; all
    executors need the same one. ``settle_timeout``: how long to ask ``verify`` before a person is
    asked. ``look_again``: when a step that waits for a person first looks for the decision; then
    it looks less and less often. ``nt.dbos.wake(workflow_id)`` lets it look immediately.
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
        made = _Step(tool, store, settle_timeout, first_wait)
        wrapped = made.asynchronous() if tool.tool.is_async else made.synchronous()
        return cast("Callable[P, R]", functools.wraps(cast("Any", tool).fn)(wrapped))

    return decorate


def wake(workflow_id: str) -> None:
    """Let the steps of a workflow that wait for a person look for the decision now."""
    DBOS.send(workflow_id, "look again", topic=TOPIC)


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
        def once(group: str, name: str, arguments: dict[str, Any]) -> tuple[Any, ...]:
            try:
                options: dict[str, Any] = {"settle_timeout": self._settle}
                return _DONE, self._opened().once(
                    group, name, self._tool, arguments, **options
                ).value
            except NottwiceError as error:
                return self._waits(error)

        def call(*args: Any, **kwargs: Any) -> Any:
            group, name = _next_call(self._tool.tool.name)
            arguments, looks = arguments_of(self._tool, args, kwargs), 0
            while True:
                said = once(group, name, arguments)
                if said[0] == _DONE:
                    return said[1]
                DBOS.recv(TOPIC, timeout_seconds=self._seconds(said, looks))
                looks += 1

        return call

    def asynchronous(self) -> Callable[..., Any]:
        @DBOS.step(name=f"nottwice.{self._tool.tool.name}")
        async def once(group: str, name: str, arguments: dict[str, Any]) -> tuple[Any, ...]:
            try:
                options: dict[str, Any] = {"settle_timeout": self._settle}
                made = await self._opened().aonce(group, name, self._tool, arguments, **options)
                return _DONE, made.value
            except NottwiceError as error:
                return self._waits(error)

        async def call(*args: Any, **kwargs: Any) -> Any:
            group, name = _next_call(self._tool.tool.name)
            arguments, looks = arguments_of(self._tool, args, kwargs), 0
            while True:
                said = await once(group, name, arguments)
                if said[0] == _DONE:
                    return said[1]
                await DBOS.recv_async(TOPIC, timeout_seconds=self._seconds(said, looks))
                looks += 1

        return call

    def _opened(self) -> Ledger:
        if self._ledger is None:
            self._ledger = ledger_of(self._store)
        return self._ledger

    def _waits(self, error: NottwiceError) -> tuple[Any, ...]:
        """Return that the step waits, or raise what ends it for good."""
        said = verdict(error, look_again=self._first_wait)
        assert said is not None
        if said.retry_in is None:
            raise error
        return _WAITS, said.what, said.retry_in, list(said.reviews), said.reason

    def _seconds(self, said: tuple[Any, ...], looks: int) -> float:
        _, what, retry_in, *_ = said
        grown = retry_in * 2 ** min(looks, 12) if what == "person" else retry_in
        return float(min(max(grown, 0.1), MOST_SECONDS))


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
