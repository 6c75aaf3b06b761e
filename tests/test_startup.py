"""Which modules does a program load, and which does a command? (P226)

The sets are checked, not the seconds, which depend on the machine. ``make bench`` measures those.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int, note: str | None = None) -> dict[str, int]:
    return {"refunded": cents}

@nt.tool("pure")
def look_up(order_id) -> list[str]:
    return ["a", "b"]

with nt.run("ticket-7", store="agent.db"):
    refund(order_id=7, cents=4000)
    look_up([7])
    {more}
print(*sys.modules, sep=",")
"""
COMMAND = """
import sys
from nottwice.cli.main import main
main(sys.argv[1:], standalone_mode=False)
print("\\n", end="")
print(*sys.modules, sep=",")
"""


def loaded(folder: Path, source: str, *words: str) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-c", source, *words], cwd=folder, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.splitlines()[-1].split(","))


def rooms(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith("nottwice.")}


def test_a_sync_program_loads_no_event_loop(tmp_path: Path) -> None:
    """P226."""
    found = loaded(tmp_path, PROGRAM.replace("{more}", ""))
    assert not found & {"asyncio", "ssl", "socket", "subprocess"}


def test_pydantic_is_loaded_by_the_first_value_that_needs_it(tmp_path: Path) -> None:
    without = loaded(tmp_path, PROGRAM.replace("{more}", ""))
    assert not without & {"pydantic", "pydantic_core", "typing_extensions"}
    # The text must become a number, as the annotation says.
    assert "pydantic" in loaded(tmp_path, PROGRAM.replace("{more}", 'refund(8, "50")'))


@pytest.mark.parametrize("words", [["runs"], ["show", "ticket-7"], ["show", "ticket-7", "--json"]])
def test_a_command_that_shows_a_run_without_an_agent_loads_no_agent(
    words: list[str], tmp_path: Path
) -> None:
    loaded(tmp_path, PROGRAM.replace("{more}", ""))
    found = loaded(tmp_path, COMMAND, *words, "--store", "agent.db")
    assert not rooms(found) & {"agent", "policy", "recipes", "testing", "worker"}
    assert not found & {"pydantic", "rich", "nottwice.graphs.state", "importlib.metadata"}
    assert not found & {"asyncio", "ssl", "socket", "subprocess"}


def test_help_loads_neither_the_engine_nor_a_store(tmp_path: Path) -> None:
    found = loaded(tmp_path, COMMAND, "--help")
    assert not found & {"asyncio", "sqlite3", "pydantic", "rich"}
    assert not found & {"nottwice.guard.ledger", "nottwice.store.sqlite.store"}
