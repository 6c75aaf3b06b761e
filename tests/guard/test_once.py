"""One call as a run of its own, in a group of such runs (P300, P301, P304)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.adapters import declare
from nottwice.errors import InvalidArguments, KeyConflict, ReplayUnsafeError, RunRemoved, UsageError
from nottwice.guard.once import left_calls_ended
from nottwice.model.review import Verb
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryData, MemoryStore
from tests.fakes import Host, Killed, another_program, dying, unwanted

PAY = declare("pay/charge", replay="unsafe_on_replay")
READ = declare("disk/read", replay="pure")


class Counting(MemoryStore):
    """A store that keeps every commit."""

    def __init__(self, data: MemoryData | None = None) -> None:
        super().__init__(data)
        self.commits: list[Commit] = []

    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        self.commits.append(commit)


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_call_costs_two_commits_and_its_receipt_none() -> None:
    """P300. The claim comes with the intent, and the end of the run with the receipt."""
    store = Counting()
    with nt.Ledger(store) as ledger:
        for number in range(3):
            before = len(store.commits)
            made = ledger.once("order-7", str(number), PAY, {"cents": number}, lambda _: "paid")
            assert (made.value, made.replayed) == ("paid", False)
            first, last = store.commits[before:]
            assert first.claim is not None
            assert first.calls[0].row.status.in_doubt
            assert last.run is not None
            assert last.run.release
            assert last.calls[0].row.result is not None
            again = ledger.once("order-7", str(number), PAY, {"cents": number}, unwanted)
            assert (again.value, again.replayed) == ("paid", True)
            assert len(store.commits) == before + 2
        assert [run.id for run in ledger.runs(group="order-7")] == [
            "order-7/2",
            "order-7/1",
            "order-7/0",
        ]
        assert {run.status for run in ledger.runs()} == {"completed"}


def test_an_event_loop_makes_the_same_two_commits() -> None:
    store = Counting()

    async def pay(arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return "paid"

    async def work() -> None:
        with nt.Ledger(store) as ledger:
            made = [ledger.aonce("order-7", str(n), PAY, {"n": n}, pay) for n in range(8)]
            assert [one.value for one in await asyncio.gather(*made)] == ["paid"] * 8
            again = await ledger.aonce("order-7", "3", PAY, {"n": 3}, unwanted)
            assert again.replayed

    asyncio.run(work())
    assert len(store.commits) == 16


def test_a_call_that_was_killed_after_its_effect_waits_for_a_person(host: Host) -> None:
    """P300. The next process neither repeats it nor invents a result; the decision is used."""
    with host.process() as ledger:
        ledger.once("order-7", "charge", PAY, {}, dying(ledger))
    with host.process() as ledger, pytest.raises(ReplayUnsafeError) as caught:
        ledger.once("order-7", "charge", PAY, {}, unwanted)
    assert caught.value.review_id == host.open_reviews[0].review_id
    assert host.open_reviews[0].group == "order-7"
    host.decide(Verb.DID_NOT_HAPPEN)
    with host.process() as ledger:
        made = ledger.once("order-7", "charge", PAY, {}, lambda _: "at last")
        assert (made.value, made.attempts) == ("at last", 2)
        assert ledger.run_record("order-7/charge").status == "completed"


@pytest.mark.parametrize("point", range(1, 5))
def test_a_kill_at_any_commit_leaves_one_effect_or_a_question(host: Host, point: int) -> None:
    """P300. Before the first commit nothing is known; after the second, the receipt is there."""
    made: list[int] = []
    with host.process(dies_at=point) as ledger:
        ledger.once("g", "1", PAY, {}, lambda _: made.append(1))
    with host.process() as ledger:
        if point in (2, 3):
            with pytest.raises(ReplayUnsafeError):
                ledger.once("g", "1", PAY, {}, unwanted)
            assert len(made) == point - 2
        else:
            ledger.once("g", "1", PAY, {}, lambda _: made.append(2))
            assert made == ([2] if point == 1 else [1])


def test_a_doubt_stops_new_effects_of_its_group_and_of_no_other(host: Host) -> None:
    """P301. A receipt is still returned, and a decision frees the group."""
    with host.process() as ledger:
        ledger.once("order-7", "first", PAY, {"n": 1}, lambda _: "first")
        ledger.once("order-7", "lost", PAY, {"n": 2}, dying(ledger))
    with host.process() as ledger:
        with pytest.raises(ReplayUnsafeError):
            ledger.once("order-7", "lost", PAY, {"n": 2}, unwanted)
        with pytest.raises(nt.RunBlocked, match="order-7/lost") as caught:
            ledger.once("order-7", "next", PAY, {"n": 3}, unwanted)
        assert caught.value.review_ids == (host.open_reviews[0].review_id,)
        assert ledger.once("order-7", "first", PAY, {"n": 1}, unwanted).value == "first"
        assert ledger.once("order-8", "next", PAY, {"n": 3}, lambda _: "other").value == "other"
        assert "order-7/next" not in {run.id for run in ledger.runs()}
        host.decide(Verb.HAPPENED, result="it was paid")
        assert ledger.once("order-7", "next", PAY, {"n": 3}, lambda _: "next").value == "next"
        assert ledger.once("order-7", "lost", PAY, {"n": 2}, unwanted).value == "it was paid"


def test_a_doubt_of_a_run_with_the_same_group_as_a_label_stops_nothing(host: Host) -> None:
    """P220 and P301: only runs of one call wait for each other."""
    with host.process() as ledger, ledger.run("plain", group="order-7"):
        with ledger.attach() as handle:
            handle.call(PAY, {}, dying(ledger))
    with host.process() as ledger:
        with pytest.raises(ReplayUnsafeError), ledger.run("plain"), ledger.attach() as handle:
            handle.call(PAY, {}, unwanted)
        assert ledger.once("order-7", "next", PAY, {"n": 3}, lambda _: "made").value == "made"


def test_one_name_stands_for_one_call(host: Host) -> None:
    """P300. Other arguments under the same name are refused, and the run stays as it was."""
    with host.process() as ledger:
        ledger.once("g", "1", PAY, {"cents": 1}, lambda _: "paid")
        with pytest.raises(KeyConflict, match="cents=2"):
            ledger.once("g", "1", PAY, {"cents": 2}, unwanted)
        assert ledger.run_record("g/1").status == "completed"
        assert ledger.once("g", "1", PAY, {"cents": 1}, unwanted).value == "paid"


def test_two_groups_never_share_a_run_whatever_their_names_are(host: Host) -> None:
    """P300. A slash in the name is not a border of the group, and its escape is no other name."""
    calls = [("a/b", "c"), ("a", "b/c"), ("a", "b%2Fc"), ("a", "b%252Fc")]
    made: list[str] = []
    with host.process() as ledger:
        for group, name in calls:
            assert not ledger.once(group, name, PAY, {"n": 1}, lambda _: len(made)).replayed
            made.append(name)
        found = [ledger.once(*call, PAY, {"n": 1}, unwanted).value for call in calls]
        ids = {run.id: run.group for run in ledger.runs()}
    assert found == [0, 1, 2, 3]
    assert ids == {
        "a/b/c": "a/b",
        "a/b%2Fc": "a",
        "a/b%252Fc": "a",
        "a/b%25252Fc": "a",
    }


def test_a_call_that_failed_without_effect_may_be_made_again(host: Host) -> None:
    def declined(arguments: dict[str, Any]) -> None:
        raise nt.Permanent("declined")

    with host.process() as ledger:
        with pytest.raises(nt.Permanent):
            ledger.once("g", "1", PAY, {"cents": 1}, declined)
        assert ledger.run_record("g/1").status == "failed"
        with pytest.raises(nt.Permanent):
            ledger.once("g", "1", PAY, {"cents": 1}, unwanted, retry=False)
        assert ledger.once("g", "1", PAY, {"cents": 2}, lambda _: "paid").value == "paid"
        assert ledger.run_record("g/1").status == "completed"


def test_of_two_threads_that_ask_for_the_same_call_one_makes_it(tmp_path: Path) -> None:
    made: list[str] = []
    started, go = threading.Event(), threading.Event()

    def slow(arguments: dict[str, Any]) -> str:
        made.append("made")
        started.set()
        assert go.wait(30)
        return "paid"

    with nt.Ledger(tmp_path / "ledger.db") as ledger:
        first = threading.Thread(target=lambda: ledger.once("g", "1", PAY, {}, slow))
        first.start()
        assert started.wait(30)
        with pytest.raises(nt.RunBusy) as caught:
            ledger.once("g", "1", PAY, {}, unwanted)
        assert caught.value.retry_in == 1.0
        go.set()
        assert ledger.once("g", "1", PAY, {}, unwanted, acquire_timeout="30s").value == "paid"
        first.join()
    assert made == ["made"]


def test_a_process_that_was_faster_is_noticed_by_the_commit(host: Host) -> None:
    """P300. Between the look and the first commit, another process begins the same call."""
    with host.process() as other, host.process() as ledger:
        store = ledger.store
        load = store.load_run

        def faster(run_id: str) -> Any:
            found = load(run_id)
            if found is None:
                store.load_run = load  # type: ignore[method-assign]
                store.load_run(run_id)
                other.once("g", "1", PAY, {}, lambda _: "theirs")
            return found

        store.load_run = faster  # type: ignore[assignment, method-assign]
        made = ledger.once("g", "1", PAY, {}, unwanted)
        assert (made.value, made.replayed) == ("theirs", True)


def test_an_approval_is_asked_for_and_used(host: Host) -> None:
    with host.process() as ledger:
        with pytest.raises(nt.RunBlocked):
            ledger.once("g", "1", PAY, {}, unwanted, ask="more than usual")
        assert ledger.run_record("g/1").status == "waiting"
        host.decide(Verb.APPROVE)
        made = ledger.once("g", "1", PAY, {}, lambda _: "paid", ask="more than usual")
        assert made.value == "paid"


def test_a_tool_of_nt_tool_is_called_by_its_own_body(host: Host) -> None:
    with another_program(), host.process() as ledger:

        @nt.tool("idempotent_with_key", key="refund-{order_id}", window="1h")
        def refund(order_id: int, cents: int = 5) -> dict[str, int]:
            return {"refunded": cents}

        assert ledger.once("g", "1", refund, {"order_id": 7}).value == {"refunded": 5}
        assert ledger.once("g", "1", refund, {"order_id": 7, "cents": 5}).replayed


def test_the_method_of_an_instance_is_called_with_it(host: Host) -> None:
    with another_program(), host.process() as ledger:

        class Shop:
            def __init__(self, name: str) -> None:
                self.name = name

            @nt.tool("unsafe_on_replay", bound_by=("name",))
            def refund(self, order_id: int) -> str:
                return f"{self.name}-{order_id}"

        here: Any = Shop("here")
        again: Any = Shop("here")
        there: Any = Shop("there")
        assert ledger.once("g", "1", here.refund, {"order_id": 7}).value == "here-7"
        assert ledger.once("g", "1", again.refund, {"order_id": 7}).replayed
        with pytest.raises(KeyConflict):
            ledger.once("g", "1", there.refund, {"order_id": 7})
        with pytest.raises(InvalidArguments, match="without its instance"):
            ledger.once("g", "2", Shop.refund, {"order_id": 7})


def test_what_cannot_be_a_run_is_refused_before_anything_happens(host: Host) -> None:
    with host.process() as ledger:
        with pytest.raises(UsageError, match="is for effects"):
            ledger.once("g", "1", READ, {}, unwanted)
        for group, name in (("", "1"), ("g", ""), ("g\n", "1")):
            with pytest.raises(UsageError):
                ledger.once(group, name, PAY, {}, unwanted)
        assert not list(ledger.runs())


def test_a_removed_call_is_never_made_again(host: Host) -> None:
    """P89 holds for runs of one call, and a group is removed as a whole (P305)."""
    with host.process() as ledger:
        ledger.once("g", "old", PAY, {"n": 1}, lambda _: None)
        host.clock.advance(300 * 86_400)
        ledger.once("g", "new", PAY, {"n": 2}, lambda _: None)
        host.clock.advance(10 * 86_400)
        assert nt.remove_expired(store=ledger, dry_run=True, unknown_tools=True).runs == 0
        host.clock.advance(800 * 86_400)
        assert nt.remove_expired(store=ledger, unknown_tools=True).runs == 2
        with pytest.raises(RunRemoved):
            ledger.once("g", "old", PAY, {"n": 1}, unwanted)
        assert not list(ledger.notices())


def test_the_host_is_told_when_to_come_back_and_no_person_is_asked(host: Host) -> None:
    """P304. A verify that needs longer than the host waits leaves the doubt as it was."""
    looked: list[float] = []

    def verify(call: nt.Call) -> nt.Verification:
        looked.append(host.clock.now())
        return nt.did_not_happen()

    spec = declare("pay/slow", replay="unsafe_on_replay", verify=verify, settles="30s")
    with host.process() as ledger:
        ledger.once("g", "1", spec, {}, dying(ledger))
    with host.process() as ledger:
        with pytest.raises(nt.RunWaits) as caught:
            ledger.once("g", "1", spec, {}, unwanted, within="10s")
        assert caught.value.retry_in == pytest.approx(30.0)
        assert not host.open_reviews
        assert not host.clock.pauses
        assert ledger.run_record("g/1").status == "running"
        host.clock.advance(31.0)
        made = ledger.once("g", "1", spec, {}, lambda _: "made", within="10s")
        assert (made.value, made.attempts) == ("made", 2)


def test_a_person_is_asked_when_the_patience_is_over_however_often_a_host_calls(
    host: Host,
) -> None:
    """P304. The time counts from the first look, not from every call of the host."""

    def verify(call: nt.Call) -> nt.Verification:
        return nt.still_running()

    spec = declare("pay/stuck", replay="unsafe_on_replay", verify=verify)
    with host.process() as ledger:
        ledger.once("g", "1", spec, {}, dying(ledger))
    tries = 0
    while not host.open_reviews:
        tries += 1
        with host.process() as ledger, pytest.raises((nt.RunWaits, ReplayUnsafeError)):
            ledger.once("g", "1", spec, {}, unwanted, within="1s", settle_timeout="60s")
        host.clock.advance(10.0)
        assert tries < 20
    assert 5 < tries < 12


def test_verify_gets_no_more_time_than_the_host_has(host: Host) -> None:
    """P304. The limit of the hook is that of the host, if it is shorter."""
    limits: list[float] = []

    class Watching:
        real = nt.Ledger(":memory:").host.driver

        def answer(self, ask: Any, of: Any) -> Any:
            self.note(ask)
            return self.real.answer(ask, of)

        async def answer_async(self, ask: Any, of: Any) -> Any:
            self.note(ask)
            return await self.real.answer_async(ask, of)

        def note(self, ask: Any) -> None:
            if type(ask).__name__ == "Verify":
                limits.append(ask.limit_seconds)

    def verify(call: nt.Call) -> nt.Verification:
        return nt.happened("found")

    spec = declare("pay/looked", replay="unsafe_on_replay", verify=verify, verify_limit="30s")
    with host.process() as ledger:
        ledger.once("g", "1", spec, {}, dying(ledger))
    with host.process() as ledger:
        watched = nt.Ledger(ledger.store, clock=host.clock, driver=Watching())
        assert watched.once("g", "1", spec, {}, unwanted, within="4s").value == "found"
    assert limits == [4.0]
    with host.process() as ledger:
        ledger.once("g", "2", spec, {}, dying(ledger))
    with host.process() as ledger:
        watched = nt.Ledger(ledger.store, clock=host.clock, driver=Watching())
        found = asyncio.run(watched.aonce("g", "2", spec, {}, unwanted, within="5s"))
        assert found.value == "found"
    assert limits == [4.0, 5.0]


def test_a_caller_that_is_cancelled_leaves_immediately_and_the_outcome_is_recorded() -> None:
    """P304. What has begun continues without its caller, so nothing is left in doubt."""

    async def work() -> None:
        store = Counting()
        with nt.Ledger(store) as ledger:
            started, go = asyncio.Event(), asyncio.Event()

            async def slow(arguments: dict[str, Any]) -> str:
                started.set()
                await go.wait()
                return "paid"

            caller = asyncio.ensure_future(ledger.aonce("g", "1", PAY, {}, slow))
            await started.wait()
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            assert not go.is_set()
            go.set()
            made = await ledger.aonce("g", "1", PAY, {}, unwanted, acquire_timeout="30s")
            assert made.value == "paid"
            assert not store.open_reviews()

    asyncio.run(work())


def test_a_host_can_wait_for_the_calls_whose_callers_were_cancelled() -> None:
    """P304. The end of their event loop would leave them in doubt."""
    store = Counting()

    async def work() -> None:
        started, go = asyncio.Event(), asyncio.Event()

        async def slow(arguments: dict[str, Any]) -> str:
            started.set()
            await go.wait()
            return "paid"

        caller = asyncio.ensure_future(ledger.aonce("g", "1", PAY, {}, slow))
        await started.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        asyncio.get_running_loop().call_soon(go.set)
        await left_calls_ended()

    with nt.Ledger(store) as ledger:
        asyncio.run(work())
        assert ledger.once("g", "1", PAY, {}, unwanted).value == "paid"
        assert not store.open_reviews()


def test_a_caller_that_is_cancelled_before_it_began_leaves_nothing_behind(host: Host) -> None:
    """P304. While verify is asked, the run is let go, and nothing was sent."""
    entered = threading.Event()

    async def verify(call: nt.Call) -> nt.Verification:
        entered.set()
        await asyncio.sleep(3600)
        return nt.happened(None)

    spec = declare("pay/asked", replay="unsafe_on_replay", verify=verify, verify_limit="2h")
    with host.process() as ledger:
        ledger.once("g", "1", spec, {}, dying(ledger))

    async def work(ledger: nt.Ledger) -> None:
        caller = asyncio.ensure_future(ledger.aonce("g", "1", spec, {}, unwanted))
        while not entered.is_set():
            await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        while ledger.store.load_run("g/1").holder_id is not None:  # type: ignore[union-attr]
            await asyncio.sleep(0)

    with host.process() as ledger:
        asyncio.run(work(ledger))
        assert ledger.run_record("g/1").status == "running"
        assert not host.open_reviews


def test_killed_is_not_caught() -> None:
    """The negative control of the tests above: a process that dies says nothing."""
    host = Host()
    with host.process() as ledger, pytest.raises(Killed):
        ledger.once("g", "1", PAY, {}, dying(ledger))
