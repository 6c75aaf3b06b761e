"""Is everything on record, is it small, and can it not be changed from outside?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.messages import Message, Role, said
from nottwice.agent.state import AgentState, RunState, Transcript, envelope, first_state
from nottwice.model import values
from tests.agent.workshop import Workshop


def test_a_state_begins_with_its_contract() -> None:
    plain = first_state({"goal": "g", "done_when": ["d"], "plan": ["p", "q"]})
    state = RunState(plain)
    assert (state.goal, state.done_when, state.plan, state.cursor) == ("g", ("d",), ("p", "q"), 0)
    assert state.answer is None
    assert state.turn == 0
    assert values.is_plain(plain)


@pytest.mark.parametrize(
    "given",
    [
        {"gaol": "g"},
        {"goal": 7},
        {"goal": "g", "done_when": "d"},
        {"goal": "g", "plan": [1]},
        {"goal": "g", "plan": [""]},
        "g",
    ],
)
def test_what_is_no_contract_is_refused(given: Any) -> None:
    with pytest.raises(nt.errors.InvalidGraph, match="Nothing was started"):
        AgentState(agent="a").first(given)


def test_a_transcript_is_read_when_it_is_looked_at() -> None:
    plain = [said(str(number)).to_plain() for number in range(1000)]
    plain[500] = {"role": "nobody"}
    transcript = Transcript(plain)
    assert len(transcript) == 1000
    assert transcript[999].text == "999"
    assert [message.text for message in transcript[:2]] == ["0", "1"]
    with pytest.raises(nt.errors.LedgerCorrupt):
        list(transcript)


def test_a_beat_saves_what_it_changed_and_not_the_conversation() -> None:
    script: list[Any] = [{"get_order": {"order_id": n}} for n in range(40)]
    shop = Workshop([*script, "done"])
    shop.finish()
    deltas = [len(one.json) for one in shop.host.data.checkpoints.values() if not one.is_snapshot]
    assert max(deltas) < 1_000
    early, late = sum(deltas[6:66]), sum(deltas[-66:-6])
    assert late < early * 1.2


def test_memory_holds_pointers() -> None:
    script: list[Any] = [{"remember": {"name": "invoice", "where": "s3://b/7.pdf"}}, "done"]
    state = Workshop(script).finish().state
    assert [(one.name, one.where, one.turn) for one in state.memory] == [
        ("invoice", "s3://b/7.pdf", 1)
    ]


def test_any_version_of_a_state_can_be_loaded() -> None:
    shop = Workshop([{"get_order": {"order_id": 7}}, "done"])
    shop.finish()
    with shop.host.process() as ledger:
        nodes = [one.node_id for one in shop.agent.history("ticket-7", store=ledger)]
        early = shop.agent.load("ticket-7", 3, store=ledger)
    beats = ["plan", "context", "reason", "act", "observe", "learn"]
    assert nodes == ["/", *beats, *beats]
    assert [message.role for message in early.transcript] == [Role.ASSISTANT]


def test_a_state_cannot_be_changed_from_outside() -> None:
    shop = Workshop(["done"])
    shop.finish()
    with shop.host.process() as ledger:
        with pytest.raises(nt.errors.UsageError, match="cannot be changed from outside"):
            shop.agent.fork("ticket-7", to="other", update={"goal": "x"}, store=ledger)


def test_an_envelope_holds_what_came_of_it_and_not_what_was_said() -> None:
    shop = Workshop([{"get_order": {"order_id": 7}}, "It costs 40."])
    state = shop.finish().state
    kept = RunState(envelope(state))
    assert kept.answer == "It costs 40."
    assert kept.spent == state.spent
    assert len(kept.transcript) == 0


def test_states_are_equal_if_all_of_them_is() -> None:
    one, other = (RunState(first_state({"goal": goal})) for goal in "gh")
    assert one != other
    assert one == RunState(dict(one.plain))
    assert hash(one) == hash(RunState(dict(one.plain)))
    assert "turn 0" in repr(one)
    assert Transcript([]) == Transcript([])
    assert hash(Transcript([])) == hash(Transcript([]))
    assert Message(Role.USER, ()) != said("x")
