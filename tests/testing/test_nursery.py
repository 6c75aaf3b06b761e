"""Is every errand a separate process, whose end is reported, and which leaves no child behind?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from nottwice.testing.nursery import Nursery, NurseryFailed

# The errand is one line of Python's own answers: what the child is asked to be.
SERVE = """
import os, signal, sys, time
from nottwice.testing.nursery import serve

def run(errand):
    match errand.strip():
        case "speak":
            print("hello")
            print("oh", file=sys.stderr)
        case "pid":
            print(os.getpid())
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise ValueError("not today")
        case "leave":
            sys.exit("through the wrong door")
        case "hang":
            time.sleep(600)
    return 7

serve(run)
"""
COMMAND = [sys.executable, "-c", SERVE]


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery(COMMAND)
    yield nursery
    nursery.close()


def test_a_child_that_ends_well_is_reported_with_all_it_said(nursery: Nursery) -> None:
    ended = nursery.run("speak", limit_seconds=60)
    assert (ended.returncode, ended.output, ended.complaints) == (7, "hello\n", "oh\n")


def test_every_errand_has_a_process_of_its_own(nursery: Nursery) -> None:
    pids = [nursery.run("pid", limit_seconds=60) for _ in range(3)]
    assert [int(ended.output) for ended in pids] == [ended.pid for ended in pids]
    assert len({ended.pid for ended in pids} | {os.getpid()}) == 4


def test_a_killed_child_is_reported_by_its_signal_and_the_next_one_lives(nursery: Nursery) -> None:
    assert nursery.run("die", limit_seconds=60).returncode == -signal.SIGKILL
    assert nursery.run("speak", limit_seconds=60).returncode == 7


@pytest.mark.parametrize(
    ("errand", "complaint"),
    [("raise", "ValueError: not today"), ("leave", "through the wrong door")],
)
def test_a_child_that_raises_does_not_take_the_nursery_along(
    nursery: Nursery, errand: str, complaint: str
) -> None:
    ended = nursery.run(errand, limit_seconds=60)
    assert ended.returncode == 1
    assert complaint in ended.complaints
    assert nursery.run("speak", limit_seconds=60).returncode == 7


def test_a_child_that_hangs_is_ended_with_its_nursery(nursery: Nursery) -> None:
    nursery.run("speak", limit_seconds=60)
    with pytest.raises(NurseryFailed, match=r"no answer within 0\.2 s"):
        nursery.run("hang", limit_seconds=0.2)
    assert_group_is_gone(nursery.pid)


def test_a_nursery_that_cannot_start_says_why() -> None:
    nursery = Nursery([sys.executable, "-c", "raise SystemExit('no cradle')"])
    try:
        with pytest.raises(NurseryFailed, match="no cradle"):
            nursery.run("speak", limit_seconds=60)
        with pytest.raises(NurseryFailed, match="no cradle"):
            nursery.run("speak", limit_seconds=60)
    finally:
        nursery.close()


def test_closing_twice_is_harmless(nursery: Nursery) -> None:
    nursery.close()
    nursery.close()


def test_a_nursery_ends_when_its_owner_is_killed() -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from nottwice.testing.nursery import Nursery\n"
            "nursery = Nursery([sys.executable, '-c', sys.argv[1]])\n"
            "nursery.run('speak', limit_seconds=60)\n"
            "print(nursery.pid, flush=True)\n"
            "time.sleep(600)\n",
            SERVE,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    with owner.stdout:
        pid = int(owner.stdout.readline())
        owner.kill()
        owner.wait()
    assert_group_is_gone(pid)


def assert_group_is_gone(group: int) -> None:
    """No member of the process group is left; who is being buried counts as gone."""
    give_up_at = time.monotonic() + 30
    while time.monotonic() < give_up_at:
        listing = subprocess.run(
            ["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
        )
        members = [line.split() for line in listing.stdout.splitlines()]
        if not [state for pgid, state in members if int(pgid) == group and state[0] != "Z"]:
            return
        time.sleep(0.02)
    pytest.fail(f"process group {group} is still there")
