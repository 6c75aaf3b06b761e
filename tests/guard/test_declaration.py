"""What the options of a tool say about each other, and what is refused immediately (T2, T3).

Every refusal names the tool and what to choose instead, and registers nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.guard import registry

declare: Any = nt.tool
KEYED = {"key": "refund-{order_id}", "window": "24h"}


def verify(call: nt.Call) -> nt.Verification:
    return nt.cannot_tell()


def refuse(replay_class: str, **declared: Any) -> str:
    """Declare a tool that must be refused; the text of the refusal."""

    def refund_refused(order_id: int, cents: int = 0) -> str:
        raise AssertionError("a refused tool must not run")

    with pytest.raises(nt.errors.InvalidTool) as caught:
        declare(replay_class, **declared)(refund_refused)
    assert registry.find_tool("refund_refused") is None
    return str(caught.value)


@pytest.mark.parametrize("missing", ["key", "window"])
def test_a_keyed_tool_needs_both_key_and_window(missing: str) -> None:
    text = refuse("idempotent_with_key", **{name: KEYED[name] for name in KEYED if name != missing})
    assert f"'refund_refused' was not declared: idempotent_with_key needs {missing}=" in text


def test_the_refusal_says_what_a_key_and_a_window_are() -> None:
    assert "nt.key_per_call" in refuse("idempotent_with_key", window="24h")
    assert "'24h'" in refuse("idempotent_with_key", key="refund-{order_id}")


@pytest.mark.parametrize("replay_class", ["pure", "unsafe_on_replay"])
@pytest.mark.parametrize("given", ["key", "window"])
def test_key_and_window_belong_to_keyed_tools_only(replay_class: str, given: str) -> None:
    text = refuse(replay_class, **{given: KEYED[given]})
    assert f"'refund_refused' was not declared: {given}= belongs to idempotent_with_key" in text
    assert f"this tool is {replay_class}. Change the class or leave {given} out." in text


@pytest.mark.parametrize("declared", [{"verify": verify}, {"settles": "30s"}])
def test_a_pure_tool_has_nothing_to_verify(declared: dict[str, Any]) -> None:
    text = refuse("pure", **declared)
    assert "'refund_refused' was not declared: a pure tool is simply run again" in text
    assert "choose another class" in text


@pytest.mark.parametrize("replay_class", ["idempotent_with_key", "unsafe_on_replay"])
def test_an_effect_cannot_ignore_all_its_arguments(replay_class: str) -> None:
    more = KEYED if replay_class == "idempotent_with_key" else {}
    text = refuse(replay_class, volatile="*", **more)
    assert "'refund_refused' was not declared: volatile='*' would make all effects" in text
    assert "one by one" in text


@pytest.mark.parametrize(
    ("replay_class", "words", "why"),
    [
        ("unsafe_on_replay", {"durable": True}, "the result of an effect (unsafe_on_replay) is"),
        ("idempotent_with_key", {"durable": False, **KEYED}, "the result of an effect"),
        ("pure", {"durable": "yes"}, "durable must be True or False, not 'yes'"),
        ("pure", {"durable": False, "volatile": "*"}, "whose reply is always durable"),
    ],
)
def test_durable_is_refused_where_it_would_mean_nothing(
    replay_class: str, words: dict[str, Any], why: str
) -> None:
    text = refuse(replay_class, **words)
    assert why in text
    assert text.endswith("Leave durable= out.")


def test_a_pure_tool_is_durable_if_it_says_so_or_is_a_model_call() -> None:
    def look_durably(order_id: int) -> int:
        return order_id

    told: list[tuple[dict[str, Any], bool]] = [
        ({}, False),
        ({"durable": True}, True),
        ({"volatile": "*"}, True),
    ]
    for number, (words, durable) in enumerate(told):
        made = declare("pure", name=f"look_durably_{number}", **words)(look_durably)
        assert made.tool.durable is durable


@pytest.mark.parametrize("what", ["volatile", "bound_by", "tags"])
def test_names_are_a_tuple_and_one_text_is_not(what: str) -> None:
    text = refuse("unsafe_on_replay", **{what: "cents"})
    assert "'refund_refused' was not declared" in text
    assert f"write {what}=('cents',)" in text


@pytest.mark.parametrize("what", ["window", "settles", "time_limit", "verify_limit"])
@pytest.mark.parametrize("value", ["soon", "-1s", 0, -1, float("inf"), float("nan"), True, "1 y"])
def test_a_duration_is_a_number_with_a_unit(what: str, value: object) -> None:
    text = refuse("idempotent_with_key", **{**KEYED, "verify": verify, what: value})
    assert "refund_refused" in text
    assert what in text


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"verify": True}, "verify must be a function"),
        ({"verify": "mail_in_outbox"}, "verify must be a function"),
        ({"classify": nt.Permanent("no")}, "classify must be a function"),
        ({"retry": 3}, "retry must be an nt.RetryPolicy"),
        ({"retry": False}, "retry must be an nt.RetryPolicy"),
    ],
)
def test_a_hook_of_the_wrong_kind_is_refused_now_and_not_in_the_middle_of_a_failure(
    declared: dict[str, Any], told: str
) -> None:
    text = refuse("unsafe_on_replay", **declared)
    assert "'refund_refused' was not declared" in text
    assert told in text


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("widnow", "window"), ("setles", "settles"), ("volatil", "volatile"), ("keys", "key")],
)
def test_a_misspelt_word_is_answered_with_the_one_that_was_meant(typo: str, meant: str) -> None:
    text = refuse("idempotent_with_key", **{**KEYED, typo: "24h"})
    assert f"'refund_refused' was not declared: it has {typo}=" in text
    assert f"Did you mean {meant!r}?" in text


def test_a_word_like_no_other_is_answered_with_all_there_are() -> None:
    text = refuse("pure", colour="blue")
    assert "Did you mean" not in text
    assert "time_limit" in text
    assert "volatile" in text


def test_a_key_that_names_no_parameter_is_refused() -> None:
    text = refuse("idempotent_with_key", key="refund-{order}", window="24h")
    assert "the tool has no parameter 'order'. Its parameters are: order_id, cents." in text


@pytest.mark.parametrize("key", [7, b"refund", ["refund"]])
def test_a_key_is_a_template_a_function_or_a_mark(key: object) -> None:
    text = refuse("idempotent_with_key", key=key, window="24h")
    assert "key must be a template such as 'refund-{order_id}', a function or" in text
    assert "nt.key_per_call" in text


def test_what_fits_together_is_declared_as_it_was_said() -> None:
    @nt.tool(
        "idempotent_with_key",
        name="refund fitting",
        key="refund-{order_id}",
        window="7d",
        verify=verify,
        settles="500ms",
        retry=nt.RetryPolicy(attempts=2),
        time_limit="90s",
        verify_limit="1m",
        volatile=["note"],
        tags=("money",),
    )
    def refund(order_id: int, note: str = "") -> str:
        return note

    declared = refund.tool
    assert (declared.name, declared.key_text) == ("refund fitting", "refund-{order_id}")
    assert (declared.window_seconds, declared.settles_seconds) == (7 * 86400, 0.5)
    assert (declared.time_limit_seconds, declared.verify_limit_seconds) == (90, 60)
    assert (declared.volatile, declared.tags) == (("note",), ("money",))
    assert (declared.verify, declared.retry.attempts) == (verify, 2)


# Approval, retention and rate


def tool_of(name: str, replay_class: str, **declared: Any) -> Any:
    """What a tool declares that says this."""

    def act(order_id: int) -> None: ...

    return declare(replay_class, name=name, **declared)(act).tool


@pytest.mark.parametrize(
    ("approve", "expected"),
    [(False, (False, None)), (True, (True, None)), ("24h", (True, 86400.0))],
)
def test_an_approval_is_needed_or_not_and_may_expire(approve: Any, expected: Any) -> None:
    tool = tool_of("refund with approval", "unsafe_on_replay", approve=approve)
    assert (tool.approve, tool.approval_seconds) == expected


@pytest.mark.parametrize("approve", [0, "soon", None, -1, "0s"])
def test_an_approval_that_could_never_count_is_refused(approve: Any) -> None:
    assert "approve" in refuse("unsafe_on_replay", approve=approve)


def test_a_pure_tool_has_nothing_to_approve() -> None:
    text = refuse("pure", approve=True)
    assert "a pure tool changes nothing, so there is nothing to approve" in text


def test_every_effectful_class_can_need_approval() -> None:
    assert tool_of("keyed with approval", "idempotent_with_key", approve=True, **KEYED).approve


def test_retention_and_rate_class_are_recorded_with_the_tool() -> None:
    kept = tool_of("kept for long", "idempotent_with_key", keep="90d", rate="bank", **KEYED)
    assert (kept.keep_seconds, kept.rate_class) == (7776000.0, "bank")
    usual = tool_of("kept as usual", "pure")
    assert (usual.keep_seconds, usual.rate_class) == (None, None)


def test_rows_are_not_removed_while_the_upstream_remembers_their_keys() -> None:
    text = refuse("idempotent_with_key", keep="23h", **KEYED)
    assert "its rows would be removed (keep='23h')" in text
    assert "(window='24h')" in text
    enough = tool_of("kept just long enough", "idempotent_with_key", keep="24h", **KEYED)
    assert enough.keep_seconds == 86400.0


@pytest.mark.parametrize("keep", ["long", 0])
def test_a_retention_that_is_no_duration_is_refused(keep: Any) -> None:
    assert "keep" in refuse("pure", keep=keep)


@pytest.mark.parametrize("rate", ["", 7, "a\nb"])
def test_a_rate_class_that_is_no_name_is_refused(rate: Any) -> None:
    with pytest.raises(nt.errors.InvalidId, match="rate"):
        tool_of("limited by nothing", "pure", rate=rate)
