"""Does a seal fit exactly what was sealed, years later, and nothing else? (L9, P97)"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import LedgerTampered
from nottwice.model.sealing.keyring import Key, Keyring, make_key, make_keyring
from nottwice.model.sealing.seal import Head, Seals, head_to_text

OLD, NEW = make_key(bytes(range(32))), make_key(bytes(range(1, 33)))
SEALS = Seals(make_keyring([OLD]))
ROW = ("run", "/", None, 7, -1.5, "é\x00'\"\\", 10**18)
VALUES = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text())


def test_a_seal_is_the_same_in_every_version_of_python() -> None:
    """Known by heart: what was sealed years ago must fit."""
    assert SEALS.seal("calls", ROW) == "k0cc03213.8b304a36d98cccc6ef96543ccb55826c"
    head = head_to_text(SEALS.sealed("run", Head(3, 5, 2, "completed", "ab")))
    assert head == "3/5/2/completed/ab/k0cc03213.f253e3466b7010caccc1bae1d14cd42f"


def test_a_seal_fits_what_was_sealed() -> None:
    assert SEALS.flaw("calls", ROW, SEALS.seal("calls", ROW)) is None


@given(st.lists(VALUES, max_size=6), st.lists(VALUES, max_size=6))
def test_no_two_rows_share_a_seal(one: list[Any], other: list[Any]) -> None:
    same = [(type(value), value) for value in one] == [(type(value), value) for value in other]
    same = same and repr(one) == repr(other)
    assert (SEALS.seal("calls", one) == SEALS.seal("calls", other)) is same


@pytest.mark.parametrize(
    ("table", "row", "seal"),
    [
        ("steps", ROW, SEALS.seal("calls", ROW)),
        ("calls", ROW[:-1], SEALS.seal("calls", ROW)),
        ("calls", ROW, SEALS.seal("calls", ROW)[:-1]),
        ("calls", ROW, ""),
        ("calls", ROW, None),
        ("calls", ROW, 7),
        ("calls", ROW, Seals(make_keyring([NEW])).seal("calls", ROW)),
    ],
)
def test_a_seal_fits_nothing_else(table: str, row: tuple[Any, ...], seal: object) -> None:
    assert SEALS.flaw(table, row, seal)


def test_what_an_older_key_sealed_still_fits_and_what_is_new_has_the_newer_one() -> None:
    both = Seals(Keyring(NEW, (OLD,)))
    assert both.flaw("calls", ROW, SEALS.seal("calls", ROW)) is None
    assert both.seal("calls", ROW).startswith(f"{NEW.id}.")


def test_a_head_follows_from_all_writes_before_it() -> None:
    first = SEALS.sealed("run", Head(1, 1, link=SEALS.link(Head(), ["a"])))
    one, other = (
        SEALS.sealed("run", Head(1, 2, link=SEALS.link(first, seals)))
        for seals in (["b"], ["b", "c"])
    )
    assert one[:4] == other[:4]
    assert one.seal != other.seal
    assert first.seal in one.link


@pytest.mark.parametrize(
    "text",
    [None, "", "1/2/3", "x/1/1///", "1/1/-1///k.00", "1/1/1/completed/ab/kf00.00/more", "-/1/1///"],
)
def test_what_is_no_head_is_not_believed(text: str | None) -> None:
    with pytest.raises(LedgerTampered, match="The head of run 'run' cannot be trusted"):
        SEALS.head_from_text("run", text)


def test_a_head_belongs_to_its_run() -> None:
    head = SEALS.sealed("run", Head(3, 5, 2, "completed", "ab"))
    text = head_to_text(head)
    assert SEALS.head_from_text("run", text) == head
    with pytest.raises(LedgerTampered):
        SEALS.head_from_text("walk", text)


def test_the_secret_of_a_key_does_not_show(caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(OLD, Key)
    assert OLD.secret.hex() not in repr(SEALS.keyring)
