"""Does a commit refuse, before any store sees it, what only the holder of the run may write?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nottwice.errors import UsageError
from nottwice.model.run import Fence, RunStatus
from nottwice.store.interface import (
    Blocked,
    CallWrite,
    Claim,
    Commit,
    Removal,
    ReviewWrite,
    RunUpdate,
)
from nottwice.store.rules import key_conflict_text
from tests.store.samples import NOW, audit, evidence, identity, pending, review, run_record, step

FENCE = Fence("holder", 1)
TOMBSTONE = run_record(status=RunStatus.REMOVED, holder_id=None)
HOLDERS_ONLY: dict[str, Any] = {
    "calls": (CallWrite(pending()),),
    "steps": (step(),),
    "run": RunUpdate(RunStatus.COMPLETED, NOW),
}
ANYBODYS: dict[str, Any] = {
    "reviews": (ReviewWrite(review()),),
    "evidence": (evidence(),),
    "audit": (audit(),),
}


@pytest.mark.parametrize("what", HOLDERS_ONLY)
def test_only_a_holder_writes_calls_steps_and_status(what: str) -> None:
    written = {what: HOLDERS_ONLY[what]}
    with pytest.raises(UsageError, match="Only the holder"):
        Commit(workflow_id="run", **written)
    with pytest.raises(UsageError, match="Only the holder"):
        Commit(workflow_id="run", claim=Claim(run_record()), **written)
    assert Commit(workflow_id="run", fence=FENCE, **written)


def test_any_process_may_write_reviews_evidence_and_audit() -> None:
    assert Commit(workflow_id="run", **ANYBODYS)


@pytest.mark.parametrize("what", ["calls", "steps", *ANYBODYS, "claim", "removal", "removed run"])
def test_a_commit_writes_to_the_run_it_names_and_to_no_other(what: str) -> None:
    """A fence covers one run, so a commit under it must not reach into another."""
    elsewhere: dict[str, Any] = {
        "calls": (CallWrite(pending()), CallWrite(pending(identity("other")))),
        "steps": (step(), step("other")),
        "reviews": (ReviewWrite(review()), ReviewWrite(review(run="other"))),
        "evidence": (evidence(), evidence(run="other")),
        "audit": (audit(), audit(run="other")),
        "claim": Claim(run_record("other")),
        "removal": Removal(TOMBSTONE, after_epoch=1, calls=(identity(), identity("other"))),
        "removed run": Removal(replace(TOMBSTONE, workflow_id="other"), after_epoch=1),
    }
    fence = FENCE if what in HOLDERS_ONLY else None
    with pytest.raises(UsageError, match=r"'run' names another run.*Nothing was written"):
        name = "removal" if what == "removed run" else what
        Commit(workflow_id="run", fence=fence, **{name: elsewhere[what]})


def test_a_refusal_carries_the_reviews_that_block() -> None:
    blocked = Blocked([review(), review("aaaa0002")])
    assert [one.review_id for one in blocked.reviews] == ["aaaa0001", "aaaa0002"]
    assert "2 open reviews" in str(blocked)


def test_a_key_conflict_names_tool_key_and_run_and_says_what_to_do() -> None:
    row = pending(identity(tool="refund"))._replace(key="refund-7")
    text = key_conflict_text(row, other_run="ticket 6")
    for word in ("'refund'", "'refund-7'", "'ticket 6'", "Nothing was sent", ".again("):
        assert word in text
