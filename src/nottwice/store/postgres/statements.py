"""The statements of the ledger on PostgreSQL, and the form of their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nottwice.store.statements import POSTGRES_TYPES, Statements, for_postgres

SQL = Statements("shared.sql", "postgres.sql", spell=for_postgres)


def types_of(names: Iterable[str]) -> list[str]:
    """The types of columns in the schema."""
    return [POSTGRES_TYPES[name] for name in names]


def as_arrays(written: Sequence[Sequence[Any]], *, width: int) -> list[str]:
    """Rows as arrays, one per column, in PostgreSQL's notation.

    The driver would do the same at several times the cost of everything else in a commit.
    """
    columns = [[_element(row[number]) for row in written] for number in range(width)]
    return ["".join(("{", ",".join(column), "}")) for column in columns]


def _element(value: str | float | None) -> str:
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return repr(value)
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + value + '"'


def storable(parameters: Any) -> Any:
    """The same without the one character that PostgreSQL cannot store in a text.

    JSON texts and ids never have it, but texts from people and upstreams may.
    """
    given = parameters.values() if isinstance(parameters, dict) else parameters
    if not any(isinstance(one, str) and "\0" in one for one in given):
        return parameters
    if isinstance(parameters, dict):
        return dict(zip(parameters, storable(list(given)), strict=True))
    return [one.replace("\0", "\u2400") if isinstance(one, str) else one for one in parameters]
