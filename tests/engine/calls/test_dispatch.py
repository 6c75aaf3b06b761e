"""One call: looked up, decided, done once, and answered with its receipt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.session import current_scope
from nottwice.model.call import CallIdentity, CallRow, CallStatus
from nottwice.model.replay_class import ReplayClass
from nottwice.model.review import Verb
from nottwice.store.interface import Commit
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing import forget_tools
from tests.fakes import Host


def test_the_first_call_is_live_and_the_next_a_replay_with_the_same_id(host: Host) -> None:
    @nt.tool("unsafe_on_replay")
    def send(to: str) -> dict[str, int]:
        return {"id": 1}

    receipts: list[nt.types.Receipt[dict[str, int]]] = []
    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            receipts.append(send.receipt("a"))
    live, replayed = receipts
    assert (live.replayed, replayed.replayed) == (False, True)
    assert live.id == replayed.id == host.calls[0].call_id
    assert live.value == replayed.value == {"id": 1}
    assert (live.attempts, live.tool, live.settled_by) == (1, "send", None)


def test_each_run_has_receipts_of_its_own(host: Host) -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        sent.append(to)
        return to

    for run in ("r1", "r2", "r1"):
        with host.process() as ledger, ledger.run(run):
            send("a")
    assert sent == ["a", "a"]


def test_a_deliberate_repeat_happens_once_for_each_label(host: Host) -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> int:
        sent.append(to)
        return len(sent)

    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            values = [send("a"), send.again("second")("a"), send.again("third")("a"), send("a")]
            assert values == [1, 2, 3, 1]
    assert [row.label for row in host.calls] == [None, "second", "third"]


def test_a_key_belongs_to_one_set_of_arguments(host: Host) -> None:
    sent: list[int] = []

    @nt.tool("idempotent_with_key", key="refund-{order}", window="24h")
    def refund(order: int, cents: int) -> int:
        sent.append(cents)
        return cents

    with host.process() as ledger:
        with ledger.run("r1"):
            refund(7, 4000)
        with ledger.run("r2"):
            with pytest.raises(nt.errors.KeyConflict, match="run 'r1' already used"):
                refund(7, 5000)
            refund(7, 4000)
    assert sent == [4000, 4000]
    assert len(host.calls) == 2


def test_the_window_counts_from_the_first_use_of_a_key_in_any_run(host: Host) -> None:
    @nt.tool("idempotent_with_key", key="refund-{order}", window="24h")
    def refund(order: int) -> int:
        return order

    with host.process() as ledger, ledger.run("r1"):
        refund(7)
    host.clock.advance(23 * 3600)
    with host.process() as ledger, ledger.run("r2"):
        refund(7)
    host.clock.advance(2 * 3600)
    with host.process() as ledger, ledger.run("r3"):
        refund(7)
    since = [row.key_since for row in host.calls]
    assert since[1] == since[0], "the upstream still remembers the first use"
    assert since[2] == host.calls[2].created_at, "by now it has forgotten"


def test_a_pure_failure_is_retried_when_that_may_help_and_recorded_when_not(host: Host) -> None:
    tries: list[str] = []

    @nt.tool("pure", retry=nt.RetryPolicy(attempts=3))
    def look(what: str) -> str:
        tries.append(what)
        if what == "down":
            raise ConnectionRefusedError
        if what == "dropped" and len(tries) < 3:
            raise nt.Ambiguous("no answer")
        if what == "missing":
            raise KeyError(what)
        return what

    with host.process() as ledger, ledger.run("r"):
        for what, error in (("down", nt.Retryable), ("missing", nt.Permanent)):
            for _ in range(2):
                with pytest.raises(error):
                    look(what)
    assert tries == ["down"] * 3 + ["missing"]
    assert [row.status for row in host.calls] == [CallStatus.FAILED] * 2
    tries.clear()
    with host.process() as ledger, ledger.run("r"):
        assert look("dropped") == "dropped"
        with pytest.raises(nt.Permanent):
            look("missing")
        assert tries == ["dropped"] * 3


def test_that_another_run_is_busy_is_no_failure_of_the_pure_tool_that_opens_it(host: Host) -> None:
    with host.process() as ledger, host.process() as other:

        @nt.tool("pure")
        def peek(run_id: str) -> str:
            with other.run(run_id):
                return "opened"

        with ledger.run("busy"):
            with ledger.run("r"), pytest.raises(nt.RunBusy):
                peek("busy")
        with ledger.run("r"):
            assert peek("busy") == "opened"


def test_a_recorded_failure_that_escapes_an_outer_tool_does_not_speak_for_it(host: Host) -> None:
    """The outer tool may have taken effect before the inner one was refused."""

    @nt.tool("unsafe_on_replay")
    def inner(x: int) -> None:
        raise nt.Permanent("refused")

    @nt.tool("unsafe_on_replay")
    def outer(x: int) -> None:
        inner(x)

    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayUnsafeError):
        outer(1)
    states = {row.identity.tool_name: row.status for row in host.calls}
    assert states == {"outer": CallStatus.UNKNOWN, "inner": CallStatus.FAILED}


def test_a_pure_result_that_was_not_kept_is_computed_again(host: Host) -> None:
    runs: list[int] = []

    @nt.tool("pure")
    def look(x: int) -> Any:
        runs.append(x)
        return object()

    with host.process() as ledger, ledger.run("r"):
        look(1)
        look(1)
    assert runs == [1, 1]


def test_an_effect_whose_result_was_not_kept_is_not_fired_again(host: Host) -> None:
    runs: list[int] = []

    @nt.tool("unsafe_on_replay")
    def send(x: int) -> Any:
        runs.append(x)
        return object()

    with host.process() as ledger, ledger.run("r"):
        send(1)
        with pytest.raises(nt.errors.ResultNotKept, match="took effect"):
            send(1)
    assert runs == [1]


def test_a_recorded_class_is_what_counts_for_a_receipt(host: Host) -> None:
    @nt.tool("unsafe_on_replay", name="send")
    def before(x: int) -> str:
        return "sent"

    with host.process() as ledger, ledger.run("r"):
        before(1)
    assert host.calls[0].replay_class is ReplayClass.UNSAFE_ON_REPLAY
    forget_tools()

    @nt.tool("pure", name="send")
    def after(x: int) -> str:
        raise AssertionError("it must not run again")

    with host.process() as ledger, ledger.run("r"):
        assert after(1) == "sent"


class WatchedStore(SqliteStore):
    """The real ledger; knows which calls were looked up, and can refuse to write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, now=0.0)
        self.looked_up = 0
        self.commits = 0
        self.full = False

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        self.looked_up += 1
        return super().load_call(identity)

    def commit(self, commit: Commit) -> None:
        if self.full:
            raise nt.errors.StoreError("The disk is full. Nothing was written.")
        self.commits += 1
        super().commit(commit)

    def looks(self) -> int:
        """How many calls were looked up since the last time."""
        looked_up, self.looked_up = self.looked_up, 0
        return looked_up

    def written(self) -> bytes:
        return Path(f"{self.location}-wal").read_bytes()


@nt.tool("unsafe_on_replay")
def expected_send(to: str) -> str:
    return f"sent to {to}"


@nt.tool("unsafe_on_replay")
def expected_doubt(to: str) -> str:
    raise nt.Ambiguous("no answer")


@nt.tool("pure")
def expected_look(what: str) -> str:
    return what


@pytest.fixture
def watched(tmp_path: Path) -> WatchedStore:
    return WatchedStore(tmp_path / "ledger.db")


def test_after_a_new_call_the_next_ones_are_expected_to_be_new_and_not_looked_up(
    watched: WatchedStore,
) -> None:
    with nt.Ledger(watched).run("r"):
        receipts = [expected_send.receipt(to) for to in ("a", "b", "c")]
        assert watched.looks() == 1, "the first one, and nothing but the first one"
    assert [receipt.replayed for receipt in receipts] == [False, False, False]


def test_a_replay_that_was_expected_to_be_new_writes_nothing_and_does_not_fire(
    watched: WatchedStore,
) -> None:
    with nt.Ledger(watched).run("r"):
        live = [expected_send.receipt(to) for to in ("a", "b")]
        watched.looks()
        before = watched.written()

        replayed = [expected_send.receipt(to) for to in ("a", "b")]

        assert watched.written() == before, "nothing was written, so nothing was synced"
        assert watched.looks() == 2, "the first is found by its intent, the second by a look"
    assert [receipt.replayed for receipt in replayed] == [True, True]
    assert [receipt.id for receipt in replayed] == [receipt.id for receipt in live]
    assert [receipt.value for receipt in replayed] == ["sent to a", "sent to b"]


def test_a_resumed_run_looks_first_until_it_has_caught_up(watched: WatchedStore) -> None:
    with nt.Ledger(watched).run("r"):
        for to in ("a", "b"):
            expected_send(to)
    watched.looks()
    with nt.Ledger(watched).run("r"):
        receipts = [expected_send.receipt(to) for to in ("a", "b", "c", "d")]
        assert watched.looks() == 3, "a, b and c; after c was new, d is expected to be"
    assert [receipt.replayed for receipt in receipts] == [True, True, False, False]


def test_a_receipt_is_handed_out_while_the_run_waits_though_the_call_was_expected_to_be_new(
    watched: WatchedStore,
) -> None:
    with nt.Ledger(watched).run("r"):
        expected_send("a")
        with pytest.raises(nt.errors.ReplayUnsafeError):
            expected_doubt("b")
        expected_look("what was never looked at")

        assert expected_send.receipt("a").replayed
        expected_look("something else")
        with pytest.raises(nt.RunBlocked):
            expected_send("c")


def test_when_nothing_can_be_written_the_next_call_is_looked_up(watched: WatchedStore) -> None:
    with nt.Ledger(watched).run("r"):
        expected_send("a")
        watched.full = True
        with pytest.raises(nt.errors.StoreError, match="full"):
            expected_send("a")
        assert expected_send.receipt("a").replayed
        watched.full = False


def test_a_call_of_a_pure_tool_or_a_finished_step_is_looked_up_whatever_is_expected(
    watched: WatchedStore,
) -> None:
    with nt.Ledger(watched).run("r"):
        with nt.step("first"):
            expected_send("a")
        expected_send("new")
        watched.looks()
        with nt.step("first"):
            assert expected_send.receipt("a").replayed
        expected_look("x")
        assert watched.looks() == 2


def test_a_step_that_still_holds_effects_takes_none_of_them_for_new(
    watched: WatchedStore,
) -> None:
    with nt.Ledger(watched).run("r"):
        with pytest.raises(ZeroDivisionError), nt.step("first"):
            for to in ("a", "b"):
                expected_send(to)
            raise ZeroDivisionError
        with nt.step("later"):
            expected_send("c")
        expected_send("new")
        with nt.step("first"):
            assert [expected_send.receipt(to).replayed for to in ("a", "b")] == [True, True]
            expected_look("new again")
            assert expected_send.receipt("a").replayed, "a later step is no reason to doubt it"
            expected_look("and again")
            with nt.step("inner"), pytest.raises(nt.errors.ReplayDriftError, match="drifted"):
                expected_send("unheard of")


def test_a_retry_looks_at_the_failure_it_is_about(watched: WatchedStore) -> None:
    tries: list[str] = []

    @nt.tool("unsafe_on_replay", retry=nt.RetryPolicy(attempts=1))
    def expected_retry(to: str) -> str:
        tries.append(to)
        if len(tries) == 1:
            raise nt.Permanent("no such address")
        return to

    with nt.Ledger(watched).run("r"):
        with pytest.raises(nt.Permanent):
            expected_retry("a")
        expected_send("b")
        with pytest.raises(nt.Permanent):
            expected_retry("a")
        expected_send("c")
        before = watched.commits
        assert expected_retry.retry("a") == "a"
        assert watched.commits - before == 2, "its intent and its result, and no vain intent"
    assert tries == ["a", "a"]


def test_a_receipt_is_handed_out_behind_a_wait_that_the_code_swallowed(
    watched: WatchedStore,
) -> None:
    with nt.Ledger(watched).run("r"):
        expected_send("a")
        with pytest.raises(nt.errors.QuestionOpen):
            nt.ask("Shall we?")
        expected_look("new")

        assert expected_send.receipt("a").replayed
        with pytest.raises(nt.errors.QuestionOpen):
            expected_send("b")


def test_a_call_that_was_approved_and_made_is_not_asked_about_again(host: Host) -> None:
    @nt.tool("unsafe_on_replay", approve=True)
    def expected_approval(to: str) -> str:
        return to

    with host.process() as ledger:
        with pytest.raises(nt.errors.ApprovalNeeded), ledger.run("r"):
            expected_approval("a")
        host.decide(Verb.APPROVE)
        with ledger.run("r"):
            expected_approval("a")
            expected_send("new")
            assert expected_approval.receipt("a").replayed


def test_a_fork_has_the_receipts_of_its_origin_whatever_is_expected(watched: WatchedStore) -> None:
    with nt.Ledger(watched).run("r"):
        expected_send("a")
        scope = current_scope.get()
        assert scope is not None
        scope.session.run = replace(scope.session.run, origin="another run")
        expected_look("new")

        assert expected_send.receipt("a").replayed
        with pytest.raises(nt.errors.NewEffectInFork):
            expected_send("b")
