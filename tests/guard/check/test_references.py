"""Is everything that a function refers to found in its compiled form, without running any of it?"""

from __future__ import annotations

import functools
import json
import os.path
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from nottwice.guard.check.references import (
    MOST_FUNCTIONS,
    References,
    find_function,
    is_own_module,
    read_references,
)


def named(references: References) -> set[str]:
    return {reference.text for reference in references.found}


def helper() -> str:
    return json.dumps({})


class Client:
    timeout = 7

    def send(self) -> str:
        return os.path.join("a", "b")

    @property
    def account(self) -> str:
        return os.path.basename("a")

    def __call__(self) -> str:
        return json.loads("1")  # type: ignore[no-any-return]


client = Client()


def test_a_dotted_name_is_found_with_what_each_part_stands_for() -> None:
    def function() -> str:
        return os.path.join("a", "b")

    (reference,) = [one for one in read_references(function).found if one.path[0] == "os"]
    assert reference.path == ("os", "path", "join")
    assert reference.values == (os, os.path, os.path.join)


def test_a_name_that_stands_for_nothing_is_left_out() -> None:
    def function() -> Any:
        return absent.thing  # type: ignore[name-defined] # noqa: F821

    assert named(read_references(function)) == set()
    assert read_references(function).attributes == {"thing"}


def test_helpers_are_followed() -> None:
    def function() -> str:
        return helper()

    assert "json.dumps" in named(read_references(function))


def test_what_is_inside_of_inner_functions_and_comprehensions_is_found() -> None:
    def function() -> Any:
        return [lambda value=value: json.loads(value) for value in os.listdir()]

    assert {"json.loads", "os.listdir"} <= named(read_references(function))


def test_what_a_closure_holds_is_found() -> None:
    chosen = json.loads

    def function() -> Any:
        return chosen("1")

    (reference,) = [one for one in read_references(function).found if one.path == ("chosen",)]
    assert reference.values == (json.loads,)


def test_methods_are_followed_through_instances_classes_and_properties() -> None:
    def by_instance() -> str:
        return client.send()

    def by_property() -> str:
        return client.account

    def by_class() -> str:
        return Client().send()

    assert "os.path.join" in named(read_references(by_instance))
    assert "os.path.basename" in named(read_references(by_property))
    assert "os.path.join" in named(read_references(by_class))


def wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper() -> Any:
        return os.getcwd(), function()

    return wrapper


@pytest.mark.parametrize(
    "function",
    [helper, functools.partial(helper), wrapping(helper), functools.lru_cache(helper)],
    ids=["plain", "partial", "decorated", "cached"],
)
def test_a_function_is_read_through_what_is_wrapped_around_it(function: Any) -> None:
    if hasattr(function, "cache_info"):
        # Written in C, and it names what it wraps.
        function = function.__wrapped__
    assert "json.dumps" in named(read_references(function))
    assert find_function(function) is helper


def test_a_decorator_of_the_users_own_is_read_too() -> None:
    assert "os.getcwd" in named(read_references(wrapping(helper)))


def test_a_bound_method_and_a_callable_object_are_read() -> None:
    assert "os.path.join" in named(read_references(client.send))
    assert "json.loads" in named(read_references(client))


def test_imports_inside_of_a_function_are_found() -> None:
    def function() -> Any:
        import smtplib

        from nottwice import current_call

        return smtplib.SMTP, current_call

    references = read_references(function)
    assert references.imports == {"smtplib", "nottwice"}
    assert "current_call" in references.attributes


def test_attributes_of_the_instance_are_noted_as_unknown() -> None:
    class Account:
        def send(self) -> Any:
            return self.session.post()  # type: ignore[attr-defined]

        def pure(self) -> int:
            return 7

    assert read_references(Account.send).uses_instance
    assert not read_references(Account.pure).uses_instance
    assert not read_references(helper).uses_instance


def test_what_is_not_written_in_python_cannot_be_read() -> None:
    assert not read_references(len).readable
    assert find_function(len) is None
    assert read_references(helper).readable


def test_functions_that_call_each_other_are_read_once() -> None:
    def first() -> Any:
        return second()

    def second() -> Any:
        return first(), json.dumps

    assert "json.dumps" in named(read_references(first))


def test_a_chain_without_end_is_cut() -> None:
    function: Callable[..., Any] = helper
    for _ in range(MOST_FUNCTIONS * 2):
        function = functools.partial(function)
        function = wrapping(function)
    assert read_references(function).readable


def test_nothing_is_run() -> None:
    class Trap:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was looked up")

        @property
        def armed(self) -> Any:
            raise AssertionError("the property was run")

    trap = Trap()

    def function() -> Any:
        return trap.armed, trap.missing, trap()  # type: ignore[operator]

    assert "trap.armed" in named(read_references(function))


def test_what_code_means_does_not_depend_on_which_names_were_used_before() -> None:
    """The names of nottwice are imported when first used; reading code must not notice."""
    program = """
import sys
import nottwice as nt
from nottwice.guard.check.references import read_references

def node(state):
    nt.sleep("1s")
    raise nt.agent.File("x")

if sys.argv[1] == "used":
    nt.sleep, nt.agent.File
print(sorted((found.text, len(found.values)) for found in read_references(node).found))
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", program, when], capture_output=True, text=True, check=True
        ).stdout
        for when in ("fresh", "used")
    ]
    assert said[0] == said[1]
    assert "('nt.sleep', 2)" in said[0]
    assert "('nt.agent.File', 3)" in said[0]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        (__name__, True),
        ("__main__", True),
        ("my_agent.tools", True),
        ("json.decoder", False),
        ("pytest", False),
        ("_pytest.fixtures", False),
        ("nottwice.guard", False),
    ],
)
def test_own_code_is_told_from_installed_code(name: str, own: bool) -> None:
    assert is_own_module(name) is own
