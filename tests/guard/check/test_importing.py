"""Whatever a module starts at its top level, a command that imports it starts nothing (P141)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nottwice.cli.main import main
from tests.nursery import starting

SIX_LINES = """\
import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int) -> dict:
    with open("sent.txt", "a") as file:
        file.write(f"refund {order_id}\\n")
    return {"refunded": cents}

"""
GRAPH = """\
flow = nt.Graph("shop", version="1.0.0")

@flow.node
def pay(state):
    refund(order_id=7, cents=1)

app = nt.App(graphs=[flow], store="agent.db", admins=["ann"])
"""
AGENT = """\
agent = nt.Agent("triage", version="1.0.0", tools=[refund],
                 provider=nt.providers.scripted([{"refund": {"order_id": 7, "cents": 1}}, "done"]))
"""
RUN = 'with nt.run("ticket-7", store="agent.db"):\n    refund(order_id=7, cents=4000)\n'
ASYNC = """\
import asyncio
async def main():
    async with nt.run("ticket-7", store="agent.db"):
        refund(order_id=7, cents=4000)
asyncio.run(main())
"""
IN_A_THREAD = f"""\
import threading
def main():
    {RUN.replace(chr(10), chr(10) + "    ")}
thread = threading.Thread(target=main)
thread.start()
thread.join()
"""
LATER_IN_A_THREAD = f"""\
import sys, threading, time
def main():
    while "imported" not in sys.modules:
        time.sleep(0.01)
    {RUN.replace(chr(10), chr(10) + "    ")}
threading.Thread(target=main).start()
"""
CAUGHT = f"try:\n    {RUN.replace(chr(10), chr(10) + '    ')}\nexcept Exception:\n    pass\n"
STARTS = {
    "run": RUN,
    "async run": ASYNC,
    "run in a thread": IN_A_THREAD,
    "run whose error is caught": CAUGHT,
    "ledger": 'with nt.Ledger("other.db").run("ticket-7"):\n    refund(order_id=7, cents=1)\n',
    "graph": GRAPH + 'flow.run("ticket-7", {}, store="agent.db")\n',
    "async graph": GRAPH + 'import asyncio\nasyncio.run(flow.arun("t", {}, store="agent.db"))\n',
    "app": GRAPH + 'app.run("shop", "ticket-7", {})\n',
    "async app": GRAPH + 'import asyncio\nasyncio.run(app.arun("shop", "ticket-7", {}))\n',
    "enqueue": GRAPH + 'app.enqueue("shop", "ticket-7", {})\n',
    "enqueue_all": GRAPH + 'app.enqueue_all("shop", {"ticket-7": {}})\n',
    "cancel": GRAPH + 'app.cancel("ticket-7", by="ann", why="no")\n',
    "fork": GRAPH + 'flow.fork("ticket-7", to="f", store="agent.db")\n',
    "worker": GRAPH + "nt.Worker(app).run(until_idle=True)\n",
    "async worker": GRAPH + "import asyncio\nasyncio.run(nt.Worker(app).arun(until_idle=True))\n",
    "migrate": GRAPH
    + 'nt.versions.migrate(app, "ticket-7", to="shop@1.0.0", mapping={}, by="ann", why="no")\n',
    "migrate_all": GRAPH
    + 'nt.versions.migrate_all(app, "shop@0.1.0", to="shop@1.0.0", mapping={}, by="ann", '
    'why="no")\n',
    "agent": AGENT + 'agent.run("ticket-7", goal="refund", store="agent.db")\n',
    "async agent": AGENT
    + 'import asyncio\nasyncio.run(agent.arun("t", goal="refund", store="agent.db"))\n',
    "send": 'nt.send("ticket-7", "paid", store="agent.db")\n',
    "decide": 'nt.Reviews(nt.Ledger(":memory:")).decide("1", "happened", by="ann", why="seen")\n',
    "undo": 'nt.Reviews(nt.Ledger(":memory:")).undo("1", by="ann", why="seen")\n',
    "recheck": 'nt.Reviews(nt.Ledger(":memory:")).recheck()\n',
    "remove_expired": 'nt.remove_expired("agent.db")\n',
}
COMMANDS = {
    "check": "check agent.py",
    "check --smoke": "check agent.py --smoke refund --sandbox agent:sandbox --yes",
    "lock": "lock --app agent.py",
    "recheck": "recheck --app agent.py --store agent.db",
    "decide": "decide 1 happened --why seen --result {} --app agent.py --store agent.db",
    "gc": "gc --app agent.py --store agent.db",
    "replay": "replay checkpoints --app agent.py",
    "runs --by-version": "runs --by-version --app agent.py --store agent.db",
    "worker": "worker --app agent.py --until-idle",
    "run": "run shop --app agent.py --id ticket-8",
    "crash": "crash agent.py:refund",
    "migrate": "migrate ticket-7 --to shop@1.0.0 --map a=b --why no --app agent.py",
    "show": "show ticket-7 --app agent.py",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def nottwice(line: str) -> tuple[int, str]:
    """What a command ends with, and says."""
    result = CliRunner().invoke(main, line.split())
    return result.exit_code, " ".join(result.output.split())


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return starting.run([sys.executable, *words], cwd=folder, check=True)


def sent(folder: Path) -> list[str]:
    file = folder / "sent.txt"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("what", STARTS)
def test_nothing_that_a_module_starts_is_started_by_importing_it(tmp_path: Path, what: str) -> None:
    (tmp_path / "agent.py").write_text(SIX_LINES + STARTS[what])
    exit_code, said = nottwice("check agent.py")
    assert exit_code == 3, said
    assert 'if __name__ == "__main__":' in said
    assert "Nothing was started, and nothing was sent" in said
    assert sent(tmp_path) == []
    assert not (tmp_path / "agent.db").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_that_imports_makes_an_effect(tmp_path: Path, command: str) -> None:
    """The ledger is there, and so is a run; the module opens another one at its top level."""
    (tmp_path / "agent.py").write_text(SIX_LINES + GRAPH)
    python(tmp_path, "-c", "import agent; agent.app.enqueue('shop', 'ticket-7', {})")
    (tmp_path / "agent.py").write_text(SIX_LINES + GRAPH + "\n" + RUN.replace("ticket-7", "other"))
    (tmp_path / "checkpoints").mkdir()
    exit_code, said = nottwice(COMMANDS[command])
    assert sent(tmp_path) == []
    assert exit_code != 0
    line = (SIX_LINES + GRAPH).count("\n") + 2
    assert f"Run 'other' is opened at agent.py:{line}, while a command imports that code" in said
    assert "Traceback" not in said


def test_the_line_that_is_named_is_the_one_to_guard(tmp_path: Path) -> None:
    """Not the one deep inside that opens the run, but the one at the top level that leads there."""
    (tmp_path / "inner.py").write_text(
        "import nottwice as nt\n\ndef work():\n    with nt.run('r', store='agent.db'): ...\n"
    )
    (tmp_path / "agent.py").write_text("import inner\n\ndef main():\n    inner.work()\n\nmain()\n")
    assert "at agent.py:6," in nottwice("check agent.py")[1]


def test_a_thread_of_the_module_starts_nothing_after_the_import_either(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(SIX_LINES + LATER_IN_A_THREAD)
    program = """
import sys, threading, types
from nottwice.cli.inputs.application import load_application
load_application("agent.py")
sys.modules["imported"] = types.ModuleType("imported")
for each in threading.enumerate():
    if each is not threading.current_thread():
        each.join()
"""
    ended = python(tmp_path, "-c", program)
    assert "WorkDuringImport: Run 'ticket-7' is opened at agent.py:13" in ended.stderr
    assert sent(tmp_path) == []


def test_what_the_module_registers_for_the_end_starts_nothing(tmp_path: Path) -> None:
    at_exit = "import atexit\n\n@atexit.register\ndef main():\n    " + RUN.replace("\n", "\n    ")
    (tmp_path / "agent.py").write_text(SIX_LINES + at_exit)
    words = [sys.executable, "-m", "nottwice", "check", "agent.py"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "WorkDuringImport: Run 'ticket-7' is opened at agent.py:13" in ended.stderr
    assert sent(tmp_path) == []


def test_behind_the_guard_the_file_is_checked_and_python_runs_it(tmp_path: Path) -> None:
    guarded = 'if __name__ == "__main__":\n    ' + RUN.replace("\n", "\n    ")
    (tmp_path / "agent.py").write_text(SIX_LINES + guarded)
    python(tmp_path, "-m", "nottwice", "check", "agent.py")
    assert sent(tmp_path) == []
    python(tmp_path, "agent.py")
    assert sent(tmp_path) == ["refund 7"]


def test_a_module_may_open_its_ledger_and_declare_its_app_while_it_is_imported(
    tmp_path: Path,
) -> None:
    (tmp_path / "agent.py").write_text(
        SIX_LINES + GRAPH + 'ledger = nt.Ledger("agent.db")\nworker = nt.Worker(app)\n'
    )
    assert nottwice("check agent.py")[0] == 0
