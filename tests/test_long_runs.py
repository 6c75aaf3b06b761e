"""A run of 20,000 calls: opening it, or looking at it, reads a few of them and not all.

`python bench/long_run.py` does the same with a million, and prints seconds and megabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import nottwice as nt
from bench.long_run import fill, send
from nottwice.cli.main import main
from nottwice.store import tables
from nottwice.store.sqlite.connections import SqliteConnections

CALLS = 20_000


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "long.db"
    fill(path, CALLS)
    return path


@pytest.fixture
def most_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of calls each query brought into memory."""
    brought: list[int] = []
    plain: Callable[..., list[Any]] = SqliteConnections.read

    def counted(self: SqliteConnections, sql: str, parameters: Any) -> list[Any]:
        found = plain(self, sql, parameters)
        if tables.CALLS.columns in sql:
            brought.append(len(found))
        return found

    monkeypatch.setattr(SqliteConnections, "read", counted)
    return brought


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("runs", 0),
        ("audit", 0),
        ("show long", 50),
        ("show long --json", 50),
        ("gc --dry-run --older-than 30d", 500),
    ],
)
def test_a_look_at_a_long_run_brings_a_few_rows_at_a_time(
    words: str, most: int, long_run: Path, most_at_once: list[int]
) -> None:
    result = CliRunner().invoke(main, [*words.split(), "--store", str(long_run)])
    assert result.exit_code == 0, result.output
    assert max(most_at_once, default=0) <= most


def test_what_is_not_shown_is_counted(long_run: Path) -> None:
    shown = CliRunner().invoke(main, ["show", "long", "--store", str(long_run)]).stdout
    assert f"… and {CALLS + 1 - 50} more" in shown


def test_everything_of_a_long_run_is_judged_by_retention(long_run: Path) -> None:
    words = ["gc", "--dry-run", "--older-than", "30d", "--json", "--store", str(long_run)]
    assert f'"calls": {CALLS + 1}' in CliRunner().invoke(main, words).stdout


def test_a_long_run_is_opened_and_continues_without_reading_what_it_did(
    long_run: Path, most_at_once: list[int]
) -> None:
    with nt.run("long", store=long_run):
        assert send(1) == "sent"
        assert send(0) == "sent"
    assert sum(most_at_once) <= 4
