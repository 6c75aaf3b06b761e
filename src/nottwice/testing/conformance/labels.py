"""Are runs found by their tags and groups? Is it on record who held them, and what tools do?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nottwice.model.replay_class import ReplayClass
from nottwice.model.run import Fence, RunRecord, RunStatus
from nottwice.model.runs.labels import Tags
from nottwice.model.runs.openings import OpeningEnd, OpeningRecord, Savings
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store.interface import Claim, Commit, RunUpdate, Store
from nottwice.testing.conformance.bench import Bench, expect
from nottwice.testing.conformance.samples import NOW, claim, event, run_record, told

ACME: Tags = (("customer", "acme"),)
GOLD: Tags = (("customer", "acme"), ("tier", "gold"))
# What could break out of a list, a pattern or a statement.
ODD: Tags = (("odd", "a=b'\"%_\\, [x]"),)


def tool(name: str = "refund", **changes: Any) -> ToolRecord:
    """Return what a ledger knows about a tool."""
    record = ToolRecord(
        name,
        ReplayClass.UNSAFE_ON_REPLAY,
        NOW,
        "Refund an order.",
        "agent.py:12",
        "Refund {cents} ct",
        "https://pay.example/{key}",
        '{"type":"object"}',
    )
    return replace(record, **changes)


def _claimed(store: Store, run: RunRecord, **more: Any) -> Fence:
    holder_id = store.holder().holder_id
    held = replace(run, holder_id=holder_id)
    seen = None if run.epoch == 1 else run.epoch - 1
    store.commit(Commit(workflow_id=run.workflow_id, claim=Claim(held, seen, **more)))
    return Fence(holder_id, run.epoch)


def _names(runs: list[RunRecord]) -> str:
    return "".join(run.workflow_id for run in runs)


class LabelChecks(Bench):
    """Tags, groups, openings and tools."""

    def test_runs_are_found_by_all_of_the_tags_that_are_asked_for(self) -> None:
        store = self.open()
        for number, (run, tags) in enumerate((("a", ACME), ("b", GOLD), ("c", ()), ("d", ODD))):
            _claimed(store, run_record(run, tags=tags, updated_at=NOW + number))
        for reader in (store, self.open()):
            expect(_names(reader.runs(tags=ACME)), "ba", "The runs with one tag, newest first")
            expect(_names(reader.runs(tags=GOLD)), "b", "The runs with two tags")
            expect(_names(reader.runs(tags=ODD)), "d", "The runs with an odd tag")
            expect(_names(reader.runs(tags=ACME, limit=1)), "b", "A page of them")
            before = reader.load_run("b")
            expect(_names(reader.runs(tags=ACME, before=before)), "a", "The page after it")
            expect(reader.runs(tags=(("customer", "acm"),)), [], "The runs with a part of a tag")
            expect(sum(one.runs for one in reader.count_runs(tags=ACME)), 2, "Their number")
            found = reader.load_run("b")
            expect(found and found.tags, GOLD, "The tags of a run")

    def test_a_claim_replaces_the_tags_and_the_index_follows(self) -> None:
        store = self.open()
        _claimed(store, run_record("a", tags=ACME))
        _claimed(store, run_record("a", epoch=2, tags=(("customer", "bolt"),)))
        expect(store.runs(tags=ACME), [], "The runs with a tag that was replaced")
        expect(_names(store.runs(tags=(("customer", "bolt"),))), "a", "Those with the new one")

    def test_runs_are_found_by_their_group(self) -> None:
        store = self.open()
        for run, group in (("a", "order-7"), ("b", "order-70"), ("c", None), ("d", "order-7")):
            _claimed(store, run_record(run, group=group))
        expect(_names(store.runs(group="order-7")), "da", "The runs of a group")
        expect(store.runs(group="order"), [], "The runs of a part of a group")
        expect(sum(one.runs for one in store.count_runs(group="order-7")), 2, "Their number")

    def test_an_opening_begins_with_the_claim_and_ends_with_the_release(self) -> None:
        store = self.open()
        fence = _claimed(store, run_record("a"), at=NOW)
        began = OpeningRecord("a", 1, fence.holder_id, NOW)
        expect(self.open().openings("a"), [began], "The opening of a run that is held")
        update = RunUpdate(
            RunStatus.WAITING,
            NOW - 5,
            release=True,
            released_at=NOW + 2,
            saved=Savings(3, 2, 70, 0.5),
        )
        left = Commit(workflow_id="a", fence=fence, run=update)
        store.commit(left)
        ended = replace(
            began,
            ended_at=NOW + 2,
            ended=OpeningEnd.WAITING,
            receipts=3,
            duplicates=2,
            tokens=70,
            usd=0.5,
        )
        expect(store.openings("a"), [ended], "The opening of a run that was released")
        store.commit(left)
        expect(store.openings("a"), [ended], "The same after the release was repeated")

    def test_an_opening_keeps_the_trace_context_of_its_claim(self) -> None:
        store = self.open()
        traced = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        record = run_record("a", traceparent=traced)
        fence = _claimed(store, record, at=NOW, traceparent=traced)
        store.commit(told(event(run="a", traceparent=traced)))
        update = RunUpdate(RunStatus.RUNNING, NOW + 1, release=True)
        store.commit(Commit(workflow_id="a", fence=fence, run=update))
        other = self.open()
        known = other.load_run("a")
        expect(None if known is None else known.traceparent, traced, "The context of the run")
        expect([one.traceparent for one in other.events("a")], [traced], "That of the event")
        # The next opening is not traced, and the run still leads to the one before it.
        _claimed(store, replace(record, epoch=2), at=NOW + 2)
        contexts = [one.traceparent for one in other.openings("a")]
        expect(contexts, [traced, None], "Those of the openings")

    def test_the_trace_context_of_an_opening_may_follow_its_claim(self) -> None:
        store = self.open()
        first = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        traced = "00-5bf92f3577b34da6a3ce929d0e0e4736-10f067aa0ba902b7-01"
        record = run_record("a", traceparent=first)
        fence = _claimed(store, record, at=NOW)
        update = RunUpdate(RunStatus.RUNNING, NOW + 1, traceparent=traced)
        for _ in range(2):
            store.commit(Commit(workflow_id="a", fence=fence, run=update))
        over = RunUpdate(RunStatus.COMPLETED, NOW + 2, release=True)
        store.commit(Commit(workflow_id="a", fence=fence, run=over))
        for reader in (store, self.open()):
            known = reader.load_run("a")
            expect(None if known is None else known.traceparent, traced, "The context of the run")
            contexts = [(one.traceparent, one.ended_at) for one in reader.openings("a")]
            expect(contexts, [(traced, NOW + 2)], "That of its opening")

    def test_a_claim_ends_the_opening_of_a_holder_that_was_killed(self) -> None:
        store = self.open()
        _claimed(store, run_record("a"), at=NOW)
        holder_id = store.holder().holder_id
        record = run_record("a", epoch=2, holder_id=holder_id)
        takes = Claim(record, 1, NOW + 9, OpeningEnd.KILLED)
        for _ in range(2):
            store.commit(Commit(workflow_id="a", claim=takes))
        first, second = store.openings("a")
        wanted = (NOW + 9, OpeningEnd.KILLED, None)
        expect((first.ended_at, first.ended, first.receipts), wanted, "The opening before")
        expect((second.epoch, second.began_at, second.ended), (2, NOW + 9, None), "The new one")

    def test_enqueueing_and_upkeep_are_no_openings(self) -> None:
        store = self.open()
        queued = Claim(run_record("a", epoch=0, holder_id=None), None, NOW)
        store.commit(Commit(workflow_id="a", claim=queued))
        claim(store, "b")
        expect(store.openings("a") + store.openings("b"), [], "The openings")

    def test_a_tool_is_recorded_with_any_commit_and_the_newest_declaration_stays(self) -> None:
        store = self.open()
        fence = claim(store)
        later = tool(title=None, look=None, recorded_at=NOW + 1)
        for tools in ((tool(), tool("mail", result_json=None)), (later,)):
            store.commit(Commit(workflow_id="run", fence=fence, tools=tools))
        other = self.open()
        expect(other.load_tool("refund"), later, "A tool that was declared again")
        expect([one.tool_name for one in other.tools()], ["mail", "refund"], "The tools")
        expect(other.load_tool("nobody"), None, "A tool that was never seen")
