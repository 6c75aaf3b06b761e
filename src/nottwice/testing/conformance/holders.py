"""Who may write, and who is alive? Fences, epochs, claims, and proof of life and death (P6, P8)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from nottwice.errors import OwnershipLost
from nottwice.model.run import Fence, Life, RunStatus
from nottwice.store.interface import CallWrite, Claim, Commit, Outdated, RunUpdate
from nottwice.testing.conformance.bench import (
    Bench,
    everything,
    expect,
    needs,
    outcomes_of,
    refused,
)
from nottwice.testing.conformance.others import OtherProcess
from nottwice.testing.conformance.samples import (
    FAILURE,
    NOW,
    RESULT,
    WAITS,
    checkpoint,
    claim,
    evidence,
    follow,
    identity,
    intent,
    noted,
    pending,
    run_record,
    step,
)


class HolderChecks(Bench):
    """A run has one holder at a time, and every process can tell whether it is alive."""

    def test_only_the_holder_of_this_epoch_writes(self) -> None:
        store = self.open()
        fence = claim(store)
        wrong = {
            "another holder": ("run", Fence("another", fence.epoch)),
            "an older epoch": ("run", Fence(fence.holder_id, fence.epoch - 1)),
            "a newer epoch": ("run", Fence(fence.holder_id, fence.epoch + 1)),
            "a run that does not exist": ("elsewhere", fence),
        }
        for what, (run, shown) in wrong.items():
            before = everything(store, run)
            writes = (
                intent(pending(identity(run)), shown),
                intent(pending(identity(run)), shown, unless_blocked=True),
                Commit(workflow_id=run, fence=shown, steps=(step(run),)),
                Commit(workflow_id=run, fence=shown, evidence=(evidence(run=run),)),
                Commit(
                    workflow_id=run,
                    fence=shown,
                    checkpoints=(checkpoint(1, 1, workflow_id=run),),
                ),
                Commit(workflow_id=run, fence=shown, dropped=(1,)),
            )
            for write in writes:
                with refused(OwnershipLost, what=f"A write with the fence of {what}"):
                    store.commit(write)
            expect(everything(store, run), before, f"After writes with the fence of {what}")

    def test_an_overtaken_holder_writes_nothing_but_evidence(self) -> None:
        store = self.open()
        fence = claim(store)
        row = pending()
        store.commit(intent(row, fence))
        claim(store, after=store.load_run("run"))
        for commit in (
            follow(row.done(RESULT, now=NOW), row, fence),
            Commit(workflow_id="run", fence=fence, run=RunUpdate(RunStatus.COMPLETED, NOW)),
            Commit(
                workflow_id="run", fence=fence, run=RunUpdate(RunStatus.FAILED, NOW, release=True)
            ),
        ):
            with refused(OwnershipLost, what="A write of an overtaken holder"):
                store.commit(commit)
        expect(store.load_call(row.identity), row, "The row that an overtaken holder tried to end")
        store.commit(Commit(workflow_id="run", evidence=(evidence(),)))
        expect(store.evidence("run"), [evidence()], "What an overtaken holder learned")

    def test_a_released_run_has_no_holder_and_takes_no_more_calls(self) -> None:
        store = self.open()
        fence = claim(store)
        over = RunUpdate(RunStatus.COMPLETED, NOW + 1, release=True)
        release = Commit(workflow_id="run", fence=fence, run=over)
        store.commit(release)
        run = store.load_run("run")
        shown = run and (run.holder_id, run.status, run.epoch)
        expect(shown, (None, RunStatus.COMPLETED, fence.epoch), "A released run")
        with refused(OwnershipLost, what="A call after the release"):
            store.commit(intent(pending(), fence))
        store.commit(release)
        expect(store.load_run("run"), run, "A run that was released twice")

    def test_a_status_does_not_give_the_run_up(self) -> None:
        store = self.open()
        fence = claim(store)
        waiting = RunUpdate(RunStatus.WAITING, NOW + 1, waits=WAITS)
        store.commit(Commit(workflow_id="run", fence=fence, run=waiting))
        run = store.load_run("run")
        shown = run and (run.holder_id, run.status, run.waits, run.wake_at)
        expect(shown, (fence.holder_id, RunStatus.WAITING, WAITS, NOW + 30), "A waiting run")
        going = RunUpdate(RunStatus.RUNNING, NOW + 2)
        store.commit(Commit(workflow_id="run", fence=fence, run=going))
        run = store.load_run("run")
        expect(run and (run.waits, run.wake_at), ((), None), "A run that waits no more")

    def test_a_run_is_created_once(self) -> None:
        store = self.open()
        claim(store)
        before = store.load_run("run")
        with refused(Outdated, what="Creating a run that exists"):
            store.commit(Commit(workflow_id="run", claim=Claim(run_record(holder_id="other"))))
        expect(store.load_run("run"), before, "The run after it was created again")

    def test_a_new_run_may_be_written_for_another_process_to_drive(self) -> None:
        store = self.open()
        record = run_record(
            holder_id=None,
            claimed_at=None,
            graph_id="refund@1.0.0",
            input_json='{"order":7}',
            parent_id="parent",
            root_id="root",
            failure=FAILURE,
            waits=WAITS,
        )
        store.commit(Commit(workflow_id="run", claim=Claim(record)))
        for reader in (store, self.open()):
            expect(reader.load_run("run"), record, "A run without a holder")
        mine = replace(record, epoch=2, holder_id="holder", claimed_at=NOW + 1)
        store.commit(Commit(workflow_id="run", claim=Claim(mine, 1)))
        expect(store.load_run("run"), mine, "A run that was claimed after it was made")

    def test_a_claim_names_the_epoch_it_saw(self) -> None:
        store = self.open()
        for seen in (1, 7):
            with refused(Outdated, what=f"Taking over epoch {seen} of a run that does not exist"):
                late = Claim(run_record(epoch=seen + 1), seen)
                store.commit(Commit(workflow_id="run", claim=late))
        claim(store)
        for seen in (2, 0):
            late = Claim(run_record(epoch=seen + 1, holder_id="late"), seen)
            with refused(Outdated, what=f"Taking over epoch {seen} when epoch 1 is there"):
                store.commit(Commit(workflow_id="run", claim=late))
        second = run_record(epoch=2, holder_id="second", claimed_at=NOW + 4)
        store.commit(Commit(workflow_id="run", claim=Claim(second, 1)))
        expect(store.load_run("run"), second, "The run after a good claim")

    def test_a_claim_leaves_the_records_of_the_run_alone(self) -> None:
        store = self.open()
        fence = claim(store)
        store.commit(intent(pending(), fence, steps=(step(),), checkpoints=(checkpoint(1, 1),)))
        before = everything(store)
        claim(store, after=store.load_run("run"))
        after = everything(store)
        for kind in ("calls", "steps", "checkpoints"):
            expect(after[kind], before[kind], f"After a claim: {kind}")

    def test_of_many_concurrent_claims_one_wins(self) -> None:
        for seen in (None, 1):
            place = self.new_place()
            if seen is not None:
                claim(self.open(place))
            stores = [self.open(place) for _ in range(8)]
            claims = [
                Claim(run_record(epoch=(seen or 0) + 1, holder_id=f"holder-{number}"), seen)
                for number in range(8)
            ]
            commits = [Commit(workflow_id="run", claim=one) for one in claims]
            pairs = zip(stores, commits, strict=True)
            heard = outcomes_of([partial(each.commit, one) for each, one in pairs])
            expect(heard, ["Outdated"] * 7 + ["done"], "How eight concurrent claims end")
            winners = [one.run for one in claims if one.run == stores[0].load_run("run")]
            expect(len(winners), 1, "Claims of which the run shows the result")

    def test_two_claims_that_look_alike_are_not_one(self) -> None:
        """Two threads of one holder that claim the same epoch: only one may believe it won."""
        store = self.open()
        first = run_record(epoch=1, claimed_at=NOW)
        store.commit(Commit(workflow_id="run", claim=Claim(first)))
        alike = Claim(replace(first, claimed_at=NOW + 1))
        with refused(Outdated, what="A claim that looks like another"):
            store.commit(Commit(workflow_id="run", claim=alike))
        expect(store.load_run("run"), first, "The run that the first one claimed")

    def test_the_holder_is_the_same_as_long_as_the_process_lives(self) -> None:
        store = self.open()
        first = store.holder()
        expect(store.holder(), first, "The holder, asked again")
        claim(store)
        expect(store.holder(), first, "The holder, after its first commit")
        expect(store.load_holder(first.holder_id), first, "The holder on record")
        expect(store.life_of(first.holder_id), Life.ALIVE, "This process")

    def test_nothing_is_proven_about_an_unknown_holder(self) -> None:
        life = self.open().life_of("never seen")
        expect(life, Life.NOT_PROVEN, "An unknown holder")

    @needs("other_holders")
    def test_a_live_holder_elsewhere_is_alive_and_known(self) -> None:
        store, other = self.open(), self.other()
        other.claim("run")
        run = store.load_run("run")
        expect(run and run.holder_id, other.holder_id, "The holder of a run that another claimed")
        expect(store.holder().holder_id != other.holder_id, True, "Two holders are two")
        record = store.load_holder(other.holder_id)
        expect(record and record.holder_id, other.holder_id, "The record of another holder")
        expect(store.life_of(other.holder_id), Life.ALIVE, "A holder that lives")

    @needs("other_holders")
    def test_a_killed_holder_is_never_called_alive_and_its_commits_stay(self) -> None:
        store, other = self.open(), self.other()
        other.claim("run")
        for number in range(5):
            other.note(number, "run")
        other.kill()
        died = store.life_of(other.holder_id)
        if "proves_death" in self.capabilities():
            expect(died, Life.DEAD, "A holder that was killed")
        else:
            expect(died in (Life.DEAD, Life.NOT_PROVEN), True, "A killed holder is not alive")
        expect(noted(store), list(range(5)), "What was durable before the holder was killed")
        fence = claim(store, after=store.load_run("run"))
        store.commit(intent(pending(), fence))
        expect(fence.epoch, 2, "The epoch after a takeover from a dead holder")

    @needs("other_holders")
    def test_what_one_holder_commits_another_sees_at_once(self) -> None:
        store, other = self.open(), self.other()
        for number in range(10):
            other.note(number, "run")
            expect(noted(store), list(range(number + 1)), "Notes of another holder")

    @needs("durable")
    def test_a_stopped_holder_is_alive(self) -> None:
        store, other = self.open(), self.other()
        other.claim("run")
        if isinstance(other, OtherProcess):
            other.stop()
        expect(store.life_of(other.holder_id), Life.ALIVE, "A holder that was stopped (SIGSTOP)")

    @needs("other_holders")
    def test_an_overtaken_holder_elsewhere_does_not_disturb_the_new_one(self) -> None:
        """Whatever the proof of life says, an accepted claim ends the epoch before it."""
        store, other = self.open(), self.other()
        other.claim("run")
        fence = claim(store, after=store.load_run("run"))
        row = pending()
        store.commit(Commit(workflow_id="run", fence=fence, calls=(CallWrite(row),)))
        other.note(1, "run")
        expect(store.calls("run"), [row], "The calls of the new holder")
        expect(noted(store), [1], "What the overtaken holder may still write")
