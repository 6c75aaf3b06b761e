"""Which statements does a SQL store execute? Those of sql/, by name, in its database's dialect.

They are literal and can be grepped. They are read once, when a store is first imported. The columns
of a table come from its declaration, so a new column need not be added to every statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nottwice.store import effects, tables

Parameters = Sequence[Any] | dict[str, Any]
Statement = tuple[str, Parameters]
"""The text of a statement, and its parameters."""
_FILES = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- :(\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)
_BRACES = re.compile(r"\{([a-z_.:?=\[\]]+)\}")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b(?!::)")
_IN_ORDER = re.compile(r"\?([a-z_]+)")
_CAST_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)(?=::)")


class Statements(dict[str, str]):
    """The statements of one database, by name; ``where`` inserts conditions into one."""

    def __init__(
        self,
        *files: str,
        spell: Callable[[str], str],
        words: Mapping[str, str] | None = None,
    ) -> None:
        self._spell = spell
        self._words = {**_COLUMNS, **(words or {})}
        self._texts = {name: text for file in files for name, text in _read(file).items()}
        for name in self._texts:
            if not name.startswith("_"):
                self[name] = self._text_of(name)

    def spell(self, sql: str) -> str:
        """A statement that is not in sql/, in the dialect of this database."""
        return self._spell(sql)

    def part(self, name: str) -> str:
        """A part of statements that has its own name."""
        return self._text_of(name)

    def where(self, name: str, conditions: Iterable[str] = ()) -> str:
        """A statement with these conditions out of those that it may have."""
        chosen = " ".join(self._text_of(condition) for condition in conditions)
        return self[name].replace("{where}", chosen)

    def _text_of(self, name: str) -> str:
        return self._spell(self._filled(name))

    def _filled(self, name: str) -> str:
        return _BRACES.sub(self._fill, self._texts[name])

    def _fill(self, found: re.Match[str]) -> str:
        word = found[1]
        if word == "where":
            return found[0]
        return self._words[word] if word in self._words else self._filled(word)


def _read(name: str) -> dict[str, str]:
    """The statements of a file, by their names."""
    _, *parts = _NAME.split((_FILES / name).read_text(encoding="utf-8"))
    texts = (_COMMENT.sub("", text).strip() for text in parts[1::2])
    return dict(zip(parts[::2], texts, strict=True))


def _columns() -> dict[str, str]:
    """The texts that replace names in braces, such as the columns of each table."""
    found = {"changing": ", ".join(f"{name} = :{name}" for name in tables.CHANGING)}
    lists = {table.name: table.names for table in tables.ALL}
    lists |= {"intent": effects.INTENT, "receipt": effects.RECEIPT}
    for of, names in lists.items():
        found[of] = ", ".join(names)
        found[f":{of}"] = ", ".join(f":{name}" for name in names)
        found[f"?{of}"] = ", ".join(f"?{name}" for name in names)
        found[f"?{of}[]"] = ", ".join(f"?{name}[]" for name in names)
        found[f"::{of}"] = ", ".join(f"{name} {POSTGRES_TYPES[name]}" for name in names)
        found[f"excluded.{of}"] = ", ".join(f"{name} = excluded.{name}" for name in names)
        found[f"=w.{of}"] = ", ".join(f"{name} = w.{name}" for name in names)
        # The alias of a table is its first letter, and of the rows that a statement writes, w.
        for alias in (of[0], "w"):
            found[f"{alias}.{of}"] = ", ".join(f"{alias}.{name}" for name in names)
    return found


POSTGRES_TYPES = {name: kind for table in tables.ALL for name, kind in table.postgres_types.items()}
_COLUMNS = _columns()


def for_sqlite(sql: str) -> str:
    """A statement in SQLite's dialect. SQLite has no schemas, so tables have a prefix, except the
    one that people query by its name."""
    named = _IN_ORDER.sub("?", sql.replace("nottwice.tool_call_results", "tool_call_results"))
    return named.replace("nottwice.", "nottwice_")


def for_postgres(sql: str) -> str:
    """A statement for the PostgreSQL driver. A parameter for a column is cast to the column's type,
    because the server cannot infer the type of NULL."""
    sql = _IN_ORDER.sub(lambda found: f"%s::{POSTGRES_TYPES[found[1]]}", sql)
    sql = _PARAMETER.sub(_typed, sql)
    return _CAST_PARAMETER.sub(r"%(\1)s", sql)


def _typed(found: re.Match[str]) -> str:
    kind = POSTGRES_TYPES.get(found[1])
    return f"%({found[1]})s" if kind is None else f"%({found[1]})s::{kind}"
