"""Which versions of nottwice may use a ledger after which scripts? (P225)"""

from __future__ import annotations

from pathlib import Path

import pytest

from nottwice.errors import SchemaTooNew, StoreError
from nottwice.model.run import HolderRecord
from nottwice.store.migrations import (
    ADDITIVE,
    Script,
    check_none_alive,
    check_usable,
    needs,
    read_scripts,
)

SCRIPTS = (
    Script(1, "CREATE TABLE a;"),
    Script(2, f"{ADDITIVE}\nALTER TABLE a;"),
    Script(3, f"-- Not {ADDITIVE}\nDROP TABLE a;"),
    Script(4, f"-- More.\n{ADDITIVE}\n"),
)
ALIVE = [HolderRecord("h", "host", "", "", "", 7, "", 0.0)]


def test_a_ledger_needs_the_last_script_that_is_not_additive() -> None:
    assert [needs(SCRIPTS, number) for number in (1, 2, 3, 4)] == [1, 1, 3, 3]


def test_an_older_nottwice_uses_a_newer_ledger_that_needs_no_more_than_it_knows() -> None:
    check_usable("here", version=4, needed=3, known=3)
    with pytest.raises(SchemaTooNew, match="Nothing was changed"):
        check_usable("here", version=4, needed=3, known=2)


def test_only_an_additive_script_is_applied_beside_living_processes() -> None:
    check_none_alive("here", SCRIPTS[3:], ALIVE)
    check_none_alive("here", SCRIPTS[2:], [])
    with pytest.raises(StoreError, match="Stop these processes first: pid 7 on host"):
        check_none_alive("here", SCRIPTS[2:], ALIVE)


def test_a_gap_in_the_scripts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_text("")
    (tmp_path / "0003_b.sql").write_text("")
    with pytest.raises(StoreError, match="without gaps"):
        read_scripts(tmp_path)
