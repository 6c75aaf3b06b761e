"""Are checkpoints, events, graphs and child runs kept as graphs need them? (L10, H1)"""

from __future__ import annotations

from dataclasses import replace

from nottwice.errors import OwnershipLost
from nottwice.model.run import Fence, RunRecord, RunStatus
from nottwice.store.interface import (
    Claim,
    Commit,
    EventWrite,
    Outdated,
    ReviewWrite,
    RunUpdate,
)
from nottwice.testing.conformance.bench import Bench, expect, refused
from nottwice.testing.conformance.samples import (
    NOW,
    audit,
    checkpoint,
    claim,
    event,
    graph,
    intent,
    pending,
    review,
    run_record,
    told,
)


class Graphs(Bench):
    """What graph runs store beside their calls."""

    def test_a_version_is_rebuilt_from_its_snapshot_and_what_followed(self) -> None:
        store = self.open()
        fence = claim(store)
        kept = [checkpoint(number, 1 if number < 4 else 4, f"[{number}]") for number in range(1, 7)]
        for one in kept:
            store.commit(Commit(workflow_id="run", fence=fence, checkpoints=(one,)))
        for reader in (store, self.open()):
            chain = reader.checkpoint_chain
            expect(chain("run"), kept[3:], "The newest version")
            expect(chain("run", 3), kept[:3], "Version 3, of the first snapshot")
            expect(chain("run", 1), kept[:1], "Version 1, which is whole")
            expect(chain("run", 4), kept[3:4], "Version 4, which is whole")
            expect(chain("run", 9), [], "A version that is not there")
            expect(chain("other"), [], "The versions of another run")
            shown = [replace(one, json="") for one in kept]
            expect(reader.checkpoints("run"), shown, "All versions, without their text")

    def test_a_version_may_come_to_rest_on_a_later_one(self) -> None:
        store = self.open()
        fence = claim(store)
        whole, *rest = (checkpoint(number, 1, f"[{number}]") for number in range(1, 8))
        store.commit(Commit(workflow_id="run", fence=fence, checkpoints=(whole, *rest)))
        two, three, five = (
            checkpoint(one, at, f"[-{one}]") for one, at in ((2, 4), (3, 4), (5, 6))
        )
        four, six = (checkpoint(number, 1, f"[{number},{number}]") for number in (4, 6))
        packed = (four, two, three, six, five)
        store.commit(Commit(workflow_id="run", fence=fence, checkpoints=packed))
        for reader in (store, self.open()):
            chain = reader.checkpoint_chain
            expect(chain("run", 1), [whole], "Version 1, which is whole")
            expect(chain("run", 2), [whole, two, three, four], "Version 2, on version 3, on 4")
            expect(chain("run", 3), [whole, three, four], "Version 3, on version 4")
            expect(chain("run", 4), [whole, four], "Version 4, on the whole one")
            expect(chain("run", 5), [whole, four, five, six], "Version 5, on version 6")
            expect(chain("run"), [whole, four, six, rest[-1]], "The newest version")

    def test_a_version_that_is_removed_is_gone_and_the_others_stay(self) -> None:
        store = self.open()
        fence = claim(store)
        kept = [checkpoint(number, number, f"[{number}]") for number in range(1, 5)]
        store.commit(Commit(workflow_id="run", fence=fence, checkpoints=tuple(kept)))
        store.commit(Commit(workflow_id="run", fence=fence, dropped=(2, 3, 99)))
        expect(store.checkpoint_chain("run", 2), [], "A removed version")
        left = [one.version for one in self.open().checkpoints("run")]
        expect(left, [1, 4], "The versions that are left")
        expect(store.checkpoint_chain("run"), kept[3:], "The newest version")

    def test_a_version_is_rebuilt_by_the_commit_that_removes_what_it_needs(self) -> None:
        store = self.open()
        fence = claim(store)
        kept = tuple(checkpoint(number, 1, f"[{number}]") for number in (1, 2, 3))
        store.commit(Commit(workflow_id="run", fence=fence, checkpoints=kept))
        whole = checkpoint(2, 2, "[1,2]")
        rest = checkpoint(3, 2, "[3]")
        rebased = Commit(workflow_id="run", fence=fence, checkpoints=(whole, rest), dropped=(1,))
        store.commit(rebased)
        expect(store.checkpoint_chain("run"), [whole, rest], "A version with another snapshot")

    def test_an_event_is_recorded_once_however_often_it_is_sent(self) -> None:
        store, other = self.open(), self.open()
        for teller in (store, other, store):
            teller.commit(told(event()))
        other.commit(told(event(json='{"cents":1}', sent_by="bob")))
        expect(store.events("run"), [event()], "An event that was sent four times")

    def test_an_event_is_taken_once(self) -> None:
        store = self.open()
        fence = claim(store)
        store.commit(told(event()))
        taken = event(received_by="call 1", received_at=NOW + 2)
        take = Commit(workflow_id="run", fence=fence, events=(EventWrite(taken),))
        store.commit(take)
        store.commit(take)
        again = EventWrite(event(received_by="call 2", received_at=NOW + 3))
        with refused(Outdated, what="Receiving an event that another call received"):
            store.commit(
                intent(pending(), fence, events=(again,)),
            )
        expect(store.calls("run"), [], "The call that wanted an event that was already received")
        store.commit(told(event()))
        expect(self.open().events("run"), [taken], "An event that was received, then sent again")

    def test_a_commit_that_receives_an_event_may_write_more(self) -> None:
        store = self.open()
        fence = claim(store)
        store.commit(told(event()))
        taken = event(received_by="call", received_at=NOW + 2)
        row = pending(key="key", key_since=NOW)
        more = {"reviews": (ReviewWrite(review()),), "graph": graph(), "audit": (audit(),)}
        store.commit(intent(row, fence, events=(EventWrite(taken),), **more))
        expect(store.events("run"), [taken], "An event that was received beside other writes")
        expect(store.calls("run"), [row], "The call that received it")

    def test_receiving_an_event_changes_neither_its_content_nor_its_place(self) -> None:
        store = self.open()
        fence = claim(store)
        first, second = event("b"), event("a")
        store.commit(told(first, second))
        forged = replace(first, json="{}", sent_by="bob", sent_at=NOW + 9, received_by="call")
        take = EventWrite(replace(forged, received_at=NOW + 2))
        store.commit(Commit(workflow_id="run", fence=fence, events=(take,)))
        taken = replace(first, received_by="call", received_at=NOW + 2)
        expect(self.open().events("run"), [taken, second], "Events of which one was received")

    def test_an_event_that_was_never_sent_cannot_be_received(self) -> None:
        store = self.open()
        fence = claim(store)
        store.commit(told(event(run="other run")))
        taken = EventWrite(event(received_by="call", received_at=NOW))
        with refused(Outdated, what="Receiving an event of another run"):
            store.commit(Commit(workflow_id="run", fence=fence, events=(taken,)))

    def test_events_come_in_the_order_of_their_arrival(self) -> None:
        store = self.open()
        for number, at in enumerate((3.0, 1.0, 2.0, 2.0)):
            store.commit(told(event(f"event-{number}", sent_at=NOW + at)))
        store.commit(told(event("another", name="refunded")))
        names = [one.event_id for one in store.events("run", "paid")]
        expect(names, ["event-1", "event-2", "event-3", "event-0"], "The events of one name")
        expect(len(store.events("run")), 5, "All events of a run")
        expect(store.events("run", "pai"), [], "The events of a part of a name")
        expect(store.events("other run"), [], "The events of another run")

    def test_a_graph_never_changes_under_its_id(self) -> None:
        store = self.open()
        for run, text in {"run": '{"nodes":[]}', "other": '{"other":1}', "third": "{}"}.items():
            store.commit(Commit(workflow_id=run, graph=graph(text=text)))
        fence = claim(store)
        store.commit(Commit(workflow_id="run", fence=fence, graph=graph(text='{"late":1}')))
        first = graph(text='{"nodes":[]}')
        for reader in (store, self.open()):
            expect(reader.load_graph(first.graph_id), first, "A graph that was recorded often")
            expect(reader.graphs(), [first], "All graphs")

    def test_a_run_is_bound_to_another_graph_together_with_all_that_goes_with_it(self) -> None:
        store = self.open()
        bound = run_record(
            holder_id=store.holder().holder_id, graph_id="refund@1.0.0", input_json='{"order":7}'
        )
        store.commit(Commit(workflow_id="run", claim=Claim(bound), graph=graph()))
        assert bound.holder_id is not None
        fence = Fence(bound.holder_id, bound.epoch)
        going = RunUpdate(RunStatus.RUNNING, NOW + 1)
        store.commit(Commit(workflow_id="run", fence=fence, run=going))
        bound = replace(bound, updated_at=NOW + 1)
        expect(store.load_run("run"), bound, "A run whose graph no update names")
        later = graph("refund@2.0.0", '{"nodes":[]}')
        moving = Commit(
            workflow_id="run",
            fence=fence,
            run=RunUpdate(RunStatus.RUNNING, NOW + 2, release=True, graph_id=later.graph_id),
            checkpoints=(checkpoint(1, 1),),
            audit=(audit(),),
            graph=later,
        )
        with refused(OwnershipLost, what="Binding a run that another holder has"):
            store.commit(replace(moving, fence=replace(fence, epoch=fence.epoch + 1)))
        expect(self.open().load_run("run"), bound, "A run that another process tried to bind")
        for _ in range(2):
            # A commit whose outcome is unknown is repeated.
            store.commit(moving)
        moved = replace(bound, graph_id=later.graph_id, updated_at=NOW + 2, holder_id=None)
        for reader in (store, self.open()):
            expect(reader.load_run("run"), moved, "A run that was bound to another graph")
            expect(reader.checkpoint_chain("run"), [checkpoint(1, 1)], "Its checkpoint")
            expect(reader.audit("run"), [audit()], "Who did it")
            expect(reader.graphs(), [graph(), later], "Both of its graphs")

    def test_graphs_come_by_their_id(self) -> None:
        store = self.open()
        for name in ("b@1.0.0", "a@2.0.0", "a@1.0.0"):
            store.commit(Commit(workflow_id=name, graph=graph(name)))
        names = [one.graph_id for one in store.graphs()]
        expect(names, ["a@1.0.0", "a@2.0.0", "b@1.0.0"], "The order of graphs")
        expect(store.load_graph("a"), None, "A part of a graph's id")

    def test_the_children_of_a_run_come_oldest_first(self) -> None:
        store = self.open()

        def spawn(name: str, parent: str | None, at: float) -> RunRecord:
            record = run_record(name, parent_id=parent, root_id="root", created_at=NOW + at)
            store.commit(Commit(workflow_id=name, claim=Claim(record)))
            return record

        late, second, first = spawn("c", "run", 2), spawn("b", "run", 1), spawn("a", "run", 1)
        spawn("grandchild", "c", 3)
        spawn("orphan", None, 0)
        expect(store.children("run"), [first, second, late], "The children of a run")
        expect(store.children("orphan"), [], "The children of a run that has none")
