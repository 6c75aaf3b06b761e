"""What a host asks of a ledger besides calls: what has happened, in any process (P303)."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.adapters import declare
from nottwice.errors import ReplayUnsafeError, UsageError
from nottwice.model.review import Verb
from nottwice.reviews.decide import decide
from tests.fakes import Host, another_program, dying, unwanted

PAY = declare("pay/charge", replay="unsafe_on_replay")


def test_a_listener_and_the_outbox_say_the_same() -> None:
    host = Host()
    with host.process() as ledger:
        ledger.once("g", "1", PAY, {"cents": 7}, dying(ledger))
    heard: list[nt.events.Event] = []
    with host.process() as ledger:
        ledger.on(heard.append)
        with pytest.raises(ReplayUnsafeError) as caught:
            ledger.once("g", "1", PAY, {"cents": 7}, unwanted)
        review_id = caught.value.review_id
        assert review_id is not None
        host.clock.advance(60.0)
        said = {"by": "ann", "why": "looked", "result": None, "has_result": True}
        decide(ledger.store, host.clock, review_id, Verb.HAPPENED, **said)  # type: ignore[arg-type]
        host.clock.advance(60.0)
        ledger.once("g", "1", PAY, {"cents": 7}, unwanted)
        told = [(one.kind, one.run_id) for one in ledger.notices()]
        assert told[0] == ("review_opened", "g/1")
        assert sorted(told[1:3]) == [("review_decided", "g/1"), ("run_ready", "g/1")]
        assert told[3] == ("run_over", "g/1")
        opened, *_, over = ledger.notices()
        assert opened.about == {
            "review": review_id,
            "review_kind": "in doubt",
            "group": "g",
            "tool": "pay/charge",
        }
        assert over.about == {"status": "completed", "group": "g"}
        assert [one.kind for one in ledger.notices(kind="run_over")] == ["run_over"]
        assert list(ledger.notices(since=host.clock.now() + 1)) == []
    kinds = (nt.events.ReviewOpened, nt.events.ReviewDecided, nt.events.RunReady, nt.events.RunOver)
    assert [type(one) for one in heard if isinstance(one, kinds)] == list(kinds)


def test_the_outbox_tells_a_parent_that_its_child_is_over() -> None:
    host = Host()
    with another_program(), host.process() as ledger:
        child = nt.Graph("child", version="1.0.0")
        parent = nt.Graph("parent", version="1.0.0")

        @child.node
        def work(state: dict[str, int]) -> None:
            return None

        @parent.node
        def begin(state: dict[str, int]) -> None:
            nt.spawn(child, {})

        app = nt.App(graphs=[parent, child], store=ledger)
        app.enqueue("parent", "p", {})
        assert parent.run("p", {}, store=app).status == "completed"
        (child_run,) = (run.id for run in ledger.runs() if run.parent == "p")
        told = {(one.kind, one.run_id, one.about.get("because")) for one in ledger.notices()}
        assert told == {
            ("run_ready", "p", "queued"),
            ("run_over", child_run, None),
            ("run_ready", "p", "child"),
            ("run_over", "p", None),
        }


def test_an_unknown_kind_is_refused() -> None:
    with nt.Ledger(":memory:") as ledger, pytest.raises(UsageError, match="review_opened"):
        ledger.notices(kind="gossip")  # type: ignore[arg-type]
