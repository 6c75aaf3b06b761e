"""Is every version of a value read back, and does a growing one cost what it grew? (P258)"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import LedgerCorrupt
from nottwice.langchain.pieces import (
    BYTES_PER_LINK,
    FEW_LINKS,
    Body,
    Piece,
    PiecePlace,
    compose,
    flatten,
    read_place,
    restore,
)
from tests.langchain.samples import chained, dump, load

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def versions_of(pieces: list[Piece]) -> list[Any]:
    """Every version, composed from its own chain alone."""
    found = []
    for number, piece in enumerate(pieces):
        chain = pieces[number - piece.links : number + 1]
        found.append(restore(compose(chain), load))
    return found


@given(st.lists(plain, max_size=6))
def test_every_version_of_any_value_is_read_back_as_it_was(versions: list[Any]) -> None:
    assert versions_of(chained(versions)) == versions


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.text(max_size=3))))
def test_a_list_that_is_changed_anywhere_is_read_back_as_it_was(
    edits: list[tuple[int, int, str]],
) -> None:
    current: list[str] = []
    versions = []
    for start, length, text in edits:
        current = [*current[:start], text, *current[start + length :]]
        versions.append(current)
    assert versions_of(chained(versions)) == versions


def test_a_list_that_grows_costs_what_was_added_however_long_it_is() -> None:
    message = "x" * 500
    pieces = chained([[message] * length for length in range(1, 600)])
    assert [piece for piece in pieces[1:] if len(piece.data) > 600] == []
    total = sum(len(piece.data) for piece in pieces)
    assert total < 600 * 600


def test_a_message_that_was_changed_where_it_is_is_saved_again() -> None:
    messages = [{"id": number, "text": "x" * 50} for number in range(9)]
    versions: list[Any] = [list(map(dict, messages))]
    messages[4]["text"] = "changed"
    versions.append(messages)
    pieces = chained(versions)
    assert versions_of(pieces) == versions
    assert len(pieces[1].data) < 100


def test_one_entry_of_a_dict_that_changes_costs_that_entry() -> None:
    files = {f"file-{number}": "x" * 400 for number in range(50)}
    pieces = chained([files, {**files, "file-25": "y" * 400}])
    assert pieces[1].links == 1
    assert len(pieces[1].data) < 500


def test_reading_a_value_is_bounded_by_its_size() -> None:
    lists = [["x" * 40] * length for length in range(1, 500)]
    shrinking = [["y" * 40] * length for length in range(200, 1, -1)]
    replaced = [[f"{number} " * 30] * 20 for number in range(300)]
    for versions in (lists, shrinking, replaced):
        for version, piece in zip(versions, chained(versions), strict=True):
            size = len(flatten(version, dump).data)
            assert piece.links <= max(FEW_LINKS, size // BYTES_PER_LINK)
            assert piece.chain_bytes <= 2 * size + 4096


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [Piece("list", b"", links=1)],
        [Piece("list", b"ab"), Piece("list", b"", kept_start=2, kept_end=1, links=1)],
        [Piece("list", b"ab"), Piece("list", b"", links=2)],
    ],
)
def test_a_chain_with_a_missing_piece_is_refused(pieces: list[Piece]) -> None:
    with pytest.raises(LedgerCorrupt, match="is missing"):
        compose(pieces)


@pytest.mark.parametrize(
    "body",
    [
        Body("list", b"\x00"),
        Body("list", b"\x00\x00\x00\x00\x09abc"),
        Body("whole", b""),
        Body("map", flatten([1], dump).data),
        Body("other", b""),
    ],
)
def test_bytes_that_are_no_value_are_refused(body: Body) -> None:
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        restore(body, load)


def test_a_place_is_read_as_it_was_written() -> None:
    place = PiecePlace("ab12", 37, "cd")
    assert read_place(str(place)) == place
    with pytest.raises(LedgerCorrupt, match="its place is"):
        read_place("elsewhere")
