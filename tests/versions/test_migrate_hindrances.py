"""What a step has done must not be done again: when is a run refused, and what is the way out?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.model.review import ReviewStatus, Verb
from nottwice.store.memory import MemoryStore
from tests.fakes import Host
from tests.graphs.effects import Crash, Effects, answer, crash, run
from tests.versions.migrating import NEW, load, migrate, of_bodies, whole

LATER = {"work": "later"}


@pytest.fixture
def new(effects: Effects) -> nt.Graph[Any]:
    return of_bodies("2.0.0", later=lambda state: {"did": effects.act("later")})


def refused(host: Host, new: nt.Graph[Any], because: str, **more: Any) -> None:
    """Migrating is refused for this reason, and leaves no trace."""
    before = whole(host)
    for dry_run in (True, False):
        with pytest.raises(nt.errors.MigrationRefused, match=because):
            migrate(host, new, LATER, dry_run=dry_run, **more)
    assert whole(host) == before


def broken_after(host: Host, effects: Effects, body: Any) -> None:
    """A run whose only node does something and then fails."""

    def work(state: Any) -> None:
        body()
        effects.visit("work")

    effects.broken = {"work"}
    crash(host, of_bodies("1.0.0", work=work))


def test_effects_of_a_step_that_is_not_over(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    broken_after(host, effects, lambda: effects.act("pay"))
    because = r"step 'work' is not over and has already made act\(what='pay'\); let that step end"
    refused(host, new, because, restart_steps=True)
    assert effects.done == ["pay"]


def test_effects_of_a_step_inside_of_it_and_of_its_branches(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    def body() -> None:
        with nt.step("inner"):
            nt.map(effects.act, ["a", "b"])

    broken_after(host, effects, body)
    refused(host, new, r"step 'work/inner\[1\]' is not over and has already made act\(what='b'\)")


def test_effects_that_failed_or_were_only_looked_up_do_not_stand_in_the_way(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    @nt.tool("unsafe_on_replay")
    def refuse() -> None:
        raise nt.Permanent("no such account")

    def body() -> None:
        effects.look("around")
        nt.uuid()
        with pytest.raises(nt.Permanent):
            refuse()

    broken_after(host, effects, body)
    assert migrate(host, new, LATER).outcome == "migrated"
    assert run(host, new).status == "completed"


def test_a_call_in_doubt(host: Host, effects: Effects, new: nt.Graph[Any]) -> None:
    @nt.tool("unsafe_on_replay")
    def vanish() -> None:
        raise ConnectionError("no answer")

    assert run(host, of_bodies("1.0.0", work=lambda state: vanish())).status == "waiting"
    refused(
        host, new, r"it is not known whether vanish\(\) happened.*review .* \(in doubt\) is open"
    )
    host.decide(Verb.DID_NOT_HAPPEN)
    refused(host, new, "ann has decided 'did-not-happen' in review")


def test_a_process_that_died_in_the_middle_of_an_effect(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    old = of_bodies("1.0.0", work=lambda state: {"did": effects.act("work")})
    with host.process(dies_at=4) as ledger:
        old.run("r", store=ledger)
    assert [row.status for row in host.calls] == [CallStatus.PENDING]
    refused(host, new, r"it is not known whether act\(what='work'\) happened", restart_steps=True)


def test_an_event_that_was_taken_is_not_delivered_twice(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    with host.process() as ledger:
        ledger.send("r", "paid", {"cents": 5})
    broken_after(host, effects, lambda: nt.receive("paid"))
    refused(host, new, "has received the event 'paid', which is not delivered twice")


def test_a_run_that_waits_for_an_event_continues_waiting(host: Host, effects: Effects) -> None:
    old = of_bodies("1.0.0", work=lambda state: {"paid": nt.receive("paid")})
    new = of_bodies("2.0.0", later=lambda state: {"paid": nt.receive("paid")})
    run(host, old)
    migrate(host, new, LATER)
    assert run(host, new).status == "waiting"
    with host.process() as ledger:
        ledger.send("r", "paid", 5)
    assert run(host, new).state == {"paid": 5}


def test_an_event_that_came_before_the_migration_is_there_after_it(host: Host) -> None:
    old = of_bodies("1.0.0", work=lambda state: {"paid": nt.receive("paid")})
    run(host, old)
    with host.process() as ledger:
        ledger.send("r", "paid", 5)
    new = of_bodies("2.0.0", later=lambda state: {"paid": nt.receive("paid")})
    migrate(host, new, LATER)
    assert run(host, new).state == {"paid": 5}


def test_a_timer_starts_again_only_if_the_admin_says_so(host: Host, effects: Effects) -> None:
    old = of_bodies("1.0.0", work=lambda state: nt.sleep("2d"))
    new = of_bodies("2.0.0", later=lambda state: nt.sleep("2d"))
    run(host, old)
    host.clock.advance(86_400)
    refused(host, new, r"the timer of step 'work', due 2023-11-16 22:13:20 UTC, starts again")
    done = migrate(host, new, LATER, restart_steps=True)
    assert len(done.begins_again) == 1
    assert load(host).waits == ()
    run(host, new)
    (wait,) = load(host).waits
    assert wait.until == host.clock.now() + 2 * 86_400


def test_a_deadline_is_a_timer_too(host: Host, new: nt.Graph[Any]) -> None:
    run(host, of_bodies("1.0.0", work=lambda state: nt.receive("paid", within="2d")))
    refused(host, new, "the deadline of step 'work', due 2023-11-16 22:13:20 UTC, starts again")
    host.clock.advance(2 * 86_400)
    with pytest.raises(nt.errors.EventTimeout):
        run(host, of_bodies("1.0.0", work=lambda state: nt.receive("paid", within="2d")))
    refused(host, new, "waits again for an event that came too late")


def test_an_open_question_is_closed_and_asked_again_only_if_the_admin_says_so(host: Host) -> None:
    old = of_bodies("1.0.0", work=lambda state: {"size": nt.ask("Which size?")})
    new = of_bodies("2.0.0", later=lambda state: {"size": nt.ask("Which size, in inches?")})
    run(host, old)
    (asked,) = host.open_reviews
    refused(host, new, rf"review {asked.review_id} \(question: Which size\?\) closes")
    migrate(host, new, LATER, restart_steps=True)
    (closed,) = MemoryStore(host.data).reviews("r")
    assert (closed.status, closed.closed_by) == (ReviewStatus.CLOSED, f"the migration to {NEW}")
    assert run(host, new).status == "waiting"
    answer(host, "8")
    assert run(host, new).state == {"size": "8"}


def test_an_approval_that_was_given_authorises_no_call_of_the_new_version(
    host: Host, effects: Effects
) -> None:
    @nt.tool("unsafe_on_replay", approve=True)
    def wire(cents: int) -> str:
        effects.done.append(f"wire {cents}")
        return "wired"

    old = of_bodies("1.0.0", work=lambda state: {"did": wire(5)})
    new = of_bodies("2.0.0", later=lambda state: {"did": wire(5)})
    run(host, old)
    review = host.decide(Verb.APPROVE)
    because = rf"ann has decided 'approve' in review {review.review_id} \(approval\)"
    refused(host, new, because, restart_steps=True)
    with host.process() as ledger:
        nt.Reviews(ledger).undo(review.review_id, by="ann", why="we migrate")
    migrate(host, new, LATER, restart_steps=True)
    assert run(host, new).status == "waiting"
    assert effects.done == []
    host.decide(Verb.APPROVE)
    assert run(host, new).status == "completed"
    assert effects.done == ["wire 5"]


def test_a_decision_that_comes_at_this_very_moment_is_seen(host: Host, effects: Effects) -> None:
    """A person answers between the look at the run and the commit that migrates it."""
    old = of_bodies("1.0.0", work=lambda state: {"size": nt.ask("Which size?")})
    run(host, old)

    def upgrade(state: dict[str, Any]) -> dict[str, Any]:
        if [review.status for review in host.open_reviews] == [ReviewStatus.OPEN]:
            answer(host, "8")
        return state

    new = of_bodies("2.0.0", later=lambda state: None)
    with pytest.raises(nt.errors.MigrationRefused, match="ann has decided 'answer'"):
        migrate(host, new, LATER, restart_steps=True, upgrade=upgrade)
    assert run(host, old).state == {"size": "8"}


def test_answers_and_rejections_are_asked_for_again_only_if_the_admin_says_so(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    @nt.tool("unsafe_on_replay", approve=True)
    def wire(cents: int) -> str:
        return "never"

    def work(state: Any) -> None:
        nt.ask("Which size?")
        with pytest.raises(nt.errors.RejectedByReviewer):
            wire(5)
        effects.visit("work")

    effects.broken = {"work"}
    old = of_bodies("1.0.0", work=work)
    run(host, old)
    answer(host, "8")
    run(host, old)
    host.decide(Verb.REJECT, why="too much")
    with pytest.raises(Crash):
        run(host, old)
    refused(host, new, r"asks again what was already answered.*asks again to approve wire\(cents=5")
    assert migrate(host, new, LATER, restart_steps=True).outcome == "migrated"


def test_an_abort_that_a_person_decided_comes_first(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    run(host, of_bodies("1.0.0", work=lambda state: {"size": nt.ask("Which size?")}))
    host.decide(Verb.ABORT)
    refused(host, new, "ann has decided 'abort'", restart_steps=True)


def test_a_run_that_nothing_could_take_is_no_longer_reported(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    broken_after(host, effects, lambda: None)
    with host.process() as ledger, pytest.raises(nt.errors.WorkflowVersionMismatch):
        nt.App(graphs=[new], store=ledger).run("flow", "r")
    assert len(host.open_reviews) == 1
    migrate(host, new, LATER)
    assert host.open_reviews == []
    assert run(host, new).status == "completed"


# Child runs


def child_of(effects: Effects, name: str = "child") -> nt.Graph[Any]:
    child: nt.Graph[Any] = nt.Graph(name, version="1.0.0")

    @child.node
    def act(state: Any) -> Any:
        effects.visit("child")
        return {"did": effects.act("child")}

    @child.node
    def wait(state: Any) -> Any:
        return {"got": nt.receive("paid")}

    return child


def test_a_child_that_is_under_way_would_be_spawned_twice(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    child = child_of(effects)
    run(host, of_bodies("1.0.0", work=lambda state: {"child": nt.spawn(child).state}))
    refused(host, new, r"has spawned run 'r\.\w+' \(waiting\); let that step end")
    assert effects.done == ["child"]


def test_a_child_that_ended_in_a_step_that_is_not_over(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    with host.process() as ledger:
        ledger.send("x", "paid")
    child: nt.Graph[Any] = nt.Graph("child", version="1.0.0")
    child.node(name="act")(lambda state: {"did": effects.act("child")})
    broken_after(host, effects, lambda: nt.spawn(child))
    refused(host, new, "is not over and has already made a child run")


def test_a_child_that_failed_in_a_step_that_is_not_over(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    effects.broken = {"child"}
    child = child_of(effects)
    with pytest.raises(nt.errors.ChildFailed):
        run(host, of_bodies("1.0.0", work=lambda state: {"child": nt.spawn(child).state}))
    refused(host, new, r"has spawned run 'r\.\w+' \(failed\)")


def test_children_of_steps_that_are_over_keep_their_own_version(
    host: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    """One that ended, and one that failed, after which its step continued."""
    child: nt.Graph[Any] = nt.Graph("child", version="1.0.0")
    child.node(name="act")(lambda state: {"did": effects.act("child")})
    bad = child_of(effects, "bad")

    def first(state: Any) -> None:
        nt.spawn(child)
        with pytest.raises(nt.errors.ChildFailed):
            nt.spawn(bad)

    def work(state: Any) -> None:
        host.clock.advance(1)
        raise Crash("work")

    effects.broken = {"child"}
    old = of_bodies("1.0.0", first=first, between=lambda state: host.clock.advance(1), work=work)
    crash(host, old)
    migrate(host, new, LATER)
    assert run(host, new).status == "completed"
    assert effects.done == ["child", "later"]
    versions = {child.graph_id for child in MemoryStore(host.data).children("r")}
    assert versions == {"child@1.0.0", "bad@1.0.0"}


# A map that points back


class Shop:
    """Tools with names of their own, and graphs whose nodes name them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.broken = True
        shop = self

        @nt.tool("unsafe_on_replay")
        def shop_pay(order: int) -> str:
            shop.done.append("pay")
            return "paid"

        @nt.tool("unsafe_on_replay")
        def shop_mail(order: int) -> str:
            shop.done.append("mail")
            return "mailed"

        def pay(state: Any) -> None:
            shop_pay(7)

        def notify(state: Any) -> None:
            if shop.broken:
                raise Crash
            shop_mail(7)

        self.pay, self.notify = pay, notify
        self.passed_in = [shop_pay]

    def paid(self, host: Host) -> None:
        """A run that has paid, and whose next node fails."""
        crash(host, of_bodies("1.0.0", pay=self.pay, notify=self.notify))
        self.broken = False


def test_a_map_back_to_a_node_that_has_paid_is_refused_also_in_a_dry_run(host: Host) -> None:
    shop = Shop()
    shop.paid(host)
    new, before = of_bodies("2.0.0", pay=shop.pay, tell=shop.notify), whole(host)
    for dry_run in (True, False):
        with pytest.raises(nt.errors.MigrationRefused) as refused:
            migrate(host, new, {"notify": "pay"}, dry_run=dry_run, repeats=())
        assert "shop_pay(order=7) in step 'pay'" in str(refused.value)
        assert "--repeats shop_pay" in str(refused.value)
    assert whole(host) == before
    assert migrate(host, new, {"notify": "pay"}, repeats=["shop_pay"]).outcome == "migrated"
    assert run(host, new).status == "completed"
    assert shop.done == ["pay", "pay", "mail"]


def test_a_node_of_another_name_that_names_the_same_tool_is_refused(host: Host) -> None:
    shop = Shop()
    shop.paid(host)
    new = of_bodies("2.0.0", charge=shop.pay, tell=shop.notify)
    with pytest.raises(nt.errors.MigrationRefused, match=r"node 'charge' of .* may repeat"):
        migrate(host, new, {"notify": "charge"}, repeats=())
    assert migrate(host, new, {"notify": "tell"}, repeats=()).outcome == "migrated"
    assert run(host, new).status == "completed"
    assert shop.done == ["pay", "mail"]


def test_a_node_whose_tools_its_code_does_not_name_is_known_by_what_it_did(host: Host) -> None:
    shop = Shop()

    def pay(state: Any) -> None:
        for tool in list(shop.passed_in):
            tool(7)

    crash(host, of_bodies("1.0.0", pay=pay, notify=shop.notify))
    new = of_bodies("2.0.0", pay=pay, tell=shop.notify)
    with pytest.raises(nt.errors.MigrationRefused, match="--repeats shop_pay"):
        migrate(host, new, {"notify": "pay"}, repeats=())


def test_a_loop_needs_no_leave_for_what_its_own_node_has_done(host: Host) -> None:
    shop = Shop()
    turns: list[int] = []

    def turn(state: Any) -> str:
        turns.append(1)
        if len(turns) == 2:
            raise Crash
        shop.pay(state)
        return "again" if len(turns) < 3 else "over"

    def other_turn(state: Any) -> str:
        shop.pay(state)
        return "over"

    def looping(version: str, body: Any) -> nt.Graph[Any]:
        flow: nt.Graph[Any] = nt.Graph("flow", version=version, state=dict)
        flow.node(name="turn", then={"again": "turn", "over": nt.END}, most=9)(body)
        return flow

    crash(host, looping("1.0.0", turn))
    new = looping("2.0.0", other_turn)
    assert migrate(host, new, {"turn": "turn"}, repeats=()).outcome == "migrated"
    assert run(host, new).status == "completed"
    assert shop.done == ["pay", "pay"]


def test_a_node_that_says_the_same_in_both_versions_needs_no_leave(host: Host) -> None:
    shop = Shop()

    def pay_the_rest(state: Any) -> None:
        if shop.broken:
            raise Crash
        shop.pay(state)

    crash(host, of_bodies("1.0.0", pay=shop.pay, rest=pay_the_rest))
    shop.broken = False
    new = of_bodies("2.0.0", pay=shop.pay, rest=pay_the_rest)
    assert migrate(host, new, {"rest": "rest"}, repeats=()).outcome == "migrated"


def test_repeats_is_a_list_of_names(host: Host) -> None:
    shop = Shop()
    shop.paid(host)
    new = of_bodies("2.0.0", pay=shop.pay, tell=shop.notify)
    with pytest.raises(nt.errors.UsageError, match="not a list of tools"):
        migrate(host, new, {"notify": "tell"}, repeats="shop_pay")
