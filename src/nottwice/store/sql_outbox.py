"""How do takers of notices share an outbox on SQL? In one transaction for each taking (P332).

On PostgreSQL, two takers do not wait for each other: each skips the rows that the other has locked,
and the clock of the server decides which leases have run out. A transaction whose answer was lost
is repeated, and finds the rows that it has taken by the id of the taking.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, TypeVar

from nottwice.model.runs.notices import NoticeRecord
from nottwice.store.outbox import Outbox
from nottwice.store.statements import Parameters, Statements
from nottwice.store.tables import OUTBOX, micros, seconds
from nottwice.store.visits import Ask, VisitCommit

ALL = 1 << 62
"""A limit that is never reached."""
T = TypeVar("T")
_VISITOR = "outbox"


class SqlOutbox(Outbox):
    """The part of a SQL store that takers of notices use."""

    _statements: Statements

    @abstractmethod
    def _ask(self, name: str, parameters: dict[str, Any]) -> list[Any]: ...

    @abstractmethod
    def _listed(self, texts: Collection[str]) -> Any: ...

    def notices(
        self, *, since: float = 0.0, run: str | None = None, limit: int | None = None
    ) -> list[NoticeRecord]:
        asked: dict[str, Any] = {"since": micros(since), "limit": ALL if limit is None else limit}
        if run is None:
            return OUTBOX.records(self._ask("notices", asked))
        return OUTBOX.records(self._ask("notices_of_run", {**asked, "workflow_id": run}))

    def due_notices(self, *, kinds: Collection[str], now: float, limit: int) -> list[NoticeRecord]:
        asked = {"kinds": self._listed(kinds), "now": micros(now), "limit": limit}
        return OUTBOX.records(self._ask("due_notices", asked))

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
        asked = {
            "kinds": self._listed(kinds),
            "leased_by": by,
            "limit": limit,
            "now": micros(now),
            "lease_micros": micros(lease_seconds),
            "notices": self._listed(only or ()),
        }
        wanted = () if only is None else ("_only_these",)
        free = self._statements.where("may_be_taken", wanted)

        def take(ask: Ask) -> list[NoticeRecord]:
            taken = []
            for one in OUTBOX.records(ask(free, asked)):
                # If this is repeated, it was taken once.
                tries = one.tries + (one.leased_by != by)
                lease = {**asked, "notice_id": one.notice_id, "tries": tries}
                ((until,),) = ask(self._statements["lease_notice"], lease)
                mine = replace(one, leased_by=by, leased_until=seconds(until), tries=tries)
                taken.append(mine)
            return taken

        return self._visit(take)

    def settle_notices(
        self,
        ids: Collection[str],
        *,
        by: str,
        now: float,
        retry_seconds: float | None = None,
        problem: str | None = None,
    ) -> list[str]:
        statement = "settle_notice" if retry_seconds is None else "return_notice"
        asked: dict[str, Any] = {
            "leased_by": by,
            "notices": self._listed(ids),
            "now": micros(now),
            "sent_at": micros(now),
            "lease_micros": micros(retry_seconds or 0.0),
            "problem": problem,
        }

        def settle(ask: Ask) -> list[str]:
            held = [notice_id for (notice_id,) in ask(self._statements["taken_by"], asked)]
            for notice_id in held:
                ask(self._statements[statement], {**asked, "notice_id": notice_id})
            return held

        return self._visit(settle)

    def settled_notices(
        self, *, since: float, kinds: Collection[str], given_up: bool = False
    ) -> list[NoticeRecord]:
        asked = {"since": micros(since), "kinds": self._listed(kinds)}
        return OUTBOX.records(self._ask("given_up" if given_up else "settled_notices", asked))

    def add_notice(self, notice: NoticeRecord) -> bool:
        if self._ask("notice", {"notice_id": notice.notice_id}):
            return False
        return self._changed(None, notice)

    def forget_notices(self, *, settled_before: float, created_before: float, limit: int) -> int:
        asked = {
            "settled_before": micros(settled_before),
            "created_before": micros(created_before),
            "limit": limit,
        }

        def forget(ask: Ask) -> int:
            old = ask(self._statements["old_notices"], asked)
            for (notice_id,) in old:
                ask(self._statements["forget_notice"], {"notice_id": notice_id})
            return len(old)

        return self._visit(forget)

    def count_old_notices(self, *, settled_before: float, created_before: float) -> int:
        asked = {
            "settled_before": micros(settled_before),
            "created_before": micros(created_before),
        }
        ((number,),) = self._ask("count_old_notices", asked)
        return int(number)

    def _visit(self, work: Callable[[Ask], T]) -> T:
        """Do something in one transaction. Durable: when it returns."""
        answers: list[T] = []

        def visit(ask: Callable[[str, Parameters], list[Any]]) -> None:
            answers.append(work(ask))

        self.commit(VisitCommit(workflow_id=_VISITOR, work=visit))
        return answers[-1]
