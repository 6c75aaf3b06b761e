"""Does the extension keep every claim of the adapter suite with the real SDK? (P282, P283)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.environment import interpreter, run_inside
from tests.tidy.source import ROOT

# Importing the frameworks and dozens of kills take minutes on a busy machine.
pytestmark = [pytest.mark.deep(part="adapters"), pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def python() -> Path:
    return interpreter()


@pytest.mark.parametrize("suite", ["TestExtension and not Older", "TestExtensionWithAnOlderClient"])
def test_the_extension_keeps_every_claim_of_the_suite(
    python: Path, tmp_path: Path, suite: str
) -> None:
    run_inside(python, "check_suite.py", tmp_path, only=suite)


def test_a_server_with_the_extension_is_killed_and_does_nothing_twice(
    python: Path, tmp_path: Path
) -> None:
    run_inside(python, "check_processes.py", tmp_path, only="sdk")


def test_the_example_shows_two_charges_without_nottwice_and_one_with_it(
    python: Path, tmp_path: Path
) -> None:
    ran = subprocess.run(
        [str(python), str(ROOT / "examples" / "mcp_server.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "EXAMPLE_FOLDER": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=290,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    bare, protected = ran.stdout.split("protected:")
    assert "The statement shows 2 charges." in bare
    assert "STOPPED: it is not known whether this happened" in protected
    assert "The statement shows 1 charge." in protected


def test_what_the_extension_does_not_protect_stays_as_it_was(python: Path, tmp_path: Path) -> None:
    run_inside(python, "check_servers.py", tmp_path, only="sdk or needs_its_request")


def test_the_types_are_those_of_the_sdk_and_of_fastmcp(python: Path) -> None:
    """`make check` has neither, and so takes everything of them on trust."""
    command = [sys.executable, "-m", "mypy", "--python-executable", str(python)]
    options = ["--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache" / "mcp")]
    files = [f"src/nottwice/mcp/{name}.py" for name in ("extension", "middleware", "sdk")]
    ran = subprocess.run(
        [*command, *options, *files], cwd=ROOT, capture_output=True, text=True, timeout=290
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("code", ["import nottwice", "import nottwice.mcp"])
def test_no_sdk_is_imported_before_it_is_used(python: Path, code: str) -> None:
    look = (
        "import sys; print([one for one in ('mcp', 'mcp_types', 'fastmcp') if one in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [str(python), "-c", f"{code}; {look}"]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
