"""Does a thread survive any number of kills, beside others that use the same ledger? (P255)"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nottwice.langchain import NottwiceSaver
from tests.langchain.inside.killed import counting
from tests.langchain.inside.places import place_for

STEPS = 40
PROGRAM = str(Path(__file__).with_name("killed.py"))


def start(place: str, thread: str, durability: str) -> subprocess.Popen[str]:
    words = [sys.executable, PROGRAM, place, thread, str(STEPS), durability]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ)


def heard(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line.endswith("\n") else None


def check_history(place: str, thread: str) -> None:
    """Every checkpoint on record is whole: its messages are those of its step."""
    graph = counting().compile(checkpointer=NottwiceSaver(place))
    config: Any = {"configurable": {"thread_id": thread}}
    for one in graph.get_state_history(config):
        count = one.values.get("number", 0)
        assert [message.id for message in one.values.get("messages", [])] == [
            str(number) for number in range(count)
        ]
        for number, message in enumerate(one.values.get("messages", [])):
            assert message.content == f"{number} " * 200


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_thread_that_is_killed_again_and_again_ends_as_if_it_never_was(
    tmp_path: Path, durability: str
) -> None:
    place = place_for(tmp_path)
    chance = random.Random(f"{tmp_path.name} {durability}")
    for _ in range(3):
        process = start(place, "ticket-7", durability)
        # So many steps later, in the middle of whatever it does then.
        for _ in range(chance.randrange(2, 12)):
            heard(process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        check_history(place, "ticket-7")
    process = start(place, "ticket-7", durability)
    said = heard(process)
    while isinstance(said, int):
        said = heard(process)
    assert process.wait() == 0
    assert said == {"done": [str(number) for number in range(STEPS)]}
    check_history(place, "ticket-7")


def test_a_killed_process_does_not_hold_up_the_others(tmp_path: Path) -> None:
    place = place_for(tmp_path)
    others = [start(place, f"ticket-{number}", "async") for number in range(2)]
    killed = start(place, "killed", "sync")
    for _ in range(5):
        heard(killed)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    for number, process in enumerate(others):
        said = process.communicate(timeout=200)[0].splitlines()[-1]
        assert json.loads(said) == {"done": [str(each) for each in range(STEPS)]}
        check_history(place, f"ticket-{number}")
    check_history(place, "killed")
