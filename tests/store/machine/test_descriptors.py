"""Does a program that was started without standard streams write into its own ledger (P414)?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nottwice as nt
from tests.postgres import server

PROGRAM = """
import contextlib, os, sys, threading
import nottwice as nt

@nt.tool("unsafe_on_replay")
def send(number: int) -> str:
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            os.write(stream, b"what a library reports\\n")
    return "sent"

with nt.run("r", store=sys.argv[1]):
    for number in range(3):
        send(number)
"""


@pytest.mark.parametrize("store", ["agent.db", "file:runs", "postgres"])
@pytest.mark.parametrize("closed", ["2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_what_is_written_to_a_closed_standard_stream_is_not_written_into_the_ledger(
    store: str, closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = server.ledger_url(tmp_path) if store == "postgres" else store
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = f'exec "$@" {closed}'
    words = ["sh", "-c", command, "sh", sys.executable, str(program), place]
    ended = subprocess.run(words, cwd=tmp_path, stdout=subprocess.DEVNULL, timeout=60)
    assert ended.returncode == 0
    monkeypatch.chdir(tmp_path)
    with nt.Ledger(place) as ledger:
        assert [call.status for call in ledger.calls("r")] == ["done"] * 3
