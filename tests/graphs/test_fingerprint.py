"""A graph knows its tools and what its nodes say, without running anything."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import UnclassifiedTool
from nottwice.graphs.fingerprint import hash_of_function
from nottwice.model.replay_class import ReplayClass
from tests.graphs import helpers_of_nodes
from tests.graphs.effects import graph
from tests.graphs.helpers_of_nodes import fingerprinted_mail, pay_and_mail


def names(flow: nt.Graph[Any]) -> list[str]:
    return [tool.name for tool in flow.fingerprint().tools or ()]


def one_node(function: Callable[..., Any], **options: Any) -> nt.Graph[Any]:
    flow = graph(**options)
    flow.node(name="a")(function)
    return flow


def test_tools_are_found_by_name_through_helpers_and_modules() -> None:
    def directly(state: Any) -> None:
        fingerprinted_mail("x")

    def through_a_helper(state: Any) -> None:
        pay_and_mail(3)

    def through_a_module(state: Any) -> None:
        helpers_of_nodes.fingerprinted_pay.receipt(3)

    assert names(one_node(directly)) == ["fingerprinted_mail"]
    assert names(one_node(through_a_helper)) == ["fingerprinted_mail", "fingerprinted_pay"]
    assert names(one_node(through_a_module)) == ["fingerprinted_pay"]
    assert names(one_node(lambda state: None)) == []


def test_tools_that_code_does_not_show_are_declared() -> None:
    table: dict[str, Any] = {"mail": fingerprinted_mail}
    flow = one_node(lambda state: table["mail"]("x"))
    assert names(flow) == []
    flow = one_node(lambda state: table["mail"]("x"), tools=[fingerprinted_mail])
    assert names(flow) == ["fingerprinted_mail"]


def test_a_tool_is_told_by_class_key_window_and_schemas() -> None:
    flow = one_node(pay_and_mail_node)
    mail, pay = flow.fingerprint().tools or ()
    assert (pay.replay_class, pay.key, pay.window_seconds) == (
        ReplayClass.IDEMPOTENT_WITH_KEY,
        "pay-{cents}",
        86400.0,
    )
    assert mail.to_plain() == {
        "class": "unsafe_on_replay",
        "arguments": {
            "properties": {"to": {"type": "string"}, "subject": {"type": "string"}},
            "required": ["to"],
        },
        "result": {"type": "string"},
    }


def pay_and_mail_node(state: Any) -> None:
    pay_and_mail(7)


def test_a_tool_without_a_class_is_refused_when_the_graph_is_declared() -> None:
    def bare(to: str) -> None: ...

    with pytest.raises(UnclassifiedTool, match=r"Graph 'flow' uses the tool 'bare'.*@nt\.tool"):
        graph(tools=[bare])


class BaseTool:
    """Looks like the tool of a framework: a name and the function that it runs."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.name = func.__name__
        self.func = func


def bare_delete(path: str) -> None: ...


naked = BaseTool(bare_delete)
dressed = BaseTool(fingerprinted_mail)


def test_a_framework_s_tool_around_a_function_without_a_class_is_refused() -> None:
    flow = one_node(lambda state: naked.func("x"))
    with pytest.raises(UnclassifiedTool, match=r"Node 'a' of graph 'flow' uses .*'bare_delete'"):
        flow.fingerprint()
    assert one_node(lambda state: dressed.func("x")).fingerprint().bodies


def test_a_body_is_that_of_the_function_behind_methods_partials_and_decorators() -> None:
    def plain(word: str, state: Any) -> Any:
        return {"a": word}

    @functools.wraps(plain)
    def wrapped(*args: Any) -> Any:
        return plain(*args)

    class Worker:
        def __call__(self, state: Any) -> Any:
            return {"a": 1}

    expected = hash_of_function(plain)
    assert expected.startswith("source:")
    assert hash_of_function(functools.partial(plain, "x")) == expected
    assert hash_of_function(wrapped) == expected
    assert hash_of_function(Worker()) == hash_of_function(Worker.__call__)
    assert hash_of_function(dict).startswith("opaque:")


def test_a_function_without_source_is_told_by_its_compiled_form() -> None:
    def made(source: str) -> Any:
        module = types.ModuleType("made")
        exec(compile(source, "<nowhere>", "exec"), vars(module))
        return module.f

    one = hash_of_function(made("def f(s):\n  return s in {'a', 'b'}"))
    assert one.startswith("code-3.")
    assert one == hash_of_function(made("\n\ndef f(s):\n    return s in {'a', 'b'}"))
    assert one != hash_of_function(made("def f(s):\n  return s in {'a', 'c'}"))


def test_two_lambdas_in_one_line_are_told_apart() -> None:
    one, other = (lambda s: 1), (lambda s: 2)
    assert hash_of_function(one) != hash_of_function(other)


def test_the_same_graph_made_again_has_the_same_fingerprint() -> None:
    assert one_node(pay_and_mail_node).fingerprint() == one_node(pay_and_mail_node).fingerprint()
