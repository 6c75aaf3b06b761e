"""Opening a ledger by path, by name or as a store, and the runs in it (E1, B1)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.cli.inputs.settings import Settings
from nottwice.guard import ledger as ledger_module
from nottwice.store.memory import MemoryStore
from nottwice.store.sqlite.store import SqliteStore
from tests.fakes import FakeClock


class Sender:
    """A tool that counts what it sends."""

    def __init__(self) -> None:
        self.sent: list[str] = []

        @nt.tool("unsafe_on_replay", name="ledger send")
        def send(to: str) -> str:
            self.sent.append(to)
            return to

        self.send = send


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own as the current one, without a ledger named in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOTTWICE_STORE", raising=False)
    return tmp_path


def test_without_a_path_the_ledger_is_here(folder: Path) -> None:
    with nt.Ledger() as ledger:
        assert ledger.location == str(folder.resolve() / "nottwice.db")
    with nt.run("r"):
        pass
    assert (folder / "nottwice.db").exists()


def test_the_environment_can_name_the_ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_STORE", str(folder / "named.db"))
    with nt.Ledger() as ledger:
        assert ledger.location == str(folder.resolve() / "named.db")
    with nt.run("r"):
        pass
    assert not (folder / "nottwice.db").exists()


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_a_text_or_a_path(folder: Path, sender: Sender, kind: type[Any]) -> None:
    for _ in range(2):
        with nt.Ledger(kind(folder / "a.db")) as ledger, ledger.run("r"):
            sender.send("ann")
        with nt.run("r", store=kind(folder / "a.db")):
            sender.send("ann")
    assert sender.sent == ["ann"]


def test_a_path_in_the_home_folder_works_in_both_ways(
    folder: Path, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    for _ in range(2):
        with nt.run("r", store="~/a.db"):
            sender.send("ann")
    with nt.Ledger("~/a.db", create=False) as ledger, ledger.run("r"):
        sender.send("ann")
    assert sender.sent == ["ann"]
    assert (folder / "a.db").exists()


def test_a_ledger_in_memory_lasts_as_long_as_it_is_kept(sender: Sender) -> None:
    ledger = nt.Ledger(":memory:")
    assert ledger.location == ":memory:"
    for _ in range(2):
        with ledger.run("r"):
            sender.send("ann")
        with nt.run("r", store=ledger):
            sender.send("ann")
        with nt.run("r", store=ledger.store):
            sender.send("ann")
    assert sender.sent == ["ann"]


@pytest.mark.parametrize("kind", [str, Path])
def test_a_run_cannot_open_a_ledger_in_memory_by_name(folder: Path, kind: type[Any]) -> None:
    with pytest.raises(nt.errors.UsageError) as caught:
        nt.run("r", store=kind(":memory:"))
    assert "ledger = nt.Ledger(':memory:'), then ledger.run(...)" in str(caught.value)
    assert list(folder.iterdir()) == []


def test_a_store_of_ones_own_is_used_as_it_is() -> None:
    store = MemoryStore()
    assert nt.Ledger(store).store is store


def test_a_ledger_that_is_not_there_is_an_error_if_it_must_not_be_created(folder: Path) -> None:
    with pytest.raises(nt.errors.NoLedger):
        nt.Ledger(folder / "typo.db", create=False)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("given", ["", "a\0b", "mysql://host/db", "redis://"])
def test_what_is_no_path_is_refused_and_nothing_is_opened_instead(folder: Path, given: str) -> None:
    """An empty setting, say, must not lead to some other ledger."""
    for attempt in (lambda: nt.Ledger(given), lambda: nt.run("r", store=given)):
        with pytest.raises(nt.errors.UsageError, match="Nothing was opened"):
            attempt()
    assert list(folder.iterdir()) == []


def test_a_folder_of_something_else_is_no_ledger(folder: Path) -> None:
    (folder / "a.db").mkdir()
    (folder / "a.db" / "package.json").write_text("{}")
    for attempt in (lambda: nt.Ledger(folder / "a.db"), lambda: nt.run("r", store=folder / "a.db")):
        with pytest.raises(nt.errors.StoreError, match="not a nottwice ledger"):
            attempt()
    assert [file.name for file in (folder / "a.db").iterdir()] == ["package.json"]


@pytest.mark.parametrize("given", ["file:runs", "file:runs/", "file:deep/er/runs"])
def test_a_folder_holds_json_files(folder: Path, given: str) -> None:
    with nt.run("a run", store=given):
        pass
    with nt.Ledger(given, create=False) as ledger:
        assert [run.workflow_id for run in ledger.store.runs()] == ["a run"]
    where = folder / given.removeprefix("file:")
    assert [file.suffix for file in where.iterdir() if file.is_file()] == [".json"]


def test_a_folder_becomes_a_ledger_only_if_file_says_so(folder: Path) -> None:
    (folder / "ledger").mkdir()
    with pytest.raises(nt.errors.StoreError, match=r"write: file:ledger"):
        nt.Ledger("ledger")
    assert list((folder / "ledger").iterdir()) == []
    nt.Ledger("file:ledger").close()
    nt.Ledger("ledger").close()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///x.db", "x.db"),
        ("sqlite:////abs/x.db", "/abs/x.db"),
        ("sqlite:x.db", "x.db"),
        ("sqlite+pysqlite:///x.db", "x.db"),
    ],
)
def test_a_url_of_sqlite_is_refused_with_the_path_it_means(url: str, path: str) -> None:
    with pytest.raises(nt.errors.UsageError, match=f"Give the path: '{path}'"):
        nt.Ledger(url)


@pytest.mark.parametrize("given", ["memory:", "file::memory:"])
def test_a_ledger_in_memory_by_another_name_is_not_taken_for_a_file(
    folder: Path, given: str
) -> None:
    with pytest.raises(nt.errors.UsageError, match="A ledger in memory is ':memory:'"):
        nt.Ledger(given)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("given", ["\ud800.db", "file:\ud800", "postgresql://\ud800/x"])
def test_half_a_character_names_no_ledger(given: str) -> None:
    with pytest.raises(nt.errors.UsageError, match="does not name a ledger"):
        nt.Ledger(given)
    with pytest.raises(nt.errors.UsageError, match="does not name a ledger"):
        nt.run("r", store=given)


@pytest.mark.parametrize("configured", ["ours.db", "file:ours"])
def test_a_program_uses_the_ledger_of_its_project_like_the_commands(
    folder: Path, monkeypatch: pytest.MonkeyPatch, configured: str
) -> None:
    (folder / "pyproject.toml").write_text(f'[tool.nottwice]\nstore = "{configured}"\n')
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    monkeypatch.delenv("NOTTWICE_STORE", raising=False)
    with nt.run("r"):
        pass
    with nt.Ledger() as ledger:
        assert ledger.location == str(folder / configured.removeprefix("file:"))
        assert ledger.store.load_run("r") is not None
    assert Settings().store_path().endswith(configured.removeprefix("file:"))
    monkeypatch.setenv("NOTTWICE_STORE", str(folder / "other.db"))
    with nt.Ledger() as other:
        assert other.location == str(folder / "other.db")


def test_a_folder_is_opened_once_a_process(folder: Path) -> None:
    runs = [nt.run(f"{number}", store="file:runs") for number in range(2)]
    assert runs[0]._opening.host.store is runs[1]._opening.host.store


def test_a_folder_without_a_ledger_is_not_made_one_by_looking(folder: Path) -> None:
    with pytest.raises(nt.errors.NoLedger, match="file:FOLDER"):
        nt.Ledger("file:runs", create=False)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("given", ["file:", "file:a.db", "file://runs"])
def test_what_is_no_folder_is_refused(folder: Path, given: str) -> None:
    (folder / "a.db").touch()
    for attempt in (lambda: nt.Ledger(given), lambda: nt.run("r", store=given)):
        with pytest.raises(nt.errors.UsageError, match="Nothing was opened"):
            attempt()
    assert [file.name for file in folder.iterdir()] == ["a.db"]


def test_a_folder_that_is_not_there_is_a_clear_error(folder: Path) -> None:
    for attempt in (lambda: nt.Ledger("no/a.db"), lambda: nt.run("r", store="no/a.db")):
        with pytest.raises(nt.errors.StoreError):
            attempt()


def test_runs_that_name_one_file_share_one_store(folder: Path) -> None:
    """Otherwise concurrent runs could not share their commits."""
    (folder / "link.db").symlink_to(folder / "a.db")
    (folder / "sub").mkdir()
    spellings: list[str | Path] = [folder / "a.db", "a.db", "./sub/../a.db", "link.db"]
    stores = {id(nt.run("r", store=each)._opening.host.store) for each in spellings}
    assert len(stores) == 1
    assert nt.run("r", store="b.db")._opening.host.store.location.endswith("b.db")


def test_a_file_that_was_replaced_is_another_ledger(folder: Path, sender: Sender) -> None:
    with nt.run("r", store="a.db"):
        sender.send("ann")
    for name in ("a.db", "a.db-wal", "a.db-shm", "a.db.holders"):
        (folder / name).unlink(missing_ok=True)
    with nt.run("r", store="a.db"):
        sender.send("ann")
    assert sender.sent == ["ann", "ann"]


def test_many_ledgers_can_be_used_in_turn_without_keeping_all_open(
    folder: Path, sender: Sender
) -> None:
    count = ledger_module.MOST_OPEN + 4
    with nt.run("first", store="0.db") as first:
        for number in range(count):
            with nt.run("r", store=f"{number}.db"):
                sender.send(str(number))
        sender.send("still here")
    for number in range(count):
        with nt.run("r", store=f"{number}.db"):
            sender.send(str(number))
    assert sender.sent == [*map(str, range(count)), "still here"]
    assert len(ledger_module._shared) <= ledger_module.MOST_OPEN
    # It was closed to make room, and opened again by its run.
    first._opening.host.store.close()


def test_a_closed_ledger_keeps_what_was_reported_durable(folder: Path, sender: Sender) -> None:
    with nt.Ledger("a.db") as ledger:
        with ledger.run("r"):
            sender.send("ann")
        store = ledger.store
    assert isinstance(store, SqliteStore)
    assert [row.args_json for row in store.calls("r")] == ['{"to":"ann"}']
    store.close()
    assert os.stat("a.db").st_mode & 0o077 == 0


def test_the_clock_of_a_ledger_is_the_one_it_was_given(folder: Path, sender: Sender) -> None:
    clock = FakeClock(now=1_000_000.0)
    for place in (":memory:", "a.db"):
        with nt.Ledger(place, clock=clock) as ledger, ledger.run(f"r {place}"):
            sender.send(place)
            (row,) = ledger.store.calls(f"r {place}")
        assert (row.created_at, row.finished_at) == (1_000_000.0, 1_000_000.0)


@pytest.mark.parametrize("name", ["acquire_timeout", "settle_timeout"])
@pytest.mark.parametrize("given", ["soon", 0, 5, 2.5, -1])
def test_a_timeout_is_a_duration_with_a_unit(name: str, given: Any) -> None:
    with pytest.raises(nt.NottwiceError, match=f"{name}=.* (unit|duration)"):
        nt.Ledger(":memory:").run("r", **{name: given})


def test_a_folder_of_other_things_is_not_made_a_ledger_by_mistake(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(nt.errors.StoreError, match="file:"):
        nt.Ledger(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]
    nt.Ledger(f"file:{tmp_path}").close()
    nt.Ledger(tmp_path).close()


@pytest.mark.parametrize("given", ["agent.db ", "agent.db\r", "\tagent.db", " ", "file:runs\n"])
def test_a_name_with_white_space_around_it_is_no_other_ledger(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("NOTTWICE_STORE", given)
    for store in (given, None):
        with pytest.raises(nt.errors.UsageError, match="white space"):
            nt.run("r", store=store)
    assert list(folder.iterdir()) == []


def test_a_path_through_a_folder_that_does_not_exist_names_a_ledger(folder: Path) -> None:
    with nt.run("r", store="missing/../agent.db"):
        pass
    assert (folder / "agent.db").exists()


@pytest.mark.parametrize("given", [5, b"agent.db", ["agent.db"]])
def test_what_is_no_ledger_at_all_is_refused(given: Any) -> None:
    with pytest.raises(nt.errors.UsageError, match="names no ledger"):
        nt.run("r", store=given)
