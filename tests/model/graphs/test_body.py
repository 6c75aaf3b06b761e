"""A function is identified by its code: harmless changes do not count, all others do."""

from __future__ import annotations

import pytest

from nottwice.model.graphs.body import comparable, hash_of_bytes, hash_of_source

WORK = '''
@flow.node(then="send")
def work(state: Order) -> dict[str, int]:
    """Add up."""
    total = 0
    for line in state["lines"]:
        total += price(line, currency="EUR")  # one by one
    return {"total": total}
'''


@pytest.mark.parametrize(
    "harmless",
    [
        WORK.replace("total", "amount").replace('"amount"', '"total"'),
        WORK.replace("line in", "each in").replace("price(line", "price(each"),
        WORK.replace("  # one by one", ""),
        WORK.replace('    """Add up."""\n', ""),
        WORK.replace("total = 0", "total = (\n        0\n    )"),
        WORK.replace('"', "'").replace("'''", '"""'),
        WORK.replace("state: Order", "state: Any").replace(" -> dict[str, int]", ""),
        WORK.replace("state", "order"),
        WORK.replace("def work", "def add_up"),
        WORK.replace('then="send"', 'then="send", name="work"'),
        WORK.replace('@flow.node(then="send")\n', ""),
        WORK.replace("\n", "\n    "),
    ],
)
def test_a_harmless_change_is_not_seen(harmless: str) -> None:
    assert harmless != WORK
    assert hash_of_source(harmless) == hash_of_source(WORK)


@pytest.mark.parametrize(
    "change",
    [
        WORK.replace("price(", "list_price("),
        WORK.replace('"EUR"', '"USD"'),
        WORK.replace("currency=", "unit="),
        WORK.replace("+=", "-="),
        WORK.replace('"total": total', '"sum": total'),
        WORK.replace("total = 0", "total = 0.0"),
        WORK.replace("def work", "async def work"),
        WORK.replace("    return", "    log(total)\n    return"),
        WORK.replace("def work", "@retry(3)\ndef work"),
        WORK.replace("    total = 0\n", "    global total\n    total = 0\n"),
    ],
)
def test_what_does_something_else_is_seen(change: str) -> None:
    assert hash_of_source(change) not in (None, hash_of_source(WORK))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(a, b): return a - b", "def f(a, b): return b - a"),
        ("def f(s):\n x = 1\n return x", "def f(s):\n x = 1\n return y"),
        ("def f(s):\n global x\n x = 1", "def f(s):\n global y\n y = 1"),
        ("def f(s):\n from a import b\n b()", "def f(s):\n from a import c\n c()"),
    ],
)
def test_numbered_names_are_not_confused(one: str, other: str) -> None:
    assert hash_of_source(one) != hash_of_source(other)


def test_names_are_followed_through_every_way_to_make_one() -> None:
    one = """
def f(state):
    import json as j
    with open(state) as file, lock:
        text = file.read()
    try:
        match j.loads(text):
            case {"a": first, **rest}:
                return [x for x in rest if (y := x)]
            case [head, *tail]:
                return (lambda z: z)(tail)
    except ValueError as error:
        raise error
"""
    other = one
    for name in ("file", "text", "first", "rest", "head", "tail", "error"):
        other = other.replace(f" {name}", f" my_{name}").replace(f"({name}", f"(my_{name}")
        other = other.replace(f"*{name}", f"*my_{name}")
    other = (
        other.replace("as j", "as q").replace("j.loads", "q.loads").replace("my_file.", "my_file.")
    )
    assert other.count("my_") > 7
    assert hash_of_source(other) == hash_of_source(one)


def test_a_lambda_is_found_in_its_line_and_two_of_them_are_not_guessed() -> None:
    assert hash_of_source("flow.node(name='a')(lambda s: s + 1)") == hash_of_source(
        "other.node(name='b')(lambda state: state + 1)"
    )
    assert hash_of_source("pair(lambda s: 1, lambda s: 2)") is None
    assert hash_of_source("    .then(lambda s: 1)") is None


def test_only_hashes_of_one_kind_can_be_compared() -> None:
    source, old, new = "source:1", "code-3.11:1", hash_of_bytes(b"x", kind="code-3.12")
    assert comparable(old, "code-3.11:2")
    assert not comparable(source, old)
    assert not comparable(old, new)
