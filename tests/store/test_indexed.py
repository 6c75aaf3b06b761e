"""Does a dict of records find those of one group, and walk over no others?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import nottwice as nt
from nottwice.store.indexed import Indexed
from nottwice.store.memory import MemoryData, MemoryStore


@nt.tool("unsafe_on_replay", name="charge_by_index")
def charge(number: int) -> int:
    return number


@nt.tool("idempotent_with_key", key="charge-{number}", window="24h")
def charge_with_key(number: int) -> int:
    return number


def numbers() -> Indexed[str, int]:
    made: Indexed[str, int] = Indexed({"parity": lambda key, value: (value % 2,)})
    made.update({"a": 1, "b": 2, "c": 3})
    return made


CHANGES: dict[str, Callable[[Indexed[str, int]], Any]] = {
    "set": lambda found: found.__setitem__("d", 5),
    "replaced": lambda found: found.__setitem__("a", 7),
    "moved": lambda found: found.__setitem__("a", 8),
    "deleted": lambda found: found.__delitem__("a"),
    "popped": lambda found: found.pop("a"),
    "popped in vain": lambda found: found.pop("z", None),
    "popped last": lambda found: found.popitem(),
    "updated": lambda found: found.update({"a": 2}, d=9),
    "joined": lambda found: found.__ior__({"d": 9}),
    "set unless there": lambda found: [found.setdefault("a", 2), found.setdefault("d", 9)],
    "cleared": lambda found: found.clear(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_group_shows_every_change_of_the_dict(change: Callable[[Indexed[str, int]], Any]) -> None:
    found = numbers()
    assert found.of("parity", 1) == [1, 3]
    change(found)
    for parity in (0, 1):
        wanted = sorted(value for value in found.values() if value % 2 == parity)
        assert sorted(found.of("parity", parity)) == wanted
        assert found.count("parity", parity) == len(wanted)


def test_a_record_that_stays_in_its_group_keeps_its_place() -> None:
    found = numbers()
    assert found.keys_of("parity", 1) == ["a", "c"]
    found["a"] = 9
    assert found.of("parity", 1) == [9, 3]


def test_a_copy_has_groups_of_its_own() -> None:
    found = numbers()
    assert found.of("parity", 0) == [2]
    copied = found.copy()
    copied["d"] = 4
    assert (found.of("parity", 0), copied.of("parity", 0)) == ([2], [2, 4])


class Walked(Indexed[Any, Any]):
    """Counts how many records were looked at one after the other."""

    records = 0

    def values(self) -> Any:
        Walked.records += len(self)
        return super().values()

    def items(self) -> Any:
        Walked.records += len(self)
        return super().items()

    def __iter__(self) -> Any:
        Walked.records += len(self)
        return super().__iter__()

    def of(self, kind: str, group: Any) -> Any:
        found = super().of(kind, group)
        Walked.records += len(found)
        return found


def looked_at(work: Callable[[], Any]) -> int:
    Walked.records = 0
    work()
    return Walked.records


@pytest.mark.parametrize("tool", [charge, charge_with_key], ids=["unsafe", "keyed"])
@pytest.mark.parametrize("in_steps", [False, True], ids=["in the run", "in steps"])
def test_a_call_looks_at_no_more_records_when_its_run_is_long(tool: Any, in_steps: bool) -> None:
    """P170."""
    data = MemoryData()
    for name, found in vars(data).items():
        if isinstance(found, Indexed):
            setattr(data, name, Walked(found._kinds))

    def call(number: int) -> None:
        if not in_steps:
            tool(number)
            return
        with nt.step("pay", at=number):
            tool(number)

    seen: dict[int, int] = {}
    with nt.Ledger(MemoryStore(data)) as ledger, ledger.run("long"):
        for number in range(301):
            seen[number] = looked_at(partial(call, number))
    # The first calls build the groups.
    assert seen[300] <= seen[10]
    assert len(data.calls) == 301
