"""A name belongs to one tool, because a call in doubt must find its own (T1)."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.guard import registry

declare: Any = nt.tool


def test_two_tools_of_one_name_are_refused_and_the_first_stays() -> None:
    @nt.tool("pure", name="registry twice")
    def first(x: int) -> str:
        return "first"

    with pytest.raises(nt.InvalidTool) as caught:

        @nt.tool("pure", name="registry twice")
        def second(x: int) -> str:
            return "second"

    text = str(caught.value)
    assert "'registry twice' is already declared in" in text
    assert ".first" in text
    assert ".second was not declared. Give it a name of its own with name=..." in text
    assert registry.find_tool("registry twice") is first.tool


def test_the_same_function_may_be_declared_again_and_the_new_one_counts() -> None:
    """A notebook cell that is run twice, a module that is reloaded."""

    def cell(answer: str) -> Callable[..., str]:
        @nt.tool("pure")
        def registry_cell(x: int) -> str:
            return answer

        return registry_cell

    old, new = cell("old"), cell("new")
    assert registry.find_protected("registry_cell") is new
    assert old is not new


def test_a_function_that_nobody_has_any_more_frees_its_name() -> None:
    def first() -> None:
        declare("pure", name="registry freed")(lambda: 1)

    first()
    gc.collect()
    assert registry.find_tool("registry freed") is None

    @nt.tool("pure", name="registry freed")
    def other() -> int:
        return 2

    assert registry.find_tool("registry freed") is other.tool


def test_a_function_that_only_a_cycle_keeps_alive_does_not_hold_its_name() -> None:
    def first() -> None:
        @nt.tool("pure", name="registry cycle")
        def recursive(x: int) -> int:
            return recursive(x - 1) if x else 0

    first()

    @nt.tool("pure", name="registry cycle")
    def other() -> int:
        return 2

    assert registry.find_tool("registry cycle") is other.tool


def test_what_has_no_name_of_its_own_must_be_given_one() -> None:
    """Two of them would be one tool, and the second would get the receipts of the first."""

    def both(a: int, b: int) -> int:
        return a

    class Client:
        def __call__(self, x: int) -> int:
            return x

    for nameless in (lambda x: x, functools.partial(both, 1), Client()):
        with pytest.raises(nt.InvalidTool, match=r"it has no name of its own.* name="):
            declare("pure")(nameless)


def test_a_nameless_function_with_a_given_name_is_a_tool_like_any_other() -> None:
    def both(a: int, b: int) -> int:
        return a

    one = declare("pure", name="registry partial 1")(functools.partial(both, 1))
    two = declare("pure", name="registry partial 2")(functools.partial(both, 2))
    three = declare("pure", name="registry lambda")(lambda b: 3)
    with nt.open(":memory:").run("r"):
        assert [one(b=7), two(b=7), three(b=7)] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["partial", "lambda", "object"])
def test_two_nameless_functions_of_one_given_name_are_refused(kind: str) -> None:
    def both(a: int, b: int) -> int:
        return a

    class Client:
        def __call__(self, b: int) -> int:
            return b

    pairs: dict[str, tuple[Any, Any]] = {
        "partial": (functools.partial(both, 1), functools.partial(both, 2)),
        "lambda": (lambda b: 1, lambda b: 2),
        "object": (Client(), Client()),
    }
    first, second = pairs[kind]
    kept = declare("pure", name=f"registry one {kind}")(first)
    with pytest.raises(nt.InvalidTool, match="is already declared"):
        declare("pure", name=f"registry one {kind}")(second)
    again = declare("pure", name=f"registry one {kind}")(first)
    assert registry.find_protected(f"registry one {kind}") is again
    assert kept is not again


def test_all_living_tools_are_listed_by_name() -> None:
    @nt.tool("pure", name="registry z")
    def last() -> None: ...

    @nt.tool("pure", name="registry a")
    def first() -> None: ...

    listed = [each for each in registry.declared_tools() if each in (first, last)]
    assert listed == [first, last]
