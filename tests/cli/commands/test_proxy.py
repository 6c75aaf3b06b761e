"""`nottwice proxy --init`, and what is said if a proxy cannot start; tests/mcp proves the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.mcp.plain_client import server_command


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nottwice", "proxy", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_init_writes_a_configuration_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    words = ["--name", "shop", "--config", str(path), "--init", "--"]
    ran = run("--json", *words, *server_command(tmp_path))
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["path"] == str(path)
    assert "charge" in said["tools"]
    assert '[tools."charge"]' in path.read_text()
    again = run(*words, *server_command(tmp_path))
    assert again.returncode == 1
    assert "exists already and was not changed" in again.stderr


def test_without_a_command_nothing_is_started() -> None:
    ran = run("--name", "shop")
    assert ran.returncode == 2
    assert "COMMAND" in ran.stderr


def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path) -> None:
    ran = run("--name", "../shop", "--", "true")
    assert ran.returncode == 1
    assert "Nothing was started" in ran.stderr
    assert ran.stdout == ""
