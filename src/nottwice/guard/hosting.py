"""What does a program ask of a ledger that hosts calls for others? One call, and what is new.

A host is what runs the work: a workflow engine, a queue, a scheduler. ``once`` makes one call as a
run of its own (P300). ``notices`` says what has happened in other processes (P303).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from nottwice.engine.host import Host, Policy
from nottwice.errors import UsageError
from nottwice.guard.settings.policies import Policies, read_policies
from nottwice.model import values
from nottwice.model.notices import NOTICE_KINDS, NoticeRecord
from nottwice.model.records import frozen_record
from nottwice.model.tool import Duration, parse_duration, timeout_seconds
from nottwice.store.interface import Store

if TYPE_CHECKING:
    from nottwice.guard.attached.calling import AnyTool, CallResult
    from nottwice.guard.attached.spec import Body
    from nottwice.guard.once import Once

NoticeKind = Literal["review_opened", "review_decided", "run_ready", "run_over"]


@frozen_record(frozen=True, slots=True)
class Notice:
    """A fact about a run that other processes should know: ``ledger.notices()``."""

    id: str
    """The same in every reading of the same notice."""
    kind: NoticeKind
    """``review_opened``: a person is asked. ``review_decided``: a person has decided.
    ``run_ready``: something has arrived that the run may have waited for. ``run_over``: the run has
    completed, failed or was aborted."""
    run_id: str
    at: float
    """When it happened, in seconds since the epoch, by the clock of the process that did it."""
    about: dict[str, Any]
    """The rest: the review and its kind, the decision, the status, the group. No arguments."""

    def __repr__(self) -> str:
        return f"<Notice {self.kind} of run {self.run_id!r}>"


class _Ledger(Protocol):
    """What the rest of a ledger provides."""

    @property
    def store(self) -> Store: ...

    def with_policies(self, policies: tuple[Policy, ...]) -> Host: ...


class Hosting:
    """The part of a ledger that hosts use."""

    def once(
        self,
        group: str,
        name: str,
        tool: AnyTool,
        arguments: Mapping[str, Any] | None = None,
        body: Body | None = None,
        *,
        retry: bool | None = None,
        ask: str | None = None,
        acquire_timeout: Duration | None = None,
        settle_timeout: Duration = "60s",
        within: Duration | None = None,
        policy: Policies = None,
    ) -> CallResult[Any]:
        """Make one call as a run of its own, ``group/name``, and return its result.

        For an activity, a task or a job that any process may be asked to do again: the same group
        and name is the same call, made once. Calls of one group run in parallel. While one of them
        waits for a person about what happened, no new call of the group is made. ``tool``,
        ``arguments``, ``body``, ``retry``, ``ask``: as for ``handle.call``. ``within``: how long
        the host lets this take. Nothing is waited for beyond it: RunWaits says when to come back.
        ``nt.hosts.verdict(error)`` says what a host does with an exception.
        Durable: the receipt, when it returns.
        """
        # Imported here: a command that only reads does without what converts values (P226).
        from nottwice.guard.once import once

        times = acquire_timeout, settle_timeout, within
        return once(self._wanted((group, name), (tool, arguments, body, retry, ask), times, policy))

    async def aonce(
        self,
        group: str,
        name: str,
        tool: AnyTool,
        arguments: Mapping[str, Any] | None = None,
        body: Body | None = None,
        *,
        retry: bool | None = None,
        ask: str | None = None,
        acquire_timeout: Duration | None = None,
        settle_timeout: Duration = "60s",
        within: Duration | None = None,
        policy: Policies = None,
    ) -> CallResult[Any]:
        """Do the same as ``once`` without blocking the event loop; async tools run in it.

        Cancelling the caller ends what has not begun. A call that has begun goes on without its
        caller, and its outcome is recorded.
        """
        from nottwice.guard.once import once_async

        times = acquire_timeout, settle_timeout, within
        wanted = self._wanted((group, name), (tool, arguments, body, retry, ask), times, policy)
        return await once_async(wanted)

    def notices(
        self, *, since: float = 0.0, run_id: str | None = None, kind: NoticeKind | None = None
    ) -> Iterator[Notice]:
        """What has happened in this ledger, in any process, oldest first.

        ``since``: only what happened at or after this time. Read with an overlap, because clocks
        differ and a commit takes a moment: ask again from a minute before the newest notice that
        you have, and skip the ids that you know. Notices are removed with their runs.
        """
        if kind is not None and kind not in NOTICE_KINDS:
            raise UsageError(
                f"{kind!r} is not a kind of notice. Nothing was read. Give one of: "
                f"{', '.join(NOTICE_KINDS)}."
            )
        found = self._as_ledger().store.notices(since=since, run=run_id)
        return (_notice(one) for one in found if kind in (None, one.kind))

    def _as_ledger(self) -> _Ledger:
        return cast("_Ledger", self)

    def _wanted(
        self,
        place: tuple[str, str],
        call: tuple[Any, Mapping[str, Any] | None, Any, bool | None, str | None],
        times: tuple[Duration | None, Duration, Duration | None],
        policy: Policies,
    ) -> Once:
        from nottwice.guard.attached.calling import ModelCall
        from nottwice.guard.once import Once, check_effect

        tool, arguments, body, retry, ask = call
        acquire, settle, within = times
        check_effect(tool)
        return Once(
            host=self._as_ledger().with_policies(read_policies(policy)),
            group=place[0],
            name=place[1],
            call=ModelCall(tool, arguments or {}, body, None, None, retry, ask, alone=True),
            wait_seconds=timeout_seconds(acquire, what="acquire_timeout"),
            patience_seconds=parse_duration(settle, what="settle_timeout"),
            within_seconds=None if within is None else parse_duration(within, what="within"),
        )


def _notice(one: NoticeRecord) -> Notice:
    kind = cast("NoticeKind", one.kind)
    about = values.decode_object(one.payload_json)
    return Notice(one.notice_id, kind, one.workflow_id, one.created_at, about)
