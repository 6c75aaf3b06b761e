"""What a tool tells people is checked when it is declared, not when something went wrong. (P224)"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import InvalidTool
from nottwice.guard.wording import relative_place, summary_of


def declare(**words: Any) -> Any:
    @nt.tool("unsafe_on_replay", name="worded", **words)
    def refund(order_id: str, cents: int) -> dict[str, int]:
        """Refund an order.

        With more words below.
        """
        return {"cents": cents}

    return refund


@pytest.mark.parametrize("what", ["title", "look"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Refund {amount}", "no 'amount' to fill in. There are: order_id, cents"),
        ("Refund {order_id.x}", "not the name of a parameter"),
        ("Refund {cents:>9}", "not the name of a parameter"),
        ("Refund {}", "not the name of a parameter"),
        ("Refund {cents", "expected '}'"),
        ("two\nlines", "one line"),
        ("x" * 501, "at most 500 characters"),
        ("", "must be a text"),
        (7, "must be a text"),
    ],
)
def test_a_template_that_could_not_be_filled_is_refused(what: str, text: Any, why: str) -> None:
    with pytest.raises(InvalidTool) as refused:
        declare(**{what: text})
    assert why in str(refused.value)
    assert "was not declared" in str(refused.value)


def test_the_key_is_only_there_for_tools_that_have_one() -> None:
    with pytest.raises(InvalidTool, match="no 'key' to fill in"):
        declare(look="https://pay.example/{key}")

    @nt.tool("idempotent_with_key", key="k-{order_id}", window="1h", look="at {key}", name="keyed")
    def pay(order_id: str) -> None: ...

    assert pay.tool.look == "at {key}"
    with pytest.raises(InvalidTool, match="no 'key' to fill in"):

        @nt.tool("idempotent_with_key", key="k-{order_id}", window="1h", title="{key}", name="no")
        def other(order_id: str) -> None: ...


def test_where_to_look_may_name_the_call() -> None:
    assert declare(look="mail {call.id}").tool.look == "mail {call.id}"
    for words in ({"look": "{call.key}"}, {"title": "{call.id}"}):
        with pytest.raises(InvalidTool, match="no 'call"):
            declare(**words)

    @nt.tool("idempotent_with_key", key="k-{key}", window="1h", look="{call.key}", name="shadow")
    def pay(key: str) -> None: ...

    assert pay.tool.look == "{call.key}"


def test_a_tool_knows_its_words_and_the_first_line_of_its_docstring() -> None:
    tool = declare(title="Refund {cents} ct", look="the outbox of {order_id}").tool
    assert (tool.title, tool.look) == ("Refund {cents} ct", "the outbox of {order_id}")
    assert tool.summary == "Refund an order."
    assert summary_of(lambda: None) is None


def test_the_place_of_a_tool_names_no_folder_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "tools.py").write_text("\ndef refund(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from package.tools import refund  # type: ignore[import-not-found]

    assert relative_place(refund) == "package/tools.py:2"
    monkeypatch.setattr(sys, "path", [])
    assert relative_place(refund) == "tools.py:2"
    assert "builtin" in relative_place(len)
