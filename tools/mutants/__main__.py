"""Break nottwice, one guard at a time, and see that a test notices: ``make mutants``.

    python -m tools.mutants [--only TEXT] [--json] [--jobs 2] [--list]

Every mutant of the table is applied to a copy of the tree in a temporary folder, never to the
working tree, and the tests that are named for it are run there. First all of these tests are run
on the copy as it is: a test that fails anyway notices nothing. A mutant that no test notices
survives; then a test is missing, or the code that it broke is not needed.

Exit codes: 0 every mutant was noticed, 1 one survived, 2 the table no longer fits the tree.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.mutants.agent import AGENT
from tools.mutants.attached import ATTACHED
from tools.mutants.engine import ENGINE
from tools.mutants.hosts import HOSTS
from tools.mutants.langchain import LANGCHAIN
from tools.mutants.model import MODEL
from tools.mutants.mutant import ROOT, Mutant
from tools.mutants.notify import NOTIFY
from tools.mutants.store import STORE
from tools.mutants.testing import TESTING
from tools.mutants.web import WEB
from tools.mutants.workers import WORKERS

MUTANTS: tuple[Mutant, ...] = (
    *(*MODEL, *ENGINE, *STORE, *AGENT, *ATTACHED),
    *(*HOSTS, *LANGCHAIN, *NOTIFY, *TESTING, *WEB, *WORKERS),
)
COPIED = ("src", "tests", "tools", "docs", "examples", "bench", "README.md", "CHANGELOG.md")
COPIED_TOO = ("CONTRIBUTING.md", "Makefile", "pyproject.toml")
LIMIT_SECONDS = 600
FAILED_TESTS = 1
SURVIVED, DOES_NOT_FIT = 1, 2


@dataclass(frozen=True)
class Outcome:
    """What came of one mutant."""

    name: str
    file: str
    outcome: str
    """``noticed``, ``survived``, ``hung`` (noticed, too), or ``broken``: its tests did not run."""
    seconds: float
    by: str = ""
    """The first test that failed, or what pytest said."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the table, tell what came of it, and return the exit code."""
    orders = _orders(words)
    chosen = [one for one in MUTANTS if orders.only in f"{one.file} {one.name}"]
    if orders.list:
        print("\n".join(f"{one.file}: {one.name}" for one in chosen))
        return 0
    flaws = [flaw for one in chosen for flaw in one.flaws()]
    if flaws or not chosen:
        print("\n".join(flaws) or f"No mutant contains {orders.only!r}.", file=sys.stderr)
        return DOES_NOT_FIT
    began = time.monotonic()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="nottwice-mutants-") as folder:
        places = [_copy_tree(Path(folder) / str(number)) for number in range(orders.jobs)]
        complaint = _fails_anyway(places, {test for one in chosen for test in one.tests})
        if complaint:
            print(complaint, file=sys.stderr)
            return DOES_NOT_FIT
        for outcome in _run_all(chosen, places):
            outcomes.append(outcome)
            done = f"{len(outcomes)}/{len(chosen)}"
            told = f"{done} {outcome.outcome:<8} {outcome.seconds:5.1f} s  {outcome.file}: "
            print(told + outcome.name, file=sys.stderr, flush=True)
    return _tell(outcomes, time.monotonic() - began, as_json=orders.json)


def _orders(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("--only", default="", help="those whose file or name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--json", action="store_true", help="one document on stdout")
    parser.add_argument("--list", action="store_true", help="name them, and run nothing")
    return parser.parse_args(words)


def _copy_tree(place: Path) -> Path:
    """A copy of the tree; refused if its tests would import the working tree."""
    place.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
    for name in (*COPIED, *COPIED_TOO):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=ignored)
        elif (ROOT / name).is_file():
            shutil.copy2(ROOT / name, place / name)
    program = "import nottwice, nottwice_pytest; print(nottwice.__file__, nottwice_pytest.__file__)"
    said = _python(place, "-c", program).stdout.split()
    if not all(Path(file).is_relative_to(place) for file in said) or len(said) != 2:
        raise SystemExit(f"The tests in {place} would import {said}, and test the wrong code.")
    return place


def _fails_anyway(places: Sequence[Path], tests: Iterable[str]) -> str | None:
    """What is wrong with the tests before anything is broken; compiles everything on the way."""
    shares = [sorted(tests)[number :: len(places)] for number in range(len(places))]
    # An empty share would be a run of all tests.
    shared = [(place, share) for place, share in zip(places, shares, strict=True) if share]
    with ThreadPoolExecutor(len(places)) as pool:
        ended = list(pool.map(lambda one: _run_tests(*one), shared))
    for one in ended:
        if one.returncode != 0:
            return f"Tests of the table fail without any mutant:\n{one.stdout[-3000:]}"
    return None


def _run_all(mutants: Sequence[Mutant], places: Sequence[Path]) -> Iterator[Outcome]:
    free: queue.Queue[Path] = queue.Queue()
    for place in places:
        free.put(place)

    def run_one(mutant: Mutant) -> Outcome:
        place = free.get()
        try:
            return _run(mutant, place)
        finally:
            free.put(place)

    with ThreadPoolExecutor(len(places)) as pool:
        for future in as_completed([pool.submit(run_one, one) for one in mutants]):
            yield future.result()


def _run(mutant: Mutant, place: Path) -> Outcome:
    path = place / mutant.path
    sound = path.read_text(encoding="utf-8")
    began = time.monotonic()
    try:
        # Compiled code of the same second and size would be taken for this one.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(mutant.applied(sound), encoding="utf-8")
        ended = _run_tests(place, mutant.tests, PYTHONDONTWRITEBYTECODE="1")
    except subprocess.TimeoutExpired:
        return Outcome(mutant.name, mutant.file, "hung", time.monotonic() - began)
    finally:
        path.write_text(sound, encoding="utf-8")
    failed = [line for line in ended.stdout.splitlines() if line.startswith("FAILED ")]
    outcomes = {0: "survived", FAILED_TESTS: "noticed"}
    by = failed[0].split()[1] if failed else ended.stdout[-400:] if ended.returncode > 1 else ""
    outcome = outcomes.get(ended.returncode, "broken")
    return Outcome(mutant.name, mutant.file, outcome, time.monotonic() - began, by)


def _run_tests(
    place: Path, tests: Sequence[str], **variables: str
) -> subprocess.CompletedProcess[str]:
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", "-rf", "--tb=no"]
    return _python(place, *words, *tests, **variables)


def _python(place: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place / "src"), **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )


def _tell(outcomes: Sequence[Outcome], seconds: float, *, as_json: bool) -> int:
    unnoticed = [one for one in outcomes if one.outcome in ("survived", "broken")]
    if as_json:
        plain = {"seconds": round(seconds, 1), "mutants": [asdict(one) for one in outcomes]}
        print(json.dumps(plain, indent=2))
    else:
        noticed = len(outcomes) - len(unnoticed)
        print(f"{noticed} of {len(outcomes)} mutants were noticed, in {seconds:.0f} s")
        for one in unnoticed:
            print(f"{one.outcome.upper()} {one.file}: {one.name} {one.by}".rstrip())
    return SURVIVED if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
