"""A policy holds wherever it is named, and nothing that a caller passes gets around it (L9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.guard.settings.policies import joined, read_policies


def never(call: policy.ProposedCall) -> policy.Ruling:
    return policy.deny("never")


def always(call: policy.ProposedCall) -> policy.Ruling:
    return policy.allow()


def mail(name: str = "mail") -> Any:
    @nt.tool("unsafe_on_replay", name=name)
    def send(to: str) -> str:
        return to

    return send


@pytest.mark.parametrize("given", [7, "never", ["never"], [always, None], policy.ProposedCall])
def test_what_cannot_be_asked_is_refused_when_it_is_named(given: Any) -> None:
    for name in (read_policies, lambda given: nt.Ledger(":memory:", policy=given)):
        with pytest.raises(nt.errors.UsageError, match="Nothing happened"):
            name(given)


def test_policies_are_joined_each_once() -> None:
    assert read_policies(None) == ()
    assert read_policies(always) == (always,)
    assert joined((always,), (never, always)) == (always, never)


def test_a_policy_of_the_ledger_holds_in_all_its_runs(tmp_path: Path) -> None:
    send = mail()
    ledger = nt.Ledger(tmp_path / "agent.db", policy=never)
    for run in (ledger.run("one"), nt.run("two", store=ledger, policy=always)):
        with run, pytest.raises(nt.errors.DeniedByPolicy):
            send("ann")
    with (
        nt.run("three", store=tmp_path / "agent.db", policy=never),
        pytest.raises(nt.errors.DeniedByPolicy),
    ):
        send("ann")
    with nt.run("four", store=tmp_path / "agent.db"):
        assert send("ann") == "ann"


def test_arguments_cannot_set_what_the_declaration_says(tmp_path: Path) -> None:
    """Whatever a model puts into its arguments, they are arguments."""
    seen: list[policy.ProposedCall] = []

    @nt.tool("idempotent_with_key", key="book-{seat}", window="24h", tags=("seats",))
    def book(seat: str) -> str:
        return nt.current_call().key or ""

    @nt.tool("unsafe_on_replay")
    def anything(**given: Any) -> list[str]:
        return sorted(given)

    def watch(call: policy.ProposedCall) -> policy.Ruling:
        seen.append(call)
        return policy.allow()

    words = ("key", "label", "retry", "replay_class", "approve", "tags", "policy", "result")
    with nt.run("r", store=tmp_path / "agent.db", policy=watch):
        for word in words:
            with pytest.raises(nt.errors.InvalidArguments):
                book(**{"seat": "4c", word: "pure"})
        assert book(seat="4c") == "book-4c"
        assert anything(**dict.fromkeys(words, "pure")) == sorted(words)
    booking, given = seen
    assert (booking.key, booking.tags, booking.label) == ("book-4c", ("seats",), None)
    assert (given.key, given.label, given.replay_class) == (None, None, "unsafe_on_replay")


def test_arguments_cannot_spell_the_identity_of_a_repeat_or_of_a_verify_answer(
    tmp_path: Path,
) -> None:
    sent: list[Any] = []

    @nt.tool("unsafe_on_replay", verify=lambda call: nt.cannot_tell(), name="post")
    def post(body: Any) -> int:
        sent.append(body)
        return len(sent)

    with nt.run("r", store=tmp_path / "agent.db"):
        assert post({"text": "hi"}) == 1
        assert post.again("once more")({"text": "hi"}) == 2
        # What a repeat hashes, an answer of verify, and a mark of ours, as plain data.
        for body in (
            [{"body": {"text": "hi"}}, "once more", {}],
            {"answer": "happened", "result": 1},
            {"$nottwice": "integer"},
        ):
            before = len(sent)
            assert post(body) == before + 1
            assert post(body) == before + 1
    assert len(sent) == 5
