"""Do real frameworks accept a protected function like the bare one, and does a kill in the
middle of its call leave one effect?

LangChain, OpenAI Agents and MCP themselves, in an environment of their own: the first run builds
`.venv-frameworks` (about a minute), later ones use it again. The processes are real, the SIGKILL is
real, and the upstream counts in a process that is never killed. No model or network is needed.
If the environment cannot be built, the tests are skipped; with ``NOTTWICE_ADAPTERS=required``, as
in continuous integration, they fail.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nottwice.testing import World
from tests.frameworks.required import missing
from tests.tidy.source import ROOT

# These versions decide whether a change is sound. The newest ones only report: the workflow tries
# them every week with NOTTWICE_FRAMEWORKS=newest.
PINNED = [
    "langchain-core==1.7.2",
    "langchain==1.4.7",
    "langgraph==1.2.20",
    "langgraph-checkpoint==4.3.1",
    "langgraph-checkpoint-conformance==0.0.2",
    "openai-agents==0.24.0",
    "mcp==2.3.0",
    "celery==5.7.0",
    "temporalio==1.35.0",
    "pydantic>=2.7",
    # For the command line, of which the proxy of MCP is a part.
    "click>=8.1",
    "rich>=13",
    # For the ledger on PostgreSQL, and for tests that run inside the environment.
    "psycopg[binary]>=3.2",
    "pytest>=8.3",
]
NEWEST = os.environ.get("NOTTWICE_FRAMEWORKS") == "newest"
REQUIREMENTS = [each.partition("==")[0] if NEWEST else each for each in PINNED]
PLACE = ROOT / ".venv-frameworks"
INSTALL_LIMIT_SECONDS = 240
AGENT = ROOT / "tests" / "frameworks" / "agent.py"

pytestmark = pytest.mark.deep(part="adapters")
KINDS = ["sync", "async"]


class Agent:
    """A process that has imported one framework and forks a child for every task."""

    def __init__(self, python: Path, framework: str, folder: Path) -> None:
        self._said: dict[str, Any] = {}
        self._complaints = (folder / f"{framework}.txt").open("w+")
        self._process = subprocess.Popen(
            [str(python), str(AGENT), framework],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        assert self._read("ready") == framework

    def start(self, task: str, kind: str, *, store: Path, world: World) -> int:
        """Begin a task in a child; its pid."""
        line = {"task": task, "kind": kind, "store": str(store), "url": world.url}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        pid = self._read("pid")
        assert isinstance(pid, int)
        return pid

    def answer(self) -> Any:
        """What the child said, once it has ended well."""
        status = self._read("exit")
        assert status == 0, f"It ended with {status}. {self._complained()}"
        return self._read("answer")

    def killed(self) -> bool:
        return bool(self._read("exit") == -signal.SIGKILL)

    def end(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.kill()
        self._process.wait()
        self._complaints.close()

    def _read(self, what: str) -> Any:
        """The next line of this kind: a child may answer before its parent has named its pid."""
        while what not in self._said:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            assert line, f"It did not say {what!r}. {self._complained()}"
            self._said |= json.loads(line)
        return self._said.pop(what)

    def _complained(self) -> str:
        self._complaints.seek(0)
        return f"It complained: {self._complaints.read()[-3000:]}"


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of an environment that has the frameworks, built if need be."""
    return environment(PLACE, REQUIREMENTS)


def environment(place: Path, requirements: list[str]) -> Path:
    """Return the interpreter of an environment with these packages, built if need be."""
    place.mkdir(exist_ok=True)
    with (place / ".lock").open("w") as lock:
        # Several test processes may want it at the same time; one builds it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build_environment(place, requirements)


def build_environment(place: Path, requirements: list[str]) -> Path:
    python, stamp = place / "bin" / "python", place / ".requirements"
    wanted = "\n".join([sys.version, str(place), *requirements])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    for path in place.iterdir():
        if path.name != ".lock":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    install([sys.executable, "-m", "venv", "--without-pip", str(place)])
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    options = ["--no-compile", "--prefer-binary", "--disable-pip-version-check", "--no-input"]
    install([*pip, *options, *requirements])
    stamp.write_text(wanted)
    return python


def install(command: list[str], *, missing: Callable[[str], NoReturn] = missing) -> None:
    """Run the installer. ``missing`` says that the frameworks are not here, and why."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        missing(f"The frameworks were not installed within {INSTALL_LIMIT_SECONDS} s.")
    if ran.returncode != 0:
        lines = ran.stderr.splitlines() or ran.stdout.splitlines()
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-3:]
        missing(f"The frameworks could not be installed: {' '.join(errors)}")


@pytest.fixture(scope="module", params=["langchain", "openai", "mcp"])
def agent(
    request: pytest.FixtureRequest, python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Agent]:
    started = Agent(python, request.param, tmp_path_factory.mktemp("agent"))
    yield started
    started.end()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World.start(tmp_path / "world") as started:
        yield started


@pytest.mark.parametrize("kind", KINDS)
def test_a_framework_makes_the_same_tool_of_a_protected_function(
    agent: Agent, world: World, tmp_path: Path, kind: str
) -> None:
    agent.start("schemas", kind, store=tmp_path / "a.db", world=world)
    protected, bare = agent.answer()
    assert protected == bare
    text = json.dumps(protected)
    for word in ("refund", "Give the money", "order_id", "integer", "cents", "500", "reason"):
        assert word in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_framework_calls_a_protected_function_and_a_second_process_gets_the_receipt(
    agent: Agent, world: World, tmp_path: Path, kind: str
) -> None:
    world.client().release("gate")
    for _ in range(2):
        agent.start("refund", kind, store=tmp_path / "a.db", world=world)
        assert refunded(agent.answer())
    assert world.count() == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_inside_the_call_leaves_one_effect(
    agent: Agent, world: World, tmp_path: Path, kind: str
) -> None:
    kill_inside(agent, world, "refund", kind, tmp_path)
    agent.start("refund", kind, store=tmp_path / "a.db", world=world)
    assert refunded(agent.answer())
    assert world.count() == 1
    assert len(world.verifications()) == 1


def test_without_protection_the_same_kill_leaves_two(
    agent: Agent, world: World, tmp_path: Path
) -> None:
    """A negative control: the test above can fail."""
    kill_inside(agent, world, "refund-bare", "sync", tmp_path)
    agent.start("refund-bare", "sync", store=tmp_path / "a.db", world=world)
    assert refunded(agent.answer())
    assert world.count() == 2


def refunded(answer: str) -> bool:
    """Whether the tool's result came through; each framework has its own way to write a dict."""
    return "".join(answer.split()).replace("'", '"') == '{"refunded":"7"}'


def kill_inside(agent: Agent, world: World, task: str, kind: str, folder: Path) -> None:
    """Kill a child when the upstream has applied its request and not answered yet."""
    client = world.client()
    pid = agent.start(task, kind, store=folder / "a.db", world=world)
    client.wait_until_held("gate")
    os.kill(pid, signal.SIGKILL)
    assert agent.killed()
    assert world.count() == 1
    client.release("gate")
