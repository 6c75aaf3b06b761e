"""Does the watch see effects outside of tools while they happen, and nothing else? (P166, P167)"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine import watch
from nottwice.guard import registry
from nottwice.store.memory import MemoryStore

Do = Callable[[], Any]


@pytest.fixture(autouse=True)
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_tools", {})
    monkeypatch.setattr(watch, "_told", set())
    monkeypatch.setenv("NOTTWICE_WATCH", "error")
    yield
    monkeypatch.delenv("NOTTWICE_WATCH", raising=False)
    watch.heed_variable()


def connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())


EFFECTS: dict[str, Do] = {
    "a file is written": lambda: Path("effect").write_text("x"),
    "a file is opened by its flags": lambda: os.close(os.open("effect", os.O_CREAT | os.O_WRONLY)),
    "a file is removed": lambda: os.remove("kept"),
    "a file is renamed": lambda: os.rename("kept", "effect"),
    "a program is started": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "a shell is started": lambda: os.system("true"),
    "a connection is opened": connect,
}
READS: dict[str, Do] = {
    "a file": lambda: Path("kept").read_text(),
    "a folder": lambda: list(Path().iterdir()),
    "a module": lambda: __import__("this_is_new"),
    "a temporary file": lambda: tempfile.TemporaryFile().close(),
    "a temporary folder": lambda: tempfile.TemporaryDirectory().cleanup(),
    "nothing": lambda: Path(os.devnull).write_text("x"),
}


def in_block(do: Do) -> None:
    with nt.run("r", store="ledger.db"):
        do()


def in_node(do: Do) -> None:
    flow = nt.Graph("flow", version="1.0.0")

    @flow.node
    def node(state: Any) -> None:
        do()

    flow.run("r", store="ledger.db")


def in_async_node(do: Do) -> None:
    flow = nt.Graph("flow", version="1.0.0")

    @flow.node
    async def node() -> None:
        do()

    asyncio.run(flow.arun("r", store="ledger.db"))


def in_branch(do: Do) -> None:
    with nt.run("r", store="ledger.db"):
        nt.map(lambda _: do(), [1])


PLACES = [in_block, in_node, in_async_node, in_branch]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", EFFECTS)
def test_an_effect_outside_of_a_tool_is_stopped_before_it_happens(
    what: str, place: Callable[[Do], None]
) -> None:
    Path("kept").write_text("x")
    with pytest.raises(
        nt.errors.UndeclaredEffect, match=r"test_watch\.py:\d+, outside of any tool"
    ) as told:
        place(EFFECTS[what])
    assert "It was not done" in told.value.message
    assert not Path("effect").exists()
    assert Path("kept").exists()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", READS)
def test_reads_and_what_is_not_left_behind_are_no_effects(
    what: str, place: Callable[[Do], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("kept").write_text("x")
    Path("this_is_new.py").write_text("")
    monkeypatch.syspath_prepend(".")
    monkeypatch.delitem(sys.modules, "this_is_new", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    place(READS[what])


@pytest.mark.parametrize("place", PLACES)
def test_the_body_of_a_tool_may_do_what_it_declares(place: Callable[[Do], None]) -> None:
    @nt.tool("unsafe_on_replay", time_limit="30s")
    def publish(name: str) -> None:
        Path(name).write_text("x")
        connect()

    @nt.tool("unsafe_on_replay")
    async def publish_soon(name: str) -> None:
        Path(name).write_text("x")

    place(lambda: publish("one"))
    assert Path("one").exists()
    if place is not in_async_node:
        with nt.run("s", store="ledger.db"):
            asyncio.run(publish_soon("two"))
        assert Path("two").exists()


@pytest.mark.parametrize("store", ["file:json", "ledger.db"])
def test_the_ledger_itself_may_write(store: str) -> None:
    if store.startswith("file:"):
        Path("json").mkdir()

    @nt.tool("unsafe_on_replay")
    def send(n: int) -> None: ...

    with nt.run("r", store=store):
        with nt.step("a"):
            send(1)
        with nt.run("inner", store=f"{store}2"):
            send(2)


def test_a_store_of_the_user_may_write() -> None:
    class Writing(MemoryStore):
        def commit(self, commit: Any) -> None:
            Path("written").write_text("x")
            super().commit(commit)

    @nt.tool("unsafe_on_replay")
    def send(n: int) -> None: ...

    with nt.run("r", store=Writing()):
        send(1)
    assert Path("written").exists()


def test_a_log_may_write_its_file() -> None:
    handler = logging.FileHandler("agent.log", delay=True)
    logger = logging.getLogger("test_watch")
    logger.addHandler(handler)
    try:
        in_block(lambda: logger.error("hello"))
    finally:
        logger.removeHandler(handler)
        handler.close()
    assert Path("agent.log").read_text() == "hello\n"


def test_a_waiver_on_the_line_counts_here_too() -> None:
    def waived() -> None:
        Path("effect").write_text(
            "x",
        )  # nottwice: no effect, a cache that may be lost

    in_block(waived)
    in_block(lambda: waived())
    assert Path("effect").exists()


def test_outside_of_a_run_nothing_is_watched() -> None:
    in_block(lambda: None)
    Path("effect").write_text("x")
    with nt.run("r", store="ledger.db"):
        thread = threading.Thread(target=lambda: Path("effect").write_text("y"))
        thread.start()
        thread.join()
    assert Path("effect").read_text() == "y"


def test_warn_lets_it_happen_and_tells_each_place_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTTWICE_WATCH", "warn")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            in_block(lambda: Path("effect").write_text("x"))
    assert Path("effect").exists()
    (warning,) = told
    assert warning.category is RuntimeWarning
    assert "a resumed run does it again" in str(warning.message)
    assert Path(warning.filename).name == "test_watch.py"
    assert caplog.text.count("outside of any tool") == 1


def test_unset_it_watches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTTWICE_WATCH")
    in_block(lambda: Path("effect").write_text("x"))
    assert Path("effect").exists()


def test_another_word_is_refused_before_a_run_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_WATCH", "yes")
    with pytest.raises(nt.errors.UsageError, match="Set it to warn or error"):
        in_block(lambda: None)


def test_no_hook_is_installed_unless_it_is_asked_for() -> None:
    program = (
        "import sys, nottwice as nt\n"
        "sys.addaudithook = lambda hook: sys.exit('installed')\n"
        "with nt.run('r', store='a.db'):\n    open('x', 'w').close()\n"
    )
    quiet = {name: value for name, value in os.environ.items() if name != "NOTTWICE_WATCH"}
    assert subprocess.run([sys.executable, "-c", program], env=quiet, check=False).returncode == 0
    asked = subprocess.run(
        [sys.executable, "-c", program],
        env={**quiet, "NOTTWICE_WATCH": "warn"},
        check=False,
        capture_output=True,
    )
    assert asked.stderr.decode().strip() == "installed"
