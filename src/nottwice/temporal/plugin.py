"""How does a Temporal worker make an activity take effect at most once? (P306)

Inside the workflow, each start of an activity is stamped with its group and its name: the workflow
id, the run id of the original execution, and the ordinal of the activity. A replay stamps the same.
A reset keeps the original run id, so it gets the receipts; continue-as-new is a new run. In the
worker, an activity that is a protected tool is made by ``ledger.aonce`` under that name.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    StartActivityInput,
    StartLocalActivityInput,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from nottwice.engine.clock import SystemClock
from nottwice.errors import NottwiceError
from nottwice.guard.ledger import AnyStore, Ledger, ledger_of
from nottwice.guard.once import left_calls_ended
from nottwice.hosts.calls import arguments_of, bare, tool_of
from nottwice.hosts.ordinals import Ordinals
from nottwice.hosts.verdict import OPERATOR_SECONDS, HostVerdict, verdict
from nottwice.hosts.watched import watched
from nottwice.model.tool import Duration, parse_duration

HEADER = "nottwice-call"
MARGIN_SECONDS = 1.0
"""How long before Temporal ends an attempt nottwice stops waiting, to say when to come back."""


class Plugin(SimplePlugin):
    """``plugins=[nt.temporal.Plugin(store)]``, for ``Client.connect`` or for ``Worker``.

    It must be in the workers that run the workflows and in those that run the activities. The code
    of workflows stays as it is. ``store``: where the ledger is, as for ``nt.run``; all workers need
    the same one. ``settle_timeout``: how long to ask ``verify`` before a person is asked.
    ``look_again``: how often an activity that waits for a person looks for the decision.
    """

    def __init__(
        self,
        store: AnyStore = None,
        *,
        settle_timeout: Duration = "60s",
        look_again: Duration = "30s",
    ) -> None:
        every = parse_duration(look_again, what="look_again")
        super().__init__(
            "nottwice.temporal.Plugin",
            interceptors=[_Interceptor(store, settle_timeout, every)],
            workflow_runner=_passing_nottwice_through,
        )

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Run a worker, and wait for the async tools that it has left when it was stopped.

        Temporal waits for sync tools, which run in threads, and cancels async ones.
        """
        try:
            await super().run_worker(worker, next)
        finally:
            await left_calls_ended()


def _passing_nottwice_through(runner: WorkflowRunner | None) -> WorkflowRunner:
    """Let the sandbox of workflows use the nottwice of the worker, as it does with Temporal's own
    modules. Workflows often import the module that declares their activities."""
    if runner is None:
        raise ValueError("The worker has no workflow runner.")
    if isinstance(runner, SandboxedWorkflowRunner):
        passing = runner.restrictions.with_passthrough_modules("nottwice")
        return dataclasses.replace(runner, restrictions=passing)
    return runner


class _Interceptor(Interceptor):
    """Makes the parts that stamp and those that make the calls."""

    def __init__(
        self, store: AnyStore, settle_timeout: Duration, look_again_seconds: float
    ) -> None:
        self._store, self.settle_timeout = store, settle_timeout
        self.look_again_seconds = look_again_seconds
        self._ledger: Ledger | None = None

    def ledger(self) -> Ledger:
        """The ledger, opened by the first activity that needs it: a worker may only run workflows.

        It is shared with everything in this process that names the same store.
        """
        if self._ledger is None:
            self._ledger = ledger_of(self._store)
        return self._ledger

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Activity(next, self)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        return _Workflow


class _Workflow(WorkflowInboundInterceptor):
    """Stamps what a workflow starts. One per execution, so its counts begin with the workflow."""

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Stamping(outbound))


class _Stamping(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor) -> None:
        super().__init__(next)
        self._ordinals = Ordinals()

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        return self.next.start_activity(self._stamped(input))

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:
        return self.next.start_local_activity(self._stamped(input))

    def _stamped(self, input: Any) -> Any:
        info = workflow.info()
        group = f"{info.workflow_id}/{info.original_execution_run_id}"
        stamp = _written([group, self._ordinals.next(input.activity)])
        return dataclasses.replace(input, headers={**input.headers, HEADER: stamp})


def _written(stamp: list[str]) -> Payload:
    return PayloadConverter.default.to_payload(stamp)


class _Activity(ActivityInboundInterceptor):
    """Makes the call of an activity that is a protected tool."""

    def __init__(self, next: ActivityInboundInterceptor, plugin: _Interceptor) -> None:
        super().__init__(next)
        self._plugin = plugin

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        super().init(_Heartbeats(outbound))

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        tool = tool_of(input.fn)
        if tool is None:
            function = bare(input.fn)
            return await self.next.execute_activity(dataclasses.replace(input, fn=function))
        group, name = _stamp_of(input)
        try:
            # Opening a ledger may wait for a disk or a server.
            ledger = await asyncio.to_thread(self._plugin.ledger)
            made = await watched(ledger, _Wait().end).aonce(
                group,
                name,
                tool,
                arguments_of(tool, input.args),
                settle_timeout=self._plugin.settle_timeout,
                within=_time_left(),
            )
        except NottwiceError as error:
            said = verdict(error, look_again=self._plugin.look_again_seconds)
            assert said is not None
            raise _temporal_error(error, said) from error
        return made.value


class _Heartbeats(ActivityOutboundInterceptor):
    """Lets a tool send heartbeats from its thread. Temporal's own are for the event loop."""

    def __init__(self, next: ActivityOutboundInterceptor) -> None:
        super().__init__(next)
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def heartbeat(self, *details: Any) -> None:
        if threading.get_ident() == self._thread:
            self.next.heartbeat(*details)
        else:
            self._loop.call_soon_threadsafe(self.next.heartbeat, *details)


class _Wait:
    """A call that waits. Its heartbeats let Temporal know that it lives, and bring the word that it
    is cancelled."""

    def __init__(self) -> None:
        # A heartbeat without the details of the attempt before would delete them.
        self._details = activity.info().heartbeat_details

    def end(self) -> BaseException | None:
        """Send a heartbeat. Return what ends the wait, or None if it may continue."""
        activity.heartbeat(*self._details)
        return asyncio.CancelledError("cancelled by Temporal") if activity.is_cancelled() else None


def _stamp_of(input: ExecuteActivityInput) -> tuple[str, str]:
    """Return the group and the name that the workflow has stamped."""
    stamp = input.headers.get(HEADER)
    if stamp is None:
        raise ApplicationError(
            f"Activity {activity.info().activity_type!r} is a protected tool, and its workflow did "
            "not say which call this is, so it was not made. Give the worker that runs the "
            "workflow the same plugin: plugins=[nottwice.temporal.Plugin(...)]. This activity was "
            "started without it and stays pending. Then reset its workflow, which starts it again: "
            "temporal workflow reset --type LastWorkflowTask --workflow-id "
            f"{activity.info().workflow_id}",
            type="nottwice.NotStamped",
            next_retry_delay=timedelta(seconds=OPERATOR_SECONDS),
        )
    group, name = PayloadConverter.default.from_payload(stamp, list[str])
    return group, name


def _time_left() -> timedelta | None:
    """Return how long Temporal lets this attempt run."""
    info = activity.info()
    ends = []
    if info.start_to_close_timeout is not None:
        ends.append(info.started_time + info.start_to_close_timeout)
    if info.schedule_to_close_timeout is not None:
        ends.append(info.scheduled_time + info.schedule_to_close_timeout)
    if not ends:
        return None
    now = datetime.fromtimestamp(SystemClock.now(), UTC)
    margin = timedelta(seconds=MARGIN_SECONDS)
    left: timedelta = min(ends).astimezone(UTC) - now - margin
    return max(margin, left)


def _temporal_error(error: NottwiceError, said: HostVerdict) -> ApplicationError:
    """Return the same as an error of Temporal: a pending activity, or the end of it.

    An activity that waits for a person fails with an error that is retried at the right time. That
    adds nothing to the history, and no workflow gives up because of it.
    """
    kind = f"nottwice.{type(error).__name__}"
    if said.retry_in is None:
        return ApplicationError(said.reason, type=kind, non_retryable=True)
    return ApplicationError(
        said.reason,
        {"reviews": list(said.reviews)},
        type=kind,
        next_retry_delay=timedelta(seconds=max(0.1, said.retry_in)),
        category=ApplicationErrorCategory.BENIGN,
    )
