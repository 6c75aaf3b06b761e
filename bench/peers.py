"""How does nottwice compare with the other libraries for this job, measured side by side?

``make bench-peers`` runs this file. It needs only Python and a package index. Every library has its
own environment below ``.venv-peers``, so that a dependency of one cannot change another. It works
in its own process on its own fresh SQLite file, and all files are in one folder on one disk. The
processes take turns of a few calls, so that a slow moment of the machine affects all of them.
Everything printed was measured in this run. What was not measured is marked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Timer
from typing import IO, Any, cast

REPOSITORY = Path(__file__).resolve().parent.parent
PEER_FILES = REPOSITORY / "bench" / "peers"
ENVIRONMENTS = REPOSITORY / ".venv-peers"

CALLS_PER_TURN = 50
# A write-ahead log that still grows syncs more slowly than one that is overwritten. After this many
# calls every library has had a checkpoint, which SQLite makes every 1,000 pages.
WARM_UP_CALLS = 1000
ANSWER_LIMIT_SECONDS = 120.0
# Syncs are counted in two runs. Their difference does not include opening and closing.
COUNTED_CALLS = (100, 600)
# More running processes than this at the start, or rounds of the raw rate further apart than this
# factor: the machine is busy with something else, and the figures mean little.
BUSY_LOAD = 1.0
BUSY_FACTOR = 1.5


@dataclass(frozen=True)
class Subject:
    """One line of the table: which file of bench/peers measures it and what pip installs."""

    library: str
    file: str
    opener: str = "open_guard"
    install: tuple[str, ...] = ()

    @property
    def environment(self) -> Path:
        return ENVIRONMENTS / self.file

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"


RAW = Subject("(a) raw single commits", "raw", "open_single_commits")
TWO_COMMITS = Subject("(b) bare two-commit loop", "raw", "open_two_commits")
OURS = Subject("nottwice", "ours", install=("--editable", str(REPOSITORY)))
SAFEAGENT = Subject(
    "safeagent-exec-guard", "safeagent_exec_guard", install=("safeagent-exec-guard==0.1.25",)
)
AGENT_ONCE = Subject("agent-once", "agent_once", install=("agent-once==0.1.0",))
CALL4AGENTS = Subject("call4agents", "call4agents", install=("call4agents==0.5.0",))
SUBJECTS = (RAW, TWO_COMMITS, OURS, SAFEAGENT, AGENT_ONCE, CALL4AGENTS)


@dataclass
class Measurement:
    """What was measured for one subject so far. None means not measured."""

    subject: Subject
    version: str | None = None
    note: str = ""
    rates: list[float] = field(default_factory=list)
    keeps_results: bool | None = None
    fsyncs_per_call: float | None = None
    failure: str | None = None

    @property
    def calls_per_second(self) -> float | None:
        return median(self.rates) if self.rates and self.failure is None else None

    def ratio_to(self, other: Measurement) -> float | None:
        """Return the median of the ratios per round: both of a round saw the same machine."""
        if self.calls_per_second is None or other.calls_per_second is None:
            return None
        return median(ours / theirs for ours, theirs in zip(self.rates, other.rates, strict=True))


class FailedError(Exception):
    """A subject could not be installed or did not work. The text becomes its note."""


def main() -> None:
    options = parse_arguments()
    conditions = {
        "calls": options.calls,
        "rounds": options.rounds,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "processors": os.cpu_count(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }
    measurements = measure_all(calls=options.calls, rounds=options.rounds, folder=options.folder)
    if options.json:
        print(json.dumps({**conditions, "lines": as_json(measurements)}, indent=2))
    else:
        print_report(measurements, conditions)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="nottwice and its peers, side by side")
    parser.add_argument("--calls", type=int, default=2000, help="calls per library and round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    # The system's temporary folder may be memory, where a sync costs nothing.
    parser.add_argument(
        "--folder", type=Path, default=ENVIRONMENTS, help="folder for the databases"
    )
    options = parser.parse_args()
    if options.calls < 1 or options.rounds < 1:
        parser.error("--calls and --rounds must be at least 1")
    return options


def measure_all(*, calls: int, rounds: int, folder: Path) -> list[Measurement]:
    ENVIRONMENTS.mkdir(exist_ok=True)
    # With this mark, `make clean` knows that it may remove the folder.
    (ENVIRONMENTS / ".built-by-make").touch()
    measurements = [Measurement(subject) for subject in SUBJECTS]
    for measurement in measurements:
        with noting_failure(measurement):
            prepare_environment(measurement.subject)
    with tempfile.TemporaryDirectory(prefix="databases-", dir=folder) as databases:
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}, {calls} calls each")
            # Rotated, so that no library always goes first.
            shift = number % len(measurements)
            order = measurements[shift:] + measurements[:shift]
            run_round(order, calls=calls, folder=Path(databases) / f"round-{number}")
        for measurement in measurements:
            if measurement.failure is None:
                measurement.fsyncs_per_call = count_fsyncs(measurement.subject, Path(databases))
    return measurements


@contextmanager
def noting_failure(measurement: Measurement) -> Iterator[None]:
    """Make a failing library a line in the table, not the end of the run."""
    try:
        yield
    except FailedError as failure:
        measurement.failure = str(failure)
        say(f"{measurement.subject.library}: {failure}")


def prepare_environment(subject: Subject) -> None:
    """Create the subject's environment, unless it is already up to date."""
    stamp = subject.environment / "installed.txt"
    wanted = "\n".join([sys.version, *subject.install, project_hash() if subject is OURS else ""])
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    say(f"creating {ENVIRONMENTS.name}/{subject.environment.name}")
    shutil.rmtree(subject.environment, ignore_errors=True)
    install(sys.executable, "-m", "venv", str(subject.environment))
    if subject.install:
        quiet = ("--quiet", "--disable-pip-version-check")
        install(str(subject.python), "-m", "pip", "install", *quiet, *subject.install)
    stamp.write_text(wanted)


def project_hash() -> str:
    project = REPOSITORY / "pyproject.toml"
    return hashlib.sha256(project.read_bytes()).hexdigest() if project.is_file() else ""


def install(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise FailedError(f"could not be installed: {errors[0]}")


def run_round(order: Sequence[Measurement], *, calls: int, folder: Path) -> None:
    """Open a fresh file for each subject, then take turns until each has made its calls."""
    usable = [one for one in order if one.failure is None]
    workers = [(one, Worker(one.subject, folder)) for one in usable]
    seconds = {worker: 0.0 for _, worker in workers}
    try:
        for measurement, worker in workers:
            with noting_failure(measurement):
                opened = worker.read_answer()
                measurement.version, measurement.note = opened["version"], opened["note"]
                worker.make_calls(WARM_UP_CALLS)
        for first in range(0, calls, CALLS_PER_TURN):
            turn = min(CALLS_PER_TURN, calls - first)
            for measurement, worker in not_failed(workers):
                with noting_failure(measurement):
                    seconds[worker] += worker.make_calls(turn)
        for measurement, worker in not_failed(workers):
            with noting_failure(measurement):
                measurement.keeps_results = worker.finish()
                measurement.rates.append(calls / seconds[worker])
    finally:
        for _, worker in workers:
            worker.stop()


def not_failed(workers: list[tuple[Measurement, Worker]]) -> list[tuple[Measurement, Worker]]:
    return [pair for pair in workers if pair[0].failure is None]


class Worker:
    """A process of bench/peers/worker.py: one subject, one fresh database."""

    def __init__(self, subject: Subject, folder: Path, wrapped_in: Sequence[str] = ()) -> None:
        folder = folder / f"{subject.file}-{subject.opener}"
        folder.mkdir(parents=True)
        files = (PEER_FILES / "worker.py", PEER_FILES / f"{subject.file}.py")
        database = folder / "calls.db"
        command = [subject.python, "-I", files[0], files[1], subject.opener, database]
        self._errors = (folder / "stderr.txt").open("w+")
        self._process = subprocess.Popen(
            [*wrapped_in, *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._requests = cast(IO[str], self._process.stdin)
        self._answers = cast(IO[str], self._process.stdout)

    def make_calls(self, calls: int) -> float:
        """Request that many new calls. Return the seconds that they took."""
        try:
            self._requests.write(f"{calls}\n")
            self._requests.flush()
        except BrokenPipeError:
            raise self._failure() from None
        seconds: float = self.read_answer()["seconds"]
        return seconds

    def finish(self) -> bool | None:
        """Close the library. Return whether a repeated call got its first result back."""
        self._requests.close()
        keeps_results: bool | None = self.read_answer()["keeps_results"]
        if self._process.wait(ANSWER_LIMIT_SECONDS) != 0:
            raise self._failure()
        return keeps_results

    def read_answer(self) -> dict[str, Any]:
        limit = Timer(ANSWER_LIMIT_SECONDS, self._process.kill)
        limit.start()
        line = self._answers.readline()
        limit.cancel()
        if not line:
            raise self._failure()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._requests, self._answers, self._errors):
            with suppress(BrokenPipeError):
                stream.close()

    def _failure(self) -> FailedError:
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines()
        return FailedError(said[-1] if said else f"ended with code {code} without output")


def count_fsyncs(subject: Subject, folder: Path) -> float | None:
    """Count syncs to disk per call from outside the process. None if strace is not available."""
    if shutil.which("strace") is None:
        say("no strace here: syncs per call are not measured")
        return None
    say(f"counting the syncs of {subject.library}")
    fewer, more = COUNTED_CALLS
    try:
        counts = [count_syncs_of_run(subject, calls, folder) for calls in COUNTED_CALLS]
    except FailedError as failure:
        say(f"{subject.library}: syncs per call are not measured: {failure}")
        return None
    return (counts[1] - counts[0]) / (more - fewer)


def count_syncs_of_run(subject: Subject, calls: int, folder: Path) -> int:
    trace = folder / f"{subject.file}-{subject.opener}-{calls}.strace"
    strace = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
    worker = Worker(subject, folder / f"counted-{calls}", strace)
    try:
        worker.read_answer()
        worker.make_calls(calls)
        worker.finish()
    finally:
        worker.stop()
    # One line for each sync that succeeded, with "resumed" if another thread came in between.
    finished = re.compile(r"\bf(?:data)?sync(?:\(| resumed).*= 0$", re.MULTILINE)
    return len(finished.findall(trace.read_text()))


def as_json(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    raw, two_commits = (by_subject(measurements, subject) for subject in (RAW, TWO_COMMITS))
    return [
        {
            "library": one.subject.library,
            "version": one.version,
            "calls_per_second": one.calls_per_second,
            "calls_per_second_by_round": one.rates,
            "ratio_to_raw_commits": one.ratio_to(raw),
            "ratio_to_two_commits": one.ratio_to(two_commits),
            "fsyncs_per_call": one.fsyncs_per_call,
            "keeps_results": one.keeps_results,
            "note": note_of(one),
        }
        for one in measurements
    ]


def by_subject(measurements: Sequence[Measurement], subject: Subject) -> Measurement:
    return next(one for one in measurements if one.subject is subject)


def note_of(one: Measurement) -> str:
    if one.failure is not None:
        return f"NOT RUN: {one.failure}"
    # A checkpoint syncs now and then even where commits do not, so it is not exactly zero.
    if one.fsyncs_per_call is not None and one.fsyncs_per_call < 0.5:
        return f"NOT DURABLE on power loss; {one.note}"
    return one.note


def print_report(measurements: Sequence[Measurement], conditions: dict[str, Any]) -> None:
    print(
        "{calls:,} sequential calls a round, about 500 bytes in and 500 out; median of {rounds} "
        "rounds;\nPython {python}, {processors} processors, load {load_at_start} at the "
        "start\n".format(**conditions)
    )
    raw, two_commits = (by_subject(measurements, subject) for subject in (RAW, TWO_COMMITS))
    heading = ("library", "version", "calls/s", "/ (a)", "/ (b)", "fsyncs/call", "keeps results")
    rows = [(*heading, "note")]
    for one in measurements:
        numbers = (
            shown(one.calls_per_second, ",.0f"),
            shown(one.ratio_to(raw), ".2f"),
            shown(one.ratio_to(two_commits), ".2f"),
            shown(one.fsyncs_per_call, ".2f"),
        )
        keeps = {True: "yes", False: "no", None: "-"}[one.keeps_results]
        rows.append((one.subject.library, one.version or "-", *numbers, keeps, note_of(one)))
    print_table(rows)
    print_standing(measurements)
    print_doubts(measurements, conditions["load_at_start"])


def shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows = [rows[0], ["-" * width for width in widths], *rows[1:]]
    for row in rows:
        cells = [
            cell.rjust(width) if 2 <= position <= 5 else cell.ljust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def print_standing(measurements: Sequence[Measurement]) -> None:
    """Print the ratio of nottwice to each library, including faster ones."""
    ours = by_subject(measurements, OURS)
    print()
    for one in measurements:
        ratio = ours.ratio_to(one)
        if one.subject not in (RAW, TWO_COMMITS, OURS) and ratio is not None:
            kind = "keeps results" if one.keeps_results else "keeps no results"
            print(f"nottwice runs at {ratio:.2f} times the rate of {one.subject.library} ({kind}).")


def print_doubts(measurements: Sequence[Measurement], load: float) -> None:
    """Warn when the machine was too busy with other work for the figures to mean much."""
    rates = by_subject(measurements, RAW).rates or [0.0]
    if load > BUSY_LOAD or max(rates) > BUSY_FACTOR * min(rates):
        print(f"Careful: this machine was busy with other work (load {load} at the start; rounds")
        print(f"of (a) from {min(rates):,.0f} to {max(rates):,.0f}). Repeat it before you compare.")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
