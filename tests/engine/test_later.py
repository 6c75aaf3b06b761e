"""What is put off is done soon, in one thread, and never across a fork or after the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from nottwice.engine.later import Later


def test_calls_are_made_in_the_order_in_which_they_are_due() -> None:
    later, done, over = Later(time.monotonic), list[str](), threading.Event()
    later.after(0.06, over.set)
    later.after(0.03, lambda: done.append("second"))
    later.after(0.0, lambda: done.append("first"))
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
    over = threading.Event()
    for seconds in (0.0, 0.0, 0.01):
        later.after(seconds, lambda: None)
    later.after(0.02, over.set)
    assert over.wait(10)
    assert sum(thread.name == "nottwice-later" for thread in threading.enumerate()) >= 1


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


def test_a_process_that_ends_waits_for_what_is_under_way_and_begins_nothing() -> None:
    program = """
import threading, time
from nottwice.engine.later import Later
later, begun = Later(time.monotonic), threading.Event()
def work():
    begun.set()
    time.sleep(0.2)
    print("ended", flush=True)
later.after(0.0, work)
later.after(0.05, lambda: print("begun too late", flush=True))
begun.wait(10)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
