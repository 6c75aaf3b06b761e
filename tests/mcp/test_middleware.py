"""Does the middleware keep every claim of the adapter suite with the real FastMCP? (P282, P283)"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcp.environment import interpreter, run_inside

# Importing the frameworks and dozens of kills take minutes on a busy machine.
pytestmark = [pytest.mark.deep(part="adapters"), pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def python() -> Path:
    return interpreter()


def test_the_middleware_keeps_every_claim_of_the_suite(python: Path, tmp_path: Path) -> None:
    run_inside(python, "check_suite.py", tmp_path, only="TestMiddleware")


def test_a_server_with_the_middleware_is_killed_and_does_nothing_twice(
    python: Path, tmp_path: Path
) -> None:
    run_inside(python, "check_processes.py", tmp_path, only="fastmcp")


def test_what_the_middleware_does_not_protect_stays_as_it_was(python: Path, tmp_path: Path) -> None:
    run_inside(python, "check_servers.py", tmp_path, only="fastmcp")
