"""What does a program ask of a ledger that hosts calls for others? One call, and what is new.

A host is what runs the work: a workflow engine, a queue, a scheduler. ``once`` makes one call as a
run of its own (P300). ``notices`` says what has happened in other processes (P303), and
``take_notices`` shares the work of passing it on (P332).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from nottwice.engine.clock import Clock
from nottwice.engine.host import Host, Policy
from nottwice.errors import UsageError
from nottwice.guard.settings.policies import Policies, read_policies
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.runs.notices import NOTICE_KINDS, NoticeRecord
from nottwice.model.tool import Duration, parse_duration, timeout_seconds
from nottwice.store.interface import Store

if TYPE_CHECKING:
    from nottwice.engine.opening import Opening
    from nottwice.guard.attached.calling import AnyTool, CallResult, ModelCall
    from nottwice.guard.attached.spec import Body

NoticeKind = Literal[
    "review_opened", "review_decided", "review_old", "run_ready", "run_over", "run_failed"
]


@frozen_record(frozen=True, slots=True)
class Notice:
    """A fact about a run that other processes should know: ``ledger.notices()``."""

    id: str
    """The same in every reading of the same notice."""
    kind: NoticeKind
    """``review_opened``: a person is asked. ``review_decided``: a person has decided.
    ``run_ready``: something has arrived that the run may have waited for. ``run_over``: the run has
    completed, failed or was aborted. ``run_failed``: it has failed, besides ``run_over``.
    ``review_old``: a sender of notifications found a review open for too long."""
    run_id: str
    at: float
    """When it happened, in seconds since the epoch, by the clock of the process that did it."""
    about: dict[str, Any]
    """The rest: the review and its kind, the decision, the status, the group. No arguments."""

    def __repr__(self) -> str:
        return f"<Notice {self.kind} of run {self.run_id!r}>"


@frozen_record(frozen=True, slots=True)
class TakenNotice:
    """A notice that is yours until its lease runs out: ``ledger.take_notices()``."""

    notice: Notice
    tries: int
    """How often it was taken, this time included."""
    until: float
    """When the lease runs out, in seconds since the epoch. On PostgreSQL by the server's clock."""
    taken_by: str
    """The id of this taking."""


class _Ledger(Protocol):
    """What the rest of a ledger provides."""

    @property
    def store(self) -> Store: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def host(self) -> Host: ...

    def with_policies(self, policies: tuple[Policy, ...]) -> _Ledger: ...


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
        return once(
            *self._wanted((group, name), (tool, arguments, body, retry, ask), times, policy)
        )

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

        Cancelling the caller ends what has not begun. A call that has begun continues without its
        caller, and its outcome is recorded.
        """
        from nottwice.guard.once import once_async

        times = acquire_timeout, settle_timeout, within
        wanted = self._wanted((group, name), (tool, arguments, body, retry, ask), times, policy)
        return await once_async(*wanted)

    def notices(
        self, *, since: float = 0.0, run_id: str | None = None, kind: NoticeKind | None = None
    ) -> Iterator[Notice]:
        """What has happened in this ledger, in any process, oldest first.

        ``since``: only what happened at or after this time. Read with an overlap, because clocks
        differ and a commit takes a moment: ask again from a minute before the newest notice that
        you have, and skip the ids that you know. Notices are removed with their runs.
        """
        if kind is not None:
            _check_kind(kind)
        found = self._as_ledger().store.notices(since=since, run=run_id)
        return (_notice(one) for one in found if kind in (None, one.kind))

    def take_notices(
        self,
        kinds: Collection[NoticeKind] = NOTICE_KINDS,
        *,
        lease: Duration = "60s",
        limit: int = 100,
    ) -> list[TakenNotice]:
        """Take notices to pass them on, oldest first. No other taker gets them while it lasts.

        Acknowledge each with ``acknowledge_notices`` when it is passed on, or return it. If neither
        comes before ``lease`` is over, because this process died, the next taker gets it: at least
        once, with the same ``notice.id``. All takers of a ledger share its notices, and so does
        ``notify``, for the kinds that it sends. Durable: when it returns.
        """
        for kind in kinds:
            _check_kind(kind)
        seconds, by = parse_duration(lease, what="lease"), uuid.uuid4().hex
        ledger = self._as_ledger()
        taken = ledger.store.take_notices(
            by=by, kinds=kinds, now=ledger.clock.now(), lease_seconds=seconds, limit=limit
        )
        return [TakenNotice(_notice(one), one.tries, one.leased_until or 0.0, by) for one in taken]

    def acknowledge_notices(self, *taken: TakenNotice) -> int:
        """Say that notices were passed on: no taker gets them again.

        Returns how many were still yours. The rest was taken by another process after the lease ran
        out, and is passed on twice. Durable: when it returns.
        """
        return self._settle(taken, retry_seconds=None, problem=None)

    def return_notices(
        self, *taken: TakenNotice, retry_in: Duration = "10s", problem: str | None = None
    ) -> int:
        """Return notices that you could not pass on. After ``retry_in`` they can be taken again.

        ``problem``: why, in your words. Returns how many were still yours.
        Durable: when it returns.
        """
        seconds = parse_duration(retry_in, what="retry_in")
        return self._settle(taken, retry_seconds=seconds, problem=problem)

    def _settle(
        self, taken: Sequence[TakenNotice], *, retry_seconds: float | None, problem: str | None
    ) -> int:
        ledger, settled = self._as_ledger(), 0
        for by in sorted({one.taken_by for one in taken}):
            ids = [one.notice.id for one in taken if one.taken_by == by]
            done = ledger.store.settle_notices(
                ids, by=by, now=ledger.clock.now(), retry_seconds=retry_seconds, problem=problem
            )
            settled += len(done)
        return settled

    def _as_ledger(self) -> _Ledger:
        return cast("_Ledger", self)

    def _wanted(
        self,
        place: tuple[str, str],
        call: tuple[Any, Mapping[str, Any] | None, Any, bool | None, str | None],
        times: tuple[Duration | None, Duration, Duration | None],
        policy: Policies,
    ) -> tuple[Opening, ModelCall]:
        from nottwice.guard.attached.calling import ModelCall
        from nottwice.guard.once import check_effect, opening_of

        tool, arguments, body, retry, ask = call
        acquire, settle, within = times
        check_effect(tool)
        opening = opening_of(
            self._as_ledger().with_policies(read_policies(policy)).host,
            place,
            acquire_seconds=timeout_seconds(acquire, what="acquire_timeout"),
            settle_seconds=parse_duration(settle, what="settle_timeout"),
            within_seconds=None if within is None else parse_duration(within, what="within"),
        )
        return opening, ModelCall(tool, arguments or {}, body, None, None, retry, ask, alone=True)


def _check_kind(kind: str) -> None:
    if kind not in NOTICE_KINDS:
        raise UsageError(
            f"{kind!r} is not a kind of notice. Nothing was read. Give one of: "
            f"{', '.join(NOTICE_KINDS)}."
        )


def _notice(one: NoticeRecord) -> Notice:
    kind = cast("NoticeKind", one.kind)
    about = values.decode_object(one.payload_json)
    run_id = about.pop("parent", one.workflow_id)
    return Notice(one.notice_id, kind, run_id, one.created_at, about)
