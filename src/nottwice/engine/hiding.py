"""No text of ours repeats a secret that this process was given: failures, evidence, log lines.

Whatever a tool was given as a secret is known here, for the whole process and only in memory. A
text that is written down or logged passes through ``hide``. A result is not changed, for a replay
must not hand out something else than the call returned: one that repeats a secret of its own call
is not kept, and the receipt says so. Promise kept here: P101.
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
    """Keep these out of every text from now on."""
    if not _known:
        # A net below all lines of ours, whoever writes them; most of them are hidden before.
        log.addFilter(_hide_in_record)
    _known.learn(secrets)


def hide(text: str, tool: Tool | None = None) -> str:
    """The text without a secret, and as the tool's own ``redact`` wants it."""
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
    """What a failed attempt means, in words without a secret."""
    return failure.classify(
        error,
        effectful=effectful,
        classifier=classifier,
        now=now,
        hide=lambda text: hide(text, tool),
    )


def kept(tool: Tool, value: Any, given: Known | None = None) -> StoredResult:
    """A result as it is recorded; ``given``: the secrets that its call was given."""
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
    # Whatever went wrong: better no text than one that nobody has looked through.
    return told if isinstance(told, str) else SHOWN


def _hide_in_record(record: logging.LogRecord) -> bool:
    try:
        text = record.getMessage()
    except Exception:
        # A record that cannot be put together is reported by its handler.
        return True
    hidden = _known.hide(text)
    if hidden != text:
        vars(record).update(msg=hidden, args=None)
    return True
