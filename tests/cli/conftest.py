"""What the tests of the command line share: a ledger left by processes that were really killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.workplace import HOSTILE, Workplace, copy_workplace, make_workplace


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """The ledger of five runs, to look at; `workplace` is the one to change."""
    place = make_workplace(tmp_path_factory.mktemp("killed") / "place")
    assert place.agent("handle", "done-1").exit_code == 0
    # ticket-7 was killed and nobody looked after it since.
    place.agent("handle", "ticket-7", kill="refund")
    # ticket-8 was opened again: verify could not tell.
    place.agent("handle", "ticket-8", kill="send_email")
    assert "ReplayUnsafeError" in place.agent("handle", "ticket-8").stderr
    # ticket-9 was opened again: there is no verify.
    place.agent("handle", "ticket-9", kill="refund")
    assert "ReplayUnsafeError" in place.agent("handle", "ticket-9").stderr
    # The id, an argument and an error of this one attack whoever looks at it.
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
