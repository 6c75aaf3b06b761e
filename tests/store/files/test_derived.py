"""Is a record computed once, however many commits follow, and does no old value come back?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nottwice.store.files.derived import BLOCK, Derived


class Record:
    """Something that is only known by its identity."""

    def __init__(self, text: str) -> None:
        self.text = text


class Joined:
    """The texts of records, and how often each function was called for them."""

    def __init__(self) -> None:
        self._derived: Derived[Record, str, str] = Derived()
        self.ones = self.blocks = 0

    def of(self, records: Sequence[Record]) -> str:
        self._derived = self._derived.updated(
            records, of_one=self._text_of, of_block=self._block_of
        )
        return "".join(self._derived.of_blocks)

    def _text_of(self, record: Record) -> str:
        self.ones += 1
        return record.text

    def _block_of(self, records: Sequence[Record], texts: Sequence[str]) -> str:
        self.blocks += 1
        return "".join(texts)


def records(number: int) -> list[Record]:
    return [Record(f"{place} ") for place in range(number)]


SIZES = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK)


@pytest.mark.parametrize("number", SIZES)
@pytest.mark.parametrize("change", ["none", "first", "last", "added", "removed", "reversed"])
def test_it_is_what_a_new_computation_would_be(number: int, change: str) -> None:
    before = records(number)
    joined = Joined()
    joined.of(before)
    now = list(before)
    match change:
        case "first":
            now[:1] = [Record("new")]
        case "last":
            now[-1:] = [Record("new")]
        case "added":
            now.append(Record("new"))
        case "removed":
            now[:1] = []
        case "reversed":
            now.reverse()
    assert joined.of(now) == "".join(record.text for record in now)


def test_a_commit_computes_its_own_record_and_joins_its_own_block() -> None:
    found = records(20 * BLOCK)
    joined = Joined()
    joined.of(found)
    for place in (0, 7 * BLOCK, len(found) - 1):
        joined.ones = joined.blocks = 0
        found = [*found[:place], Record("new"), *found[place + 1 :]]
        joined.of(found)
        assert (joined.ones, joined.blocks) == (1, 1)


def test_a_record_that_got_the_id_of_a_lost_one_is_a_new_one() -> None:
    joined = Joined()
    for number in range(100):
        # Each list is lost before the next one, and so are its records, unless they are kept.
        assert joined.of([Record(str(number))]) == str(number)
