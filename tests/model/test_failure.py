"""Is every failure classed before a retry, recorded as plain data, and retried in bounds (D4)?"""

from __future__ import annotations

import asyncio
import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nottwice as nt
from nottwice.model.failure import (
    Classifier,
    Failure,
    FailureClass,
    classify,
    is_interruption,
    single_request,
)

RETRYABLE = FailureClass.RETRYABLE
PERMANENT = FailureClass.PERMANENT
AMBIGUOUS = FailureClass.AMBIGUOUS

NOW = 1_900_000_000.0  # Sun, 17 Mar 2030 17:46:40 GMT

INTERRUPTIONS: list[BaseException] = [
    KeyboardInterrupt(),
    SystemExit(1),
    GeneratorExit(),
    asyncio.CancelledError(),
    BaseExceptionGroup("two", [ValueError(), KeyboardInterrupt()]),
]


class Stranger(Exception):
    """An error of an unknown library, with the attributes that it is given."""

    def __init__(self, message: str = "", **attributes: Any) -> None:
        super().__init__(message)
        self.__dict__.update(attributes)


class Answer:
    """A response of that library."""

    def __init__(self, status: int, **headers: str) -> None:
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def judge(
    error: BaseException, *, effectful: bool = True, classifier: Classifier | None = None
) -> Failure:
    return classify(error, effectful=effectful, classifier=classifier, now=NOW)


def caused_by(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


# The tool's own word


@pytest.mark.parametrize("effectful", [True, False], ids=["effectful", "pure"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (nt.Retryable("busy"), RETRYABLE),
        (nt.Permanent("no such account"), PERMANENT),
        (nt.Ambiguous("the line went dead"), AMBIGUOUS),
    ],
)
def test_a_tool_that_says_what_happened_is_believed(
    error: nt.ToolFailure, expected: FailureClass, effectful: bool
) -> None:
    def contradict(_: BaseException) -> FailureClass:
        raise AssertionError("the classifier was asked although the tool had spoken")

    failure = judge(error, effectful=effectful, classifier=contradict)
    assert failure == Failure(
        expected, f"nottwice.errors.{type(error).__name__}", error.message, None
    )


class Unreadable:
    def __str__(self) -> str:
        raise RuntimeError("not now")


@pytest.mark.parametrize("kind", [nt.Permanent, nt.Retryable, nt.Ambiguous])
@pytest.mark.parametrize(
    ("message", "text"),
    [
        (ValueError("no such order"), "no such order"),
        (404, "404"),
        (None, "None"),
        (b"gone", "b'gone'"),
        (Unreadable(), "its message could not be read: RuntimeError"),
    ],
)
def test_a_tool_may_say_what_happened_with_any_object(
    kind: type[nt.ToolFailure], message: object, text: str
) -> None:
    for error in (kind(message), copy.copy(kind(message))):
        assert (str(error), error.message) == (text, text)
        assert judge(error).failure_class is judge(kind("x")).failure_class
        assert judge(error).message == text


def test_a_wait_that_cannot_be_read_does_not_hide_what_an_object_says() -> None:
    with pytest.raises(nt.Retryable, match=r"^404\. The wait that it asks for"):
        raise nt.Retryable(404, retry_after="soon")


def test_a_subclass_of_our_failures_speaks_like_its_parent() -> None:
    class AccountGone(nt.Permanent):
        pass

    assert judge(AccountGone("7")).failure_class is PERMANENT


def test_of_two_words_the_one_that_promises_least_counts() -> None:
    class RetryOrNot(nt.Retryable, nt.Permanent):
        pass

    class Nothing(nt.Permanent, nt.Ambiguous):
        pass

    assert judge(RetryOrNot("?")).failure_class is PERMANENT
    assert judge(Nothing("?")).failure_class is AMBIGUOUS


@pytest.mark.parametrize("error", [nt.ToolFailure("bare"), nt.errors.ResultNotKept("too large")])
def test_our_failures_that_say_nothing_about_the_effect_leave_it_open(error: Exception) -> None:
    assert judge(error).failure_class is AMBIGUOUS


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        (7, 7.0),
        (0.25, 0.25),
        (-3, 0.0),
        ("30", 30.0),
        ("30s", 30.0),
        ("1.5 min", 90.0),
        (timedelta(minutes=2), 120.0),
        (timedelta(minutes=-2), 0.0),
        ("Sun, 17 Mar 2030 17:47:40 GMT", 60.0),
        (None, None),
    ],
)
def test_the_wait_a_tool_asks_for_is_recorded(retry_after: Any, expected: float | None) -> None:
    failure = judge(nt.Retryable("busy", retry_after=retry_after))
    assert failure.retry_after_seconds == expected


@pytest.mark.parametrize(
    "retry_after", [math.nan, math.inf, 10**400, True, "later", "30 seconds", "120, 120", [5]]
)
def test_a_wait_that_cannot_be_read_is_an_error_and_still_says_that_nothing_took_effect(
    retry_after: Any,
) -> None:
    """P228."""
    with pytest.raises(nt.errors.InvalidRetryAfter, match=r"^busy\. .*retry_after=") as caught:
        raise nt.Retryable("busy", retry_after=retry_after, order=7)
    failure = judge(caught.value)
    assert (failure.failure_class, failure.retry_after_seconds) == (RETRYABLE, None)
    assert caught.value.facts == {"order": 7}
    # Queue runners send exceptions between processes.
    assert copy.copy(caught.value).message == caught.value.message


def test_only_a_retryable_failure_has_a_wait() -> None:
    assert judge(nt.Permanent("gone", retry_after=5)).retry_after_seconds is None
    assert judge(nt.Ambiguous("lost", retry_after=5)).retry_after_seconds is None


def test_the_wait_is_taken_from_the_answer_that_the_tool_names_as_the_cause() -> None:
    cause = Stranger("no", response=Answer(503, Retry_After="12"))
    assert judge(caused_by(nt.Retryable("busy"), cause)).retry_after_seconds == 12.0
    own = caused_by(nt.Retryable("busy", retry_after=3), cause)
    assert judge(own).retry_after_seconds == 3.0


# The classifier


@pytest.mark.parametrize("effectful", [True, False], ids=["effectful", "pure"])
@pytest.mark.parametrize(
    ("opinion", "expected"),
    [
        (RETRYABLE, RETRYABLE),
        (PERMANENT, PERMANENT),
        (AMBIGUOUS, AMBIGUOUS),
        (nt.Retryable, RETRYABLE),
        (nt.Permanent, PERMANENT),
        (nt.Ambiguous, AMBIGUOUS),
        (nt.Retryable("busy"), RETRYABLE),
        (nt.Permanent("no such account"), PERMANENT),
        (nt.Ambiguous("lost"), AMBIGUOUS),
    ],
)
def test_an_opinion_of_the_classifier_decides(
    opinion: Any, expected: FailureClass, effectful: bool
) -> None:
    failure = judge(Stranger("x"), effectful=effectful, classifier=lambda _: opinion)
    assert failure.failure_class is expected


def test_the_classifier_sees_the_error_itself() -> None:
    error = Stranger("x")
    seen: list[BaseException] = []
    judge(error, classifier=seen.append)
    assert seen == [error]


def test_a_classifier_without_an_opinion_changes_nothing() -> None:
    assert judge(Stranger("x"), classifier=lambda _: None).failure_class is AMBIGUOUS
    pure = judge(ConnectionResetError("x"), effectful=False, classifier=lambda _: None)
    assert pure.failure_class is RETRYABLE


def test_what_the_classifier_adds_is_recorded_beside_the_error() -> None:
    failure = judge(Stranger("404"), classifier=lambda _: nt.Permanent("no such account"))
    assert failure.message == "no such account (404)"
    assert failure.error_type.endswith("test_failure.Stranger")


def test_the_wait_that_the_classifier_gives_beats_the_header() -> None:
    error = Stranger("x", headers={"Retry-After": "9"})
    assert judge(error, classifier=lambda _: RETRYABLE).retry_after_seconds == 9.0
    given_wait = judge(error, classifier=lambda _: nt.Retryable("x", retry_after=2))
    assert given_wait.retry_after_seconds == 2.0


@pytest.mark.parametrize(
    "answer", ["retryable", True, 503, nt.ToolFailure, nt.ToolFailure("x"), ValueError, object()]
)
def test_a_classifier_that_answers_nonsense_is_not_believed(answer: Any) -> None:
    effectful = judge(Stranger("boom"), classifier=lambda _: answer)
    assert effectful.failure_class is AMBIGUOUS
    assert "classifier answered" in effectful.message
    assert "boom" in effectful.message
    pure = judge(ConnectionResetError(), effectful=False, classifier=lambda _: answer)
    assert pure.failure_class is PERMANENT


def test_a_classifier_that_fails_is_not_believed_and_its_fault_is_recorded() -> None:
    def broken(_: BaseException) -> FailureClass:
        raise KeyError("status")

    effectful = judge(Stranger("boom"), classifier=broken)
    assert effectful.failure_class is AMBIGUOUS
    assert effectful.message == "The tool's classifier failed with KeyError: 'status' (boom)"
    assert judge(Stranger("boom"), effectful=False, classifier=broken).failure_class is PERMANENT


def test_a_person_who_interrupts_the_classifier_is_not_ignored() -> None:
    def interrupted(_: BaseException) -> FailureClass:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(Stranger("boom"), classifier=interrupted)


# Interruptions


@pytest.mark.parametrize("error", INTERRUPTIONS, ids=lambda error: type(error).__name__)
def test_an_interrupted_effect_is_ambiguous_whatever_a_classifier_says(
    error: BaseException,
) -> None:
    assert is_interruption(error)
    assert judge(error).failure_class is AMBIGUOUS
    assert judge(error, classifier=lambda _: RETRYABLE).failure_class is AMBIGUOUS


@pytest.mark.parametrize("error", INTERRUPTIONS, ids=lambda error: type(error).__name__)
def test_an_interrupted_pure_call_may_run_again(error: BaseException) -> None:
    assert judge(error, effectful=False).failure_class is RETRYABLE


@pytest.mark.parametrize("error", [TimeoutError(), ExceptionGroup("one", [ValueError()])])
def test_an_error_is_no_interruption(error: Exception) -> None:
    assert not is_interruption(error)


# The defaults


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        ConnectionRefusedError(),
        TimeoutError(),
        Stranger("429", status_code=429),
        caused_by(Stranger("wrapped"), ConnectionRefusedError()),
        caused_by(Stranger("wrapped"), nt.Retryable("of another call")),
        ExceptionGroup("all", [nt.Retryable("in a group")]),
    ],
    ids=repr,
)
def test_every_other_error_of_an_effectful_tool_is_ambiguous(error: BaseException) -> None:
    assert judge(error).failure_class is AMBIGUOUS


PURE: list[tuple[BaseException, FailureClass]] = [
    (ConnectionRefusedError(), RETRYABLE),
    (ConnectionResetError(), RETRYABLE),
    (BrokenPipeError(), RETRYABLE),
    (TimeoutError(), RETRYABLE),
    *((Stranger(str(status), status_code=status), RETRYABLE) for status in (408, 425, 429)),
    *((Stranger(str(status), status=status), RETRYABLE) for status in (500, 502, 503, 504, 529)),
    *((Stranger(str(status), code=status), PERMANENT) for status in (400, 401, 403, 404, 409, 422)),
    *((Stranger(str(status), response=Answer(status)), PERMANENT) for status in (406, 501, 505)),
    (Stranger("in its response", response=Answer(503)), RETRYABLE),
    (Stranger("not a status", code=7, status="gone", status_code=True), PERMANENT),
    (ValueError("bad"), PERMANENT),
    (TypeError("bad"), PERMANENT),
    (KeyError("bad"), PERMANENT),
    (ZeroDivisionError("bad"), PERMANENT),
    (json.JSONDecodeError("bad", "x", 0), PERMANENT),
    (PermissionError("bad"), PERMANENT),
    (Stranger("unknown"), PERMANENT),
    (caused_by(Stranger("wrapped"), TimeoutError()), RETRYABLE),
    (caused_by(Stranger("wrapped"), caused_by(Stranger("twice"), TimeoutError())), RETRYABLE),
    (caused_by(Stranger("wrapped"), nt.Retryable("busy")), RETRYABLE),
    (caused_by(ValueError("a wrong value stays wrong"), TimeoutError()), PERMANENT),
    (ExceptionGroup("all of them", [TimeoutError(), ConnectionResetError()]), RETRYABLE),
    (ExceptionGroup("not all", [TimeoutError(), ValueError()]), PERMANENT),
    (caused_by(Stranger("its own code, no status", code=7), TimeoutError()), RETRYABLE),
]


@pytest.mark.parametrize(("error", "expected"), PURE, ids=repr)
def test_errors_of_a_pure_tool_follow_the_classic_table(
    error: BaseException, expected: FailureClass
) -> None:
    assert judge(error, effectful=False).failure_class is expected


def test_causes_that_form_a_circle_end() -> None:
    first, second = Stranger("first"), Stranger("second")
    caused_by(first, second)
    caused_by(second, first)
    assert judge(first, effectful=False).failure_class is PERMANENT


@pytest.mark.parametrize(
    "holder",
    [
        {"response": Answer(503, Retry_After="11")},
        {"status": 503, "headers": {"retry-after": "11"}},
        {"status": 503, "retry_after": 11},
    ],
)
def test_a_pure_tool_waits_as_long_as_the_answer_asks(holder: dict[str, Any]) -> None:
    assert judge(Stranger("busy", **holder), effectful=False).retry_after_seconds == 11.0


@pytest.mark.parametrize("opinion", [None, RETRYABLE, nt.Retryable])
def test_a_wait_on_the_error_is_kept_when_the_classifier_names_none(opinion: Any) -> None:
    error = Stranger("busy", status=503, retry_after=11)
    failure = judge(error, effectful=False, classifier=lambda _: opinion)
    assert failure.retry_after_seconds == 11.0


def test_an_error_whose_attributes_fail_is_classed_all_the_same() -> None:
    class Trap(Exception):
        @property
        def response(self) -> None:
            raise RuntimeError("no response was set")

        @property
        def headers(self) -> dict[int, str]:
            return {}

        def __str__(self) -> str:
            raise RuntimeError("no text either")

    failure = judge(Trap(), effectful=False)
    assert failure.failure_class is PERMANENT
    assert failure.message == "its message could not be read: RuntimeError"
    assert judge(Trap(), classifier=lambda _: RETRYABLE).retry_after_seconds is None


def test_headers_that_fail_give_no_wait() -> None:
    class Headers:
        def get(self, name: str) -> str:
            raise LookupError(name)

    failure = judge(Stranger("x", status=503, headers=Headers()), effectful=False)
    assert (failure.failure_class, failure.retry_after_seconds) == (RETRYABLE, None)


# What is recorded


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ValueError("x"), "ValueError"), (json.JSONDecodeError("x", "", 0), "json.decoder")],
)
def test_the_type_is_recorded_with_its_module(error: Exception, expected: str) -> None:
    assert judge(error).error_type.startswith(expected)


def test_a_long_message_is_cut_and_says_so() -> None:
    exact = judge(ValueError("x" * 2_000))
    assert exact.message == "x" * 2_000
    cut = judge(ValueError("x" * 2_001))
    assert cut.message == "x" * 1_999 + "…"
    assert len(Failure(PERMANENT, "T" * 300, "").error_type) == 200


def test_what_breaks_stores_and_terminals_is_escaped() -> None:
    failure = judge(ValueError("a\x00b\x1b[2J\ud800\u202e\r\x9b\x7f zwölf\n\t😀"))
    assert failure.message == ("a\\u0000b\\u001b[2J\\ud800\\u202e\\u000d\\u009b\\u007f zwölf\n\t😀")
    assert Failure(PERMANENT, "a\x00", "").error_type == "a\\u0000"


@given(st.text(alphabet=st.characters(), max_size=50), st.integers(0, 2_100))
def test_every_recorded_failure_can_be_encoded_and_read_back(text: str, more: int) -> None:
    failure = Failure(PERMANENT, text, text + "\x00" * more)
    failure.message.encode()
    assert len(failure.message) <= 2_000
    assert Failure.from_plain(json.loads(json.dumps(failure.to_plain()))) == failure


@pytest.mark.parametrize("seconds", [None, 0, 5, 2.5])
def test_a_failure_survives_the_ledger(seconds: float | None) -> None:
    failure = Failure(RETRYABLE, "ValueError", "busy", seconds)
    plain = failure.to_plain()
    assert plain == {
        "failure_class": "retryable",
        "error_type": "ValueError",
        "message": "busy",
        "retry_after_seconds": seconds,
    }
    assert Failure.from_plain(plain) == failure


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, True])
def test_no_failure_holds_a_wait_that_is_no_number(seconds: float) -> None:
    assert Failure(RETRYABLE, "T", "m", seconds).retry_after_seconds is None


GOOD = Failure(PERMANENT, "ValueError", "bad").to_plain()


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        "permanent",
        {},
        {**GOOD, "failure_class": "fine"},
        {**GOOD, "failure_class": None},
        {**GOOD, "failure_class": ["permanent"]},
        {**GOOD, "error_type": 7},
        {**GOOD, "message": None},
        {**GOOD, "message": "x" * 2_001},
        {**GOOD, "message": "\x00"},
        {**GOOD, "retry_after_seconds": "5"},
        {**GOOD, "retry_after_seconds": True},
        {**GOOD, "retry_after_seconds": -1},
        {**GOOD, "retry_after_seconds": math.nan},
        {**GOOD, "more": 1},
        {name: value for name, value in GOOD.items() if name != "message"},
        {name: value for name, value in GOOD.items() if name != "retry_after_seconds"},
    ],
    ids=repr,
)
def test_a_record_that_we_cannot_have_written_is_corrupt(plain: object) -> None:
    with pytest.raises(nt.errors.LedgerCorrupt, match="Restore the ledger from a backup"):
        Failure.from_plain(plain)


# Retry-After


# Purity


def test_no_client_library_is_imported() -> None:
    program = (
        "import sys, nottwice.model.failure as f; f.single_request(OSError()); "
        "sys.exit(bool({'httpx', 'requests', 'urllib3', 'aiohttp'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_single_request_can_be_declared_as_a_classifier() -> None:
    declared: Callable[[BaseException], Any] = single_request
    failure = judge(ConnectionRefusedError("nobody listens"), classifier=declared)
    assert failure == Failure(RETRYABLE, "ConnectionRefusedError", "nobody listens")


@pytest.mark.parametrize("kind", [nt.Retryable, nt.Permanent])
def test_the_recorded_failure_of_an_inner_call_is_no_word_about_the_outer_effect(
    kind: type[nt.ToolFailure],
) -> None:
    own = kind("nothing was sent")
    assert classify(own, effectful=True, now=NOW).failure_class is not AMBIGUOUS
    quoted = kind("nothing was sent")
    vars(quoted)["call_id"] = "the inner call"
    assert classify(quoted, effectful=True, now=NOW).failure_class is AMBIGUOUS
