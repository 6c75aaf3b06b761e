"""What does a store do with notices: for readers, and for takers that pass them on?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from nottwice.model.runs.notices import NoticeRecord


class NoticeStore(Protocol):
    """The part of a store that keeps the outbox."""

    def notices(
        self, *, since: float = 0.0, run: str | None = None, limit: int | None = None
    ) -> list[NoticeRecord]:
        """What other processes should know, oldest first, from the time ``since`` on (P303).

        ``run``: only notices of this run.
        """

    def due_notices(self, *, kinds: Collection[str], now: float, limit: int) -> list[NoticeRecord]:
        """The notices of these kinds that could be taken now, oldest first. Nothing is written.

        ``now`` is ignored by a store that has a clock of its own, such as that of a server.
        """

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
        """Take notices that no other taker has, oldest first, for ``lease_seconds`` (P332).

        ``by``: an id for this taking alone. ``only``: take none but these, by their ids.
        Durable: when it returns.
        """

    def settle_notices(
        self,
        ids: Collection[str],
        *,
        by: str,
        now: float,
        retry_seconds: float | None = None,
        problem: str | None = None,
    ) -> list[str]:
        """Acknowledge notices, or with ``retry_seconds`` return them: they can be taken again then.

        Returns the ids of those that ``by`` was the last to take. Of the others, nothing is
        written: another taker has them. ``problem``: why no more tries follow, or why they are
        returned. Durable: when it returns.
        """

    def settled_notices(
        self, *, since: float, kinds: Collection[str], given_up: bool = False
    ) -> list[NoticeRecord]:
        """The notices that were acknowledged, or whose last try failed, since then, oldest first.

        ``given_up``: only these.
        """

    def add_notice(self, notice: NoticeRecord) -> bool:
        """Add a notice, unless the outbox has it. Durable: when it returns. Whether it was new."""

    def forget_notices(self, *, settled_before: float, created_before: float, limit: int) -> int:
        """Remove some old notices, and return how many: those settled or created before a time.

        Durable: when it returns. 0: none is left.
        """

    def count_old_notices(self, *, settled_before: float, created_before: float) -> int:
        """How many notices ``forget_notices`` would remove in the end."""
