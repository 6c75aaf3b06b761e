"""A folder with a ledger that killed processes left, and ways to run `nottwice` in it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from nottwice.cli.main import main
from tests.nursery import starting
from tests.tidy.source import ROOT

AGENT = Path(__file__).with_name("agent.py")
FLOWS = Path(__file__).with_name("flows.py")
PROGRAM = "from nottwice.cli.main import main; main()"
SEVERAL = """
import json, shlex, sys
from click.testing import CliRunner
from nottwice.cli.main import main
ended = []
for line in json.load(sys.stdin):
    result = CliRunner().invoke(main, shlex.split(line))
    ended.append((result.exit_code, result.stdout, result.stderr))
print()
print(json.dumps(ended))
"""
MOST_SECONDS = 60.0
# A line in which a shell would find nothing but settings, `nottwice` and its words.
SPECIAL = re.compile(r"[|&;<>$`*?~#!\n\\]")
PLAIN = re.compile(r"(?P<settings>(?:\w+=\S* )*)nottwice(?P<words>(?: .*)?)")
# Everything that could steer a terminal, forge a line or be taken for markup.
HOSTILE = "[red]\x1b[31mevil\x1b]0;title\x07\nError: forged\u202e\x9b2J[/red]"


@dataclass(frozen=True)
class Ended:
    """A process that ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str = ""


class Key(str):
    """An answer that is a key, without Enter."""

    __slots__ = ()


@dataclass(frozen=True)
class Workplace:
    """A folder with the agent, its ledger, and `nottwice` on the path of its shell."""

    folder: Path

    @property
    def store(self) -> str:
        return str(self.folder / "agent.db")

    def cli(self, *words: str, stdin: str | None = None) -> Result:
        """Run a command in this process, on this ledger."""
        return CliRunner().invoke(main, ["--store", self.store, *words], input=stdin)

    def json(self, *words: str) -> dict[str, Any]:
        result = self.cli(*words, "--json")
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    def agent(self, mode: str, run_id: str, *, kill: str = "") -> Ended:
        """Run the agent; with ``kill`` it must die inside that tool."""
        ended = self.process(
            sys.executable, "agent.py", mode, run_id, AGENT_KILL=kill, AGENT_TO=HOSTILE
        )
        assert not kill or ended.exit_code == -signal.SIGKILL, ended
        return ended

    def run(self, words: str, **variables: str) -> Ended:
        """Type `nottwice run` with the graphs of this folder."""
        line = f"nottwice run {words} --app flows:app --store agent.db"
        return self.shell(line, **variables)

    def lines(self, *lines: str) -> list[Ended]:
        """Type several lines; one process does them all, because starting one takes its time."""
        ended = self.process(sys.executable, "-c", SEVERAL, stdin=json.dumps(lines))
        assert ended.exit_code == 0, ended
        return [Ended(*one) for one in json.loads(ended.stdout.splitlines()[-1])]

    def world(self) -> list[str]:
        """The effects of the graphs that really happened, in order."""
        file = self.folder / "world.txt"
        return file.read_text().splitlines() if file.exists() else []

    def process(self, *command: str, stdin: str = "", **variables: str) -> Ended:
        """Run a program to its end; a Python program is forked, if it can be."""
        environment = {**self.environment(), **variables}
        if not starting.can_be_forked(command, environment):
            return self.started(*command, stdin=stdin, **variables)
        done = starting.run(
            command, cwd=self.folder, env=environment, input=stdin, timeout=MOST_SECONDS
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def started(self, *command: str, stdin: str = "", **variables: str) -> Ended:
        """Run a program to its end, from its very start."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment(), **variables},
            input=stdin.encode(),
            capture_output=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def shell(self, line: str, *, stdin: str = "", **variables: str) -> Ended:
        """Run a line as a person would type it."""
        plain = None if SPECIAL.search(line) else PLAIN.fullmatch(line)
        if plain is None:
            return self.started("/bin/sh", "-c", line, stdin=stdin, **variables)
        # Nothing but words: they need no shell, and no interpreter of their own.
        for setting in shlex.split(plain["settings"]):
            name, _, value = setting.partition("=")
            variables[name] = value
        words = shlex.split(plain["words"])
        return self.process(sys.executable, "-c", PROGRAM, *words, stdin=stdin, **variables)

    def terminal(self, line: str, *dialogue: tuple[str, str | Callable[[], str]]) -> Ended:
        """Type a line at a terminal; ``dialogue`` is what to wait for and what to answer."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env={**self.environment(), "TERM": "xterm", "COLUMNS": "300", "LINES": "100"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        shown, place = "", 0
        try:
            for expected, answer in dialogue:
                while expected not in shown[place:]:
                    piece = _read(ours)
                    assert piece, f"{expected!r} was never shown:\n{shown}"
                    shown += piece
                place = len(shown)
                typed = answer if isinstance(answer, str) else answer()
                os.write(ours, typed.encode() if isinstance(answer, Key) else f"{typed}\n".encode())
            while piece := _read(ours):
                shown += piece
            return Ended(process.wait(timeout=MOST_SECONDS), shown)
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "NOTTWICE_STORE"}
        path = os.pathsep.join([str(self.folder / "bin"), kept.get("PATH", "")])
        return {**kept, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}

    def review_of(self, run_id: str) -> str:
        """The id of the review that a run waits for."""
        (review,) = [
            one["review_id"]
            for one in self.json("reviews")["reviews"]
            if one["run_id"] == run_id and one["status"] == "open"
        ]
        return str(review)


def make_workplace(folder: Path) -> Workplace:
    """A folder with an agent that has not run yet."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(AGENT, folder / "agent.py")
    shutil.copy(FLOWS, folder / "flows.py")
    (folder / "bin").mkdir()
    program = folder / "bin" / "nottwice"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{PROGRAM}" "$@"\n')
    program.chmod(0o755)
    return Workplace(folder)


def copy_workplace(workplace: Workplace, folder: Path) -> Workplace:
    """The same ledger somewhere else, so that a test can change it."""
    shutil.copytree(workplace.folder, folder, ignore=shutil.ignore_patterns("*.holders", "*-shm"))
    return Workplace(folder)


def _read(descriptor: int) -> str:
    """What a terminal shows next; empty when its program has ended."""
    deadline = time.monotonic() + MOST_SECONDS
    while time.monotonic() < deadline:
        ready, _, _ = select.select([descriptor], [], [], 1.0)
        if ready:
            try:
                return os.read(descriptor, 65536).decode(errors="replace")
            except OSError:
                # Linux says so when the last process has closed the terminal.
                return ""
    raise TimeoutError("The terminal showed nothing more.")
