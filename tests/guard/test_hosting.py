"""What a host asks of a ledger besides calls: what has happened, in any process (P303)."""

from __future__ import annotations

from pathlib import Path

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
        stop = ledger.on(heard.append)
        with pytest.raises(ReplayUnsafeError) as caught:
            ledger.once("g", "1", PAY, {"cents": 7}, unwanted)
        review_id = caught.value.review_id
        assert review_id is not None
        host.clock.advance(60.0)
        said = {"by": "ann", "why": "looked", "result": None, "has_result": True}
        decide(ledger.store, host.clock, review_id, Verb.HAPPENED, **said)  # type: ignore[arg-type]
        host.clock.advance(60.0)
        ledger.once("g", "1", PAY, {"cents": 7}, unwanted)
        stop()
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


@pytest.mark.parametrize("store", ["a.db", "file:runs"])
def test_the_outbox_tells_a_parent_that_its_child_is_over(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with another_program(), nt.Ledger(store) as ledger:
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
    with nt.Ledger(store) as ledger:
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


def test_takers_share_notices_and_get_those_of_a_taker_that_died() -> None:
    host = Host()
    with host.process() as ledger:
        ledger.once("g", "1", PAY, {"cents": 7}, lambda arguments: "paid")
        (taken,) = ledger.take_notices(["run_over"], lease="30s")
        assert (taken.notice.run_id, taken.tries) == ("g/1", 1)
        assert taken.until == host.clock.now() + 30.0
    with host.process() as other:
        assert other.take_notices(["run_over"]) == []
        host.clock.advance(30.0)
        (again,) = other.take_notices(["run_over"])
        assert (again.notice, again.tries) == (taken.notice, 2)
        assert other.acknowledge_notices(taken) == 0
        assert other.return_notices(again, retry_in="5m", problem="it is busy") == 1
        host.clock.advance(299.0)
        assert other.take_notices(["run_over"]) == []
        host.clock.advance(1.0)
        (third,) = other.take_notices()
        assert other.acknowledge_notices(third) == 1
        host.clock.advance(9_999.0)
        assert other.take_notices() == []
        with pytest.raises(UsageError, match="is not a kind of notice"):
            other.take_notices(["run_done"])  # type: ignore[list-item]


def test_a_run_that_fails_has_a_notice_of_its_own() -> None:
    with Host().process() as ledger:
        with pytest.raises(ZeroDivisionError), ledger.run("ticket-7"):
            raise ZeroDivisionError
        assert [one.kind for one in ledger.notices()] in (
            ["run_failed", "run_over"],
            ["run_over", "run_failed"],
        )
