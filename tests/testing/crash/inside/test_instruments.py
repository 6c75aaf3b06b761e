"""Does examined code leave no trace, whichever store it names and whichever clock it uses?"""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.store.files.store import JsonFileStore
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing import crash_test
from tests.testing.crash.tools import ANSWERS, agent, mail


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("store", ["agent.db", "{here}/agent.db", "file:agent", "file:{here}/a"])
def test_a_ledger_that_is_named_by_its_path_is_redirected(here: Path, store: str) -> None:
    verdict = crash_test(lambda: agent(store.format(here=here)), tools=ANSWERS)
    assert verdict.failures == ()
    assert verdict.examined >= 16
    assert files_in(here) == []


def test_a_ledger_that_the_environment_names_is_redirected(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_STORE", str(here / "named.db"))

    def work() -> None:
        with nt.run("ticket"):
            mail(to="ann")

    assert crash_test(work, tools=ANSWERS).examined >= 10
    assert files_in(here) == []


@pytest.mark.parametrize("kind", [SqliteStore, JsonFileStore])
def test_a_ledger_that_was_opened_before_is_left_as_it_is(
    here: Path, kind: type[SqliteStore] | type[JsonFileStore]
) -> None:
    with nt.Ledger(kind(here / "opened", now=0.0)) as ledger:
        with ledger.run("earlier"):
            pass

        def work() -> None:
            with ledger.run("ticket"):
                mail(to="ann")

        assert crash_test(work, tools=ANSWERS).failures == ()
        assert [run.workflow_id for run in ledger.store.runs()] == ["earlier"]


def test_a_folder_for_examinations_behind_a_link_is_as_good_as_any(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary folder of macOS is one."""
    (here / "real").mkdir()
    (here / "link").symlink_to(here / "real")
    monkeypatch.setattr("nottwice.testing.crash.sweep.fast_folder", lambda: str(here / "link"))
    verdict = crash_test(lambda: agent("agent.db"), tools=ANSWERS)
    assert verdict.failures == ()
    assert verdict.examined >= 16


def test_listeners_of_the_program_hear_nothing_of_an_examination(here: Path) -> None:
    def hear(event: nt.events.Event) -> None:
        (here / "heard").touch()

    stop = nt.events.listen(hear)
    try:
        crash_test(lambda: agent("agent.db"), tools=ANSWERS)
    finally:
        stop()
    assert files_in(here) == []


def test_waiting_for_days_takes_no_time_and_moves_the_clock() -> None:
    def work() -> float:
        with nt.run("patient", store="agent.db"):
            begun = nt.now(label="begun")
            nt.sleep("30d", label="nap")
            return (nt.now(label="over") - begun).total_seconds()

    verdict = crash_test(work, tools=ANSWERS, effects=False)
    assert verdict.failures == ()
    assert verdict.ending == "returned 2592000.0"
