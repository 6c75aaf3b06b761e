"""What is put off is done soon, in one thread, never across a fork, and at the exit at last."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.engine.later import Later


def test_calls_are_made_in_the_order_in_which_they_are_due() -> None:
    clock = [0.0]
    later, done, over = Later(lambda: clock[0]), list[str](), threading.Event()
    later.after(0.06, over.set)
    later.after(0.03, lambda: done.append("second"))
    later.after(0.0, lambda: done.append("first"))
    # Time stands still until all are scheduled, however busy the machine is.
    clock[0] = 1.0
    assert over.wait(10)
    assert done == ["first", "second"]


def test_one_call_that_fails_does_not_keep_the_next_from_being_made() -> None:
    later, over = Later(time.monotonic), threading.Event()
    later.after(0.0, lambda: 1 / 0)  # type: ignore[arg-type]
    later.after(0.01, over.set)
    assert over.wait(10)


def test_there_is_no_thread_before_something_is_put_off_and_one_afterwards() -> None:
    later = Later(time.monotonic)
    assert later._thread is None
    over, ran_in = threading.Event(), set[int]()
    for seconds in (0.0, 0.0, 0.01):
        later.after(seconds, lambda: ran_in.add(threading.get_ident()))
    later.after(0.02, over.set)
    assert over.wait(10)
    assert len(ran_in - {threading.get_ident()}) == len(ran_in) == 1


def test_many_ledgers_and_runs_share_one_thread(tmp_path: Path) -> None:
    @nt.tool("pure")
    def later_look(x: int) -> int:
        return x

    before = set(threading.enumerate())
    for number in range(50):
        with nt.run(f"run-{number}", store=tmp_path / "a.db"):
            later_look(number)
        with nt.Ledger(":memory:") as ledger, ledger.run("r"):
            later_look(number)
    started = set(threading.enumerate()) - before
    assert [thread.name for thread in started] in ([], ["nottwice-later"])


def test_a_thread_that_cannot_start_fails_no_run_and_is_started_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    later, over = Later(time.monotonic), threading.Event()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        later.after(0.0, over.set)
    assert not over.is_set()
    later.after(60, lambda: None)
    assert over.wait(10)


def test_a_call_that_raises_what_ends_a_thread_does_not_end_this_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later, over = Later(time.monotonic), threading.Event()
    later.after(0.0, sys.exit)
    later.after(0.01, over.set)
    assert over.wait(10)
    assert "a scheduled call failed" in caplog.text


def test_a_fork_waits_for_what_is_under_way_and_the_child_has_nothing_to_do() -> None:
    later, begun, ends = Later(time.monotonic), threading.Event(), threading.Event()
    done: list[int] = []

    def work() -> None:
        begun.set()
        ends.wait(10)
        done.append(os.getpid())

    later.after(0.0, work)
    later.after(60, lambda: done.append(os.getpid()))
    assert begun.wait(10)
    threading.Timer(0.2, ends.set).start()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # Work in progress has ended here, too, and nothing more comes.
        os.write(write, f"{len(done)} {later._thread is None} {len(later._due)}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() == "1 True 0"
    os.close(read)
    os.close(write)


def test_a_process_that_exits_makes_what_is_scheduled_and_accepts_nothing_more() -> None:
    program = """
import threading, time
from nottwice.engine.later import Later
later, begun = Later(time.monotonic), threading.Event()
def work():
    begun.set()
    time.sleep(0.2)
    print("ended", flush=True)
def last():
    print("made at the exit", flush=True)
    later.after(0.0, lambda: print("too late", flush=True))
later.after(0.0, work)
later.after(3600, last)
begun.wait(10)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\nmade at the exit\n", "")


def test_a_call_that_hangs_does_not_keep_the_process_from_exiting() -> None:
    program = """
import threading, time
from nottwice.engine import later as module
module.LONGEST_WAIT_SECONDS = 0.1
module.Later(time.monotonic).after(3600, threading.Event().wait)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
