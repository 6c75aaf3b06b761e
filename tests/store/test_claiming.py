"""What a claim leaves of a run, and which commit would have made it alone."""

from __future__ import annotations

from nottwice.model.run import RunStatus, Standing
from nottwice.store.claiming import ClaimedRun, claimed
from nottwice.store.interface import commit_of
from tests.store.samples import FAILURE, NOW, WAITS, run_record


def test_a_claimed_run_is_running_and_keeps_nothing_that_it_waited_for() -> None:
    found = run_record(
        status=RunStatus.WAITING, epoch=3, holder_id=None, failure=FAILURE, waits=WAITS
    )
    run = claimed(found, "me", NOW + 5)
    assert run == run_record(epoch=4, holder_id="me", updated_at=NOW + 5, claimed_at=NOW + 5)


def test_the_commit_that_would_have_claimed_it_shows_the_epoch_before() -> None:
    found = run_record(epoch=3, holder_id=None)
    run = claimed(found, "me", NOW + 5)
    commit = commit_of(ClaimedRun(found, run, Standing()))
    assert commit.claim is not None
    assert (commit.claim.run, commit.claim.after_epoch, commit.claim.at) == (run, 3, NOW + 5)
