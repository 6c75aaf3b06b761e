"""What does a failed attempt mean (D4)?

Promises: no effectful attempt counts as harmless without proof or the statement of its tool; what
is recorded about a failure is plain, bounded text; nothing here reads a clock or uses randomness.
`single_request.py` reads what a client library's error proves about a request.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from typing import assert_never

from nottwice.durations import plain_seconds, read_wait
from nottwice.errors import (
    Ambiguous,
    LedgerCorrupt,
    Permanent,
    Retryable,
    StoreError,
    ToolFailure,
    text_of,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.single_request import (
    Sign,
    read_attribute,
    read_sign,
    read_status,
    sent_before,
)

_MOST_MESSAGE_CHARACTERS = 2_000
_MOST_TYPE_CHARACTERS = 200
# Causes can form a circle, and no real chain is this long.
_MOST_CAUSES = 10


class FailureClass(enum.Enum):
    """What a failure says about the effect of its attempt."""

    RETRYABLE = "retryable"
    PERMANENT = "permanent"
    AMBIGUOUS = "ambiguous"


@frozen_record(frozen=True, slots=True)
class Failure:
    """What is recorded about a failed attempt. Its texts are safe to store and to show."""

    failure_class: FailureClass
    error_type: str
    message: str
    retry_after_seconds: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "error_type", _safe(self.error_type, most=_MOST_TYPE_CHARACTERS))
        object.__setattr__(self, "message", _safe(self.message, most=_MOST_MESSAGE_CHARACTERS))
        object.__setattr__(self, "retry_after_seconds", plain_seconds(self.retry_after_seconds))

    def to_plain(self) -> dict[str, object]:
        return {
            "failure_class": self.failure_class.value,
            "error_type": self.error_type,
            "message": self.message,
            "retry_after_seconds": self.retry_after_seconds,
        }

    @classmethod
    def from_plain(cls, plain: object) -> Failure:
        """Read a recorded failure. Raises LedgerCorrupt if ``to_plain`` cannot have written it."""
        match plain:
            case {
                "failure_class": ("retryable" | "permanent" | "ambiguous") as failure_class,
                "error_type": str(error_type),
                "message": str(message),
                "retry_after_seconds": (None | int() | float()) as seconds,
            }:
                failure = cls(FailureClass(failure_class), error_type, message, seconds)
                if failure.to_plain() == plain:
                    return failure
        raise LedgerCorrupt(
            "A recorded failure cannot be read: it is not what nottwice writes. It was not "
            "used, and nothing was run. Restore the ledger from a backup.",
        )


# None means that the classifier has no opinion.
Classifier = Callable[[BaseException], FailureClass | ToolFailure | type[ToolFailure] | None]


def classify(
    error: BaseException,
    *,
    effectful: bool,
    classifier: Classifier | None = None,
    now: float,
    hide: Callable[[str], str] = str,
) -> Failure:
    """Classify a failed attempt: by the error itself, then by the classifier, then by default.

    By default every error of an effectful tool is ambiguous, and errors of a pure tool follow the
    classic table. No classifier is asked about an interruption: it can strike at any instruction,
    so its type proves nothing. For a pure tool an interruption counts as retryable, because nothing
    took effect and nothing is wrong with the call. Better still, check ``is_interruption`` first
    and record nothing. ``hide`` removes what must not be recorded from the text, before it is cut.
    """
    said: object = None
    note = ""
    # The recorded failure of another call that the tool made (it has a call id) says nothing about
    # the tool itself, which may have taken effect before or after that call.
    quoted = read_attribute(error, "call_id") is not None
    failure_class = None if quoted else _spoken(error)
    if failure_class is None and classifier is not None and not is_interruption(error):
        failure_class, said, note = _ask(classifier, error, effectful=effectful)
    if failure_class is None:
        failure_class = FailureClass.AMBIGUOUS if effectful else _classic(error)
    wait = None
    if failure_class is FailureClass.RETRYABLE:
        wait = read_wait(read_attribute(said, "retry_after"), now=now)
        wait = _wait_of(error, now=now) if wait is None else wait
    text = text_of(error)
    return Failure(
        failure_class=failure_class,
        error_type=_type_name(error),
        message=hide(f"{note} ({text})" if note and text else note or text),
        retry_after_seconds=wait,
    )


def is_interruption(error: BaseException) -> bool:
    """Whether the attempt was stopped from outside: Ctrl-C, exit, a cancelled task.

    Everything outside ``Exception`` counts, so trio and other libraries need no list.
    """
    return not isinstance(error, Exception)


def is_ledger_trouble(error: BaseException | None) -> bool:
    """Whether the ledger could not be used, which says nothing about the work.

    This looks into exception groups too: concurrent tasks run into a full disk together. Anything
    else that failed with them will fail again, unless the ledger caused it.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_ledger_trouble, error.exceptions))
    return isinstance(error, StoreError)


def was_interrupted(error: BaseException | None) -> bool:
    """Whether work only stopped: its process was asked to end, or the ledger could not be used.

    Neither says anything about the work, so neither is its failure (P86, P126).
    """
    return error is not None and (is_interruption(error) or is_ledger_trouble(error))


def _spoken(word: object) -> FailureClass | None:
    """Return the class that one of nottwice's own failures, or its type, declares."""
    kind = word if isinstance(word, type) else type(word)
    # A class may inherit from two of them. The one that promises least counts.
    if issubclass(kind, Ambiguous):
        return FailureClass.AMBIGUOUS
    if issubclass(kind, Permanent):
        return FailureClass.PERMANENT
    return FailureClass.RETRYABLE if issubclass(kind, Retryable) else None


def _ask(
    classifier: Classifier, error: BaseException, *, effectful: bool
) -> tuple[FailureClass | None, object, str]:
    """Return the classifier's opinion, the failure that states it, and a note for the record."""
    try:
        said: object = classifier(error)
    except Exception as fault:
        note = f"The tool's classifier failed with {_type_name(fault)}: {text_of(fault)}"
    else:
        if said is None or isinstance(said, FailureClass):
            return said, None, ""
        failure_class = _spoken(said)
        if failure_class is not None:
            return failure_class, said, said.message if isinstance(said, ToolFailure) else ""
        note = (
            f"The tool's classifier answered with {_type_name(said)}, which is neither a "
            "FailureClass nor Retryable, Permanent, Ambiguous or None"
        )
    return (FailureClass.AMBIGUOUS if effectful else FailureClass.PERMANENT), None, note


def _classic(error: BaseException) -> FailureClass:
    """The classic table, for tools without effects. A needless retry costs only time here."""
    if is_interruption(error):
        return FailureClass.RETRYABLE
    for link in _causes(error):
        if isinstance(link, BaseExceptionGroup):
            members = [_classic(member) for member in link.exceptions]
            return members[0] if len(set(members)) == 1 else FailureClass.PERMANENT
        sign = read_sign(link) or read_status(_any_status(link))
        match sign:
            case Sign.NOT_STARTED | Sign.CUT_OFF:
                return FailureClass.RETRYABLE
            case Sign.REFUSED | Sign.UNCLEAR:
                return FailureClass.PERMANENT
            case None:
                spoken = _spoken(link)
                if spoken is not None:
                    return spoken
                # A wrong value stays wrong, whatever happened before it.
                if isinstance(link, (TypeError, ValueError, LookupError, ArithmeticError)):
                    return FailureClass.PERMANENT
            case _:
                assert_never(sign)
    return FailureClass.PERMANENT


def _any_status(error: BaseException) -> int | None:
    """Return an HTTP status from an error of any library, known or not."""
    for holder in (error, read_attribute(error, "response")):
        for name in ("status_code", "status", "code"):
            status = read_attribute(holder, name)
            if isinstance(status, int) and 400 <= status <= 599:
                return status
    return None


def _wait_of(error: BaseException, *, now: float) -> float | None:
    """Return the wait that the error asks for, or the response that led to it."""
    for link in _causes(error):
        wishes = (
            read_attribute(link, "retry_after"),
            _header(read_attribute(link, "response"), "Retry-After"),
            _header(link, "Retry-After"),
        )
        for wish in wishes:
            wait = read_wait(wish, now=now)
            if wait is not None:
                return wait
    return None


def _header(holder: object, name: str) -> object:
    get = read_attribute(read_attribute(holder, "headers"), "get")
    try:
        return (get(name) or get(name.lower())) if callable(get) else None
    except Exception:
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if link is None:
            return
        yield link
        link = link.__cause__


# ---- Tools that make exactly one request ------------------------------------------------------


def single_request(error: BaseException) -> FailureClass | None:
    """Classify the errors of a tool that makes exactly one request and does nothing after it.

    Knows httpx, requests, urllib3, urllib, http.client, aiohttp, smtplib and plain sockets.
    Retryable and permanent need proof that the request had no effect. Once bytes may have left, the
    answer is ambiguous. For errors of other libraries it returns None.

    Two things cannot be seen, and the tool must rule them out: requests that the tool, an SDK or a
    retrying wrapper made and abandoned before this one; and an intermediary that answers 503 for a
    request that it had already passed on (some service meshes do). Retries inside urllib3 and
    aiohttp, and redirects that were followed, are detected and make the failure ambiguous.
    """
    sign = read_sign(error)
    match sign:
        case None:
            return None
        case Sign.CUT_OFF | Sign.UNCLEAR:
            return FailureClass.AMBIGUOUS
        case Sign.NOT_STARTED | Sign.REFUSED:
            if sent_before(error):
                return FailureClass.AMBIGUOUS
            if sign is Sign.NOT_STARTED:
                return FailureClass.RETRYABLE
            return FailureClass.PERMANENT
        case _:
            assert_never(sign)


# ---- Odd values made plain --------------------------------------------------------------------


def _type_name(value: object) -> str:
    kind = type(value)
    module = str(kind.__module__)
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _safe(text: str, *, most: int) -> str:
    """Escape what breaks stores and terminals (lone surrogates, controls, bidi marks), and cut."""
    safe = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text[: most + 1])
    return safe if len(safe) <= most else safe[: most - 1] + "…"


_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
