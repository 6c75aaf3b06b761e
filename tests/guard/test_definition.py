"""Two tools of one name are an error, unless it is the same definition again (T1, P140)."""

from __future__ import annotations

import datetime
import functools
import gc
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nottwice as nt
from nottwice.guard import registry

declare: Any = nt.tool
TAKEN = "Two tools are named"


def known(name: str) -> Any:
    """The protected function with this name, if there is one."""
    found: list[Any] = registry.declared_tools()
    return next((each for each in found if each.tool.name == name), None)


def guarded(work: Any, **words: Any) -> Any:
    """A factory as users write it."""

    @declare("unsafe_on_replay", **words)  # type: ignore[untyped-decorator]
    def call(x: int) -> Any:
        return work(x)

    return call


def test_two_tools_of_one_factory_are_not_one_tool() -> None:
    """The second would get the receipt of the first, and its effect would never be made."""
    done: list[str] = []

    def protect(work: Callable[[int], None]) -> Any:
        @nt.tool("unsafe_on_replay")
        def call(order_id: int) -> None:
            work(order_id)

        return call

    refund = protect(lambda order_id: done.append(f"refund {order_id}"))
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN) as caught:
        protect(lambda order_id: done.append(f"mail {order_id}"))
    text = str(caught.value)
    line = protect.__code__.co_firstlineno + 1
    assert f"{__file__}:{line} twice, with another closure" in text
    assert "Give it another name: @nt.tool(..., name='call_2')" in text
    with nt.Ledger(":memory:").run("r"):
        refund(7)
    assert done == ["refund 7"]


def test_the_way_out_is_a_name_and_then_both_happen() -> None:
    done: list[str] = []
    refund = guarded(lambda x: done.append(f"refund {x}"), name="refund")
    mail = guarded(lambda x: done.append(f"mail {x}"), name="mail")
    with nt.Ledger(":memory:").run("r"):
        refund(7)
        mail(7)
    assert done == ["refund 7", "mail 7"]


def test_the_error_names_both_places() -> None:
    @nt.tool("pure", name="places")
    def first() -> None: ...

    with pytest.raises(nt.errors.InvalidTool) as caught:

        @nt.tool("pure", name="places")
        def second() -> None: ...

    line = first.fn.__code__.co_firstlineno
    assert f"at {__file__}:{line} and at {__file__}:" in str(caught.value)


def test_a_factory_that_is_called_again_with_the_same_values_makes_the_same_tool() -> None:
    def work(x: int) -> int:
        return x

    when = datetime.timedelta(hours=1)
    values: list[tuple[Any, Any]] = [
        (work, work),
        ("text" * 2, "".join(["text", "text"])),
        (1234567, int("1234567")),
        ((1, ("a", None)), (1, ("a", None))),
        (frozenset({"b", "a"}), frozenset({"a", "b"})),
        (Path("a"), Path("a")),
        (when, datetime.timedelta(minutes=60)),
        (nt.RetryPolicy(attempts=2), nt.RetryPolicy(attempts=2)),
        (functools.partial(work, 1), functools.partial(work, 1)),
    ]
    for number, (one, other) in enumerate(values):
        guarded(one, name=f"same {number}")
        again = guarded(other, name=f"same {number}")
        assert known(f"same {number}") is again, one


class Client:
    """Equal to every other client, as far as it says itself."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Client)

    __hash__ = None  # type: ignore[assignment]

    def send(self, x: int) -> None: ...


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Client(), Client()),
        ([], []),
        ({}, {}),
        (Client().send, Client().send),
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ((1,), (2,)),
        (frozenset({1}), frozenset({True})),
        (frozenset({Client}), frozenset({Path})),
        (lambda x: 1, lambda x: 2),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (functools.partial(max, key=len), functools.partial(max, key=abs)),
        (nt.RetryPolicy(attempts=2), nt.RetryPolicy(attempts=3)),
        (None, 0),
    ],
)
def test_a_closure_with_another_value_makes_another_tool(one: Any, other: Any) -> None:
    """Equal clients may stand for two accounts, and equal lists change each for itself."""
    guarded(one)
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        guarded(other)


def test_defaults_tell_tools_apart_like_closures() -> None:
    def positional(value: Any) -> None:
        @nt.tool("pure", name="defaults")
        def call(x: int, y: Any = value) -> Any: ...

    def keyword(value: Any) -> None:
        @nt.tool("pure", name="kwdefaults")
        def call(*, y: Any = value) -> Any: ...

    for make in (positional, keyword):
        make("a")
        make("a")
        with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
            make("b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"time_limit": "1s"}, {"time_limit": "2s"}),
        ({"verify": lambda call: nt.cannot_tell()}, {"verify": lambda call: nt.happened(1)}),
        ({"tags": ["a"]}, {"tags": ["b"]}),
        ({}, {"approve": True}),
    ],
)
def test_another_declaration_of_the_same_code_is_another_tool(one: Any, other: Any) -> None:
    guarded(None, **one)
    guarded(None, **one)
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        guarded(None, **other)


def test_another_class_or_key_for_the_same_function_is_refused() -> None:
    def pay(order: int) -> None: ...

    def declared(prefix: str) -> Any:
        return nt.tool("idempotent_with_key", key=lambda order: f"{prefix}-{order}", window="1h")

    declared("a")(pay)
    declared("a")(pay)
    for other in (declared("b"), nt.tool("pure")):
        with pytest.raises(nt.errors.InvalidTool, match="another declaration"):
            other(pay)


def test_a_tool_that_calls_itself_can_be_declared_again() -> None:
    def make(depth: int) -> Any:
        @nt.tool("pure", name="recursive")
        def recursive(x: int) -> int:
            return recursive(x - 1) if x else depth

        return recursive

    make(7)
    again = make(7)
    assert known("recursive") is again
    with nt.Ledger(":memory:").run("r"):
        assert again(x=3) == 7
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        make(8)


def test_tools_that_call_each_other_can_be_declared_again() -> None:
    def make(client: Any) -> Any:
        @nt.tool("pure", name="inner")
        def inner(x: int) -> Any:
            return client(x)

        @nt.tool("pure", name="outer")
        def outer(x: int) -> Any:
            return inner(x)

        return outer

    make(abs)
    again = make(abs)
    assert known("outer") is again


def test_a_helper_that_is_assigned_later_is_not_taken_on_trust() -> None:
    """When the second tool is declared, what it will call is not known yet."""

    def make(work: Any) -> Any:
        @nt.tool("pure", name="later")
        def call(x: int) -> Any:
            return helper(x)

        helper = work
        return call

    make(abs)
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        make(str)


def test_a_loop_does_not_make_two_tools_of_one_name() -> None:
    """Both functions share the variable, so only its earlier value distinguishes them."""
    made = []
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        for work in (abs, str):

            @nt.tool("pure", name="loop")
            def call(x: int) -> Any:
                return work(x)  # noqa: B023

            made.append(call)
    assert len(made) == 1


def logged(function: Callable[..., Any], client: Any = None) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return (client, function(*args, **kwargs))

    return inner


def test_decorators_below_the_tool_count_with_what_they_close_over() -> None:
    def pay(x: int) -> int:
        return x

    declare("pure")(logged(pay, "card"))
    declare("pure")(logged(pay, "card"))
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        declare("pure")(logged(pay, "bank"))


def test_two_decorated_tools_of_one_module_level_function_are_two() -> None:
    """Both have its name and its place; only what is around it differs."""
    declare("pure", name="decorated")(logged(guarded, "card"))
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        declare("pure", name="decorated")(logged(guarded, "bank"))


# Modules


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "shop_of_definitions", ModuleType("gone soon"))
    del sys.modules["shop_of_definitions"]
    return tmp_path


def module(folder: Path, body: str) -> ModuleType:
    (folder / "shop_of_definitions.py").write_text("import nottwice as nt\n" + body)
    importlib.invalidate_caches()
    there = sys.modules.get("shop_of_definitions")
    return importlib.reload(there) if there else importlib.import_module("shop_of_definitions")


def second_import(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / "shop_of_definitions.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


REFUND = '@nt.tool("pure")\ndef refund(x: int) -> str:\n    return "%s"\n'
FACTORY = """
class Client: ...

def make(client):
    @nt.tool("pure")
    def refund(x: int) -> str:
        return client and "%s"
    return refund

refund = make(Client())
"""


@pytest.mark.parametrize("body", [REFUND, FACTORY])
def test_a_module_that_is_reloaded_or_edited_declares_its_tools_again(
    folder: Path, body: str
) -> None:
    module(folder, body % "old")
    module(folder, body % "old")
    new = module(folder, "\n\n" + body % "new")
    assert known("refund") is new.refund
    with nt.Ledger(":memory:").run("r"):
        assert new.refund(1) == "new"


def test_a_script_may_be_imported_under_a_second_name(folder: Path) -> None:
    module(folder, REFUND % "x")
    again = second_import(folder, "another_name")
    assert known("refund") is again.refund


def test_a_living_tool_is_not_forgotten_when_a_second_import_is_collected(folder: Path) -> None:
    first = module(folder, REFUND % "x")
    second_import(folder, "shop_of_definitions")
    gc.collect()
    found = registry.find_tool("refund")
    assert found is not None
    assert found.name == first.refund.tool.name


def test_a_tool_without_a_reference_keeps_its_name() -> None:
    declare("pure", name="kept")(lambda: 1)
    gc.collect()
    assert registry.find_tool("kept") is not None
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        declare("pure", name="kept")(lambda: 2)


def test_a_name_that_is_defined_twice_in_a_module_is_two_tools_if_both_are_kept(
    folder: Path,
) -> None:
    kept = REFUND % "refund" + "pay = refund\n" + REFUND % "mail"
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        module(folder, kept)


def test_a_loop_at_module_level_makes_two_tools(folder: Path) -> None:
    body = """
made = []
for work in (abs, str):
    @nt.tool("pure")
    def call(x: int):
        return work(x)
    made.append(call)
"""
    with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
        module(folder, body)


def test_cells_of_a_notebook_can_be_run_again() -> None:
    """Each is compiled again, under another file name, and runs in the same namespace."""
    names: dict[str, Any] = {"__name__": "__main__", "nt": nt}

    def cell(number: int, code: str) -> None:
        exec(compile(code, f"<ipython-input-{number}>", "exec"), names)

    cell(1, REFUND % "old")
    cell(2, REFUND % "new")
    assert known("refund") is names["refund"]
    cell(3, 'echo = nt.tool("pure", name="echo")(lambda x: x)')
    cell(4, 'echo = nt.tool("pure", name="echo")(lambda x: x)')
    assert known("echo") is names["echo"]


def test_texts_that_are_run_in_two_namespaces_are_two_programs() -> None:
    for body, refused in ((REFUND % "a", False), (REFUND % "a", False), (REFUND % "b", True)):
        names: dict[str, Any] = {"__name__": "plugin", "nt": nt}
        if refused:
            with pytest.raises(nt.errors.InvalidTool, match=TAKEN):
                exec(body, names)
        else:
            exec(body, names)


def test_of_two_threads_that_declare_one_name_one_is_refused() -> None:
    start, refused = threading.Barrier(8), []

    def work(number: int) -> None:
        start.wait()
        try:
            guarded([number])
        except nt.errors.InvalidTool as error:
            refused.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(refused) == 7


# What holds an object of its own


class Account:
    def __init__(self, name: str) -> None:
        self.name = name

    def pay(self, x: int) -> str:
        return f"{self.name} paid {x}"

    @classmethod
    def pay_all(cls, x: int) -> str:
        return "all"

    @nt.tool("unsafe_on_replay", bound_by=("name",), name="account_refund")
    def refund(self, x: int) -> str:
        return f"{self.name} refunded {x}"


@pytest.mark.parametrize("bound", [Account("a").pay, Account.pay_all, [].append, "".join])
@pytest.mark.parametrize("words", [{}, {"name": "pay_a"}])
def test_what_is_bound_to_an_object_is_refused_with_the_way_out(bound: Any, words: Any) -> None:
    with pytest.raises(nt.errors.InvalidTool, match=r"is bound to one (object|class)") as caught:
        declare("unsafe_on_replay", **words)(bound)
    assert "@nt.tool(..., bound_by=('account',))" in str(caught.value)
    assert "takes it as an argument" in str(caught.value)


@pytest.mark.parametrize("kind", [Account, dict])
def test_a_class_is_refused_with_the_way_out(kind: Any) -> None:
    with pytest.raises(nt.errors.InvalidTool, match="is a class and was not declared") as caught:
        declare("pure")(kind)
    assert "Protect a function that does the work" in str(caught.value)


def test_a_method_declared_in_its_class_tells_instances_apart() -> None:
    with nt.Ledger(":memory:").run("r"):
        assert Account("a").refund(1) == "a refunded 1"
        assert Account("b").refund(1) == "b refunded 1"
