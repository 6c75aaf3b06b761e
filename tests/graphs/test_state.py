"""State has its declared type, live and after a resume, and only what a node returns changes it."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NotRequired, Required, TypedDict

import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, model_validator

import nottwice as nt
from nottwice.errors import InvalidGraph, NotPlainData
from nottwice.graphs.state import StateType
from nottwice.model import values
from nottwice.model.saving.frozen import freeze
from tests.fakes import Host
from tests.graphs.effects import Effects, crash, graph, run


class Item(BaseModel):
    name: str
    price: Decimal = Decimal("1.50")


class Model(BaseModel):
    order: int
    item: Item | None = None
    items: list[Item] = []
    when: datetime.datetime | None = None
    log: list[str] = Field(default_factory=list)


@dataclass
class Data:
    order: int
    item: Item | None = None
    items: list[Item] = field(default_factory=list)
    when: datetime.datetime | None = None
    log: list[str] = field(default_factory=list)


class Total(TypedDict):
    order: int
    item: NotRequired[Item]
    items: NotRequired[list[Item]]
    when: NotRequired[datetime.datetime]
    log: NotRequired[list[str]]


class Partial(TypedDict, total=False):
    order: Required[int]
    item: Item
    items: list[Item]
    when: datetime.datetime
    log: list[str]


NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
TYPES: list[Any] = [Model, Data, Total, Partial]


def part(state: Any, name: str) -> Any:
    return state[name] if isinstance(state, dict) else getattr(state, name)


@pytest.mark.parametrize("state", TYPES)
def test_a_typed_state_has_the_same_types_live_and_after_a_resume(
    host: Host, effects: Effects, state: Any
) -> None:
    seen: list[Any] = []
    flow = graph(state=state, append=["log"])

    @flow.node
    def fill(state: Any) -> Any:
        items = [Item(name="pen", price=Decimal("2.30"))]
        return {"item": Item(name="cup"), "items": items, "when": NOON, "log": ["filled"]}

    @flow.node
    def use(state: Any) -> Any:
        effects.act(part(state, "item").name)
        seen.append(state)
        effects.visit("use")
        return {"log": ["used"]}

    effects.broken = {"use"}
    assert crash(host, flow, {"order": 7}) == "use"
    effects.broken = set()
    outcome = run(host, flow)
    live, resumed = seen
    assert type(live) is type(resumed)
    assert live == resumed
    assert part(resumed, "item") == Item(name="cup")
    assert part(resumed, "items") == [Item(name="pen", price=Decimal("2.30"))]
    assert part(resumed, "when") == NOON
    assert part(outcome.state, "log") == ["filled", "used"]
    assert effects.done == ["cup"]


def test_parts_that_a_typed_dict_need_not_have_stay_away(host: Host) -> None:
    flow = graph(state=Partial)
    seen: list[Any] = []

    @flow.node
    def look(state: Partial) -> None:
        seen.append(dict(state))

    assert run(host, flow, {"order": 7}).state == {"order": 7}
    assert seen == [{"order": 7}]


class Aliased(BaseModel):
    order: int = Field(default=0, alias="orderId")
    cents: int = Field(default=0, validation_alias=AliasChoices("Cents", "amount"))


def test_parts_with_an_alias_are_kept_and_handed_out(host: Host) -> None:
    flow = graph(state=Aliased)
    seen: list[tuple[int, int]] = []

    @flow.node
    def pay(state: Aliased) -> dict[str, int]:
        seen.append((state.order, state.cents))
        return {"cents": 40}

    @flow.node
    def look(state: Aliased) -> None:
        seen.append((state.order, state.cents))

    outcome = run(host, flow, {"orderId": 7, "amount": 10})
    assert seen == [(7, 10), (7, 40)]
    assert (outcome.state.order, outcome.state.cents) == (7, 40)


def test_a_part_that_is_read_from_inside_another_is_refused() -> None:
    class Inside(BaseModel):
        order: int = Field(validation_alias=AliasPath("order", "id"))

    with pytest.raises(InvalidGraph, match="from inside another"):
        graph(state=Inside)


class Bounded(BaseModel):
    cents: int = Field(default=0, ge=0)
    least: int = 0

    @model_validator(mode="after")
    def _check(self) -> Bounded:
        if self.cents < self.least:
            raise ValueError("too little")
        return self


@pytest.mark.parametrize("update", [{"cents": -1}, {"least": 5}, {"cents": "many"}])
def test_an_update_that_does_not_fit_is_refused_before_it_is_kept(
    host: Host, update: dict[str, Any]
) -> None:
    flow = graph(state=Bounded)

    @flow.node
    def break_it(state: Bounded) -> Any:
        return update

    with pytest.raises(InvalidGraph, match="does not fit"):
        run(host, flow)
    with host.process() as ledger:
        outcome = flow.outcome("r", store=ledger)
    assert (outcome.status, outcome.state) == ("failed", Bounded())
    assert [(mark.status, bool(mark.error)) for mark in outcome.nodes] == [("failed", True)]


def test_a_node_may_return_the_whole_state(host: Host) -> None:
    flow = graph(state=Data, append=["log"])

    @flow.node
    def replace(state: Data) -> Data:
        return dataclasses.replace(state, order=8, log=[*state.log, "replaced"])

    @flow.node
    def same(state: Data) -> Data:
        return state

    outcome = run(host, flow, Data(7, log=["given"]))
    assert outcome.state == Data(8, log=["given", "replaced"])


def test_a_whole_state_may_only_add_to_what_is_only_added_to(host: Host) -> None:
    flow = graph(state=Data, append=["log"])

    @flow.node
    def forget(state: Data) -> Data:
        return dataclasses.replace(state, log=["other"])

    with pytest.raises(InvalidGraph, match="to which it can only add"):
        run(host, flow, Data(7, log=["given"]))


@pytest.mark.parametrize("state", [dict, Model, Data, Partial])
def test_a_state_that_is_changed_in_place_is_refused(host: Host, state: Any) -> None:
    flow = graph(state=state)

    @flow.node
    def change(state: Any) -> None:
        part(state, "log").append("lost")

    with pytest.raises(InvalidGraph, match="changed the state in place"):
        run(host, flow, {"order": 7, "log": ["given"]})
    with host.process() as ledger:
        assert part(flow.outcome("r", store=ledger).state, "log") == ["given"]


def test_what_a_node_still_holds_cannot_change_what_it_returned(host: Host) -> None:
    flow = graph()
    kept: list[list[int]] = []

    @flow.node
    def give(state: dict[str, Any]) -> Any:
        kept.append([1])
        return {"numbers": kept[0]}

    @flow.node
    def meddle(state: dict[str, Any]) -> None:
        kept[0].append(2)

    assert run(host, flow).state == {"numbers": [1]}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (lambda: None, "part"),
        ({"deep": [1, object()]}, "part.deep[1]"),
        (float("nan"), "part"),
        ({1: "number"}, "part"),
        (b"bytes", "part"),
    ],
)
def test_what_is_not_plain_data_is_refused_with_its_path(host: Host, value: Any, path: str) -> None:
    flow = graph()

    @flow.node
    def give(state: dict[str, Any]) -> Any:
        return {"part": value}

    with pytest.raises(NotPlainData) as caught:
        run(host, flow)
    assert caught.value.path.startswith(path)
    with pytest.raises(NotPlainData) as caught:
        run(host, flow, {"part": value}, run_id="other")
    assert caught.value.path.startswith(path)
    assert "other" not in host.data.runs


@pytest.mark.parametrize("returned", [5, ["a"], object(), Item(name="cup")])
def test_a_node_returns_an_update_or_a_choice_and_nothing_else(host: Host, returned: Any) -> None:
    flow = graph(state=Model)

    @flow.node
    def give(state: Model) -> Any:
        return returned

    with pytest.raises(InvalidGraph, match="Return a dict of what changes"):
        run(host, flow, {"order": 7})


def test_a_plain_function_that_returns_a_coroutine_is_refused(host: Host) -> None:
    flow = graph()

    async def inner() -> None: ...

    @flow.node
    def give(state: dict[str, Any]) -> Any:
        return inner()

    with pytest.raises(InvalidGraph, match="returned coroutine"):
        run(host, flow)


def test_an_update_names_parts_of_the_state(host: Host) -> None:
    flow = graph(state=Data)

    @flow.node
    def give(state: Data) -> Any:
        return {"ordr": 1}

    with pytest.raises(InvalidGraph, match="'ordr', which is not part of the state"):
        run(host, flow, {"order": 7})


def test_what_is_added_to_is_given_as_a_list(host: Host) -> None:
    flow = graph(append=["log"])

    @flow.node
    def give(state: dict[str, Any]) -> Any:
        return {"log": "one"}

    with pytest.raises(InvalidGraph, match="Return the new items as a list"):
        run(host, flow)


@pytest.mark.parametrize("given", [{}, {"order": "many"}, {"order": 1, "item": 5}, 5, ["order"]])
def test_an_input_that_does_not_fit_is_refused_before_the_run_exists(
    host: Host, given: Any
) -> None:
    flow = graph(state=Model)
    flow.node(name="a")(lambda state: None)
    with pytest.raises(InvalidGraph, match="does not fit its state"):
        run(host, flow, given)
    assert host.data.runs == {}


def test_the_input_of_a_plain_state_is_a_dict(host: Host) -> None:
    flow = graph()
    flow.node(name="a")(lambda state: None)
    with pytest.raises(InvalidGraph, match="Pass a dict"):
        run(host, flow, [1])
    assert host.data.runs == {}


@pytest.mark.parametrize("state", [int, list, object, str | None])
def test_a_state_is_a_dict_or_a_type_with_named_parts(state: Any) -> None:
    with pytest.raises(InvalidGraph, match="cannot have the state"):
        graph(state=state)


def test_a_part_to_add_to_must_be_there() -> None:
    with pytest.raises(InvalidGraph, match="appends to 'logs'"):
        graph(state=Data, append=["logs"])


class Marked(BaseModel):
    model_config = ConfigDict(frozen=True)
    order: int
    token: str = Field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True)
class MarkedData:
    order: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)


@pytest.mark.parametrize("state", [Marked, MarkedData])
def test_what_a_factory_fills_in_is_made_once_and_makes_no_other_input(
    host: Host, effects: Effects, state: Any
) -> None:
    flow = graph(state=state)
    tokens: list[str] = []

    @flow.node
    def look(state: Any) -> None:
        tokens.append(state.token)
        effects.visit("look")

    effects.broken = {"look"}
    crash(host, flow, {"order": 7})
    effects.broken = set()
    run(host, flow, {"order": 7})
    assert tokens[0] == tokens[1]
    with pytest.raises(nt.errors.UsageError, match="another input"):
        run(host, flow, {"order": 8})
    with pytest.raises(nt.errors.UsageError, match="another input"):
        run(host, flow, {"order": 7, "token": "other"})


def test_what_an_input_says_by_itself_leaves_out_what_a_factory_made() -> None:
    kind = StateType(Marked, graph="flow", append=())
    assert kind.stable({"order": 7}) == {"order": 7}
    assert kind.stable({"order": 7, "token": "t"}) == {"order": 7, "token": "t"}
    assert kind.stable(Marked(order=7)) == {"order": 7}
    assert StateType(Data, graph="flow", append=()).stable(Data(7)).keys() == {
        "order",
        "item",
        "items",
        "when",
        "log",
    }


def test_a_pydantic_dataclass_is_a_state_like_any_other(host: Host) -> None:
    @pydantic.dataclasses.dataclass
    class Strict:
        order: int = 0

    flow = graph(state=Strict)

    @flow.node
    def give(state: Strict) -> dict[str, int]:
        return {"order": state.order + 1}

    assert run(host, flow, {"order": 7}).state == Strict(8)


def test_a_state_that_no_longer_fits_says_so_and_leaves_the_run_alone(
    host: Host, effects: Effects
) -> None:
    # A draft, because code that was deployed is refused before it comes to that.
    old = graph(state=Data, version="0.0.1")

    @old.node(name="a")
    def first(state: Data) -> None:
        effects.act("x")

    @old.node(name="b")
    def second(state: Data) -> None:
        effects.visit("b")

    effects.broken = {"b"}
    crash(host, old, {"order": 7})

    class Newer(BaseModel):
        order: int
        customer: str

    new = graph(state=Newer, version="0.0.1")
    new.node(name="a")(lambda state: None)
    new.node(name="b")(lambda state: None)
    with pytest.raises(InvalidGraph, match="recorded state no longer fits"):
        run(host, new)
    effects.broken = set()
    assert run(host, old).status == "completed"
    assert effects.done == ["x"]


def test_an_entry_that_is_not_plain_data_is_named_by_its_place_in_the_whole() -> None:
    state = StateType(dict, graph="flow", append=())
    old = freeze({"table": {"rows": ["a", "b", "c"], "size": 3}})
    lent = state.lend(old)
    for at in (1, 3):
        rows = [*lent["table"]["rows"][:at], object(), *lent["table"]["rows"][at + 1 :]]
        with pytest.raises(NotPlainData) as refused:
            state.read(lent, {"table": {**lent["table"], "rows": rows}}, old, "node")
        assert refused.value.path == f"table.rows[{at}]"


def test_what_a_nested_dict_keeps_is_the_same_object_in_both_states() -> None:
    state = StateType(dict, graph="flow", append=())
    old = freeze({"table": {"rows": [["a"], ["b"]], "notes": {"x": ["y"]}}})
    lent = state.lend(old)
    table = {**lent["table"], "rows": [*lent["table"]["rows"], ["c"]]}
    new = state.read(lent, {"table": table}, old, "node").changes["table"]
    assert new == {"rows": [["a"], ["b"], ["c"]], "notes": {"x": ["y"]}}
    assert new["rows"][0] is old["table"]["rows"][0]
    assert new["notes"] is old["table"]["notes"]


@pytest.mark.parametrize("state", [dict, Data, Model])
def test_a_list_that_is_returned_whole_costs_what_was_added_to_it(host: Host, state: Any) -> None:
    flow = graph(state=state)

    @flow.node(then={"again": "work", "end": nt.END})
    def work(state: Any) -> Any:
        order = part(state, "order") + 1
        log = [*part(state, "log"), "x" * 100]
        return nt.goto("again" if order < 60 else "end", {"order": order, "log": log})

    outcome = run(host, flow, {"order": 0, "log": []})
    assert part(outcome.state, "log") == ["x" * 100] * 60
    kept = host.data.checkpoints.values()
    assert sum(len(one.json) for one in kept) < 60 * 700


@pytest.mark.parametrize("kind", [Data, Model])
def test_what_a_whole_state_keeps_is_not_written_to_be_compared(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateType(kind, graph="flow", append=())
    old = freeze(state.first({"order": 7, "log": ["x" * 100] * 1_000}))
    state.read(state.lend(old), {"order": 8}, old, "node")  # validates the parts once
    lent, encode = state.lend(old), values.encode
    written: list[str] = []

    def counted(value: Any) -> str:
        written.append(encode(value))
        return written[-1]

    monkeypatch.setattr(values, "encode", counted)
    log = [*lent.log, "y"]
    changed = (
        dataclasses.replace(lent, order=8, log=log)
        if kind is Data
        else lent.model_copy(update={"order": 8, "log": log})
    )
    ending = state.read(lent, changed, old, "node")
    assert ending.changes == {"order": 8, "log": log}
    assert sum(map(len, written)) < 1_000


def test_a_dict_that_is_returned_whole_costs_what_changed_in_it(host: Host) -> None:
    flow = graph()

    @flow.node(then={"again": "work", "end": nt.END})
    def work(state: dict[str, Any]) -> Any:
        step = state["step"] + 1
        return nt.goto(
            "again" if step < 60 else "end",
            {"step": step, "known": {**state["known"], "last": step}},
        )

    known = {str(number): "x" * 100 for number in range(60)}
    outcome = run(host, flow, {"step": 0, "known": known})
    assert outcome.state == {"step": 60, "known": {**known, "last": 60}}
    kept = host.data.checkpoints.values()
    assert sum(len(one.json) for one in kept) < 10_000 + 60 * 600


def test_a_part_of_the_state_reaches_a_tool_as_a_list_of_its_own(
    host: Host, effects: Effects
) -> None:
    taken: list[Any] = []

    @nt.tool("pure")
    def sort(items: list[Any], extra: dict[str, Any]) -> list[Any]:
        items.sort()
        taken.append((type(items), type(extra["nested"])))
        return items

    flow = graph()

    @flow.node
    def use(state: dict[str, Any]) -> Any:
        return {"sorted": sort(state["items"], {"nested": state["items"]})}

    outcome = run(host, flow, {"items": [3, 1, 2]})
    assert outcome.state == {"items": [3, 1, 2], "sorted": [1, 2, 3]}
    assert taken == [(list, list)]
    assert type(outcome.state["items"]) is list
