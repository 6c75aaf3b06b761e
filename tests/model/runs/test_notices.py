"""The id of a notice: the same for the same fact, and for no other (P303)."""

from __future__ import annotations

from nottwice.model.runs.notices import NOTICE_KINDS, notice_id


def test_the_same_fact_has_the_same_id_and_no_other_fact_has() -> None:
    facts = [
        (kind, run, subject)
        for kind in NOTICE_KINDS
        for run in ("run", "run 1", "\ud800")
        for subject in ("1", "11", " 1")
    ]
    ids = [notice_id(*fact) for fact in facts]
    assert ids == [notice_id(*fact) for fact in facts]
    assert len(set(ids)) == len(facts)
    assert {len(one) for one in ids} == {32}
