"""A graph is declared once, and what it cannot mean is refused before any run of it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import InvalidGraph, InvalidId
from tests.fakes import Host
from tests.graphs.effects import Effects, arun, graph, run


def nothing(state: Any) -> None: ...


def test_a_node_stays_the_function_that_it_was() -> None:
    flow = graph()
    assert flow.node(nothing) is nothing
    assert flow.node(name="other")(nothing) is nothing
    assert [node.name for node in flow.definition().nodes] == ["nothing", "other"]


class Worker:
    """Nodes may be methods, and instances that can be called."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    def method(self, state: dict[str, Any]) -> Any:
        return {"method": self.effects.act("method")}

    async def async_method(self, state: dict[str, Any]) -> Any:
        return {"async_method": self.effects.act("async_method")}

    def no_argument(self) -> Any:
        return {"no_argument": self.effects.act("no_argument")}

    def __call__(self, state: dict[str, Any]) -> Any:
        return {"called": self.effects.act("called")}


class AsyncCallable:
    async def __call__(self, state: dict[str, Any]) -> Any:
        return {"awaited": True}


@pytest.mark.parametrize("drive", [run, arun])
def test_functions_methods_and_callables_can_be_nodes_sync_and_async(
    host: Host, effects: Effects, drive: Any
) -> None:
    flow, worker = graph(), Worker(effects)

    @flow.node
    def plain(state: dict[str, Any]) -> Any:
        return {"plain": effects.act("plain")}

    @flow.node
    async def awaited(state: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return {"node": effects.act("awaited")}

    @flow.node
    async def without() -> Any:
        return {"without": effects.act("without")}

    flow.node(worker.method)
    flow.node(worker.async_method)
    flow.node(worker.no_argument)
    flow.node(name="callable")(worker)
    flow.node(name="async callable")(AsyncCallable())
    flow.node(name="partial")(functools.partial(lambda word, state: {"word": word}, "x"))
    outcome = drive(host, flow)
    words = "plain awaited without method async_method no_argument called".split()
    assert effects.done == words
    assert outcome.state == {
        "plain": "did plain",
        "node": "did awaited",
        "without": "did without",
        "method": "did method",
        "async_method": "did async_method",
        "no_argument": "did no_argument",
        "called": "did called",
        "awaited": True,
        "word": "x",
    }
    assert {mark.status for mark in outcome.nodes} == {"done"}


def test_two_nodes_of_one_name_are_refused() -> None:
    flow = graph()
    flow.node(nothing)
    with pytest.raises(InvalidGraph, match="already has a node 'nothing'"):
        flow.node(nothing)
    with pytest.raises(InvalidGraph, match="the name is reserved"):
        flow.node(name=nt.END)(nothing)


def test_a_node_that_comes_after_the_first_run_is_refused(host: Host) -> None:
    flow = graph()
    flow.node(nothing)
    run(host, flow)
    with pytest.raises(InvalidGraph, match="was declared too late"):
        flow.node(name="late")(nothing)


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "3", None])
def test_a_bound_is_a_number_above_zero(most: Any) -> None:
    with pytest.raises(InvalidGraph, match="most="):
        graph().node(most=most)(nothing)


def two(state: Any, other: Any) -> None: ...


def yields(state: Any) -> Iterator[int]:
    yield 1


async def yields_async(state: Any) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (two, "must take the state, and nothing else"),
        (yields, "is a generator"),
        (yields_async, "is a generator"),
        ("text", "is not a function"),
    ],
)
def test_what_cannot_be_a_node_is_refused(function: Any, text: str) -> None:
    flow = graph()
    with pytest.raises(InvalidGraph, match=text):
        flow.node(name="a")(function)
    with pytest.raises(InvalidGraph, match="has no node"):
        flow.definition()


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 513, 5])
def test_a_name_that_cannot_be_kept_is_refused(name: Any) -> None:
    with pytest.raises(InvalidId):
        nt.Graph(name, version="1.0.0")
    with pytest.raises(InvalidId):
        graph().node(name=name)(nothing)


def test_a_name_must_not_look_like_something_else() -> None:
    with pytest.raises(InvalidGraph, match="'@'"):
        graph("refund@2")
    with pytest.raises(InvalidGraph, match="'/'"):
        graph().node(name="a/b")(nothing)
    with pytest.raises(InvalidGraph, match="'/'"):
        graph().node(phase="a/b")(nothing)


def test_a_version_is_three_numbers() -> None:
    with pytest.raises(InvalidGraph, match="three numbers"):
        graph(version="2")
    assert graph(version="2.0.1").id == "flow@2.0.1"


def test_an_unknown_cadence_is_refused() -> None:
    with pytest.raises(nt.errors.UsageError, match="Graph 'flow' has checkpoints='sometimes'"):
        graph(checkpoints="sometimes")


def test_one_list_to_add_to_may_be_named_without_a_list(host: Host) -> None:
    flow = graph(append="log")
    flow.node(name="a")(lambda state: {"log": [1]})
    flow.node(name="b")(lambda state: {"log": [2]})
    assert run(host, flow).state == {"log": [1, 2]}


def test_a_graph_that_is_not_whole_is_refused_before_a_run_exists(host: Host) -> None:
    flow = graph()
    flow.node(then="gone")(nothing)
    with pytest.raises(InvalidGraph, match="'gone'"):
        run(host, flow)
    assert host.data.runs == {}


def test_names_with_separators_do_not_meet(host: Host, effects: Effects) -> None:
    """A name cannot imitate a branch or a path of another node."""
    flow = graph()
    for name in ("a", "a[0]", "a%5B0%5D"):
        flow.node(name=name)(lambda state: effects.act("same") and None)
    outcome = run(host, flow)
    assert effects.done == ["same"] * 3
    assert [mark.visit for mark in outcome.nodes] == [1, 1, 1]
