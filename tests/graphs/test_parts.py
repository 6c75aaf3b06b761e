"""A typed state is validated part by part, and a node still cannot change or break it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NotRequired

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

import nottwice as nt
from nottwice.errors import InvalidGraph
from nottwice.graphs.parts import parts_of
from nottwice.graphs.state import StateType
from nottwice.model.saving.delta import apply, diff
from nottwice.model.saving.frozen import FrozenList, freeze
from tests.fakes import Host
from tests.graphs.effects import graph, run
from tests.instructions import instructions


class Line(BaseModel):
    text: str


class Model(BaseModel):
    step: int = 0
    notes: list[str] = []
    lines: list[Line] = []
    days: list[datetime.date] = []
    few: list[int] = Field(default=[], max_length=3)


@dataclasses.dataclass
class Data:
    step: int = 0
    notes: list[str] = dataclasses.field(default_factory=list)
    lines: list[Line] = dataclasses.field(default_factory=list)
    days: list[datetime.date] = dataclasses.field(default_factory=list)
    few: Annotated[list[int], Field(max_length=3)] = dataclasses.field(default_factory=list)


class Typed(TypedDict):
    step: int
    notes: NotRequired[list[str]]
    lines: NotRequired[list[Line]]
    days: NotRequired[list[datetime.date]]
    few: NotRequired[Annotated[list[int], Field(max_length=3)]]


TYPES: list[Any] = [Model, Data, Typed]
FIRST: dict[str, Any] = {"step": 0, "notes": ["a"], "lines": [], "days": [], "few": []}


def part(state: Any, name: str) -> Any:
    return state[name] if isinstance(state, dict) else getattr(state, name)


@pytest.mark.parametrize("state", TYPES)
def test_parts_that_nothing_can_change_are_lent_again_and_not_rebuilt(
    host: Host, state: Any
) -> None:
    flow = graph(state=state)
    seen: list[Any] = []

    @flow.node(then={"again": "work", "end": nt.END})
    def work(state: Any) -> Any:
        seen.append(state)
        step = part(state, "step") + 1
        days = [*part(state, "days"), datetime.date(2026, 3, step)]
        return nt.goto("again" if step < 3 else "end", {"step": step, "days": days})

    run(host, flow, FIRST)
    assert all(part(one, "notes") is part(seen[0], "notes") for one in seen)
    assert [part(one, "days") for one in seen] == [
        [datetime.date(2026, 3, day) for day in range(1, steps + 1)] for steps in range(3)
    ]
    # What was validated once is the very same object in the longer list.
    assert part(seen[2], "days")[0] is part(seen[1], "days")[0]


@pytest.mark.parametrize("state", TYPES)
@pytest.mark.parametrize(
    "change",
    [
        lambda state: part(state, "notes").append("lost"),
        lambda state: part(state, "lines")[0].__setattr__("text", "lost"),
        lambda state: part(state, "lines").clear(),
        lambda state: (
            state.__setitem__("step", 9) if isinstance(state, dict) else setattr(state, "step", 9)
        ),
    ],
)
def test_what_a_node_changes_in_place_is_refused_whatever_part_it_is(
    host: Host, state: Any, change: Any
) -> None:
    flow = graph(state=state)

    @flow.node
    def meddle(state: Any) -> Any:
        change(state)
        return {"notes": ["other"]}

    with pytest.raises(InvalidGraph, match="changed the state in place"):
        run(host, flow, {**FIRST, "lines": [{"text": "kept"}]})
    with host.process() as ledger:
        kept = flow.outcome("r", store=ledger).state
    assert (part(kept, "notes"), part(kept, "lines"), part(kept, "step")) == (
        ["a"],
        [Line(text="kept")],
        0,
    )


@pytest.mark.parametrize("state", TYPES)
def test_a_bound_on_a_whole_list_holds_when_one_item_is_added(host: Host, state: Any) -> None:
    flow = graph(state=state)

    @flow.node
    def add(state: Any) -> Any:
        return {"few": [*part(state, "few"), 4]}

    with pytest.raises(InvalidGraph, match="does not fit"):
        run(host, flow, {**FIRST, "few": [1, 2, 3]})


@pytest.mark.parametrize("state", TYPES)
def test_a_bound_on_a_whole_list_holds_when_it_is_only_added_to(host: Host, state: Any) -> None:
    flow = graph(state=state, append=["few"])

    @flow.node
    def add(state: Any) -> Any:
        return {"few": [4]}

    with pytest.raises(InvalidGraph, match="does not fit"):
        run(host, flow, {**FIRST, "few": [1, 2, 3]})


@pytest.mark.parametrize("state", TYPES)
def test_an_item_of_another_type_is_refused_behind_items_that_fit(host: Host, state: Any) -> None:
    flow = graph(state=state)

    @flow.node
    def add(state: Any) -> Any:
        return {"notes": [*part(state, "notes"), {"no": "text"}]}

    with pytest.raises(InvalidGraph, match="does not fit"):
        run(host, flow, FIRST)


class Checked(BaseModel):
    step: int = 0

    @field_validator("step")
    @classmethod
    def _even(cls, step: int) -> int:
        return step * 2


class Configured(BaseModel):
    model_config = ConfigDict(str_to_lower=True)
    name: str = ""


class Initialised(BaseModel):
    step: int = 0

    def model_post_init(self, context: Any, /) -> None:
        return None


@dataclasses.dataclass
class Finished:
    step: int = 0

    def __post_init__(self) -> None:
        self.step += 1


@dataclasses.dataclass
class OwnInit:
    step: int

    def __init__(self, step: int = 0) -> None:
        self.step = step


@pydantic.dataclasses.dataclass
class Strict:
    step: int = 0


@pytest.mark.parametrize("kind", [Checked, Configured, Initialised, Finished, OwnInit, Strict])
def test_a_type_that_ties_its_parts_together_is_validated_as_a_whole(kind: Any) -> None:
    assert parts_of(kind, StateType(kind, graph="flow", append=()).fields or {}) is None


@pytest.mark.parametrize("kind", TYPES)
def test_a_type_of_independent_parts_is_validated_part_by_part(kind: Any) -> None:
    state = StateType(kind, graph="flow", append=())
    assert parts_of(state.annotation, state.fields or {}) is not None


class FrozenLine(BaseModel):
    model_config = ConfigDict(frozen=True)
    text: str
    at: tuple[int, datetime.date] = (1, datetime.date(2026, 1, 1))


@dataclasses.dataclass(frozen=True)
class FrozenData:
    text: str


class FrozenWithList(BaseModel):
    model_config = ConfigDict(frozen=True)
    text: str
    words: list[str] = []


@pytest.mark.parametrize(
    ("kind", "is_shared"),
    [(FrozenLine, True), (FrozenData, True), (Line, False), (FrozenWithList, False)],
)
def test_a_list_of_models_that_nothing_can_change_is_lent_again(
    host: Host, kind: Any, is_shared: bool
) -> None:
    state = TypedDict("state", {"step": int, "lines": list[kind]})  # noqa: UP013
    seen: list[list[Any]] = []

    flow = graph(state=state)

    @flow.node(then={"again": "add", "end": nt.END})
    def add(now: Any) -> Any:
        seen.append(list(now["lines"]))
        step, lines = now["step"] + 1, [*now["lines"], kind(text=f"{now['step']}")]
        return nt.goto("again" if step < 3 else "end", {"step": step, "lines": lines})

    outcome = run(host, flow, {"step": 0, "lines": []})
    assert [one.text for one in outcome.state["lines"]] == ["0", "1", "2"]
    assert [type(one) for one in outcome.state["lines"]] == [kind] * 3
    assert (seen[2][0] is seen[1][0]) == is_shared


def test_a_list_does_not_keep_all_those_before_it() -> None:
    state = StateType(Model, graph="flow", append=())
    notes = freeze(["a"])
    for number in range(3):
        state.lend({**FIRST, "notes": notes, "few": freeze([]), "days": freeze([])})
        notes = notes.grown([str(number)])
    assert isinstance(notes, FrozenList)
    assert notes.base is not None
    assert notes.base.base is None


class Mixed(TypedDict):
    notes: NotRequired[list[str]]
    table: NotRequired[dict[str, list[str]]]
    days: NotRequired[list[datetime.date]]
    shares: NotRequired[list[float]]


def test_a_part_that_its_type_leaves_as_it_is_recorded_is_lent_without_a_second_copy() -> None:
    state = StateType(Mixed, graph="flow", append=())
    plain = {
        "notes": freeze(["a"]),
        "table": freeze({"b": ["c"]}),
        "days": freeze(["2026-11-17"]),
        "shares": freeze([1]),
    }
    lent = state.lend(plain)
    assert lent["notes"] is plain["notes"]
    assert lent["table"] is plain["table"]
    assert lent["days"] == [datetime.date(2026, 11, 17)]
    assert type(lent["shares"][0]) is float
    grown = plain["notes"].grown(["b"])
    assert state.lend({**plain, "notes": grown})["notes"] is grown


def test_a_list_whose_later_items_need_another_type_has_all_of_them_in_it() -> None:
    state = StateType(Mixed, graph="flow", append=())
    shares = freeze([1.5])
    assert state.lend({"shares": shares})["shares"] is shares
    assert list(map(type, state.lend({"shares": shares.grown([2])})["shares"])) == [float, float]


class Tables(TypedDict):
    days: dict[str, datetime.date]
    dates: list[datetime.date]
    names: dict[str, str]
    lines: list[FrozenLine]


def replaced(items: list[Any], at: int, item: Any) -> list[Any]:
    return [*items[:at], item, *items[at + 1 :]]


DAY = datetime.date(2026, 1, 1)
SHAPES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "a day in a dict": lambda now: {"days": {**now["days"], "5": DAY}},
    "a day in a list": lambda now: {"dates": replaced(now["dates"], 5, DAY)},
    "a new name": lambda now: {"names": {**now["names"], "new": "x"}},
    "a model in a list": lambda now: {"lines": replaced(now["lines"], 5, FrozenLine(text="x"))},
    "a new first item": lambda now: {"dates": [DAY, *now["dates"]]},
    "an item less": lambda now: {"dates": now["dates"][:5] + now["dates"][6:]},
}


def tables(size: int) -> dict[str, Any]:
    names = [str(number) for number in range(size)]
    line = FrozenLine(text="y").model_dump(mode="json")
    return {
        "days": freeze(dict.fromkeys(names, "2026-11-17")),
        "dates": freeze(["2026-11-17"] * (size - 1) + ["2026-11-18"]),
        "names": freeze({name: f"name {name}" for name in names}),
        "lines": freeze([line] * size),
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_one_changed_entry_is_taken_over_without_a_look_at_the_others(shape: str) -> None:
    took = {}
    for size in (100, 2_000):
        state = StateType(Tables, graph="flow", append=())
        old = tables(size)
        for warm in (True, False):
            lent = state.lend(old)
            returned = SHAPES[shape](lent)
            ended = partial(state.read, lent, returned, old, "node")
            if warm:
                old = {**old, **ended().changes}
                continue
            changes: dict[str, Any] = {}
            took[size] = instructions(lambda: changes.update(ended().changes))  # noqa: B023
            took[size] += instructions(lambda: [diff(old[key], changes[key]) for key in changes])  # noqa: B023
            took[size] += instructions(lambda: state.lend({**old, **changes}))  # noqa: B023
            (key,) = returned
            assert state.lend({**old, **changes})[key] == returned[key]
            assert state.hand_out({**old, **changes})[key] == returned[key]
            assert apply(old[key], diff(old[key], changes[key])) == changes[key]
    assert took[2_000] < took[100] + 200


def test_a_new_entry_of_another_type_is_refused_beside_entries_that_fit() -> None:
    state = StateType(Tables, graph="flow", append=())
    old = tables(100)
    lent = state.lend(old)
    with pytest.raises(InvalidGraph, match="dates"):
        state.read(lent, {"dates": replaced(lent["dates"], 5, "no day")}, old, "node")
    with pytest.raises(InvalidGraph, match=r"names.*\.new"):
        state.read(lent, {"names": {**lent["names"], "new": 7}}, old, "node")
