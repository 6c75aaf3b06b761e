"""What does one very long run cost? A run with a million calls, filled by SQL, in a SQLite ledger.

Each operation runs in its own process, so that its time and its peak memory can be told apart:
opening the run again and making one more call, showing it, listing runs, a dry run of retention, a
backup. The figures are printed beside those of a run with ten calls.

    python bench/long_run.py [--calls 1000000] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nottwice as nt

DAY_MICROS = 86_400 * 1_000_000
FEW = 10
MANY = 1_000_000
USES = {
    "resume, one more call": "resume",
    "nottwice show": "show long --json",
    "nottwice runs": "runs --json",
    "nottwice audit": "audit --lines",
    "nottwice gc --dry-run": "gc --dry-run --older-than 30d --json",
    "nottwice backup": "backup",
}
FILL = """
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :calls)
INSERT INTO tool_call_results (workflow_id, node_id, checkpoint_id, tool_name, input_hash,
       created_at, call_id, status, replay_class, attempt, attempt_id, holder_id, started_at,
       finished_at, args_json, result_kind, result_json)
SELECT 'long', '/', 'start', 'bench_long_send', printf('%064x', n), :then + n, printf('%032x', n),
       'DONE', 'unsafe_on_replay', 1, printf('%032x', n), 'nobody', :then + n, :then + n + 1,
       printf('{"number":%d}', -1 - n), 'plain', printf('"%.200c"', 'x')
  FROM numbers
"""


@nt.tool("unsafe_on_replay", name="bench_long_send")
def send(number: int) -> str:
    return "sent"


def fill(path: Path, calls: int) -> None:
    """Create a run that ended a hundred days ago, with its calls."""
    with nt.Ledger(path) as ledger, ledger.run("long"):
        send(0)
    connection = sqlite3.connect(path)
    with connection:
        began = connection.execute("SELECT created_at FROM nottwice_runs").fetchone()[0]
        then = began - 100 * DAY_MICROS
        connection.execute(FILL, {"calls": calls, "then": then})
        old = "UPDATE nottwice_runs SET created_at = ?, updated_at = ?, in_doubt_from = ?"
        connection.execute(old, (then, then + calls, then + calls))
    connection.close()


def use(path: Path, words: str) -> dict[str, float]:
    """Run one operation in its own process. Return its seconds, and its peak memory in MB."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--use", words, "--path", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    most = float(done.stdout.splitlines()[-1])
    return {"seconds": time.perf_counter() - begun, "megabytes": most}


def use_here(path: Path, words: str) -> None:
    if words == "resume":
        with nt.run("long", store=path):
            send(1)
    elif words == "backup":
        nt.backup(f"{path}.copy", store=path)
        Path(f"{path}.copy").unlink()
    else:
        from click.testing import CliRunner

        from nottwice.cli.main import main as program

        result = CliRunner().invoke(program, [*words.split(), "--store", str(path)])
        assert result.exit_code == 0, result.output
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measure(calls: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.db"
        fill(path, calls)
        found = {"size": {"seconds": 0.0, "megabytes": path.stat().st_size / 2**20}}
        # Last comes what changes the ledger: retention ignores an open run.
        for name, words in sorted(USES.items(), key=lambda item: item[1] == "resume"):
            found[name] = use(path, words)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=MANY)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--use")
    parser.add_argument("--path", type=Path)
    given = parser.parse_args()
    if given.use is not None:
        use_here(given.path, given.use)
        return
    few, many = measure(FEW), measure(given.calls)
    if given.json:
        document: dict[str, Any] = {"calls": given.calls, "few": few, "many": many}
        print(json.dumps(document, indent=2))
        return
    print(f"{'':24}{FEW:>18,} calls{given.calls:>22,} calls")
    for name, figures in many.items():
        before = few[name]
        print(
            f"{name:24}{before['seconds']:>10.2f} s {before['megabytes']:>7.0f} MB"
            f"{figures['seconds']:>16.2f} s {figures['megabytes']:>8.0f} MB"
        )


if __name__ == "__main__":
    main()
