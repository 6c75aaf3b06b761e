"""Do secrets get pseudonyms that are stable, of their shape, and the same wherever they occur?"""

from __future__ import annotations

import re
from typing import Any

import pytest

from nottwice.errors import UsageError
from nottwice.testing.replay.pseudonyms import SECRET_NAMES, Pseudonyms

KEY = b"only the ledger knows it"
CARD = "4111 1111 1111 1111"


def hide(value: Any, *names: str, key: bytes = KEY, public: str = "") -> Any:
    pseudonyms = Pseudonyms(key, names, public=public)
    pseudonyms.look(value)
    return pseudonyms.replace(value)


def check_sum(text: str) -> int:
    digits = [int(letter) for letter in text if letter.isdigit()]
    doubled = [each * 2 - 9 * (each > 4) for each in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10


@pytest.mark.parametrize(
    "secret",
    [
        "ann@example.net",
        "first.last+tag@mail.example.co.uk",
        CARD,
        "4111111111111111",
        "sk-live-0123456789abcdefghij",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "AKIAIOSFODNN7EXAMPLE1",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl",
    ],
)
def test_what_looks_secret_is_replaced_wherever_it_is(secret: str) -> None:
    data = {"note": f"call {secret}, please", "list": [secret], secret: 1}
    hidden = hide(data)
    assert secret not in str(hidden)
    (made,) = hidden["list"]
    assert hidden == {"note": f"call {made}, please", "list": [made], made: 1}


def test_a_bearer_token_is_replaced_and_the_word_before_it_stays() -> None:
    hidden = hide({"header": "Bearer abcdef0123456789"})
    assert re.fullmatch(r"Bearer [a-z]{6}\d{10}", hidden["header"])
    assert hidden["header"] != "Bearer abcdef0123456789"


@pytest.mark.parametrize(
    "innocent",
    [
        "refund@1.0.0",
        "1700000000006",
        "1234567890123456",
        "order 20241115-7",
        "0000000000000000",
        "sk-short",
        "a@b",
    ],
)
def test_what_only_looks_like_it_stays(innocent: str) -> None:
    assert hide({"note": innocent}) == {"note": innocent}


def test_shapes_are_kept() -> None:
    data = {
        "mail": "ann@example.net",
        "card_number": 4111111111111111,
        "spaced": CARD,
        "cvv": 123,
        "token": "Abc-123",
        "password": {"inner": [1.5, True, None, "x"]},
    }
    hidden = hide(data)
    assert re.fullmatch(r"user-[0-9a-f]{12}@example\.com", hidden["mail"])
    assert re.fullmatch(r"4\d{15}", str(hidden["card_number"]))
    assert check_sum(str(hidden["card_number"])) == 0
    assert re.fullmatch(r"4\d{3}( \d{4}){3}", hidden["spaced"])
    assert check_sum(hidden["spaced"]) == 0
    assert type(hidden["cvv"]) is int
    assert 100 <= hidden["cvv"] <= 999
    assert re.fullmatch(r"[A-Z][a-z]{2}-\d{3}", hidden["token"])
    number, truth, nothing, text = hidden["password"]["inner"]
    assert (type(number), truth, nothing, type(text)) == (float, True, None, str)
    assert data["token"] != hidden["token"]
    assert number != 1.5


def test_a_declared_name_is_secret_at_any_depth_and_a_path_only_where_it_leads() -> None:
    data = {"customer": {"name": "Ann Miller"}, "product": {"name": "Kettle"}}
    hidden = hide(data, "customer.name")
    assert hidden["product"] == {"name": "Kettle"}
    assert hidden["customer"]["name"] != "Ann Miller"
    hidden = hide({"a": [{"Customer-Name": "Ann Miller"}]}, "customer_name")
    assert hidden["a"][0]["Customer-Name"] != "Ann Miller"


def test_a_secret_of_elsewhere_is_replaced_inside_of_longer_texts() -> None:
    data = {"street": "Lane 5, Ghent", "letter": "To: Lane 5, Ghent!", "n": 77001, "account": 77001}
    hidden = hide(data, "street", "account")
    assert hidden["letter"] == f"To: {hidden['street']}!"
    assert hidden["n"] == hidden["account"] != 77001


def test_a_short_secret_is_replaced_only_under_its_name() -> None:
    hidden = hide({"pin": "12", "page": "page 12", "count": 12, "cvv": 7}, "pin")
    assert hidden["pin"] != "12"
    assert (hidden["page"], hidden["count"]) == ("page 12", 12)


def test_two_values_never_have_one_pseudonym() -> None:
    pins = [str(number) for number in range(100)]
    hidden = hide({"pin": pins, "cvv": list(range(1, 10))}, "pin")
    assert len(set(hidden["pin"])) == 100
    assert len(set(hidden["cvv"])) == 9
    assert not set(hidden["pin"]) & set(pins)


def test_the_same_key_gives_the_same_and_another_another() -> None:
    data = {"mail": "ann@example.net"}
    assert hide(data) == hide(data)
    assert hide(data) != hide(data, key=b"another")


def test_what_the_code_says_itself_is_no_secret_unless_declared() -> None:
    data = {"sender": "shop@example.net"}
    source = 'SENDER = "shop@example.net"'
    assert hide(data, public=source) == data
    assert hide(data, "sender", public=source) != data


def test_the_names_that_are_secret_anyway_are_spelled_as_they_are_compared() -> None:
    for name in SECRET_NAMES:
        assert hide({name.upper(): "whatever it is"}) != {name.upper(): "whatever it is"}


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(UsageError, match="names no value"):
        Pseudonyms(KEY, ["customer."])
