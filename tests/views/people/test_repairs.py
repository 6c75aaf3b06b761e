"""Do the ways out of a run that cannot be trusted work as printed?"""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.main import main
from nottwice.views.commands import CommandLine
from nottwice.views.people.choices import open_docket

KEY = bytes(range(32)).hex()


@nt.tool("unsafe_on_replay", name="repairs_mail")
def mail(to: str) -> str:
    raise nt.Ambiguous("the answer was lost")


@pytest.mark.parametrize("run_id", ["ticket-7", "-its name; rm -rf *"])
def test_the_printed_ways_out_work_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_id: str
) -> None:
    monkeypatch.setenv("NOTTWICE_KEY", KEY)
    place = str(tmp_path / "agent.db")
    with nt.Ledger(place) as ledger:
        with pytest.raises(nt.RunBlocked), ledger.run(run_id):
            mail(to="ann")
        with closing(sqlite3.connect(place)) as other:
            other.execute("UPDATE tool_call_results SET trace_id = 'changed'")
            other.commit()
        with pytest.raises(nt.errors.LedgerTampered), ledger.run(run_id):
            pass
        for review in ledger.store.open_reviews():
            docket = open_docket(ledger, review.review_id, CommandLine(place))
            commands = [one.command for one in docket.repairs if one.command is not None]
            assert len(commands) == 2, review.kind
    verify, adopt = [shlex.split(one)[1:] for one in commands]
    assert CliRunner().invoke(main, verify).exit_code == 3
    adopted = CliRunner().invoke(main, adopt)
    assert (adopted.exit_code, "Sealed 1 run" in adopted.stdout) == (0, True), adopted.output
    assert CliRunner().invoke(main, verify).exit_code == 0
    with nt.Ledger(place) as ledger:
        with pytest.raises(nt.RunBlocked), ledger.run(run_id):
            mail(to="ann")
        (review,) = ledger.store.open_reviews()
        docket = open_docket(ledger, review.review_id, CommandLine(place))
    assert (docket.repairs, len(docket.consequences)) == ((), 3)
