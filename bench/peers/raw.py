"""The two limits that every library is measured against: bare SQLite.

(a) One durable commit of one row of about 1 KB.
(b) The two commits that every guard needs, one before the effect and one after it, and nothing
    else: no key, no hash, no lookup, no encoding.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

DISTRIBUTION = None
NOTE = "no guard: the limit of this disk and this SQLite"

Call = Callable[[str, str], object]
ROW = "z" * 1000


@contextmanager
def open_single_commits(database: Path, send: Callable[..., dict[str, str]]) -> Iterator[Call]:
    with closing(connect(database)) as connection:

        def insert(to: str, body: str) -> None:
            connection.execute("INSERT INTO calls (state, arguments) VALUES ('DONE', ?)", (ROW,))

        yield insert


@contextmanager
def open_two_commits(database: Path, send: Callable[..., dict[str, str]]) -> Iterator[Call]:
    with closing(connect(database)) as connection:
        ids = count(1)

        def call(to: str, body: str) -> None:
            id = next(ids)
            connection.execute("INSERT INTO calls VALUES (?, 'PENDING', ?, NULL)", (id, body))
            receipt = send(to, body)["receipt"]
            connection.execute(
                "UPDATE calls SET state = 'DONE', result = ? WHERE id = ?", (receipt, id)
            )

        yield call


def connect(database: Path) -> sqlite3.Connection:
    # Autocommit: each statement is one transaction, without the cost of BEGIN and COMMIT.
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE calls (id INTEGER PRIMARY KEY, state TEXT, arguments TEXT, result TEXT)"
    )
    return connection
