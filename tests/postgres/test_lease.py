"""Who is alive, who may be overtaken, and who only seems to be dead? (P57, P58)"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.model.run import HolderRecord, Life, RunStatus
from nottwice.model.tool import Verification
from nottwice.store.interface import Claim, Commit, RunUpdate
from nottwice.store.postgres.lease import life_of
from nottwice.store.postgres.store import PostgresStore
from nottwice.store.tables import HOLDERS
from tests.fakes import FakeClock
from tests.postgres import server
from tests.store.samples import NOW, claim, intent, pending, run_record

DAY = 86_400.0
Open = Callable[..., PostgresStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    opened: list[PostgresStore] = []

    def open_one(**words: object) -> PostgresStore:
        opened.append(PostgresStore(server.ledger_url(tmp_path, **words), now=NOW))
        return opened[-1]

    yield open_one
    for store in opened:
        store._held.clear()
        store.close()


def register(store: PostgresStore, record: HolderRecord, *, leased_seconds: float) -> None:
    """A holder that is not this process, with a lease that runs for so long, or ran out."""
    written = HOLDERS.named(HOLDERS.row(replace(record, lock_file=None)))
    del written["lock_file"]
    names, marks = ", ".join(written), ", ".join(["%s"] * len(written))
    with server.connected() as connection:
        connection.execute(
            f"INSERT INTO {store._place.schema}.holders ({names}, lease_until) VALUES ({marks},"
            " clock_timestamp() + %s * interval '1 second')",
            (*written.values(), leased_seconds),
        )


def end_lease(store: PostgresStore) -> None:
    """What a holder looks like that is stopped or cut off for longer than its lease."""
    if store._renewal is not None:
        store._renewal.stop()
    with server.connected() as connection:
        connection.execute(
            f"UPDATE {store._place.schema}.holders"
            " SET lease_until = clock_timestamp() WHERE holder_id = %s",
            (store._record.holder_id,),
        )


CASES: dict[str, dict[str, Any]] = {
    "another machine": {"boot_id": "other", "machine_id": "other", "host": "other"},
    "another machine of the same name": {"boot_id": "other", "machine_id": "other"},
    "a clone, or another boot of this machine": {"boot_id": "other"},
    "a container on this machine": {"pid_namespace": "pid:[1]"},
    "a machine that tells nothing": {"boot_id": "", "pid_namespace": "", "pid_started": ""},
}


@pytest.mark.parametrize("what", CASES)
def test_what_cannot_be_seen_from_here_is_never_proven_dead(open_store: Open, what: str) -> None:
    store = open_store()
    gone = replace(store.holder(), pid=1 << 22, pid_started="1")
    for leased_seconds, life in ((60.0, Life.ALIVE), (-60.0, Life.NOT_PROVEN)):
        record = replace(gone, holder_id=f"{what} {leased_seconds}", **CASES[what])
        register(store, record, leased_seconds=leased_seconds)
        assert store.life_of(record.holder_id) is life


@pytest.mark.parametrize("leased_seconds", [60.0, -60.0])
def test_a_process_that_is_gone_from_this_machine_is_dead_whatever_its_lease(
    open_store: Open, leased_seconds: float
) -> None:
    store = open_store()
    for pid, started in ((1 << 22, "1"), (store.holder().pid, "1")):
        record = replace(store.holder(), holder_id=f"gone {pid}", pid=pid, pid_started=started)
        register(store, record, leased_seconds=leased_seconds)
        assert store.life_of(record.holder_id) is Life.DEAD


def test_a_holder_whose_start_is_not_known_is_not_proven_dead() -> None:
    here = replace(_record("here"), pid_started="5")
    gone = replace(here, holder_id="gone", pid=1 << 22)
    assert life_of(gone, leased=False, here=here) is Life.DEAD
    for unknown in ("boot_id", "pid_namespace", "pid_started"):
        nothing: dict[str, Any] = {unknown: ""}
        blank = replace(gone, **nothing)
        assert life_of(blank, leased=False, here=replace(here, **nothing)) is Life.NOT_PROVEN


def _record(holder_id: str) -> HolderRecord:
    return HolderRecord(holder_id, "host", "machine", "boot", "pid:[4]", 7, "9", NOW)


def test_a_lease_is_renewed_while_nothing_else_happens(open_store: Open) -> None:
    store = open_store(lease_seconds=1)
    first = _lease(store, store.holder().holder_id)
    waited = threading.Event()
    for _ in range(100):
        if _lease(store, store.holder().holder_id) > first + 0.5:
            break
        waited.wait(0.05)
    assert _lease(store, store.holder().holder_id) > first + 0.5


def test_a_store_that_is_closed_keeps_the_lease_of_a_run_that_it_holds(open_store: Open) -> None:
    store, other = open_store(lease_seconds=1), open_store()
    fence = claim(store)
    store.close()
    first = _lease(other, fence.holder_id)
    waited = threading.Event()
    for _ in range(100):
        if _lease(other, fence.holder_id) > first + 0.5:
            break
        waited.wait(0.05)
    assert _lease(other, fence.holder_id) > first + 0.5
    over = RunUpdate(RunStatus.COMPLETED, NOW, release=True)
    store.commit(Commit(workflow_id="run", fence=fence, run=over))
    store.close()
    assert store._renewal is not None
    assert not store._renewal.works


def _lease(store: PostgresStore, holder_id: str) -> float:
    with server.connected() as connection:
        found = connection.execute(
            f"SELECT extract(epoch FROM lease_until)::float FROM {store._place.schema}.holders"
            " WHERE holder_id = %s",
            (holder_id,),
        ).fetchone()
    assert found is not None
    return float(found[0])


# With the engine: two holders of one run, in one process, each with a store of its own

sent: list[str] = []
during: list[Callable[[], None]] = []


@nt.tool("unsafe_on_replay", name="send_with_lease")
def send(to: str) -> dict[str, str]:
    for happen in during:
        happen()
    sent.append(to)
    return {"to": to}


answers: list[Verification] = []


def look(call: nt.Call) -> Verification:
    return answers.pop(0) if answers else nt.cannot_tell()


@nt.tool("unsafe_on_replay", name="charge_with_lease", verify=look, settles="1s")
def charge(to: str) -> dict[str, str]:
    for happen in during:
        happen()
    sent.append(to)
    return {"to": to}


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()
    during.clear()
    answers.clear()


def test_a_run_whose_holder_has_a_lease_is_busy_also_while_a_long_tool_runs(
    open_store: Open,
) -> None:
    first, second = open_store(), open_store()
    busy: list[nt.RunBusy] = []

    def somebody_else_tries() -> None:
        with pytest.raises(nt.RunBusy) as refused:
            with nt.Ledger(second).run("run"):
                pass
        busy.append(refused.value)

    during.append(somebody_else_tries)
    with nt.Ledger(first).run("run"):
        send("ann")
    assert len(busy) == 1
    assert sent == ["ann"]


def test_a_holder_that_lost_its_lease_is_fenced_at_its_next_write_and_sends_nothing_more(
    open_store: Open,
) -> None:
    first, second = open_store(), open_store()

    def overtaken() -> None:
        during.clear()
        end_lease(first)
        with pytest.raises(nt.errors.ReplayUnsafeError):
            with nt.Ledger(second).run("run"):
                pass

    during.append(overtaken)
    with pytest.raises(nt.errors.OwnershipLost):
        with nt.Ledger(first).run("run"):
            try:
                send("ann")
            except nt.errors.OwnershipLost:
                send("bob")
    assert sent == ["ann"]
    (row,) = second.calls("run")
    assert row.status is not CallStatus.DONE
    assert "the overtaken holder reports: it happened" in [
        item.text for item in second.evidence("run")
    ]


@pytest.mark.parametrize("skewed", [DAY, -DAY])
def test_clocks_that_are_off_by_a_day_change_nothing_about_who_is_alive(
    open_store: Open, skewed: float
) -> None:
    first, second = open_store(), open_store()
    ahead, behind = FakeClock(NOW + skewed), FakeClock(NOW - skewed)

    def tried_and_overtaken() -> None:
        during.clear()
        with pytest.raises(nt.RunBusy):
            with nt.Ledger(second, clock=behind).run("run"):
                pass
        end_lease(first)
        with pytest.raises(nt.errors.ReplayUnsafeError):
            with nt.Ledger(second, clock=behind).run("run"):
                pass

    during.append(tried_and_overtaken)
    with pytest.raises(nt.errors.OwnershipLost):
        with nt.Ledger(first, clock=ahead).run("run"):
            send("ann")
    assert sent == ["ann"]


def test_verify_may_only_confirm_what_a_holder_left_whose_lease_ran_out(open_store: Open) -> None:
    first, second = open_store(), open_store()
    clock = FakeClock(NOW)

    def overtaken() -> None:
        during.clear()
        end_lease(first)
        clock.advance(DAY)
        answers.append(nt.did_not_happen())
        with pytest.raises(nt.errors.ReplayUnsafeError):
            with nt.Ledger(second, clock=clock).run("run"):
                charge("ann")
        answers.append(nt.happened({"to": "ann"}))

    during.append(overtaken)
    with pytest.raises(nt.errors.OwnershipLost):
        with nt.Ledger(first, clock=clock).run("run"):
            charge("ann")
    # "It did not happen" licensed nothing; the effect came after it was said.
    assert sent == ["ann"]


@pytest.mark.parametrize("skewed", [DAY, -DAY])
def test_a_run_that_can_continue_is_found_by_a_worker_whose_clock_is_off(
    open_store: Open, skewed: float
) -> None:
    store = open_store()
    written = run_record(
        epoch=0, holder_id=None, claimed_at=None, updated_at=NOW, graph_id="refund@1.0.0"
    )
    store.commit(Commit(workflow_id="run", claim=Claim(written)))
    found = store.ready_runs(begun=False, now=NOW + skewed, limit=5)
    assert [run.workflow_id for run in found] == ["run"]


def test_a_fenced_write_leaves_no_trace(open_store: Open) -> None:
    first, second = open_store(), open_store()
    fence = claim(first)
    end_lease(first)
    claim(second, after=second.load_run("run"))
    for careful in (True, False):
        with pytest.raises(nt.errors.OwnershipLost):
            first.commit(intent(pending(), fence, unless_blocked=careful))
    assert second.calls("run") == []
