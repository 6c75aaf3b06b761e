"""Is a live holder never overtaken, and a dead one immediately? (D9, D10, "Who owns a run")"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from nottwice.model.run import Fence, RunStatus
from nottwice.store.interface import Claim, Commit, RunUpdate
from nottwice.store.sqlite.store import SqliteStore
from tests.kill.agents import RESULT
from tests.kill.matrix import EFFECTFUL, State, check_state, kill_at
from tests.kill.processes import Agent, Case, wait_until

both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def start_and_hold(case: Case, *, applied: bool = False, **plan: Any) -> tuple[Agent, str]:
    """A process inside its tool: the upstream has its request and has applied it, or not yet."""
    gate = case.gate("slow")
    agent = case.start(**plan, faults={"hold" if applied else "hold_before": gate})
    case.client.wait_until_held(gate)
    return agent, gate


# The living.


@both
@pytest.mark.parametrize("kind", EFFECTFUL)
def test_a_slow_owner_is_not_overtaken_even_if_verify_finds_nothing(
    case: Case, kind: str, is_async: bool
) -> None:
    owner, gate = start_and_hold(case, kind=kind, is_async=is_async)
    other = case.finish(kind=kind, is_async=is_async, more={"answers": ["did not happen"]})
    assert other.said["error"] == "RunBusy"
    assert other.said["non_retryable"] is False
    assert f"pid {owner.pid} on " in other.said["text"]
    assert " since " in other.said["text"]
    check_state(case, State("PENDING", 0, 1))
    case.client.release(gate)
    assert owner.end().said["value"] == RESULT
    check_state(case, State("DONE", 1, 1))


def test_who_waits_for_a_slow_owner_gets_its_receipt(case: Case) -> None:
    owner, gate = start_and_hold(case, kind="unsafe")
    waiting = case.start(kind="unsafe", run_options={"acquire_timeout": "60s"})
    case.client.release(gate)
    assert owner.end().said["replayed"] is False
    assert waiting.end().said["replayed"] is True
    check_state(case, State("DONE", 1, 1))


@pytest.mark.parametrize("kind", EFFECTFUL)
@pytest.mark.parametrize("place", ["body start", "after intent", "body end"])
def test_a_stopped_owner_is_alive_and_overtaken_only_when_killed(
    case: Case, kind: str, place: str
) -> None:
    stopped = case.start(kind=kind, more={"stop_at": place})
    stopped.wait_until_stopped()
    applied = int(place == "body end")
    check_state(case, State("PENDING", applied, 1))
    other = case.finish(kind=kind, more={"answers": ["did not happen"]})
    assert other.said["error"] == "RunBusy"
    assert stopped.kill().was_killed
    # Immediately: no lease has to run out.
    successor = case.finish(kind=kind, run_options={"acquire_timeout": None})
    assert successor.said.get("error") != "RunBusy"
    waits = kind == "unsafe" or (kind == "verified" and not applied)
    assert ("value" in successor.said) is not waits
    assert case.effects() == (applied if waits else 1)


@pytest.mark.parametrize("kind", EFFECTFUL)
def test_an_owner_that_was_stopped_and_continues_finishes_its_own_call(
    case: Case, kind: str
) -> None:
    stopped = case.start(kind=kind, more={"stop_at": "body start"})
    stopped.wait_until_stopped()
    assert case.finish(kind=kind).said["error"] == "RunBusy"
    stopped.go_on()
    assert stopped.end().said["value"] == RESULT
    assert case.finish(kind=kind).said["replayed"] is True
    check_state(case, State("DONE", 1, 1))


# The dead.


@pytest.mark.parametrize("kind", ["keyed", "settled", "unsafe"])
def test_of_many_successors_of_a_dead_owner_exactly_one_takes_over(case: Case, kind: str) -> None:
    kill_at(case, "after intent", kind, is_async=False)
    crowd = [case.start(kind=kind) for _ in range(6)]
    said = [agent.end().said for agent in crowd]
    assert {one.get("error") for one in said} <= {None, "RunBusy", "ReplayUnsafeError"}
    assert any(one.get("error") != "RunBusy" for one in said)
    waits = kind == "unsafe"
    check_state(case, State("PENDING", 0, 1) if waits else State("DONE", 1, 2))
    assert len(case.reviews()) == int(waits)


# The overtaken. Only a store without proof of death lets this happen; here a test does it.


@pytest.fixture
def usurper(case: Case) -> Iterator[SqliteStore]:
    """A store that writes a claim over the head of a living holder."""
    store = SqliteStore(case.ledger, now=time.time())
    yield store
    store.close()


def overtake(store: SqliteStore, run_id: str) -> None:
    """Claim the run with a higher epoch, and give it up again."""
    run, me = store.load_run(run_id), store.holder()
    assert run is not None
    claimed = replace(run, epoch=run.epoch + 1, holder_id=me.holder_id)
    store.commit(Commit(workflow_id=run_id, claim=Claim(claimed, run.epoch)))
    release = RunUpdate(RunStatus.RUNNING, time.time(), release=True)
    fence = Fence(me.holder_id, claimed.epoch)
    store.commit(Commit(workflow_id=run_id, fence=fence, run=release))


@both
@pytest.mark.parametrize("kind", EFFECTFUL)
def test_what_an_overtaken_holder_learned_becomes_evidence_and_never_a_row(
    case: Case, usurper: SqliteStore, kind: str, is_async: bool
) -> None:
    owner, gate = start_and_hold(case, kind=kind, is_async=is_async)
    overtake(usurper, case.run)
    case.client.release(gate)
    assert owner.end().said["error"] == "OwnershipLost"
    check_state(case, State("PENDING", 1, 1))
    assert case.row()["result_json"] is None
    (told,) = [one for one in case.evidence() if one["source"].startswith("holder pid")]
    assert told["text"] == "the overtaken holder reports: it happened"
    assert told["result_json"] == '{"receipt":"R-7"}'
    successor = case.finish(kind=kind, is_async=is_async)
    assert ("value" in successor.said) is (kind != "unsafe")
    assert case.effects() == 1


@pytest.mark.parametrize("kind", ["verified", "settled", "unsafe"])
def test_verify_may_only_confirm_while_the_overtaken_holder_may_be_alive(
    case: Case, usurper: SqliteStore, kind: str
) -> None:
    """A paused worker wakes up and fires, fenced or not: it must be the only one."""
    # A settle time so short that it has always passed: what holds the successor back is the life.
    plan: dict[str, Any] = {"kind": kind}
    if kind == "settled":
        plan["options"] = {"settles": "0.001ms"}
    owner, gate = start_and_hold(case, **plan)
    overtake(usurper, case.run)
    successor = case.finish(**plan)
    assert successor.said["error"] == "ReplayUnsafeError"
    check_state(case, State("PENDING", 0, 1))
    refused = case.decide("did-not-happen")
    assert refused.said["error"] == "UsageError"
    assert f"pid {owner.pid}" in refused.said["text"]
    case.client.release(gate)
    assert owner.end().said["error"] == "OwnershipLost"
    again = case.finish(kind=kind)
    assert ("value" in again.said) is (kind != "unsafe")
    assert case.effects() == 1


def test_evidence_about_a_closed_review_opens_a_new_one(case: Case, usurper: SqliteStore) -> None:
    """A person swore that the old holder was stopped, and it was not: people must hear of it."""
    owner, gate = start_and_hold(case, kind="unsafe")
    overtake(usurper, case.run)
    case.finish(kind="unsafe")
    assert case.decide("did-not-happen", holder_stopped=True).said["status"] == "decided"
    assert case.finish(kind="unsafe").said["value"] == RESULT
    check_state(case, State("DONE", 1, 2))
    case.client.release(gate)
    assert owner.end().said["error"] == "OwnershipLost"
    # Two effects, by a person's word; the ledger keeps the receipt it has, and says what it knows.
    check_state(case, State("DONE", 2, 2))
    assert [one["status"] for one in case.reviews()] == ["used", "open"]
    assert case.finish(kind="unsafe").said["review"] == case.open_review()


def test_evidence_that_arrives_between_a_decision_and_its_use_stops_the_use(
    case: Case, usurper: SqliteStore
) -> None:
    """The licence was given in ignorance: the old holder was alive, and says that it happened."""
    owner, gate = start_and_hold(case, kind="unsafe")
    overtake(usurper, case.run)
    case.finish(kind="unsafe")
    case.decide("did-not-happen", holder_stopped=True)
    case.client.release(gate)
    assert owner.end().said["error"] == "OwnershipLost"
    check_state(case, State("PENDING", 1, 1))
    for _ in range(2):
        resumed = case.finish(kind="unsafe")
        assert resumed.said["error"] == "ReplayUnsafeError"
        check_state(case, State("PENDING", 1, 1))
    case.decide("happened", review=case.open_review(), result=RESULT)
    assert case.finish(kind="unsafe").said["value"] == RESULT
    check_state(case, State("DONE", 1, 1))


def test_a_holder_is_named_by_what_proves_its_life(case: Case, usurper: SqliteStore) -> None:
    owner, gate = start_and_hold(case, kind="unsafe")
    record = usurper.load_holder(case.run_record()["holder_id"])
    assert record is not None
    assert record.pid == owner.pid
    assert usurper.life_of(record.holder_id).value == "alive"
    os.kill(owner.pid, signal.SIGKILL)
    # Its parent has not taken note of its death yet, or has: it makes no difference.
    wait_until(lambda: usurper.life_of(record.holder_id).value == "dead")
    owner.end()
    case.client.release(gate)
