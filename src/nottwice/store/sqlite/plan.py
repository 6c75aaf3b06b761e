"""What has to be read on SQLite before a commit is decided? Only what its rules look at.

A write transaction is open, so no other writer can change what is read until it ends.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from nottwice.errors import NottwiceError
from nottwice.model.call import CallIdentity
from nottwice.store.interface import Commit
from nottwice.store.sealing import Sealing
from nottwice.store.sql_plan import Named, Outcome, Plan
from nottwice.store.sqlite.statements import SQL
from nottwice.store.tables import EVER, micros

Ask = Callable[[str, dict[str, Any]], list[Any]]
_AXES = CallIdentity._fields


def write(connection: sqlite3.Connection, commit: Commit, sealing: Sealing) -> Outcome:
    """Write one commit, or return why it is refused. A refused commit writes nothing."""
    outcome, statements = decide(connection, commit, sealing)
    for name, parameters in statements:
        connection.execute(SQL[name], parameters)
    return outcome


def decide(
    connection: sqlite3.Connection, commit: Commit, sealing: Sealing
) -> tuple[Outcome, list[Named]]:
    """The outcome of the commit, and its statements. Writes nothing itself."""

    def ask(name: str, parameters: dict[str, Any]) -> list[Any]:
        return connection.execute(SQL[name], parameters).fetchall()

    plan = Plan(sealing)
    try:
        _load(ask, plan, commit)
    except NottwiceError as refusal:
        # The records that the commit depends on cannot be read.
        return refusal, []
    (outcome,), statements = plan.decide([commit])
    return outcome, statements


def _load(ask: Ask, plan: Plan, commit: Commit) -> None:
    run = {"workflow_id": commit.workflow_id}
    may_be_blocked = commit.unless_blocked
    if commit.claim or commit.removal or commit.run:
        for row in ask("run_for_commit", run):
            plan.take_run(row)
    elif commit.fence and commit.unless_blocked:
        # One statement instead of two, because hardly any intent is blocked.
        for *row, is_blocked in ask("fence_and_block", run):
            plan.take_fence(commit.workflow_id, *row)
            may_be_blocked = bool(is_blocked)
    elif commit.fence:
        # What every step writes: only the holder of the run matters.
        for row in ask("fence_of_run", run):
            plan.take_fence(commit.workflow_id, *row)
    else:
        for (head,) in ask("head", run):
            plan.take_head(commit.workflow_id, head)
    if may_be_blocked:
        for row in ask("blocking_reviews", run):
            plan.take_blocking_review(row)
    if commit.unless_blocked and commit.group is not None:
        for row in ask("group_reviews", {"group_id": commit.group}):
            plan.take_blocking_review(row)
    for write_call in commit.calls:
        row = write_call.row
        axes = _load_call(ask, plan, row.identity)
        if write_call.after is None and row.key is not None:
            axes["idempotency_key"] = row.key
            for other in ask("key_conflict", axes):
                plan.take_other_call(other)
    for identity in commit.removal.calls if commit.removal is not None else ():
        _load_call(ask, plan, identity)
    for review_write in commit.reviews:
        for review in ask("review", {"review_id": review_write.review.review_id}):
            plan.take_review(review)
    for event_write in commit.events:
        if event_write.event.received_by is not None:
            for event in ask("event", {**run, "event_id": event_write.event.event_id}):
                plan.take_event(event)
    for notice_write in commit.notices:
        for notice in ask("notice", {"notice_id": notice_write.notice.notice_id}):
            plan.take_notice(notice)
    if commit.charges:
        _load_meters(ask, plan, commit)
    if commit.dropped:
        for (version,) in ask("newest_but", {**run, "dropped": json.dumps(commit.dropped)}):
            plan.take_newest(commit.workflow_id, version)


def _load_call(ask: Ask, plan: Plan, identity: CallIdentity) -> dict[str, Any]:
    """Take the call of this identity, and return the identity as parameters."""
    axes = dict(zip(_AXES, identity, strict=True))
    for row in ask("call", axes):
        plan.take_call(row)
    return axes


def _load_meters(ask: Ask, plan: Plan, commit: Commit) -> None:
    """What the meters show, summed by the database, because there may be many charges."""
    for write_charge in commit.charges:
        charge, since = write_charge.charge, write_charge.since
        if write_charge.at_most is None:
            continue
        after = EVER if since is None else micros(since)
        asked = {"meter": charge.meter, "since": after, "besides": charge.call_id}
        ((shown,),) = ask("charged", asked)
        plan.data.shown[(charge.meter, since, charge.call_id)] = shown
