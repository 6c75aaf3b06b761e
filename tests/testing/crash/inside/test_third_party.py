"""Does a crash test leave a ledger alone whose store it does not know?

The third party here has a copy of the SQLite store under a name of its own: a whole store on real
files, and a class of which the crash test has never heard.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.store.interface import Store
from nottwice.store.memory import MemoryStore
from nottwice.store.sqlite import store as sqlite
from nottwice.testing import CrashTestRefused, crash_test
from nottwice.testing.fatal import without_intents
from tests.testing.crash.tools import ANSWERS, look, mail, pay


def _copy_of_sqlite() -> Any:
    spec = importlib.util.spec_from_file_location("their_sqlite", sqlite.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SqliteStore


TheirSqlite: Any = _copy_of_sqlite()


class TheirStore(TheirSqlite):  # type: ignore[misc]
    """One ledger in each folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "theirs.db", now=0.0)

    def _settle(self) -> bool:
        """It decides for itself where its data is."""
        self._path = self._named_path
        self.location = str(self._path)
        return False


class HastyStore(TheirStore):
    """It loses every intent."""

    def commit(self, commit: Any) -> None:
        super().commit(without_intents(commit))


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return tmp_path


def agent(ledger: nt.Ledger) -> str:
    with ledger.run("ticket"):
        with nt.step("pay"):
            pay(order=look(order=7))
        return mail(to="ann")


def opens_it_itself(folder: Path) -> Callable[[], str]:
    return lambda: agent(nt.Ledger(TheirStore(folder)))


def opened_it_before(folder: Path) -> Callable[[], str]:
    ledger = nt.Ledger(TheirStore(folder))
    return lambda: agent(ledger)


def made_its_block_before(folder: Path) -> Callable[[], str]:
    block = nt.Ledger(TheirStore(folder)).run("ticket")

    def work() -> str:
        with block:
            return mail(to="ann")

    return work


def names_a_store(folder: Path) -> Callable[[], str]:
    store = TheirStore(folder)

    def work() -> str:
        with nt.run("ticket", store=store):
            return mail(to="ann")

    return work


def drives_a_graph(folder: Path) -> Callable[[], Any]:
    flow = nt.Graph("theirs", version="1.0.0")
    flow.node(_tell)
    store = TheirStore(folder)
    return lambda: flow.run("ticket", {}, store=store)


def _tell(state: dict[str, Any]) -> None:
    mail(to="ann")


WAYS = [
    opens_it_itself,
    opened_it_before,
    made_its_block_before,
    names_a_store,
    drives_a_graph,
]


def runs_in(store: Store) -> list[str]:
    return [run.workflow_id for run in store.runs()]


@pytest.mark.parametrize("way", WAYS)
def test_a_store_of_a_third_party_is_refused_and_its_ledger_stays_as_it_was(
    theirs: Path, way: Callable[[Path], Callable[[], Any]]
) -> None:
    with pytest.raises(CrashTestRefused) as refused:
        crash_test(way(theirs), tools=ANSWERS)
    text = str(refused.value)
    assert "TheirStore" in text
    assert "No tool ran, and the crash test wrote nothing to it" in text
    assert "store=lambda folder: TheirStore(folder)" in text
    assert runs_in(TheirStore(theirs)) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_store_of_a_third_party_is_led_into_the_folder_of_each_examination(
    theirs: Path, way: Callable[[Path], Callable[[], Any]]
) -> None:
    verdict = crash_test(way(theirs), tools=ANSWERS, store=TheirStore, points=[(7,)])
    assert verdict.failures == ()
    assert "kit_mail" in verdict.effects[-1]
    assert runs_in(TheirStore(theirs)) == []


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("level", ["boundaries", "double", "lines", "takeover"])
def test_every_level_examines_a_store_of_a_third_party(theirs: Path, level: str) -> None:
    verdict = crash_test(
        opens_it_itself(theirs), tools=ANSWERS, store=TheirStore, levels=[level], budget="1s"
    )
    assert verdict.failures == ()
    assert verdict.examined >= 8


def test_a_store_of_a_third_party_that_loses_intents_is_caught(theirs: Path) -> None:
    verdict = crash_test(opens_it_itself(theirs), tools=ANSWERS, store=HastyStore)
    broken = {violation.invariant for one in verdict.failures for violation in one.violations}
    assert {"intent before effect", "no effect twice"} <= broken


def test_two_ledgers_of_a_third_party_stay_two(theirs: Path) -> None:
    places = [theirs / "one", theirs / "two"]
    for place in places:
        place.mkdir()

    def work() -> None:
        for place in places:
            ledger = nt.Ledger(TheirStore(place))
            with ledger.run(place.name):
                mail(to=place.name)
            assert runs_in(ledger.store) == [place.name]

    verdict = crash_test(work, tools=ANSWERS, store=TheirStore)
    assert verdict.failures == ()
    assert len(verdict.effects) == 2


def test_a_store_that_is_the_real_one_all_the_same_is_refused(theirs: Path) -> None:
    real = TheirStore(theirs)
    work = names_a_store(theirs)
    for store in (lambda folder: real, lambda folder: TheirStore(theirs)):
        with pytest.raises(CrashTestRefused, match=r"store= .* the real ledger"):
            crash_test(work, tools=ANSWERS, store=store)
    assert runs_in(TheirStore(theirs)) == []


def test_what_makes_no_store_is_refused(theirs: Path) -> None:
    with pytest.raises(CrashTestRefused, match=r"store= .* Nothing was run"):
        crash_test(opens_it_itself(theirs), tools=ANSWERS, store="theirs.db")  # type: ignore[arg-type]
    with pytest.raises(CrashTestRefused, match="returned None"):
        crash_test(opens_it_itself(theirs), tools=ANSWERS, store=_opens_nothing)


def _opens_nothing(folder: Path) -> Any:
    return None


def test_a_ledger_in_memory_that_was_opened_before_is_refused() -> None:
    ledger = nt.Ledger(MemoryStore())
    with pytest.raises(CrashTestRefused, match="memory"):
        crash_test(lambda: agent(ledger), tools=ANSWERS)
    with pytest.raises(CrashTestRefused, match="memory"):
        crash_test(lambda: agent(nt.Ledger(":memory:")), tools=ANSWERS)
