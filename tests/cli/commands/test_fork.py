"""Does `nottwice fork` make a run that replays, and sends nothing?"""

from __future__ import annotations

import json

from tests.cli.workplace import Workplace


def test_a_fork_replays_from_its_checkpoint_and_sends_nothing(graph_place: Workplace) -> None:
    before = graph_place.world()
    more = "--app flows:app --store agent.db"
    forked, ended, early, listed = graph_place.lines(
        f"fork done-1 --to what-if --at 1 {more} --json",
        f"run --id what-if {more}",
        f"fork done-1 --to from-the-start --at 0 {more}",
        "show what-if --store agent.db",
    )
    assert forked.exit_code == 0, forked
    assert json.loads(forked.stdout)["run"]["origin"] == "done-1"
    assert ended.exit_code == 0
    assert "1 call, 1 replayed" in ended.stderr
    assert early.stdout.splitlines()[0] == "Run from-the-start begins where done-1 was."
    assert early.stdout.splitlines()[1] == f"Next: nottwice run --id from-the-start {more}"
    assert "forked from  done-1" in listed.stdout
    assert graph_place.world() == before


def test_what_cannot_be_forked_is_refused(graph_place: Workplace) -> None:
    more = "--app flows:app --store agent.db"
    doubt, twice, missing, no_app = graph_place.lines(
        f"fork killed-1 --to a {more}",
        f"fork done-1 --to listen-1 {more}",
        f"fork done-1 --to b --at 9 {more}",
        "fork done-1 --to c --store agent.db",
    )
    assert "has a call in doubt" in doubt.stderr
    assert "Run 'listen-1' already exists" in twice.stderr
    assert "no checkpoint 9" in missing.stderr
    assert "nottwice history done-1" in missing.stderr
    assert "fork needs your graphs" in no_app.stderr
    assert {one.exit_code for one in (doubt, twice, missing, no_app)} == {1}
