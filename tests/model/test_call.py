"""The identity of a call, its row and the row's transitions, and ids that any store can keep."""

from __future__ import annotations

import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import InvalidId
from nottwice.model.call import (
    FIRST_CHECKPOINT,
    MAX_ID_CHARACTERS,
    ROOT_NODE,
    CallIdentity,
    CallRow,
    CallStatus,
    PastAttempt,
    ResultKind,
    StoredResult,
    branch_node,
    call_from_row,
    check_id,
    child_checkpoint,
    child_node,
)
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.replay_class import ReplayClass

PURE, KEYED, UNSAFE = ReplayClass
IDENTITY = CallIdentity("ticket-7", "tell", "start/", "send", "00ff")
RESULT = StoredResult(ResultKind.PLAIN, '"sent"')


def failure(failure_class: FailureClass = FailureClass.RETRYABLE) -> Failure:
    return Failure(failure_class, "TimeoutError", "too slow")


def pending() -> CallRow:
    return CallRow(
        identity=IDENTITY,
        call_id=IDENTITY.call_id,
        status=CallStatus.PENDING,
        replay_class=UNSAFE,
        attempt=1,
        attempt_id="attempt 1",
        holder_id="holder 1",
        args_json='{"to":"ann"}',
        created_at=100.0,
        started_at=100.0,
        key="mail-ann",
        key_since=90.0,
        window_seconds=60.0,
    )


# Identity


def test_the_call_id_is_the_same_in_every_process_and_release() -> None:
    """It is a marker in upstreams: a recomputed one would not be found there."""
    assert IDENTITY.call_id == "e6e95cbe3f2e2d3d71481cd69e324e03"


@pytest.mark.parametrize("axis", range(5))
def test_every_axis_counts(axis: int) -> None:
    axes = list(IDENTITY)
    axes[axis] += "x"
    other = CallIdentity(*axes)
    assert other != IDENTITY
    assert other.call_id != IDENTITY.call_id


TEXTS = st.text(alphabet="a:1/\x00🧾", max_size=4)


@given(st.tuples(*[TEXTS] * 5), st.tuples(*[TEXTS] * 5))
def test_no_axis_can_imitate_a_boundary(
    one: tuple[str, str, str, str, str], other: tuple[str, str, str, str, str]
) -> None:
    ids = CallIdentity(*one).call_id, CallIdentity(*other).call_id
    assert (ids[0] == ids[1]) == (one == other)


def test_a_text_moved_from_one_axis_to_the_next_is_another_identity() -> None:
    assert CallIdentity("ab", "", "", "", "").call_id != CallIdentity("a", "b", "", "", "").call_id
    assert CallIdentity("1:a", "", "", "", "") != CallIdentity("1", "a", "", "", "")


# The row


def test_done_is_a_receipt_and_ends_every_doubt() -> None:
    doubt = pending().unknown(failure(FailureClass.AMBIGUOUS), now=105)
    row = doubt.done(RESULT, now=110, settled_by="verify")
    assert (row.status, row.result, row.failure) == (CallStatus.DONE, RESULT, None)
    assert (row.finished_at, row.settled_by, row.retry_at) == (110, "verify", None)
    assert (row.created_at, row.started_at, row.key) == (100, 100, "mail-ann")


def test_failed_says_whether_another_attempt_is_due() -> None:
    row = pending().failed(failure(), now=105, retry_at=107)
    assert (row.status, row.failure, row.retry_at) == (CallStatus.FAILED, failure(), 107)
    assert pending().failed(failure(), now=105).retry_at is None
    assert not row.ambiguous


def test_unknown_taints_the_call_and_says_whether_its_attempt_is_over() -> None:
    said = failure(FailureClass.AMBIGUOUS)
    over, stopped = pending().unknown(said, now=105), pending().unknown(said, now=105, over=False)
    assert (over.status, over.ambiguous, over.finished_at) == (CallStatus.UNKNOWN, True, 105)
    assert (stopped.status, stopped.ambiguous, stopped.finished_at) == (
        CallStatus.UNKNOWN,
        True,
        None,
    )


def test_one_more_attempt_keeps_what_was_stored_and_the_last_one_becomes_history() -> None:
    before = pending().failed(failure(), now=105, retry_at=107)
    row = before.next_attempt(attempt_id="attempt 2", holder_id="holder 2", now=107)
    assert (row.status, row.attempt, row.attempt_id) == (CallStatus.PENDING, 2, "attempt 2")
    assert (row.holder_id, row.started_at, row.finished_at) == ("holder 2", 107, None)
    assert (row.failure, row.retry_at) == (None, None)
    kept = ("identity", "call_id", "created_at", "args_json", "key", "key_since", "window_seconds")
    assert [getattr(row, name) for name in kept] == [getattr(before, name) for name in kept]
    assert row.past == (PastAttempt(1, "attempt 1", "holder 1", 100, 105, "retryable"),)
    assert row.past[0].to_plain()["outcome"] == "retryable"


def test_an_attempt_after_one_in_doubt_is_tainted_and_after_a_failed_one_is_not() -> None:
    said = failure(FailureClass.AMBIGUOUS)
    for before, tainted in (
        (pending(), True),
        (pending().unknown(said, now=105), True),
        (pending().failed(failure(), now=105), False),
    ):
        row = before.next_attempt(attempt_id="attempt 2", holder_id="holder 2", now=107)
        assert row.ambiguous is tainted
    again = pending().unknown(said, now=105).failed(failure(), now=106)
    row = again.next_attempt(attempt_id="attempt 2", holder_id="holder 2", now=107)
    assert row.ambiguous, "a taint is never washed off"


def test_every_attempt_stays_on_record_however_often_it_is_tried() -> None:
    row = pending()
    for number in (2, 3, 4):
        row = row.failed(failure(), now=100 + number)
        row = row.next_attempt(attempt_id=f"attempt {number}", holder_id="holder", now=110)
    assert [past.attempt_id for past in row.past] == ["attempt 1", "attempt 2", "attempt 3"]


def test_an_attempt_without_a_recorded_end_is_unknown_history() -> None:
    row = pending().next_attempt(attempt_id="attempt 2", holder_id="holder 2", now=107)
    assert (row.past[0].outcome, row.past[0].ended_at) == ("unknown", 107)


def test_what_a_write_must_have_seen_is_status_and_attempt() -> None:
    before = pending()
    states = {
        before.state,
        before.done(RESULT, now=110).state,
        before.next_attempt(attempt_id="attempt 2", holder_id="h", now=107).state,
    }
    assert len(states) == 3


def test_pending_and_unknown_are_in_doubt() -> None:
    assert {status for status in CallStatus if status.in_doubt} == {
        CallStatus.PENDING,
        CallStatus.UNKNOWN,
    }


def test_a_tool_sees_its_call_as_it_was_recorded() -> None:
    row = pending().failed(failure(), now=105)
    call = call_from_row(row.next_attempt(attempt_id="attempt 2", holder_id="h", now=107))
    assert (call.id, call.run_id, call.tool, call.step) == (
        IDENTITY.call_id,
        "ticket-7",
        "send",
        "tell",
    )
    assert (call.args, call.key) == ({"to": "ann"}, "mail-ann")
    assert (call.attempt, call.first_started_at, call.started_at) == (2, 100, 107)


# Ids


class Name(str, enum.Enum):  # noqa: UP042 - the older way, still the usual one
    TICKET = "ticket"


class Loud(str):
    def __str__(self) -> str:
        return "something else"

    def __len__(self) -> int:
        return 1

    def isprintable(self) -> bool:
        return True


@pytest.mark.parametrize(
    "text", ["r", "ticket-7", "'; DROP TABLE runs; --", "../../etc", "a b", "Ü", "🧾", "x" * 512]
)
def test_printable_text_is_kept_to_the_letter(text: str) -> None:
    assert check_id(text, what="The run id") == text


def test_of_a_text_with_manners_of_its_own_the_bare_text_counts() -> None:
    for given_text, bare in ((Name.TICKET, "ticket"), (Loud("x"), "x")):
        kept = check_id(given_text, what="The run id")
        assert (kept, type(kept)) == (bare, str)
    with pytest.raises(InvalidId, match="unprintable"):
        check_id(Loud("a\nb"), what="The run id")
    with pytest.raises(InvalidId, match="600 characters"):
        check_id(Loud("x" * 600), what="The run id")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("x" * (MAX_ID_CHARACTERS + 1), "has 513 characters; at most 512"),
        ("x" * 1_000_000, "has 1,000,000 characters"),
        ("a\nb", r"character '\n'"),
        ("a\0b", r"character '\x00'"),
        ("a\x1b[31mb", r"character '\x1b'"),
        ("a\u202eb", r"character '\u202e'"),
        ("a\u2028b", r"character '\u2028'"),
        ("a\ud800b", r"character '\ud800'"),
        ("\ufeffa", r"character '\ufeff'"),
        (7, "must be text, not int"),
        (None, "must be text, not NoneType"),
        (b"r", "must be text, not bytes"),
    ],
)
def test_what_some_store_or_terminal_could_not_keep_is_refused(text: object, told: str) -> None:
    with pytest.raises(InvalidId) as caught:
        check_id(text, what="The run id")
    message = str(caught.value)
    assert message.startswith("The run id ")
    assert told in message
    assert "Nothing happened." in message
    assert message.isprintable()
    assert len(message) < 300


# Nodes and visits


@given(
    st.lists(st.tuples(TEXTS.filter(bool), st.none() | st.integers() | TEXTS.filter(bool))),
    st.lists(st.tuples(TEXTS.filter(bool), st.none() | st.integers() | TEXTS.filter(bool))),
)
def test_two_ways_through_steps_meet_only_if_they_are_one_way(
    one: list[tuple[str, str | int | None]], other: list[tuple[str, str | int | None]]
) -> None:
    assert (place(one) == place(other)) == (spelled(one) == spelled(other))


def spelled(way: list[tuple[str, str | int | None]]) -> list[tuple[str, str | None]]:
    """1 and "1" are one visit."""
    return [(name, None if at is None else str(at)) for name, at in way]


def place(way: list[tuple[str, str | int | None]]) -> tuple[str, str]:
    node, checkpoint = ROOT_NODE, FIRST_CHECKPOINT
    for name, at in way:
        node, checkpoint = child_node(node, name), child_checkpoint(checkpoint, at)
    return node, checkpoint


def test_a_branch_is_inside_its_step_and_no_step_can_be_named_like_it() -> None:
    assert branch_node(child_node(ROOT_NODE, "tell"), 3) == "tell[3]"
    # Neither may begin like something inside "tell".
    assert not child_node(ROOT_NODE, "tell[3]").startswith("tell[")
    assert not child_node(ROOT_NODE, "tell/3").startswith("tell/")
    assert branch_node("tell[1]", 2) == "tell[1][2]"
    assert child_node("tell[1]", "deep") == "tell[1]/deep"
    assert child_node(ROOT_NODE, "/") != ROOT_NODE


@pytest.mark.parametrize(("name", "imitation"), [("a/b", "a%2Fb"), ("a[1]", "a%5B1%5D")])
def test_no_step_can_be_named_like_the_escaped_name_of_another(name: str, imitation: str) -> None:
    assert child_node(ROOT_NODE, name) != child_node(ROOT_NODE, imitation)
    assert child_checkpoint("start", name) != child_checkpoint("start", imitation)
