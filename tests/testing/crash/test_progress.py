"""Is it visible how far a crash test has come, also without a terminal?"""

from __future__ import annotations

import io

from nottwice.testing.crash.progress import LINE_SECONDS, progress_bar, shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(seconds_apart: float, *, lines: bool = True) -> list[str]:
    log, at = io.StringIO(), [0.0]
    with shown(log, lines=lines, now=lambda: at[0]) as show:
        for done in range(1, 5):
            at[0] += seconds_apart
            show("boundaries", done, 1200, " (1 wrong)" if done == 4 else "")
    return log.getvalue().splitlines()


def test_a_log_gets_a_line_every_few_seconds() -> None:
    assert told(LINE_SECONDS) == [
        "boundaries: 1 of 1,200",
        "boundaries: 2 of 1,200",
        "boundaries: 3 of 1,200",
        "boundaries: 4 of 1,200 (1 wrong)",
    ]
    assert told(LINE_SECONDS / 2) == ["boundaries: 2 of 1,200", "boundaries: 4 of 1,200 (1 wrong)"]


def test_what_is_over_within_moments_leaves_no_line() -> None:
    assert told(LINE_SECONDS / 5) == []


def test_a_test_suite_gets_no_lines() -> None:
    assert told(LINE_SECONDS, lines=False) == []
    with progress_bar(io.StringIO(), lines=False) as report:
        assert report is not None


def test_a_terminal_gets_a_bar() -> None:
    terminal = Terminal()
    with shown(terminal) as show:
        show("boundaries", 1, 2, "")
    assert "boundaries" in terminal.getvalue()
    assert "1/2" in terminal.getvalue()


def test_a_reader_that_is_gone_stops_nothing() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    at = [0.0]
    with shown(Closed(), now=lambda: at[0]) as show:
        at[0] += LINE_SECONDS
        show("boundaries", 1, 2, "")
