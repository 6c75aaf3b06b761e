"""A template shows a call to a person, and neither a secret nor a trick gets through. (P224)"""

from __future__ import annotations

import pytest

from nottwice.model.sealing.secrets import SHOWN
from nottwice.model.tools.templates import fill, fill_look, parse_template

SECRET = {"$secret": f"k{'9f2c41d7'}:{'ab' * 16}"}


def test_fields_are_filled_with_the_arguments() -> None:
    given = {"cents": 40, "order_id": "A-7", "items": ["a", 1]}
    assert fill("Refund {cents} ct for {order_id}: {items}", given) == (
        'Refund 40 ct for A-7: ["a",1]'
    )
    assert fill("{{literal}} {cents}", given) == "{literal} 40"


def test_a_field_without_a_value_stays_as_it_is() -> None:
    assert fill("Refund {cents} for {customer}", {"cents": 1}) == "Refund 1 for {customer}"
    assert fill("an old {template", {}) == "an old {template"


def test_values_in_a_url_cannot_change_where_it_leads() -> None:
    url = "https://pay.example/search?key={key}"
    assert fill(url, {"key": "a&b=c/../#d e"}) == (
        "https://pay.example/search?key=a%26b%3Dc%2F..%2F%23d%20e"
    )


def test_the_call_and_its_key_are_fields_that_no_argument_replaces() -> None:
    args = {"key": "mine", "call.id": "forged"}
    known = fill_look("{call.id} {call.key} {key}", args, call_id="c0ffee", key="k-7")
    assert known == "c0ffee k-7 mine"
    assert fill_look("{key}", {}, call_id="c0ffee", key="k-7") == "k-7"
    assert fill_look("{call.key}", {}, call_id="c0ffee", key=None) == "{call.key}"
    address = fill_look("https://a.example/{call.key}", {}, call_id="c0ffee", key="a/b")
    assert address == "https://a.example/a%2Fb"


def test_text_of_an_argument_cannot_control_a_terminal() -> None:
    assert fill("to {name}", {"name": "x\x1b[2J\n\u202eevil"}) == r"to x\x1b[2J\n\u202eevil"


def test_a_secret_argument_is_not_shown() -> None:
    assert fill("pay with {card}", {"card": SECRET}) == f"pay with {SHOWN}"
    assert fill("with {cards}", {"cards": [SECRET, 1]}) == f'with ["{SHOWN}",1]'


@pytest.mark.parametrize("text", ["{a.b}", "{a[0]}", "{a!r}", "{a:>9}", "{}", "{0}", "{a"])
def test_only_plain_names_are_fields(text: str) -> None:
    with pytest.raises(ValueError):
        parse_template(text)
