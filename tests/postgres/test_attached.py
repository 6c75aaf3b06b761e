"""Programs that are attached to a run on PostgreSQL and really killed (P240, P241)."""

from __future__ import annotations

from pathlib import Path

import nottwice as nt
from tests.attached_programs import ONE, THREE, Program
from tests.postgres import server


def test_a_call_that_was_killed_after_its_effect_is_not_made_again(tmp_path: Path) -> None:
    program = Program(tmp_path, server.ledger_url(tmp_path), ONE)
    program.run("after the effect")
    word, review = program.run().split()
    assert word == "review"
    with nt.Reviews(program.store) as inbox:
        inbox.decide(review, "happened", by="ann", why="saw it", result={"charged": 7})
    assert program.run() == "replayed {'charged': 7}"
    assert program.effects == ["7 None"]


def test_of_parallel_calls_only_the_killed_one_is_in_doubt(tmp_path: Path) -> None:
    program = Program(tmp_path, server.ledger_url(tmp_path), THREE)
    program.run("after the effect")
    assert program.run() == "replayed replayed review"
    assert sorted(program.effects) == ["5 None", "6 None", "7 None"]
