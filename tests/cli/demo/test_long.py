"""Does an agent of many steps that is killed late continue there, without new costs?"""

from __future__ import annotations

from pathlib import Path

from nottwice.cli.demo.long import live_and_die_and_live


def test_a_long_run_is_killed_late_and_continues_there(tmp_path: Path) -> None:
    long = live_and_die_and_live(tmp_path / "night", steps=20, dies_at=17)
    assert long.status == "completed"
    assert long.done_before == 17
    assert (long.comments, long.twice) == (20, 0)
    assert (long.requests, long.tokens_again) == (21, 0)
    assert long.tokens > 0
    assert 0 not in (long.killed_as, long.resumed_as)
    assert long.killed_as != long.resumed_as
    assert 0 < long.resume_seconds < 60
