"""Does every command fit a real terminal of 80, 120 and 200 columns, and break no id?"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from rich.cells import cell_len

import nottwice as nt
from nottwice.cli.commands import COMMANDS
from nottwice.worker.presence import Presence
from tests.cli.workplace import Workplace, copy_workplace, make_workplace

SEPARATOR = "\x1e"
# One process types all lines, because starting one takes its time.
TYPE = f"""
import shlex, sys
from nottwice.cli.main import main
for line in sys.argv[1:]:
    sys.stdout.write({SEPARATOR!r} + line + "\\n")
    sys.stdout.flush()
    try:
        main(shlex.split(line))
    except SystemExit as ended:
        sys.stdout.flush()
        print("ended", ended.code)
"""
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
OF_TOOLS = (
    "",
    "runs",
    "runs --all",
    "runs --state waiting",
    "runs --by-version",
    "reviews",
    "reviews --all",
    "show ticket-7",
    "show ticket-8",
    "show done-1",
    "audit",
    "report",
    "check agent.py",
    "recheck --app agent.py",
    "backup copy.db",
    "cancel ticket-9 --why 'The customer has called it off, and nobody may refund it now.'",
    "send ticket-8 paid --data '{\"cents\": 4000}'",
    "gc --dry-run",
    "key",
    "notify",
)
OF_GRAPHS = (
    "runs",
    "runs --state failed",
    "runs --ready",
    "workers",
    "show killed-1",
    "show failed-1",
    "show parent-1",
    "history done-1",
    "history done-1 --diff 1 2",
    "graph order",
    "graph --run killed-1",
    "fork done-1 --to done-2 --app flows:app",
    "lock --app flows:app",
    "run order --id done-1 --app flows:app",
    "report",
    "audit",
)
LEFT_OUT = {
    "worker": "its lines are those of the log, which is for files",
    "serve": "it prints links, which stay whole",
    "proxy": "its output belongs to the protocol",
    "decide": "it asks a person; tests/cli/render/test_case.py",
    "talk": "it is a conversation; tests/cli/commands/test_talk.py",
    "crash": "it takes minutes; tests/cli/commands/test_crash.py",
    "demo": "tests/cli/demo/test_story.py renders it on narrow screens",
    "replay": "it needs recorded checkpoints; tests/cli/commands/test_replay.py",
    "migrate": "it needs a second version of a graph; tests/cli/commands/test_migrate.py",
}


def type_lines(place: Workplace, lines: tuple[str, ...], *, width: int) -> dict[str, list[str]]:
    """What a terminal of this width shows after each line."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    wanted = {**place.environment(), "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-c", TYPE, *lines],
        cwd=place.folder,
        env={name: value for name, value in wanted.items() if name not in ("COLUMNS", "LINES")},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    told = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            # Linux reports the end of a terminal as an error.
            break
        if not part:
            break
        told += part
    os.close(ours)
    process.wait()
    found: dict[str, list[str]] = {}
    for text in ANSI.sub("", told.decode()).split(SEPARATOR)[1:]:
        line, *shown = text.splitlines()
        found[line] = [one.rstrip() for one in shown]
    return found


def assert_fits(killed: Workplace, folder: Path, lines: tuple[str, ...], width: int) -> None:
    """Type the lines at a terminal and into a pipe, each in a copy of its own."""
    other, place = (copy_workplace(killed, folder / name) for name in ("piped", "place"))
    graphs = [f"order-{number}@1.0.0" for number in range(9)]
    for one in (other, place):
        with nt.Ledger(one.store) as ledger:
            Presence(ledger, graphs, concurrency=8).renew()
        (one.folder / "pyproject.toml").write_text('[tool.nottwice]\nstore = "agent.db"\n')
    piped = other.lines(*lines)
    found = type_lines(place, lines, width=width)
    assert list(found) == list(lines)
    for line, plain in zip(lines, piped, strict=True):
        shown = found[line]
        assert shown.pop() == f"ended {plain.exit_code}", (line, plain, shown)
        assert plain.exit_code != 2, (line, shown)
        assert not any("Traceback" in text for text in shown), (line, shown)
        # A command to copy stays on one line, and so does the place of the ledger.
        wide = [
            text
            for text in shown
            if cell_len(text) > width and "nottwice " not in text and str(place.folder) not in text
        ]
        assert wide == [], (line, wide)
        ids = set(re.findall(r"\b[a-z]+-\d+\b", plain.stdout))
        broken = [one for one in ids if not any(one in text for text in shown)]
        assert broken == [], (line, broken, shown)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_commands_about_tools_fit(killed: Workplace, tmp_path: Path, width: int) -> None:
    assert_fits(killed, tmp_path, OF_TOOLS, width)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_commands_about_graphs_fit(graph_runs: Workplace, tmp_path: Path, width: int) -> None:
    assert_fits(graph_runs, tmp_path, OF_GRAPHS, width)


@nt.tool(
    "unsafe_on_replay", name="widths_refund", look="https://pay.example.com/refunds?order={order}"
)
def refund(order: str) -> None:
    raise TimeoutError("no answer")


def test_ids_and_urls_that_are_wider_than_the_terminal_stay_whole(tmp_path: Path) -> None:
    place = make_workplace(tmp_path / "place")
    waiting, doubtful, failed = (f"{kind}-" + "0123456789" * 8 for kind in ("ask", "doubt", "fail"))
    with nt.Ledger(place.store) as ledger:
        with pytest.raises(nt.errors.QuestionOpen), ledger.run(waiting):
            nt.ask("Refund?", label="refund")
        with pytest.raises(nt.errors.ReplayUnsafeError), ledger.run(doubtful):
            refund(doubtful)
        with pytest.raises(ValueError, match="the text"), ledger.run(failed):
            raise ValueError("the text of an error that needs the room")
        (asked, doubted) = (ledger.run_record(run).waits[0].subject for run in (waiting, doubtful))
    (place.folder / "pyproject.toml").write_text('[tool.nottwice]\nstore = "agent.db"\n')
    lines = ("", "runs", "runs --state failed", "reviews", f"show {waiting}", f"show {doubtful}")
    found = type_lines(place, lines, width=80)
    status, runs, failures, reviews, shown, in_doubt = ("\n".join(found[line]) for line in lines)
    for text in (runs, reviews):
        for one in (waiting, doubtful, asked, doubted):
            assert one in text
    assert waiting in status
    assert f"review {asked}" in shown
    assert f"https://pay.example.com/refunds?order={doubtful}" in in_doubt
    heading, row = failures.splitlines()[:2]
    assert heading.split()[:2] == ["run", "waits"]
    assert failed in row


def test_no_command_is_forgotten() -> None:
    typed = {line.split()[0] for line in (*OF_TOOLS, *OF_GRAPHS) if line}
    assert typed.isdisjoint(LEFT_OUT)
    assert typed | LEFT_OUT.keys() == set(COMMANDS)
