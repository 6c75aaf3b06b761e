"""Who passes a notice on? Takers share the work: each notice has one taker while its lease lasts.

Everything here follows from ``commit`` and the records, so every store has it. A taker that dies
leaves a lease that runs out, and then another one gets the same notice, with the same id: at least
once, never lost (P332). The SQL stores do the same with fewer transactions (sql_outbox.py).
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import replace

from nottwice.model.runs.notices import NoticeRecord
from nottwice.store.interface import Commit, NoticeWrite, Outdated
from nottwice.store.rules import MemoryData


class Outbox(ABC):
    """The part of a store that reads notices, and that takers use; see ``Store``."""

    @abstractmethod
    def commit(self, commit: Commit) -> None: ...

    @abstractmethod
    def records(self, workflow_id: str) -> MemoryData: ...

    @abstractmethod
    def all_records(self) -> MemoryData: ...

    def notices(
        self, *, since: float = 0.0, run: str | None = None, limit: int | None = None
    ) -> list[NoticeRecord]:
        if run is None:
            kept = self._kept()
        else:
            data = self.records(run)
            with data.guard:
                kept = data.outbox.of("run", run)
        return _oldest_first(one for one in kept if one.created_at >= since)[:limit]

    def due_notices(self, *, kinds: Collection[str], now: float, limit: int) -> list[NoticeRecord]:
        return self._free("", kinds, now)[:limit]

    def take_notices(
        self,
        *,
        by: str,
        kinds: Collection[str],
        now: float,
        lease_seconds: float,
        limit: int,
        only: Collection[str] | None = None,
    ) -> list[NoticeRecord]:
        taken: list[NoticeRecord] = []
        for seen in self._free(by, kinds, now):
            if len(taken) == limit:
                break
            if only is not None and seen.notice_id not in only:
                continue
            mine = replace(
                seen, leased_by=by, leased_until=now + lease_seconds, tries=seen.tries + 1
            )
            if self._changed(seen, mine):
                taken.append(mine)
        return taken

    def settle_notices(
        self,
        ids: Collection[str],
        *,
        by: str,
        now: float,
        retry_seconds: float | None = None,
        problem: str | None = None,
    ) -> list[str]:
        settled = []
        for seen in self._kept():
            if seen.notice_id not in ids or seen.leased_by != by:
                continue
            if retry_seconds is None:
                after = replace(seen, sent_at=now, leased_until=None, problem=problem)
            else:
                after = replace(seen, leased_until=now + retry_seconds, problem=problem)
            if seen.sent_at is not None or self._changed(seen, after):
                settled.append(seen.notice_id)
        return settled

    def settled_notices(
        self, *, since: float, kinds: Collection[str], given_up: bool = False
    ) -> list[NoticeRecord]:
        found = [
            (one.sent_at, one.notice_id, one)
            for one in self._kept()
            if one.sent_at is not None
            and one.sent_at >= since
            and one.kind in kinds
            and (one.problem is not None or not given_up)
        ]
        return [one for _, _, one in sorted(found, key=lambda each: each[:2])]

    def add_notice(self, notice: NoticeRecord) -> bool:
        if any(one.notice_id == notice.notice_id for one in self.notices(run=notice.workflow_id)):
            return False
        return self._changed(None, notice)

    def forget_notices(self, *, settled_before: float, created_before: float, limit: int) -> int:
        old = self._old(settled_before, created_before)[:limit]
        for one in old:
            self.commit(Commit(workflow_id=one.workflow_id, forgotten=(one.notice_id,)))
        return len(old)

    def count_old_notices(self, *, settled_before: float, created_before: float) -> int:
        return len(self._old(settled_before, created_before))

    def _old(self, settled_before: float, created_before: float) -> list[NoticeRecord]:
        return [
            one
            for one in self._kept()
            if (one.sent_at is not None and one.sent_at < settled_before)
            or one.created_at < created_before
        ]

    def _kept(self) -> list[NoticeRecord]:
        data = self.all_records()
        with data.guard:
            return list(data.outbox.values())

    def _free(self, by: str, kinds: Collection[str], now: float) -> list[NoticeRecord]:
        free = (one for one in self._kept() if one.may_be_taken(by, now=now))
        return _oldest_first(one for one in free if one.kind in kinds)

    def _changed(self, seen: NoticeRecord | None, after: NoticeRecord) -> bool:
        """Write a notice. False: another taker was faster. Durable: when it returns."""
        with contextlib.suppress(Outdated):
            write = NoticeWrite(after, seen)
            self.commit(Commit(workflow_id=after.workflow_id, notices=(write,)))
            return True
        return False


def _oldest_first(found: Iterable[NoticeRecord]) -> list[NoticeRecord]:
    return sorted(found, key=lambda one: (one.created_at, one.notice_id))
