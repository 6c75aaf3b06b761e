"""A result has the same value and type, live and replayed, or it is refused (L6)."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import logging
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel

import nottwice as nt
from nottwice.guard.arguments.binding import Signature
from nottwice.guard.plain_data.flatten import difference
from nottwice.guard.plain_data.results import MAX_RESULT_CHARACTERS, Results
from nottwice.model.call import CallStatus, ResultKind, StoredResult
from tests.fakes import Host

declare: Any = nt.tool


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass(frozen=True)
class Money:
    amount: Decimal
    at: datetime


class Refund(BaseModel):
    id: UUID
    money: Money
    parts: tuple[int, ...] = ()
    note: str | None = None


class Ticket(TypedDict):
    due: date
    colors: list[Color]


class Point(NamedTuple):
    x: int
    y: float


MONEY = Money(Decimal("40.00"), datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2))))
REFUND = Refund(id=UUID(int=7), money=MONEY, parts=(1, 2))

ANNOTATED: list[tuple[Any, Any]] = [
    (Money, MONEY),
    (Refund, REFUND),
    (dict[str, list[Refund]], {"all": [REFUND, REFUND.model_copy(update={"note": "x"})]}),
    (Ticket, {"due": date(2026, 3, 1), "colors": [Color.RED]}),
    (datetime, datetime(2026, 3, 1, 12, 30, tzinfo=UTC)),
    (datetime, datetime(2026, 3, 1, 12, 30)),
    (timedelta, timedelta(days=1, microseconds=1)),
    (Decimal, Decimal("0.10")),
    (Color, Color.RED),
    (Level, Level.HIGH),
    (tuple[int, str], (1, "a")),
    (tuple[Money, ...], (MONEY, MONEY)),
    (Point, Point(1, 2.5)),
    (Path, Path("a/b")),
    (Money | None, None),
    (Money | None, MONEY),
    (Money | Refund, REFUND),
]
PLAIN: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    10,
    10.0,
    -0.0,
    0.1,
    1e300,
    2**53 + 1,
    2**63 - 1,
    -(2**200),
    "",
    "nul \0 and 🧾 and \u2028",
    [],
    {},
    {"b": 1, "a": [1, 1.0, {"deep": [None]}]},
]


def results_of(host: Host, tool: Any) -> list[Any]:
    """The result live, again in the same process, and in the next one."""
    found = []
    with host.process() as ledger, ledger.run("r"):
        found += [tool(), tool()]
    with host.process() as ledger, ledger.run("r"):
        found.append(tool())
    return found


def spelled(value: Any) -> str:
    """Distinguishes 1, 1.0 and True, 0.0 and -0.0, and one order of keys from another."""
    return f"{type(value).__name__} {value!r}"


def make_tool(name: str, annotation: Any, value: Any, fired: list[Any]) -> Any:
    def tool_body() -> Any:
        fired.append(1)
        return value

    tool_body.__annotations__ = {"return": annotation}
    return declare("unsafe_on_replay", name=name)(tool_body)


@pytest.mark.parametrize(("annotation", "value"), ANNOTATED, ids=lambda each: repr(each)[:40])
def test_an_annotated_value_is_the_same_live_and_replayed(annotation: Any, value: Any) -> None:
    fired: list[Any] = []
    tool = make_tool("results annotated", annotation, value, fired)
    for found in results_of(Host(), tool):
        assert found == value
        assert type(found) is type(value)
        assert difference(value, found, path="$", exactly=True) is None
    assert fired == [1]


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_data_keeps_its_very_types(value: Any, annotated: bool) -> None:
    fired: list[Any] = []
    tool = make_tool("results plain", type(value) if annotated else Any, value, fired)
    for found in results_of(Host(), tool):
        assert spelled(found) == spelled(value)
    assert fired == [1]


def test_types_of_the_functions_own_surroundings_are_found() -> None:
    @dataclasses.dataclass
    class Local:
        day: date

    @nt.tool("unsafe_on_replay")
    def results_local() -> Local:
        return Local(date(2026, 3, 1))

    for found in results_of(Host(), results_local):
        assert found == Local(date(2026, 3, 1))


def test_a_real_ledger_keeps_values_too(tmp_path: Path) -> None:
    fired: list[Any] = []
    tool = make_tool("results sqlite", list[Refund], [REFUND], fired)
    for _ in range(2):
        with nt.Ledger(tmp_path / "a.db") as ledger, ledger.run("r"):
            assert tool() == [REFUND]
    assert fired == [1]


def test_changing_the_live_value_does_not_change_the_receipt() -> None:
    host = Host()
    tool = make_tool("results changed", list[int], [1], [])
    with host.process() as ledger, ledger.run("r"):
        tool().append(2)
        assert tool() == [1]
        tool().append(3)
        assert tool() == [1]


# What cannot be kept


class Hostile:
    """Everything that a value's own code can do, it does."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no eq")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise RuntimeError("no bool")

    def __len__(self) -> int:
        raise RuntimeError("no len")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


def cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


UNKEPT: dict[str, Callable[[], Any]] = {
    "object": object,
    "hostile": Hostile,
    "hostile inside": lambda: {"a": [Hostile()]},
    "not a number": lambda: math.nan,
    "infinity inside": lambda: {"a": [1.5, -math.inf]},
    "cycle": cycle,
    "depth": deep,
    "lone surrogate": lambda: "a\ud800b",
    "number as key": lambda: {1: 2},
    "generator": lambda: iter([1]),
    "function": lambda: len,
    "set": lambda: {1, 2},
    "bytes": lambda: b"\x00",
    "long integer": lambda: 10**5000,
    "100 MB": lambda: "x" * 100_000_000,
}


@pytest.mark.parametrize("what", UNKEPT)
def test_what_cannot_be_kept_works_live_and_is_never_handed_out_again(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    host, value = Host(), UNKEPT[what]()
    fired: list[Any] = []
    tool = make_tool("results unkept", Any, value, fired)
    with (
        caplog.at_level(logging.WARNING, logger="nottwice"),
        host.process() as ledger,
        ledger.run("r"),
    ):
        assert tool() is value
    for _ in range(2):
        with (
            pytest.raises(nt.errors.ResultNotKept) as caught,
            host.process() as ledger,
            ledger.run("r"),
        ):
            tool()
        text = str(caught.value)
        assert "results unkept() in run 'r': it took effect, but its result cannot be" in text
        assert "It was not run again, and nothing was returned in its place." in text
        assert f"nottwice decide {caught.value.review_id}" in text
        assert ".. It was" not in text
    assert len(host.data.reviews) == 1
    assert fired == [1]
    (row,) = host.calls
    assert row.status is CallStatus.DONE
    assert row.result is not None
    assert row.result.kind is ResultKind.NOT_KEPT
    assert len(row.result.json) < 2000
    (line,) = [each for each in caplog.messages if "cannot be kept" in each]
    assert "\n" not in line


@pytest.mark.parametrize("what", ["object", "hostile", "not a number"])
def test_a_pure_tool_whose_result_cannot_be_kept_runs_again(what: str) -> None:
    host, fired = Host(), []

    @nt.tool("pure")
    def results_pure_unkept() -> Any:
        fired.append(1)
        return UNKEPT[what]()

    @nt.tool("unsafe_on_replay")
    def results_effect(x: int) -> int:
        return x

    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            results_pure_unkept()
            results_pure_unkept()
            results_effect(1)
            results_pure_unkept()
    assert len(fired) == 6


def results(annotation: Any = Any) -> Results:
    def ship() -> Any: ...

    ship.__annotations__ = {"return": annotation}
    return Results(Signature(ship, tool="ship"), tool="ship")


def test_a_result_that_is_too_large_leaves_its_size_and_hash() -> None:
    text = "ä" * (MAX_RESULT_CHARACTERS - 2)
    assert results().encode(text).kind is ResultKind.PLAIN
    stored = results().encode(text + "x")
    note = json.loads(stored.json)
    whole = json.dumps(text + "x", ensure_ascii=False).encode()
    assert stored.kind is ResultKind.NOT_KEPT
    assert note["characters"] == str(MAX_RESULT_CHARACTERS + 1)
    assert note["sha256"] == hashlib.sha256(whole).hexdigest()
    assert note["type"] == "str"
    assert len(note["text"]) <= 200


def test_a_result_that_no_longer_fits_its_annotation_is_not_handed_out() -> None:
    stored = results(Money).encode(MONEY)
    assert results(Money).decode(stored) == MONEY
    for other in (Refund, int, Any):
        with pytest.raises(nt.errors.ResultNotKept) as caught:
            results(other).decode(stored)
        assert "The call took effect and was not run again. Restore the" in str(caught.value)


def test_the_result_of_a_person_must_fit_the_annotation() -> None:
    plain = {"amount": "1.50", "at": "2026-03-01T12:00:00Z"}
    adopted = results(Money).adopt(plain)
    assert results(Money).decode(adopted) == Money(
        Decimal("1.50"), datetime(2026, 3, 1, 12, tzinfo=UTC)
    )
    with pytest.raises(nt.errors.InvalidArguments, match=r"\$\.at"):
        results(Money).adopt({"amount": "1.50", "at": "yesterday"})
    assert results().adopt([1]) == StoredResult(ResultKind.PLAIN, "[1]")


def test_the_type_of_a_result_has_a_text() -> None:
    assert results(Money).type_text() == "Money"
    assert results().type_text() == "any plain data"
