"""Keeps secrets out of everything nottwice writes: failures, evidence, log lines.

The secrets given to tools are known here, for the whole process and only in memory. Every text that
is stored or logged passes through ``hide``. A result is never altered, because a replay must return
exactly what the call returned. Instead, a result that repeats a secret of its call is not kept, and
the receipt says so. Promise kept here: P101.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from nottwice.model import failure, values
from nottwice.model.call import ResultKind, StoredResult
from nottwice.model.failure import Classifier, Failure
from nottwice.model.sealing.secrets import SHOWN, Known
from nottwice.model.tool import Tool

log = logging.getLogger("nottwice")
MOST_KNOWN = 200
_known = Known(most=MOST_KNOWN)


def learn(secrets: Iterable[Any]) -> None:
    """Keep these secrets out of every text from now on."""
    if not _known:
        # This is a safety net for every log line of nottwice. Most texts are already hidden.
        log.addFilter(_hide_in_record)
    _known.learn(secrets)


def hide(text: str, tool: Tool | None = None) -> str:
    """Return the text without secrets, after the tool's ``redact`` if it has one."""
    if tool is not None and tool.redact is not None:
        text = _redacted(tool.redact, text)
    return _known.hide(text) if _known else text


def classify(
    error: BaseException,
    *,
    effectful: bool,
    tool: Tool | None = None,
    classifier: Classifier | None = None,
    now: float,
) -> Failure:
    """Classify a failed attempt, in words that contain no secret."""
    return failure.classify(
        error,
        effectful=effectful,
        classifier=classifier,
        now=now,
        hide=lambda text: hide(text, tool),
    )


def kept(tool: Tool, value: Any, given: Known | None = None) -> StoredResult:
    """Return a result as it is recorded. ``given``: the secrets that its call was given."""
    stored = tool.encode_result(value)
    text = stored.json
    if given is not None and given.is_in(text):
        return _not_kept(tool, value, "it repeats a secret argument")
    if tool.redact is not None and _redacted(tool.redact, text) != text:
        return _not_kept(tool, value, "the tool's redact found something in it")
    return stored


def _not_kept(tool: Tool, value: Any, why: str) -> StoredResult:
    log.warning(
        "the result of tool=%s is not kept, so a resume that needs it runs a pure tool again and "
        "stops at an effect: %s",
        tool.name,
        why,
    )
    note = {"type": type(value).__name__, "why": why, "text": SHOWN}
    return StoredResult(ResultKind.NOT_KEPT, values.encode(note))


def _redacted(redact: Any, text: str) -> str:
    try:
        told = redact(text)
    except Exception:
        told = None
    # Whatever went wrong, no text is better than a text that was not checked.
    return told if isinstance(told, str) else SHOWN


def _hide_in_record(record: logging.LogRecord) -> bool:
    try:
        text = record.getMessage()
    except Exception:
        # Its handler reports a record that cannot be formatted.
        return True
    hidden = _known.hide(text)
    if hidden != text:
        vars(record).update(msg=hidden, args=None)
    return True
