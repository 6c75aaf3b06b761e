"""Does the saver implement LangGraph's interface, and keep its promises in real graphs?

LangGraph itself, in the environment of the frameworks (tests/test_frameworks.py). The tests in
`inside/` run there, with the pytest of that environment; a failure shows what it printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_frameworks import python
from tests.tidy.source import ROOT

__all__ = ["python"]

INSIDE = ROOT / "tests" / "langchain" / "inside"
STORES = ["sqlite", "postgres"]

pytestmark = pytest.mark.deep(part="adapters")


@pytest.fixture(params=STORES)
def server(request: pytest.FixtureRequest) -> str:
    """The URL of a PostgreSQL server; nothing for SQLite."""
    if request.param == "sqlite":
        return ""
    pytest.importorskip("psycopg")
    from tests.postgres import server as shared

    return shared.url()


def run_inside(python: Path, file: str, folder: Path, *, server: str = "", only: str = "") -> None:
    """Run the tests of a file in the environment of the frameworks. ``only``: those named so."""
    environment = {
        **os.environ,
        "NOTTWICE_PLACE": server,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "LANGSMITH_TRACING": "false",
    }
    command = [str(python), "-m", "pytest", "-q", "-p", "no:langsmith_plugin", "--noconftest"]
    options = ["-c", os.devnull, f"--rootdir={INSIDE}", f"--basetemp={folder / 'inside'}"]
    ran = subprocess.run(
        [*command, *options, "-k", only, str(INSIDE / file)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]


def test_the_saver_passes_the_suite_of_langgraph_with_every_capability(
    python: Path, server: str, tmp_path: Path
) -> None:
    run_inside(python, "check_conformance.py", tmp_path, server=server)


def test_graphs_resume_and_travel_in_time_as_with_the_saver_of_langgraph(
    python: Path, server: str, tmp_path: Path
) -> None:
    run_inside(python, "check_graphs.py", tmp_path, server=server)


def test_no_tool_runs_before_the_checkpoint_that_led_to_it_is_durable(
    python: Path, server: str, tmp_path: Path
) -> None:
    run_inside(python, "check_order.py", tmp_path, server=server)


def test_a_thread_that_is_killed_again_and_again_ends_as_if_it_never_was(
    python: Path, server: str, tmp_path: Path
) -> None:
    run_inside(python, "check_kills.py", tmp_path, server=server)


def test_the_types_of_the_adapter_are_those_of_the_frameworks(python: Path) -> None:
    """`make check` has neither LangGraph nor LangChain, and takes everything of them on trust."""
    command = [sys.executable, "-m", "mypy", "--python-executable", str(python)]
    options = ["--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache" / "frameworks")]
    ran = subprocess.run(
        [*command, *options, "src/nottwice/langchain"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("code", ["import nottwice", "import nottwice.langchain"])
def test_nothing_of_langgraph_is_imported_before_the_saver_is_used(python: Path, code: str) -> None:
    look = "import sys; print([name for name in sys.modules if name.startswith('lang')])"
    words = [str(python), "-c", f"{code}; {look}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
