"""What a limit says, and what it refuses to say (P311)."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.model.runs.limits import meters_of_call, meters_of_run


@pytest.mark.parametrize(
    ("rate", "pace"),
    [("10/s", (10, 1.0)), ("100/15m", (100, 900.0)), (" 3 / 0.5 h ", (3, 1800.0))],
)
def test_a_rate_is_a_number_per_time(rate: str, pace: tuple[int, float]) -> None:
    assert nt.Limit(tool="send", rate=rate).pace == pace


@pytest.mark.parametrize(
    "given",
    [
        {"concurrency": 1},
        {"tool": "a", "graph": "b", "concurrency": 1},
        {"tool": "", "concurrency": 1},
        {"tool": "a"},
        {"tool": "a", "concurrency": 0},
        {"tool": "a", "concurrency": True},
        {"tool": "a", "rate": "10"},
        {"tool": "a", "rate": "0/s"},
        {"tool": "a", "rate": "10/s/s"},
        {"tool": "a", "rate": 10},
    ],
    ids=str,
)
def test_what_is_no_limit_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(nt.errors.UsageError, match="Nothing was started"):
        nt.Limit(**given)


def test_calls_are_counted_by_their_tool_and_runs_by_graph_and_tag() -> None:
    tool = nt.Limit(tool="send", concurrency=2)
    graph = nt.Limit(graph="refund", rate="1/s")
    each, one = nt.Limit(tag="customer", concurrency=1), nt.Limit(tag="a=b", concurrency=3)
    limits = (tool, graph, each, one)
    assert [meter.name for meter in meters_of_call(limits, "send")] == ["tool send"]
    assert meters_of_call(limits, "other") == []
    tags = (("a", "b"), ("customer", "acme"))
    names = [meter.name for meter in meters_of_run(limits, "refund", tags)]
    assert names == ["graph refund", "tag customer=acme", "tag a=b"]
    assert meters_of_run(limits, "other", (("a", "c"),)) == []


def test_a_limit_says_itself_where_a_run_waits_for_it() -> None:
    limit = nt.Limit(graph="refund", concurrency=2, rate="10/m")
    assert limit.text == "limit of graph refund (2 at a time, 10/m)"
