"""Is a graph the same when it comes back from the ledger, without any of its code?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.graphs.recorded import recorded_definition
from nottwice.model import values
from nottwice.model.run import GraphRecord


def every_route() -> nt.Graph[dict[str, Any]]:
    flow = nt.Graph("recorded", version="1.2.3", append=["log"])

    def nothing(state: dict[str, Any]) -> None: ...

    flow.node(name="line", phase="first")(nothing)
    flow.node(name="choice", then={"more": "fan", "end": nt.END}, most=7)(nothing)
    flow.node(name="fan", then=["left", "right"], join="last")(nothing)
    flow.node(name="left")(nothing)
    flow.node(name="right")(nothing)
    flow.node(name="last")(nothing)
    return flow


def test_every_kind_of_route_comes_back_as_it_was() -> None:
    definition = every_route().definition()
    record = GraphRecord("recorded@1.2.3", values.encode(definition.to_plain()), 0.0)
    assert recorded_definition(record) == definition


@pytest.mark.parametrize("json", ["{", "[]", "{}", '{"name": "a"}', '{"name": 1, "nodes": [1]}'])
def test_what_cannot_be_read_is_not_believed(json: str) -> None:
    with pytest.raises(nt.errors.LedgerCorrupt):
        recorded_definition(GraphRecord("a@1.0.0", json, 0.0))
