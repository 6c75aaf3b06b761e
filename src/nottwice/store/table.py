"""How does a record become a row, and a row a record? By the declaration of its table.

A table is declared once (tables.py): its columns with their types, the attribute of the record that
each column stores, the key of a row, and what a seal covers. The rows of every SQL store, the
documents of the JSON files, and the check that every row passes before it is believed all follow
from that. SQLite stores any type in any column, and people edit JSON files, so a row that nottwice
cannot have written is reported when it is read. Promise kept here: P95.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from nottwice.errors import LedgerCorrupt
from nottwice.model.data.shapes import UNREADABLE as NOT_WRITTEN

R = TypeVar("R")
Row = Sequence[Any]
UNREADABLE = (*NOT_WRITTEN, LedgerCorrupt)
"""What reading raises for a value that nottwice cannot have written."""
SEAL = "seal"
_MOST_SHAPES = 1_000
_FEW = 8


class Type(enum.Enum):
    """What a column holds."""

    TEXT = "text"
    JSON = "json"
    """Text that nottwice wrote as JSON; a JSON file contains it as a plain value."""
    NUMBER = "number"
    TIME = "time"
    """Microseconds since the epoch, UTC."""
    FLAG = "flag"
    """0 or 1."""
    REAL = "real"


_PYTHON_TYPES: dict[Type, set[type]] = {
    Type.TEXT: {str},
    Type.JSON: {str},
    Type.NUMBER: {int},
    Type.TIME: {int},
    Type.FLAG: {int},
    Type.REAL: {float, int},
}
_POSTGRES_TYPES = {
    Type.TEXT: "text",
    Type.JSON: "text",
    Type.NUMBER: "bigint",
    Type.TIME: "bigint",
    Type.FLAG: "smallint",
    Type.REAL: "double precision",
}


class Column(NamedTuple):
    """One column of a table."""

    name: str
    holds: Type = Type.TEXT
    optional: bool = False

    @property
    def allowed(self) -> frozenset[type]:
        found = _PYTHON_TYPES[self.holds]
        return frozenset(found | {type(None)}) if self.optional else frozenset(found)


class Field(NamedTuple):
    """An attribute of a record, and the column or columns that store it."""

    attribute: str
    columns: tuple[Column, ...]
    paths: tuple[str, ...]
    """Where in a record the value of each column is found, such as ``status._value_``."""
    writes: tuple[Callable[[Any], Any] | None, ...]
    """How each column converts the value, if there is one; None stores it unchanged."""
    read: Callable[..., Any] | None = None
    """Makes the attribute from the values of its columns; None takes the value unchanged."""
    empty: Any = None
    """The value of the attribute if its only column is NULL."""


def field(
    column: Column,
    attribute: str = "",
    *,
    path: str = "",
    write: Callable[[Any], Any] | None = None,
    read: Callable[[Any], Any] | None = None,
    empty: Any = None,
) -> Field:
    """An attribute that one column stores."""
    attribute = attribute or column.name
    return Field(attribute, (column,), (path or attribute,), (write,), read, empty)


class _Read(NamedTuple):
    """Where in a row an attribute is found, and how it is read."""

    at: Any
    read: Callable[..., Any] | None
    is_wide: bool
    empty: Any


class Table(Generic[R]):
    """One table: how its records are stored. A row ends with its seal, if the table has seals."""

    def __init__(
        self,
        name: str,
        what: str,
        record: Callable[..., R],
        fields: Sequence[Field],
        *,
        key: str,
        sealed: str | None = "*",
        sealed_if_any: str = "",
        numbers: Mapping[str, int] | None = None,
        believable: Callable[[R], object] | None = None,
    ) -> None:
        """``what``: the name of a row in a sentence. ``record``: makes a record of its attributes
        in order. ``key``: the columns that identify a row. ``sealed``: the columns that a seal
        covers, if not all; None means rows have no seals. ``sealed_if_any``: later columns, which
        a seal covers only if one of them has a value, so that older seals still fit. ``numbers``:
        columns that no record has, and their values in a new row. ``believable``: raises for a
        record that nottwice cannot have written."""
        self.name, self.what = name, what
        self.said = tuple(column for field in fields for column in field.columns)
        """The columns with content: all but those that only seal the others."""
        marks = dict(numbers or {}) if sealed is None else {**(numbers or {}), SEAL: None}
        self.names = (*(column.name for column in self.said), *marks)
        self.columns = ", ".join(self.names)
        self.attribute_of = {one.name: field.attribute for field in fields for one in field.columns}
        self.postgres_types = {one.name: _POSTGRES_TYPES[one.holds] for one in self.said}
        self.postgres_types |= {one: "text" if one == SEAL else "bigint" for one in marks}
        self.key = tuple(key.split())
        self.is_sealed = sealed is not None
        self._make, self._believable = record, believable
        self._marks = tuple(marks.values())
        self._get = attrgetter(*(path for field in fields for path in field.paths))
        writes = enumerate(write for field in fields for write in field.writes)
        self._writes = [(place, write) for place, write in writes if write is not None]
        self._reads = _in_order_of(record, fields)
        self._allowed = [column.allowed for column in self.said]
        self._seen: set[tuple[type, ...]] = set()
        self._places = {name: place for place, name in enumerate(self.names)}
        self._where = _values_at([self._places[name] for name in self.key])
        later = sealed_if_any.split()
        first = [name for name in self.names if name != SEAL and name not in later]
        under_seal = first if sealed in ("*", None) else str(sealed).split()
        self._under_seal = _values_at([self._places[name] for name in under_seal])
        self._also_under_seal = [self._places[name] for name in later]

    # Records and rows

    def row(self, record: R) -> tuple[Any, ...]:
        """A record as it is stored: times in whole microseconds, and nothing that names code."""
        found = list(self._get(record))
        for place, write in self._writes:
            value = found[place]
            if value is not None:
                found[place] = write(value)
        return (*found, *self._marks)

    def record(self, row: Row) -> R:
        """The record in a row. Raises LedgerCorrupt if nottwice cannot have written the row."""
        try:
            self.check(row)
            given = []
            for at, read, is_wide, empty in self._reads:
                value = row[at]
                if is_wide:
                    given.append(read(*value))  # type: ignore[misc]
                elif value is None:
                    given.append(empty)
                else:
                    given.append(value if read is None else read(value))
            made = self._make(*given)
            if self._believable is not None:
                self._believable(made)
            return made
        except UNREADABLE as error:
            raise corrupt(self.what, self.where(row), error) from error

    def records(self, rows: Sequence[Row]) -> list[R]:
        """The same for many rows, column by column: a checkpoint is rebuilt from hundreds."""
        if len(rows) < _FEW:
            return [self.record(row) for row in rows]
        columns = list(zip(*rows, strict=True))
        kinds = zip(columns, self._allowed, strict=False)
        if all(allowed.issuperset(map(type, column)) for column, allowed in kinds):
            try:
                given = [_read_all(columns, how) for how in self._reads]
                made = list(map(self._make, *given))
                for record in made if self._believable is not None else ():
                    self._believable(record)  # type: ignore[misc]
                return made
            except UNREADABLE:
                pass
        # Read them one by one, so that the error names the row that cannot be read.
        return [self.record(row) for row in rows]

    def first(self, rows: Sequence[Row]) -> R | None:
        """The record of the first row, if there is one."""
        return self.record(rows[0]) if rows else None

    def check(self, row: Row) -> None:
        """Raise TypeError for a row whose columns have values of a wrong type."""
        # A ledger has a few dozen combinations of types, so this lookup is nearly always enough.
        shape = tuple(map(type, row))
        if shape in self._seen:
            return
        if len(shape) < len(self.said):
            raise TypeError("it has too few columns")
        for column, found, allowed in zip(self.said, shape, self._allowed, strict=False):
            if found not in allowed:
                raise TypeError(f"{column.name} is {found.__name__}")
        if len(self._seen) < _MOST_SHAPES:
            self._seen.add(shape)

    def same(self, known: R | None, written: R) -> bool:
        """Whether a ledger that shows ``known`` would still show the same after ``written``."""
        return known is not None and _texts(self.row(known)) == _texts(self.row(written))

    # Rows by column name

    def named(self, row: Row) -> dict[str, Any]:
        """A row as the parameters of a statement."""
        return dict(zip(self.names, row, strict=False))

    def value(self, row: Row, name: str) -> Any:
        return row[self._places[name]]

    def changed(self, row: Row, **values: Any) -> tuple[Any, ...]:
        """The row with other values in these columns."""
        found = list(row)
        for name, value in values.items():
            found[self._places[name]] = value
        return tuple(found)

    def where(self, row: Row) -> tuple[Any, ...]:
        """What identifies the row, as far as it can be read."""
        try:
            return self._where(row)
        except IndexError:
            return tuple(row)

    def under_seal(self, row: Row) -> tuple[Any, ...]:
        """The values that the seal of a row covers."""
        also = tuple(row[place] for place in self._also_under_seal)
        covered = self._under_seal(row)
        return covered if all(one is None for one in also) else (*covered, *also)


def _texts(row: Row) -> list[Any]:
    """A row without the one character that PostgreSQL cannot store in a text."""
    return [one.replace("\0", "\u2400") if isinstance(one, str) else one for one in row]


def _in_order_of(record: Callable[..., Any], fields: Sequence[Field]) -> list[_Read]:
    """How each attribute of a record is read, in the order of the record's parameters."""
    found: dict[str, _Read] = {}
    start = 0
    for each in fields:
        end = start + len(each.columns)
        is_wide = end - start > 1
        at = slice(start, end) if is_wide else start
        found[each.attribute] = _Read(at, each.read, is_wide, each.empty)
        start = end
    declared: Any = record
    attributes = getattr(declared, "_fields", None) or declared.__dataclass_fields__
    return [found[attribute] for attribute in attributes]


def _read_all(columns: Sequence[Sequence[Any]], how: _Read) -> Iterable[Any]:
    at, read, is_wide, empty = how
    if is_wide and read is not None:
        return map(read, *columns[at])
    found: Sequence[Any] = columns[at]
    if read is None and empty is None:
        return found
    return [empty if value is None else read(value) for value in found]  # type: ignore[misc]


def _values_at(places: Sequence[int]) -> Callable[[Row], tuple[Any, ...]]:
    if len(places) == 1:
        (only,) = places
        return lambda row: (row[only],)
    return itemgetter(*places)


def corrupt(what: str, where: Row, error: Exception) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"The ledger holds {what} that cannot be read ({error}) at {list(where)!r}. It was not "
        "used, and nothing was changed. Restore the ledger from a backup, or ask for help "
        "with this text."
    )
