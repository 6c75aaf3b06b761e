"""A tool runs only if no crash can forget the reply that asked for it."""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.errors import UsageError
from nottwice.langchain.order import CHECKPOINTER, around, checkpoints_of, waits


class OtherSaver:
    """A saver that says nothing about what is durable."""


class WaitingSaver(OtherSaver):
    """A saver that can be waited for, as ours can."""

    def wait_until_durable(self, config: Any) -> None:
        raise AssertionError("the caller waits")


def config(saver: object, durability: str | None = None) -> dict[str, Any]:
    """What LangGraph tells a task; the default durability is not in it."""
    told = {} if durability is None else {"__pregel_durability": durability}
    return {CHECKPOINTER: saver, **told}


@pytest.mark.parametrize("durability", [None, "async", "sync", "exit"])
def test_a_call_waits_for_a_saver_that_can_say_what_is_durable(durability: str | None) -> None:
    assert waits(config(WaitingSaver(), durability))


@pytest.mark.parametrize("durability", [None, "async", "exit"])
def test_another_saver_that_saves_later_is_refused(durability: str | None) -> None:
    with pytest.raises(UsageError, match=r"OtherSaver.*NottwiceSaver.*durability=\"sync\"") as told:
        waits(config(OtherSaver(), durability))
    assert "The tool was not run" in str(told.value)


def test_another_saver_that_saves_first_is_used_without_waiting() -> None:
    assert not waits(config(OtherSaver(), "sync"))


@pytest.mark.parametrize("nothing", [{}, {CHECKPOINTER: None}, {CHECKPOINTER: False}])
def test_without_a_saver_there_is_nothing_to_wait_for(nothing: dict[str, Any]) -> None:
    assert not waits(nothing)


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        ({"": "1"}, [""]),
        ({"": "1", "inner:a": "2"}, ["", "inner:a"]),
        ({"": "1", "flow:a": "1"}, [""]),
        ({"": "1", "flow:a": "1", "flow:a|pay:b": "1"}, [""]),
        ({"": "1", "inner:a": "2", "inner:a|node:b": "2"}, ["", "inner:a"]),
        ({"inner:a": "2", "inner:a|node:b": "3"}, ["inner:a", "inner:a|node:b"]),
        (None, []),
    ],
)
def test_a_task_inside_a_node_has_the_checkpoints_of_the_graphs_around_it(
    named: dict[str, str] | None, kept: list[str]
) -> None:
    assert list(checkpoints_of({"checkpoint_map": named})) == kept


def test_the_outermost_graph_has_no_namespace() -> None:
    assert around("flow:a|pay:b|more:c") == "flow:a|pay:b"
    assert around("flow:a") == ""
