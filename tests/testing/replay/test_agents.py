"""Are agents recorded and resumed: the model's replies from the record, its effects once a run?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.testing import forget_tools
from nottwice.testing.replay.fixture import fixture_paths
from nottwice.testing.replay.gate import replay_folder
from nottwice.testing.replay.recording import record
from tests.fakes import Host

CUSTOMER = "ann" + os.urandom(4).hex() + "@example.org"
"""An address that no source spells out."""
DONE: list[str] = []


def tools(*, word: str = "mailed", strict: bool = False) -> list[Any]:
    @nt.tool("pure", name="gate_customer")
    def find_customer(order_id: int) -> str:
        """Find a customer."""
        return CUSTOMER

    @nt.tool("unsafe_on_replay", name="gate_wire", approve=True)
    def wire(to: str) -> str:
        """Wire money."""
        DONE.append(f"wired {to}")
        return "wired"

    if strict:
        return [find_customer, wire]

    @nt.tool("unsafe_on_replay", name="gate_mail")
    def send_mail(to: str, body: str, cents: int = 0) -> str:
        """Send a mail."""
        DONE.append(f"{word} {to}")
        return word

    return [find_customer, send_mail, wire]


SCRIPT: list[Any] = [
    ["I look first.", {"gate_customer": {"order_id": 7}}],
    {"gate_mail": {"to": CUSTOMER, "body": f"Dear {CUSTOMER}"}},
    {"gate_mail": {"to": CUSTOMER, "body": f"Dear {CUSTOMER}"}, "gate_wire": {"to": CUSTOMER}},
    "Done.",
]


def agent(version: str = "1.0.0", **options: Any) -> nt.Agent:
    return nt.Agent(
        "gate-agent",
        version=version,
        provider=nt.providers.scripted(SCRIPT),
        tools=tools(**options),
        budget=nt.Budget(tokens=200_000),
    )


@pytest.fixture
def host() -> Host:
    DONE.clear()
    return Host()


def advance(host: Host, worker: nt.Agent, run_id: str = "ticket-7") -> str:
    with host.process() as ledger:
        return worker.run(run_id, goal=f"Help {CUSTOMER}", store=ledger).status


def keep(host: Host, worker: nt.Agent, folder: Path) -> None:
    with host.process() as ledger:
        recorded = record(nt.App(graphs=[worker]), ledger.store, folder, number=100)
    assert recorded.left_out == ()
    assert len(recorded.kept) > 10
    assert CUSTOMER not in "".join(path.read_text() for path in fixture_paths(folder))


def causes(worker: nt.Agent, folder: Path) -> set[str]:
    before = list(DONE)
    results = replay_folder(worker, folder)
    assert before == DONE
    return {one.cause.value for one in results if one.cause is not None}


def test_an_agent_that_waits_for_approval_is_resumed_as_recorded(
    host: Host, tmp_path: Path
) -> None:
    worker = agent()
    assert advance(host, worker) == "waiting"
    keep(host, worker, tmp_path)
    assert causes(worker, tmp_path) == set()


def test_an_agent_that_is_done_is_resumed_as_recorded(host: Host, tmp_path: Path) -> None:
    worker = agent()
    assert advance(host, worker) == "waiting"
    (review,) = host.open_reviews
    with host.process() as ledger:
        nt.Reviews(ledger).decide(review.review_id, "approve", by="ann")
    assert advance(host, worker) == "completed"
    assert [f"mailed {CUSTOMER}", f"wired {CUSTOMER}"] == DONE
    keep(host, worker, tmp_path)
    assert causes(worker, tmp_path) == set()


def test_a_tool_that_an_agent_no_longer_has_is_missed(host: Host, tmp_path: Path) -> None:
    worker = agent()
    advance(host, worker)
    keep(host, worker, tmp_path)
    # The ledger would let this agent resume the run; the gate says what it no longer does.
    changed = agent(strict=True)
    assert causes(changed, tmp_path) == {"effect no longer asked for"}
    forget_tools()
    changed = agent(strict=True)
    assert causes(changed, tmp_path) == {"tool missing"}


def test_wherever_an_agent_was_killed_its_own_code_resumes_it(host: Host, tmp_path: Path) -> None:
    worker = agent()
    killed = 0
    for point in range(5, 60, 9):
        one = Host()
        survived = False
        with one.process(dies_at=point) as ledger:
            worker.run("ticket-7", goal=f"Help {CUSTOMER}", store=ledger)
            survived = True
        if survived:
            break
        if one.data.checkpoints:
            killed += 1
            folder = tmp_path / str(point)
            with one.process() as ledger:
                recorded = record(nt.App(graphs=[worker]), ledger.store, folder)
            assert recorded.left_out == ()
            assert causes(worker, folder) == set()
    assert killed > 1


def test_the_policy_of_an_agent_is_not_asked_in_a_replay(host: Host, tmp_path: Path) -> None:
    worker = agent()
    advance(host, worker)
    keep(host, worker, tmp_path)
    asked: list[str] = []

    def careful(call: policy.ProposedCall) -> policy.Ruling:
        asked.append(call.tool)
        return policy.deny("never")

    changed = nt.Agent(
        "gate-agent",
        version="1.0.0",
        provider=nt.providers.scripted(SCRIPT),
        tools=tools(),
        budget=nt.Budget(tokens=200_000),
        policy=careful,
    )
    nt.App(graphs=[changed], policy=careful)
    assert causes(changed, tmp_path) == set()
    assert asked == []
