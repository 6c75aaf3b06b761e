"""A name belongs to one tool, because a call in doubt must find its own (T1)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.guard import registry
from nottwice.testing import forget_tools

declare: Any = nt.tool


def test_two_tools_of_one_name_are_refused_and_the_first_stays() -> None:
    @nt.tool("pure", name="registry twice")
    def first(x: int) -> str:
        return "first"

    with pytest.raises(nt.errors.InvalidTool, match="Two tools are named 'registry twice'"):

        @nt.tool("pure", name="registry twice")
        def second(x: int) -> str:
            return "second"

    assert registry.find_tool("registry twice") is first.tool


def test_the_same_definition_may_be_declared_again_and_the_new_one_counts() -> None:
    def cell(answer: str) -> Callable[..., str]:
        @nt.tool("pure")
        def registry_cell(x: int) -> str:
            return answer

        return registry_cell

    old, new = cell("same"), cell("same")
    assert new in registry.declared_tools()
    assert old not in registry.declared_tools()


def test_tools_that_are_forgotten_free_their_names() -> None:
    """What a test does that makes its tools again, with a client of its own."""
    declare("pure", name="registry freed")(lambda: 1)
    forget_tools()
    assert registry.find_tool("registry freed") is None
    assert registry.declared_tools() == []
    other = declare("pure", name="registry freed")(lambda: 2)
    assert registry.find_tool("registry freed") is other.tool


def test_what_has_no_name_of_its_own_must_be_given_one() -> None:
    """Two of them would be one tool, and the second would get the receipts of the first."""

    def both(a: int, b: int) -> int:
        return a

    class Client:
        def __call__(self, x: int) -> int:
            return x

    for nameless in (lambda x: x, functools.partial(both, 1), Client()):
        with pytest.raises(nt.errors.InvalidTool, match=r"it has no name, .* name="):
            declare("pure")(nameless)


def test_a_nameless_function_with_a_given_name_is_a_tool_like_any_other() -> None:
    def both(a: int, b: int) -> int:
        return a

    one = declare("pure", name="registry partial 1")(functools.partial(both, 1))
    two = declare("pure", name="registry partial 2")(functools.partial(both, 2))
    three = declare("pure", name="registry lambda")(lambda b: 3)
    with nt.Ledger(":memory:").run("r"):
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
    with pytest.raises(nt.errors.InvalidTool, match="Two tools are named"):
        declare("pure", name=f"registry one {kind}")(second)
    again = declare("pure", name=f"registry one {kind}")(first)
    assert again in registry.declared_tools()
    assert kept not in registry.declared_tools()


def test_all_living_tools_are_listed_by_name() -> None:
    @nt.tool("pure", name="registry z")
    def last() -> None: ...

    @nt.tool("pure", name="registry a")
    def first() -> None: ...

    listed = [each for each in registry.declared_tools() if each in (first, last)]
    assert listed == [first, last]
