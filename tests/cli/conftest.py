"""What the tests of the command line share: a ledger left by processes that were really killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.workplace import HOSTILE, Workplace, copy_workplace, make_workplace
from tests.fakes import Host


@pytest.fixture
def host() -> Host:
    """A machine whose processes come and go."""
    return Host()


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """The ledger of five runs, to look at; `workplace` is the one to change."""
    place = make_workplace(tmp_path_factory.mktemp("killed") / "place")
    assert place.agent("handle", "done-1").exit_code == 0
    # ticket-7 was killed, and no process has opened it since.
    place.agent("handle", "ticket-7", kill="refund")
    # ticket-8 was opened again: verify could not tell.
    place.agent("handle", "ticket-8", kill="send_email")
    assert "ReplayUnsafeError" in place.agent("handle", "ticket-8").stderr
    # ticket-9 was opened again: there is no verify.
    place.agent("handle", "ticket-9", kill="refund")
    assert "ReplayUnsafeError" in place.agent("handle", "ticket-9").stderr
    # The id, an argument and an error of this one attack the terminal of a reader.
    place.agent("hostile", "[red]evil[/red]", kill="send_email")
    (place.folder / "broken").write_text(HOSTILE, encoding="utf-8")
    assert "ReplayUnsafeError" in place.agent("hostile", "[red]evil[/red]").stderr
    (place.folder / "broken").unlink()
    return place


@pytest.fixture
def workplace(killed: Workplace, tmp_path: Path) -> Workplace:
    """A copy of the killed ledger that a test may change."""
    return copy_workplace(killed, tmp_path / "place")


@pytest.fixture
def empty(tmp_path: Path) -> Workplace:
    """A folder without a ledger."""
    return make_workplace(tmp_path / "empty")


@pytest.fixture(scope="session")
def graph_runs(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """The ledger of runs of graphs, to look at; `graph_place` is the one to change."""
    place = make_workplace(tmp_path_factory.mktemp("graphs") / "place")
    more = "--app flows:app --store agent.db"
    ended = place.lines(
        f"""run order --id done-1 --input '{{"order_id": 1}}' {more}""",
        f"run parent --id parent-1 {more}",
        f"run listening --id listen-1 {more}",
        "send told-1 news --data 7 --id seven --by ann --store agent.db",
        f"run listening --id told-1 {more}",
    )
    assert [one.exit_code for one in ended] == [0, 3, 3, 0, 3], ended
    assert place.run("""order --id killed-1 --input '{"order_id": 2}'""", FLOW_KILL="send")
    (place.folder / "broken").touch()
    failed = place.run("""order --id failed-1 --input '{"order_id": 3}'""")
    assert failed.exit_code == 1, failed
    (place.folder / "broken").unlink()
    return place


@pytest.fixture
def graph_place(graph_runs: Workplace, tmp_path: Path) -> Workplace:
    """A copy of the ledger of graphs that a test may change."""
    return copy_workplace(graph_runs, tmp_path / "place")
