"""What is a person told? What happened, since when, in which run, and what to type.

Arguments, questions and error texts are left out unless the settings ask for them, and a secret is
its fingerprint even then. All texts are on one line each. Promises kept here: P334, P336, P337.
"""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from nottwice.errors import NottwiceError
from nottwice.model import values
from nottwice.model.asking.asked import Question, WantedCall, shown_in
from nottwice.model.data.printable import one_line
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review, ReviewStatus
from nottwice.model.run import RunRecord, RunStatus
from nottwice.model.runs.notices import (
    REVIEW_DECIDED,
    REVIEW_OLD,
    REVIEW_OPENED,
    RUN_FAILED,
    NoticeRecord,
)
from nottwice.model.tool import OWN_PREFIX
from nottwice.model.tools.templates import fill
from nottwice.notify.settings import Notify
from nottwice.store.interface import Store
from nottwice.store.postgres.place import without_secrets

DIGEST = "digest"
TEST = "test"
MOST_CHARACTERS = 300
_MANY = {
    REVIEW_OPENED: "reviews opened",
    REVIEW_OLD: "reviews that are old",
    REVIEW_DECIDED: "reviews decided",
    RUN_FAILED: "runs failed",
}


@frozen_record(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message, before it has a form on the wire."""

    id: str
    """The same whenever it is sent again."""
    kind: str
    at: float
    headline: str
    lines: tuple[str, ...] = ()
    command: str | None = None
    """What to type."""
    link: str | None = None
    data: Mapping[str, Any]
    """The same for programs."""

    @property
    def text(self) -> str:
        """The message for a person, in plain text."""
        named = [self.headline, *self.lines]
        named += [] if self.command is None else [self.command]
        named += [] if self.link is None else [self.link]
        return "\n".join(named)


@frozen_record(frozen=True, slots=True)
class KnownNotice:
    """A notice, with what the ledger shows about it now."""

    notice: NoticeRecord
    about: Mapping[str, Any]
    review: Review | None = None
    run: RunRecord | None = None
    unread: bool = False
    """What it is about could not be read. The message is sent nevertheless."""

    @property
    def is_moot(self) -> bool:
        """Whether it is not worth telling any more: it was decided, resumed or removed since."""
        if self.unread:
            return False
        match self.notice.kind:
            case "review_opened" | "review_old":
                return self.review is None or self.review.status is not ReviewStatus.OPEN
            case "run_failed":
                return self.run is None or self.run.status is not RunStatus.FAILED
            case _:
                return False


def look_up(store: Store, notice: NoticeRecord) -> KnownNotice:
    """Read what a notice is about."""
    about = values.decode_object(notice.payload_json)
    try:
        if notice.kind == RUN_FAILED:
            return KnownNotice(notice, about, run=store.load_run(notice.workflow_id))
        return KnownNotice(notice, about, review=store.load_review(str(about.get("review"))))
    except NottwiceError:
        return KnownNotice(notice, about, unread=True)


def message_of(store: Store, known: KnownNotice, settings: Notify, *, now: float) -> Notification:
    """The message about one notice."""
    notice, about = known.notice, known.about
    run_id = notice.workflow_id
    data: dict[str, Any] = {
        "ledger": without_secrets(store.location),
        "run_id": run_id,
        "happened_at": notice.created_at,
        "group": about.get("group"),
    }
    if notice.kind == RUN_FAILED:
        words, shown = _failed(known, data, settings), f"show {shlex.quote(run_id)}"
        link = _link(settings, f"/run?id={quote(run_id, safe='')}")
    else:
        words = _reviewed(store, known, data, settings, now)
        review_id = str(about.get("review"))
        is_over = notice.kind == REVIEW_DECIDED
        shown = f"show {shlex.quote(run_id)}" if is_over else f"decide {review_id}"
        link = _link(settings, f"/review/{quote(review_id, safe='')}")
    headline, *lines = words
    command = f"nottwice {shown} --store {shlex.quote(data['ledger'])}"
    return Notification(
        id=notice.notice_id,
        kind=notice.kind,
        at=now,
        headline=headline,
        lines=tuple(lines),
        command=one_line(command),
        link=link,
        data={**data, "command": command, "link": link},
    )


def digest_of(
    store: Store, notices: Sequence[NoticeRecord], settings: Notify, *, now: float
) -> Notification:
    """One message about many notices. The same notices make the same id."""
    ids = sorted(one.notice_id for one in notices)
    counts = Counter(one.kind for one in notices)
    parts = [f"{counts[kind]} {many}" for kind, many in _MANY.items() if counts[kind]]
    runs = len({one.workflow_id for one in notices})
    ledger = without_secrets(store.location)
    oldest = now - min(one.created_at for one in notices)
    only_failed = set(counts) == {RUN_FAILED}
    shown = "runs --state failed" if only_failed else "reviews"
    command = f"nottwice {shown} --store {shlex.quote(ledger)}"
    link = _link(settings, "/runs?state=failed" if only_failed else "/")
    return Notification(
        id=hashlib.sha256("\n".join(ids).encode()).hexdigest()[:32],
        kind=DIGEST,
        at=now,
        headline=f"{len(ids)} notices in one: {', '.join(parts)}, in {_many(runs, 'run')}.",
        lines=(f"The oldest is of {age_text(oldest)} ago.",),
        command=one_line(command),
        link=link,
        data={
            "ledger": ledger,
            "counts": dict(counts),
            "runs": runs,
            "notices": ids,
            "command": command,
            "link": link,
        },
    )


def trial_message(store: Store, settings: Notify, message_id: str, *, now: float) -> Notification:
    """A message that says nothing but that it has arrived."""
    ledger = without_secrets(store.location)
    return Notification(
        id=message_id,
        kind=TEST,
        at=now,
        headline="This is a test of nottwice notify. Nothing has happened.",
        command=one_line(f"nottwice --store {shlex.quote(ledger)}"),
        link=_link(settings, "/"),
        data={"ledger": ledger},
    )


def _reviewed(
    store: Store, known: KnownNotice, data: dict[str, Any], settings: Notify, now: float
) -> list[str]:
    notice, about, review = known.notice, known.about, known.review
    kind, tool = str(about.get("review_kind", "review")), str(about.get("tool", ""))
    if review is not None:
        tool = review.identity.tool_name
    shown = _shown(store, review, settings) if settings.arguments else {}
    opened_at = notice.created_at if review is None else review.opened_at
    title = _title(store, tool, shown.get("arguments")) or tool
    age = age_text(now - opened_at)
    data |= {
        "review": about.get("review"),
        "review_kind": kind,
        "tool": tool,
        "title": title,
        "opened_at": opened_at,
        "age_seconds": max(0.0, now - opened_at),
        **shown,
    }
    named, where = _short(title), _short(notice.workflow_id)
    asked = kind.capitalize()
    if tool.startswith(OWN_PREFIX):
        # A question is no call of a tool that a person knows.
        named = asked
    if notice.kind == REVIEW_DECIDED:
        data |= {"decision": about.get("decision"), "by": about.get("by")}
        decided = f"{_short(str(about.get('decision')))} by {_short(str(about.get('by')))}"
        return [f"Decided: {decided}. {named} in run {where}."]
    since = f"open for {age}" if notice.kind == REVIEW_OLD else f"since {age}"
    headline = named if named == asked else f"{asked}: {named}"
    words = [f"{headline} in run {where}, {since}."]
    return words + [_short(str(shown[name])) for name in ("question", "why") if shown.get(name)]


def _failed(known: KnownNotice, data: dict[str, Any], settings: Notify) -> list[str]:
    failure = None if known.run is None else known.run.failure
    data["error"] = None if failure is None else failure.error_type
    named = "" if failure is None else f" with {_short(failure.error_type)}"
    words = [f"Failed: run {_short(known.notice.workflow_id)}{named}."]
    if settings.arguments and failure is not None:
        data["error_text"] = failure.message
        words.append(_short(failure.message))
    return words


def _shown(store: Store, review: Review | None, settings: Notify) -> dict[str, Any]:
    """What is sent only if it is asked for. Secrets are fingerprints in the ledger already."""
    if review is None:
        return {}
    try:
        asked = shown_in(review)
        if isinstance(asked, Question):
            return {"question": asked.text}
        if isinstance(asked, WantedCall):
            return {"arguments": asked.args, "why": review.summary}
        row = store.load_call(review.identity)
    except NottwiceError:
        return {}
    found = None if row is None else values.decode_object(row.args_json)
    return {"arguments": found, "why": review.summary}


def _title(store: Store, tool: str, args: Mapping[str, Any] | None) -> str | None:
    """The title of the call. Without arguments, its fields stay as they are: {cents}."""
    try:
        record = store.load_tool(tool)
    except NottwiceError:
        return None
    title = None if record is None else record.title
    return None if title is None else fill(title, args or {})


def _link(settings: Notify, path: str) -> str | None:
    return None if settings.page_url is None else settings.page_url.rstrip("/") + path


def _short(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "…"


def _many(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def age_text(seconds: float) -> str:
    """A length of time, as a person says it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
