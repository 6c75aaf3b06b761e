"""Where do tests find the real MCP SDK and FastMCP? In an environment of their own.

The first run builds `.venv-mcp` (about a minute), later ones use it again. The tests in `inside/`
run there, with the pytest of that environment; a failure shows what they printed.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.test_frameworks import NEWEST, environment
from tests.tidy.source import ROOT

PINNED = [
    "mcp==2.3.0",
    "fastmcp==4.1.2",
    "pydantic>=2.7",
    "typing-extensions>=4.10",
    "click>=8.1",
    "rich>=13",
    # For the type checker, which follows the ledger to its drivers.
    "psycopg[binary]>=3.2",
    "pytest>=8.3",
]
PLACE = ROOT / ".venv-mcp"
INSIDE = ROOT / "tests" / "mcp" / "inside"


def interpreter() -> Path:
    """Return the interpreter of the environment, built if need be."""
    wanted = [each.partition("==")[0] if NEWEST else each for each in PINNED]
    return environment(PLACE, wanted)


def run_inside(python: Path, file: str, folder: Path, *, only: str = "") -> None:
    """Run the tests of a file in the environment. ``only``: those with this word in their name."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [str(python), "-m", "pytest", "-q", "--noconftest", "-c", os.devnull, "-k", only]
    ran = subprocess.run(
        [*command, f"--rootdir={INSIDE}", f"--basetemp={folder / 'inside'}", str(INSIDE / file)],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
