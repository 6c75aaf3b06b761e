"""Is a program that was forked the program that a new interpreter would have run?"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.nursery import starting

PLACE = """
import os, sys
print(sys.argv, sys.path[:2], os.getcwd(), os.environ["WORD"], sys.flags.utf8_mode)
print(__name__, sys.modules["__main__"].__dict__ is globals(), globals().get("__file__"))
print(sys.stdin.read(), sys.stdout.encoding, sys.stdout.errors, sys.stdin.errors)
print(sys.stderr.errors, sys.stdout.line_buffering, sys.stderr.line_buffering)
print("complaint \\udcff", file=sys.stderr)
import helper
"""
ENDS = {
    "falls off": "print('done')",
    "exits": "raise SystemExit(3)",
    "exits with a word": "raise SystemExit('no such luck')",
    "exits in a hurry": "import os; print('lost'); os._exit(4)",
    "is killed": "import os; os.write(1, b'said\\n'); os.kill(os.getpid(), 9)",
    "is interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT); input()",
    "is told to end": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "waits for its threads": (
        "import atexit, threading\n"
        "atexit.register(print, 'at exit')\n"
        "threading.Timer(0.01, print, ['thread']).start()"
    ),
    "frees what it made": (
        "class Made:\n"
        "    def __del__(self):\n"
        "        print('freed')\n"
        "made = Made()\n"
        "made.itself = made\n"
        "import types, sys\n"
        "sys.modules['own'] = types.ModuleType('own')\n"
        "sys.modules['own'].made = Made()"
    ),
}


def both(
    *command: str, cwd: Path, stdin: str = "", **variables: str
) -> list[subprocess.CompletedProcess[str]]:
    """A program that was forked, and the same one in an interpreter of its own."""
    environment = {**os.environ, "PYTHONUTF8": "1", **variables}
    words = (sys.executable, *command)
    started = subprocess.run(
        words, cwd=cwd, env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    return [starting.run(words, cwd=cwd, env=environment, input=stdin), started]


@pytest.mark.parametrize("how", ["-c", "-m", "file", "another folder"])
def test_it_has_the_words_the_place_and_the_files_that_it_was_given(
    how: str, tmp_path: Path
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "helper.py").write_text("print('a module of', __file__)")
    (tmp_path / "program.py").write_text(PLACE)
    (beside / "program.py").write_text(PLACE)
    words = {
        "-c": ["-c", PLACE],
        "-m": ["-m", "program"],
        "file": ["program.py"],
        "another folder": ["beside/program.py"],
    }[how]
    forked, started = both(
        *words, "a b", "--c", cwd=tmp_path, stdin="told", WORD="ä", PYTHONPATH=str(beside)
    )
    assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)
    assert "told utf-8" in forked.stdout
    assert "a module of" in forked.stdout


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_it_ends_as_it_would_in_an_interpreter_of_its_own(code: str, tmp_path: Path) -> None:
    forked, started = both("-c", code, cwd=tmp_path)
    assert (forked.returncode, forked.stdout) == (started.returncode, started.stdout)
    # Only the frames of a traceback differ.
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_a_ledger_that_it_does_not_close_is_closed_at_its_end(tmp_path: Path) -> None:
    code = "import nottwice as nt; ledger = nt.Ledger('agent.db'); ledger.run('a').__enter__()"
    left: list[list[str]] = []
    for run in (starting.run, subprocess.run):
        folder = tmp_path / str(len(left))
        folder.mkdir()
        run([sys.executable, "-c", code], cwd=folder, check=True)
        left.append(sorted(one.name for one in folder.iterdir()))
    assert left[0] == left[1]
    assert "agent.db-wal" not in left[0]


def test_an_uncaught_exception_is_reported_and_fails_it(tmp_path: Path) -> None:
    forked, started = both("-c", "1 / 0", cwd=tmp_path)
    assert forked.returncode == started.returncode == 1
    assert forked.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_it_is_a_process_with_nothing_of_another_one(tmp_path: Path) -> None:
    code = (
        "import os, sys, threading\n"
        "open_files = sorted(int(one) for one in os.listdir('/dev/fd'))\n"
        "tests = [name for name in sys.modules if name.split('.')[0] == 'tests']\n"
        "print(os.getpid(), open_files[:-1], tests, threading.active_count())"
    )
    with starting.start([sys.executable, "-c", "input()"], stdin=os.pipe()[0]) as other:
        first, second = (starting.run([sys.executable, "-c", code]) for _ in range(2))
        assert first.stdout.split()[0] not in (str(other.pid), second.stdout.split()[0])
        assert first.stdout.split(" ", 1)[1] == "[0, 1, 2] [] 1\n"


def test_what_it_imports_and_changes_is_its_own(tmp_path: Path) -> None:
    module = tmp_path / "changing.py"
    for word in ("one", "two"):
        module.write_text(f"print({word!r})")
        code = "import changing, os; os.environ['LEFT'] = '1'; os.chdir('/')"
        ended = starting.run([sys.executable, "-c", code], cwd=tmp_path)
        assert ended.stdout == f"{word}\n"
    ended = starting.run([sys.executable, "-c", "import os; print(os.environ.get('LEFT'))"])
    assert ended.stdout == "None\n"


def test_a_lock_that_it_holds_is_free_when_it_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "locked.db"
    code = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN EXCLUSIVE')\n"
        "print('locked', flush=True)\n"
        "input()"
    )
    reader, writer = os.pipe()
    with (
        open(reader) as said,
        open(writer, "wb") as saying,
        starting.start(
            [sys.executable, "-c", code, str(path)], stdin=os.pipe()[0], stdout=saying
        ) as holder,
    ):
        assert said.readline() == "locked\n"
        with closing(sqlite3.connect(path, timeout=0)) as connection, connection:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                connection.execute("CREATE TABLE a (b)")
            assert holder.poll() is None
            holder.kill()
            assert holder.wait() == -signal.SIGKILL
            connection.execute("CREATE TABLE a (b)")


def test_one_that_takes_too_long_is_ended() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(subprocess.TimeoutExpired):
        starting.run(command, timeout=0.1)


def test_the_variable_that_chooses_the_interpreter_of_make_changes_nothing() -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHON": sys.executable}
    ran = starting.run([sys.executable, "-c", "print(7)"], env=environment, check=True)
    assert ran.stdout == "7\n"


@pytest.mark.parametrize(
    ("words", "variables"),
    [(["-W", "error", "-c", ""], {}), (["-c", ""], {"PYTHONHASHSEED": "1"}), ([], {})],
)
def test_what_only_a_new_interpreter_can_do_is_not_forked(
    words: list[str], variables: dict[str, str]
) -> None:
    environment = {"PATH": os.environ["PATH"], **variables}
    assert not starting.can_be_forked([sys.executable, *words], environment)
    with pytest.raises(AssertionError, match="only a new interpreter"):
        starting.run([sys.executable, *words], env=environment)
