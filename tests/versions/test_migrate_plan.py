"""Where a migrated run continues, and with what state: loops, branches, types, upgrades."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field

import nottwice as nt
from nottwice.store.memory import MemoryStore
from tests.fakes import Host
from tests.graphs.effects import Effects, crash, graph, run
from tests.versions.migrating import NEW, load, migrate, of_bodies, whole

STAY = {"work": "work"}


def begun(host: Host, effects: Effects, state: Any, given: Any) -> None:
    """A run that is at its first node, and has this state."""
    effects.broken = {"work"}
    crash(host, of_bodies("1.0.0", state, work=lambda _: effects.visit("work")), given)
    effects.broken = set()


def after(state: Any, body: Any = lambda state: None) -> nt.Graph[Any]:
    return of_bodies("2.0.0", state, work=body)


def refused(host: Host, new: nt.Graph[Any], because: str, **more: Any) -> None:
    before = whole(host)
    with pytest.raises(nt.errors.MigrationRefused, match=because):
        migrate(host, new, STAY, **more)
    assert whole(host) == before


# States


class Before(TypedDict):
    order: int
    note: str


class Renamed(BaseModel):
    ticket: int
    note: str


class Wider(BaseModel):
    order: int
    note: str
    channel: str = "mail"


class Narrower(BaseModel):
    order: int


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    order: int


_numbers = itertools.count(1)


class Numbered(BaseModel):
    order: int
    note: str
    number: int = Field(default_factory=lambda: next(_numbers))


GIVEN = {"order": 7, "note": "quick"}


def test_what_the_new_type_has_by_default_is_filled_in_once(host: Host, effects: Effects) -> None:
    begun(host, effects, Before, GIVEN)
    assert [str(one) for one in migrate(host, after(Wider), STAY).changes] == [
        '+ state.channel: "mail"'
    ]
    assert run(host, after(Wider)).state == Wider(order=7, note="quick", channel="mail")


def test_what_a_factory_fills_in_stays_the_same_from_then_on(host: Host, effects: Effects) -> None:
    begun(host, effects, Before, GIVEN)
    seen: list[int] = []
    new = after(Numbered, lambda state: seen.append(state.number))
    migrate(host, new, STAY)
    assert run(host, new).state.number == seen[0]


def test_a_part_that_the_new_type_does_not_know_is_not_dropped_in_silence(
    host: Host, effects: Effects
) -> None:
    begun(host, effects, Before, GIVEN)
    for kind in (Narrower, Strict):
        refused(host, after(kind), "names 'note', which is not part of the state")
        done = migrate(host, after(kind), STAY, dry_run=True, upgrade=lambda s: {"order": 1})
        assert done.outcome == "would migrate"


def test_an_upgrade_makes_the_state_of_the_new_version(host: Host, effects: Effects) -> None:
    begun(host, effects, Before, GIVEN)
    refused(host, after(Renamed), "names 'order', which is not part of the state")
    given: list[Any] = []

    def upgrade(state: dict[str, Any]) -> dict[str, Any]:
        given.append(dict(state))
        return {"ticket": state.pop("order"), **state}

    migrate(host, after(Renamed), STAY, upgrade=upgrade, repeats=())
    assert given == [GIVEN]
    assert run(host, after(Renamed)).state == Renamed(ticket=7, note="quick")
    (entry,) = host.data.audit
    assert entry.subject.endswith("upgrade")


@pytest.mark.parametrize(
    ("upgrade", "because"),
    [
        (lambda state: {"ticket": "seven", "note": "x"}, "state.ticket: .*integer"),
        (lambda state: {"ticket": 7}, "state.note"),
        (lambda state: {**state, "ticket": 7}, "names 'order', which is not part"),
        (lambda state: None, "returned NoneType instead of a dict"),
        (lambda state: state["nothing"], "raised KeyError: 'nothing'"),
        (lambda state: Renamed(ticket=1, note=""), "returned Renamed instead of a dict"),
    ],
)
def test_an_upgrade_that_does_not_fit_changes_nothing(
    host: Host, effects: Effects, upgrade: Any, because: str
) -> None:
    begun(host, effects, Before, GIVEN)
    refused(host, after(Renamed), because, upgrade=upgrade)


def test_what_is_not_plain_data_is_refused_for_a_plain_state_too(
    host: Host, effects: Effects
) -> None:
    begun(host, effects, dict, GIVEN)
    refused(host, after(dict), "function", upgrade=lambda state: {"callback": lambda: 1})
    refused(host, after(dict), "1, which is not part", upgrade=lambda state: {1: 2})


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_in_the_new_version(
    host: Host, effects: Effects
) -> None:
    old = of_bodies("1.0.0", Before, work=lambda state: {"note": effects.act("old")})
    with host.process(dies_at=3) as ledger:
        old.run("r", GIVEN, store=ledger)
    assert MemoryStore(host.data).checkpoints("r") == []
    new = after(Renamed, lambda state: {"note": effects.act(f"new {state.ticket}")})
    migrate(host, new, STAY, upgrade=lambda state: {"ticket": state["order"], "note": ""})
    assert run(host, new).state == Renamed(ticket=7, note="did new 7")
    assert effects.done == ["new 7"]


# Loops


def turning(effects: Effects, version: str, name: str, most: int = 1000) -> nt.Graph[Any]:
    flow = graph(version=version, append=["made"])

    @flow.node(name=name, then={"again": name, "done": nt.END}, most=most)
    def turn(state: dict[str, Any]) -> Any:
        count = len(state.get("made", ())) + 1
        effects.visit(f"{version[0]} {count}")
        made = effects.act(f"{version[0]} {count}")
        return nt.goto("again" if count < 4 else "done", {"made": [made]})

    return flow


@pytest.mark.parametrize("name", ["turn", "cycle"])
def test_a_loop_continues_counting(host: Host, effects: Effects, name: str) -> None:
    effects.broken = {"1 3"}
    crash(host, turning(effects, "1.0.0", "turn"), {})
    new = turning(effects, "2.0.0", name)
    migrate(host, new, {"turn": name})
    assert run(host, new).status == "completed"
    assert effects.done == ["1 1", "1 2", "2 3", "2 4"]
    visits = [row.identity.checkpoint_id for row in host.calls]
    assert visits == ["flow@1.0.0/1", "flow@1.0.0/2", "flow@2.0.0/3", "flow@2.0.0/4"]


def test_a_loop_gets_no_more_turns_by_being_migrated(host: Host, effects: Effects) -> None:
    effects.broken = {"1 3"}
    crash(host, turning(effects, "1.0.0", "turn"), {})
    tight = turning(effects, "2.0.0", "cycle", most=2)
    with pytest.raises(
        nt.errors.MigrationRefused, match=r"may be visited 2 times.*would be visit 3"
    ):
        migrate(host, tight, {"turn": "cycle"})
    bound = turning(effects, "2.0.0", "cycle", most=3)
    migrate(host, bound, {"turn": "cycle"})
    with pytest.raises(nt.errors.InvalidGraph, match="was visited 3 times"):
        run(host, bound)


def test_there_and_back_again_meets_no_receipt_of_the_first_time(
    host: Host, effects: Effects
) -> None:
    """A rollback: the same visit of the same version begins a second time, under another number."""

    @nt.tool("pure", name="count_looks")
    def look() -> int:
        effects.looks.append("look")
        return len(effects.looks)

    def body(state: Any) -> Any:
        seen = look()
        effects.visit("work")
        return {"seen": seen}

    effects.broken = {"work"}
    old = of_bodies("1.0.0", work=body)
    crash(host, old)
    migrate(host, after(dict), STAY)
    migrate(host, old, STAY)
    effects.broken = set()
    assert run(host, old).state == {"seen": 2}
    assert [row.identity.checkpoint_id for row in host.calls] == ["flow@1.0.0/1", "flow@1.0.0/2"]


def test_going_back_to_a_node_is_another_visit_of_it(host: Host, effects: Effects) -> None:
    def nodes(version: str) -> nt.Graph[Any]:
        return of_bodies(
            version,
            plan=lambda state: {"plan": effects.act(f"plan {version[0]}")},
            work=lambda state: effects.visit("work"),
        )

    effects.broken = {"work"}
    crash(host, nodes("1.0.0"))
    effects.broken = set()
    migrate(host, nodes("2.0.0"), {"work": "plan"})
    assert run(host, nodes("2.0.0")).state == {"plan": "did plan 2"}
    assert effects.done == ["plan 1", "plan 2"]
    assert host.calls[-1].identity.checkpoint_id == "flow@2.0.0/2"


def test_steps_of_phases_are_mapped_by_their_whole_name(host: Host, effects: Effects) -> None:
    def look(state: Any) -> None:
        effects.visit("look")

    def fix(state: Any) -> Any:
        effects.visit("fix")
        return {"fixed": effects.act("fix")}

    effects.broken = {"fix"}
    old = nt.phases("flow", version="1.0.0", phases={"bug": [look, fix]})
    crash(host, old)
    new = nt.phases("flow", version="2.0.0", phases={"find": [look], "mend": [fix]})
    with pytest.raises(nt.errors.UnmappedNode, match="is at 'bug/fix'"):
        migrate(host, new, {"fix": "mend/fix"})
    migrate(host, new, {"bug/fix": "mend/fix"})
    effects.broken = set()
    assert run(host, new).state == {"fixed": "did fix"}
    assert host.calls[-1].identity.node_id == "mend/fix"


# Branches


def fanned(
    effects: Effects,
    version: str,
    heads: tuple[str, ...] = ("left", "right"),
    join: str = "meet",
    append: tuple[str, ...] = ("log",),
    start: str = "start",
) -> nt.Graph[Any]:
    flow = graph(version=version, append=append)
    flow.node(name=start, then=list(heads), join=join)(lambda state: None)
    for head in heads:
        flow.node(name=head)(_branch(effects, head, version))
    flow.node(name=join)(lambda state: {"met": effects.act(f"meet {version[0]}")})
    return flow


def _branch(effects: Effects, head: str, version: str) -> Any:
    def node(state: Any) -> Any:
        effects.visit(head)
        return {"log": [effects.act(f"{head} {version[0]}")]}

    return node


def test_branches_continue_as_branches_and_keep_what_they_have(
    host: Host, effects: Effects
) -> None:
    effects.broken = {"right"}
    crash(host, fanned(effects, "1.0.0"), {})
    effects.broken = set()
    new = fanned(effects, "2.0.0", ("west", "east"), "gather", start="split")
    with pytest.raises(nt.errors.UnmappedNode) as caught:
        migrate(host, new, {"right": "east"})
    assert caught.value.nodes == ("meet",)
    migrate(host, new, {"right": "east", "meet": "gather"})
    outcome = run(host, new)
    assert outcome.state["log"] == ["did left 1", "did east 2"]
    assert effects.done == ["left 1", "east 2", "meet 2"]


@pytest.mark.parametrize(
    ("heads", "mapping"),
    [
        (("left", "middle", "right"), {"right": "right", "meet": "meet"}),
        (("right", "left"), {"right": "right", "meet": "meet"}),
        (("left", "right"), {"right": "meet", "meet": "meet"}),
        (("left", "right"), {"right": "right", "meet": "start"}),
    ],
)
def test_branches_that_have_no_place_in_the_new_version_are_refused(
    host: Host, effects: Effects, heads: tuple[str, ...], mapping: dict[str, str]
) -> None:
    effects.broken = {"right"}
    crash(host, fanned(effects, "1.0.0"), {})
    with pytest.raises(nt.errors.MigrationRefused, match="2 branches are under way"):
        migrate(host, fanned(effects, "2.0.0", heads), mapping)
    assert effects.done == ["left 1"]


def test_what_branches_have_changed_must_mean_the_same(host: Host, effects: Effects) -> None:
    effects.broken = {"right"}
    crash(host, fanned(effects, "1.0.0"), {})
    stays = {"right": "right", "meet": "meet"}
    with pytest.raises(
        nt.errors.MigrationRefused, match="changed 'log', to which only one of the two"
    ):
        migrate(host, fanned(effects, "2.0.0", append=()), stays)
    with pytest.raises(nt.errors.MigrationRefused, match="upgrade would not see"):
        migrate(host, fanned(effects, "2.0.0"), stays, upgrade=lambda state: state)


def test_a_run_does_not_continue_in_the_middle_of_branches_that_it_never_started(
    host: Host, effects: Effects
) -> None:
    begun(host, effects, dict, {})
    new = fanned(effects, "2.0.0")
    with pytest.raises(nt.errors.MigrationRefused, match="map to the node that starts them"):
        migrate(host, new, {"work": "left"})
    migrate(host, new, {"work": "start"})
    assert run(host, new).status == "completed"


# What is told


def test_the_checkpoint_of_a_migration_is_a_version_like_any_other(
    host: Host, effects: Effects
) -> None:
    begun(host, effects, Before, GIVEN)
    new = after(Wider)
    migrate(host, new, STAY)
    with host.process() as ledger:
        versions = new.history("r", store=ledger)
        assert [version.node_id for version in versions] == ["/", f"/{NEW}"]
        assert [str(one) for one in new.compare("r", 0, 1, store=ledger)] == [
            '+ state.channel: "mail"'
        ]
    assert load(host).graph_id == NEW


def test_a_migration_is_a_plain_record(host: Host, effects: Effects) -> None:
    begun(host, effects, dict, {})
    done = migrate(host, after(dict), STAY)
    assert dataclasses.asdict(done)["nodes"] == (("work", "work"),)
