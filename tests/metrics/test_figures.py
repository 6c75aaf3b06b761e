"""Are the figures of a process right, from many threads, and bounded?"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.engine import events
from nottwice.metrics import figures as figures_module
from nottwice.metrics.figures import Figures
from tests.metrics.test_exposition import parsed


@nt.tool("unsafe_on_replay", name="figures_mail")
def mail(to: str) -> str:
    return to


def told(tool: str = "mail") -> events.CallEnded:
    return events.CallEnded(
        ledger="a",
        run_id="r",
        step="/",
        tool=tool,
        call_id="c",
        attempts=1,
        replay_class="pure",
        outcome="done",
        replayed=False,
        settled_by=None,
        seconds=0.0005,
    )


def test_a_ledger_is_counted_until_it_is_stopped(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        figures = nt.metrics.count(ledger)
        for number in range(2):
            with ledger.run("r"):
                mail("ann")
            if number == 0:
                first = parsed(figures.text())
        figures.stop()
        with ledger.run("r"):
            mail("ann")
    assert "nottwice_duplicates_prevented_total" not in first
    found = parsed(figures.text())
    ((tool, duplicates),) = found["nottwice_duplicates_prevented_total"]
    assert (tool, duplicates) == ({"gen_ai_tool_name": "figures_mail"}, 1)
    by_replayed = {one["nottwice_replayed"]: value for one, value in found["nottwice_calls_total"]}
    assert by_replayed == {"false": 1, "true": 1}
    # Without being asked for, how the ledger is stays with the process that reports it.
    assert "nottwice_runs" not in found


def test_threads_lose_nothing() -> None:
    figures = Figures()

    def add() -> None:
        for _ in range(500):
            figures(told())

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = parsed(figures.text())
    ((_, calls),) = found["nottwice_calls_total"]
    ((_, measured),) = found["nottwice_call_duration_seconds_count"]
    assert calls == measured == 4000
    # A value on a bound belongs to its bucket, as Prometheus defines it.
    lowest = found["nottwice_call_duration_seconds_bucket"][0]
    assert (lowest[0]["le"], lowest[1]) == ("0.0005", 4000)


def test_more_tools_than_there_is_room_for_are_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figures_module, "MOST_SERIES", 3)
    figures = Figures()
    for number in range(10):
        figures(told(f"tool-{number}"))
    rows = parsed(figures.text())["nottwice_calls_total"]
    assert sum(value for _, value in rows) == 10
    assert len(rows) == 4
    assert rows[-1][0]["gen_ai_tool_name"] == "others"
