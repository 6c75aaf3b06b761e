"""How many effects per second does a fleet of worker processes make on one PostgreSQL?

A run has one node, which makes one unsafe call that does nothing. The runs are enqueued before the
workers start. The time is measured from the first claim to the last release, both as recorded in
the ledger, so the start of the processes does not count. For each number of processes it prints
effects per second, the statements that the workers sent per effect, and the collisions: how often a
worker took up a run that another one already had. The server runs on the same machine and shares
its cores with the workers. It is started for this and removed afterwards. So the CPU time of both,
per effect, says what this machine can do at most: its cores, divided by the sum.

    python bench/fleet.py [--runs 2000] [--concurrency 32] [--processes 1 2 4] [--rounds 3] [--json]
                          [--store postgresql://…]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg

import nottwice as nt


@nt.tool("unsafe_on_replay", name="bench_act")
def act(number: int) -> int:
    """Do nothing, so that only our own cost is measured."""
    return number


flow = nt.Graph("fleet", version="1.0.0")


@flow.node
def only(state: dict[str, Any]) -> dict[str, Any]:
    return {"answer": act(number=state["number"])}


def app_in(place: str) -> nt.App:
    return nt.App(graphs=[flow], store=place)


def work(place: str, concurrency: int) -> None:
    """Be one worker of the fleet, and say what it did."""
    sent = 0
    execute = psycopg.Connection.execute

    def counted(self: Any, *given: Any, **more: Any) -> Any:
        nonlocal sent
        sent += 1
        return execute(self, *given, **more)

    psycopg.Connection.execute = counted  # type: ignore[method-assign]
    worker = nt.Worker(app_in(place), concurrency=concurrency)
    # All begin together, when the whole fleet has started.
    print("ready", flush=True)
    sys.stdin.readline()
    before, used = sent, time.process_time()
    tally = worker.run(until_idle=True)
    seconds = time.process_time() - used
    print(json.dumps([tally.taken, tally.put_off, sent - before, seconds]), flush=True)


def postmaster(base: str) -> int:
    """The main process of the server, which must be on this machine."""
    with psycopg.connect(base) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        return int(_stat(row[0])[3])


def server_seconds(main: int) -> float:
    """The CPU time that the processes of the server have used so far, also those that ended."""
    own = sum(int(field) for field in _stat(main)[13:17])
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    living = sum(int(field) for child in children for field in _stat(int(child))[13:15])
    return (own + living) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    return [*before.split(" (", 1), *after.split()]


def measure(place: str, runs: int, processes: int, concurrency: int, main: int) -> dict[str, float]:
    began = time.perf_counter()
    inputs = {f"run-{number}": {"number": number} for number in range(runs)}
    app_in(place).enqueue_all("fleet", inputs)
    enqueued = runs / (time.perf_counter() - began)
    words = [sys.executable, __file__, "--work", place, "--concurrency", str(concurrency)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    fleet: list[Any] = [subprocess.Popen(words, **pipes) for _ in range(processes)]  # type: ignore[call-overload]
    for one in fleet:
        one.stdout.readline()
    server_before = server_seconds(main)
    for one in fleet:
        one.stdin.write("go\n")
        one.stdin.flush()
    told = [json.loads(one.communicate()[0].splitlines()[-1]) for one in fleet]
    server_used = server_seconds(main) - server_before
    with nt.Ledger(place) as ledger:
        found = ledger.store.runs()
    if any(run.status.value != "completed" for run in found):
        raise SystemExit("not all runs were completed")
    seconds = max(run.updated_at for run in found) - min(run.claimed_at or 0.0 for run in found)
    taken, put_off, statements, used = (sum(each) for each in zip(*told, strict=True))
    return {
        "effects/s": runs / seconds,
        "statements/effect": statements / runs,
        "collisions %": 100 * put_off / taken,
        "Python ms/effect": 1000 * used / runs,
        "server ms/effect": 1000 * server_used / runs,
        "of all cores %": 100 * (used + server_used) / seconds / (os.cpu_count() or 1),
        "enqueue_all runs/s": enqueued,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="effects per second of a fleet of workers")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", help="a PostgreSQL, instead of one that is started for this")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        work(given.work, given.concurrency)
        return
    from tests.postgres.server import Server, with_words

    server = None if given.store else Server()
    base = given.store or server.url  # type: ignore[union-attr]
    rounds: dict[int, list[dict[str, float]]] = {number: [] for number in given.processes}
    load, main_pid = os.getloadavg()[0], postmaster(base)
    try:
        for turn in range(given.rounds):
            for number in given.processes:
                place = with_words(base, schema=f"fleet_{os.getpid()}_{turn}_{number}")
                one = measure(place, given.runs, number, given.concurrency, main_pid)
                rounds[number].append(one)
    finally:
        if server is not None:
            server.end()
    figures = {
        number: {name: round(median(one[name] for one in told), 2) for name in told[0]}
        for number, told in rounds.items()
    }
    if given.json:
        print(json.dumps({"cores": os.cpu_count(), "load before": load, "processes": figures}))
        return
    print(f"{given.runs} runs with one effect each, {given.concurrency} parallel in a process,")
    cores = os.cpu_count()
    print(f"{cores} cores shared with the server, load before {load:.1f}, median of the rounds")
    first = figures[given.processes[0]]["effects/s"]
    for number, shown in figures.items():
        told = "  ".join(f"{name} {figure:g}" for name, figure in shown.items())
        print(f"  {number} process(es): {shown['effects/s'] / first:.2f} x  {told}")


if __name__ == "__main__":
    main()
