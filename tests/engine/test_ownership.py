"""Who may drive a run: one holder, overtaken only when it is dead."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

import nottwice as nt
from nottwice.model.run import RunStatus, Standing
from nottwice.store.memory import MemoryStore
from tests.fakes import Host


def test_a_live_holder_is_not_overtaken_and_is_named(host: Host) -> None:
    with host.process() as first, first.run("r"), host.process() as second:
        with pytest.raises(nt.RunBusy, match=r"pid \d+ on .* since 20") as caught, second.run("r"):
            raise AssertionError("two drivers")
        assert caught.value.facts["run_id"] == "r"
        assert not caught.value.non_retryable


def test_a_host_that_gives_up_on_usage_errors_does_not_give_up_on_a_busy_run(host: Host) -> None:
    """Nothing is wrong with its code: the same line works a moment later."""
    with host.process() as first, host.process() as second:
        with first.run("r"), pytest.raises(nt.NottwiceError) as busy, second.run("r"):
            raise AssertionError("entered")
        assert isinstance(busy.value, nt.RunBusy)
        assert not isinstance(busy.value, nt.errors.UsageError)
        assert not busy.value.non_retryable
        with second.run("r"):
            assert host.data.runs["r"].status is RunStatus.RUNNING


def test_a_dead_holder_is_overtaken_immediately(host: Host) -> None:
    with host.process(dies_at=3) as first, first.run("r"):
        pass
    assert host.data.runs["r"].holder_id is not None
    with host.process() as second, second.run("r"):
        pass
    assert host.data.runs["r"].epoch == 2


def test_waiting_for_a_busy_run_ends_when_it_is_released(host: Host) -> None:
    with host.process() as first, host.process() as second:
        block = first.run("r")
        block.__enter__()

        class GivesUp(type(host.clock)):  # type: ignore[misc]
            def pause(self, seconds: float) -> None:
                super().pause(seconds)
                if len(self.pauses) == 3:
                    block.__exit__(None, None, None)

        clock = GivesUp()
        with nt.Ledger(second.store, clock=clock).run("r", acquire_timeout="10s"):
            pass
        assert len(clock.pauses) == 3


def test_waiting_for_a_busy_run_is_bounded(host: Host) -> None:
    with host.process() as first, first.run("r"), host.process() as second:
        with pytest.raises(nt.RunBusy), second.run("r", acquire_timeout="5s"):
            raise AssertionError("two drivers")
        assert sum(host.clock.pauses) == pytest.approx(5)


def test_entering_again_in_the_same_context_is_allowed(host: Host) -> None:
    with host.process() as ledger:
        with ledger.run("r"):
            first = host.data.runs["r"]
            with ledger.run("r"):
                pass
            assert ledger.store.load_run("r") == first
        assert host.data.runs["r"].holder_id is None
    assert host.data.runs["r"].epoch == 1


def test_entering_from_another_thread_is_refused(host: Host) -> None:
    errors: list[BaseException] = []

    def enter(ledger: nt.Ledger) -> None:
        try:
            with ledger.run("r"):
                pass
        except nt.RunBusy as error:
            errors.append(error)

    with host.process() as ledger, ledger.run("r"):
        thread = threading.Thread(target=enter, args=(ledger,))
        thread.start()
        thread.join()
    assert "this very process" in str(errors[0])


@pytest.mark.parametrize(
    ("error", "status"),
    [(None, RunStatus.COMPLETED), (ValueError("bug"), RunStatus.FAILED)],
)
def test_a_run_ends_with_the_status_of_its_block(
    host: Host, error: Exception | None, status: RunStatus
) -> None:
    with host.process() as ledger:
        try:
            with ledger.run("r"):
                if error is not None:
                    raise error
        except ValueError:
            pass
    run = host.data.runs["r"]
    assert (run.status, run.holder_id) == (status, None)
    assert (run.failure is None) is (error is None)


def test_a_run_that_failed_or_completed_can_be_opened_again(host: Host) -> None:
    for _ in range(3):
        with host.process() as ledger, ledger.run("r"):
            assert host.data.runs["r"].status is RunStatus.RUNNING


def test_a_holder_of_unknown_fate_is_overtaken_but_verify_may_only_confirm(host: Host) -> None:
    """Neither life nor death can be proven, as after a copy to another machine."""
    sent: list[str] = []

    def verify(call: nt.Call) -> nt.Verification:
        return nt.did_not_happen()

    @nt.tool("unsafe_on_replay", verify=verify, settles="1s")
    def send(to: str) -> str:
        sent.append(to)
        return "sent"

    with host.process(dies_at=5) as ledger, ledger.run("r"):
        send("ann")
    host.data.holders.clear()
    host.clock.advance(3600)
    with (
        pytest.raises(nt.errors.ReplayUnsafeError, match="may still be alive"),
        host.process() as ledger,
    ):
        with ledger.run("r"):
            raise AssertionError("user code must not run")
    assert sent == ["ann"]


def test_a_claim_that_lost_the_race_looks_again(host: Host) -> None:
    """Between reading the run and claiming it, another process claimed it."""

    class Racing(MemoryStore):
        raced = False

        def load_run(self, workflow_id: str):  # type: ignore[no-untyped-def]
            found = super().load_run(workflow_id)
            if found is not None and not self.raced:
                self.raced = True
                self.data.runs[workflow_id] = replace(found, epoch=found.epoch + 5)
            return found

    with host.process() as ledger, ledger.run("r"):
        pass
    store = Racing(host.data)
    with nt.Ledger(store, clock=host.clock) as ledger, ledger.run("r"):
        assert host.data.runs["r"].epoch == 7


def test_a_run_is_released_again_if_it_cannot_be_read(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that lives on must not keep from others what it does not drive."""
    with host.process() as ledger, ledger.run("r"):
        pass

    def fail(self: MemoryStore, workflow_id: str) -> Standing:
        raise nt.errors.StoreError("the disk does not answer")

    with host.process() as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "standing", fail)
            with pytest.raises(nt.errors.StoreError), ledger.run("r"):
                raise AssertionError("no process has looked")
        assert host.data.runs["r"].holder_id is None
        with ledger.run("r"):
            pass
