"""Versions of a graph that are deployed together share their tools, and a tool changes for all.

Every deploy is a file that real processes import, with a ledger on disk between them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nursery import starting

FIRST = """
import os, signal
import nottwice as nt

def note_down(text):
    with open("world.txt", "a") as world:
        world.write(text + "\\n")

@nt.tool("unsafe_on_replay")
def mail(to: str) -> str:
    note_down(f"mail {to}")
    return "mailed"

@nt.tool("unsafe_on_replay")
def refund(order_id: int) -> str:
    note_down(f"refund {order_id}")
    return "refunded"

old = nt.Graph("claim", version="1.0.0")

@old.node(name="pay")
def pay_first(state):
    paid = refund(state["order_id"])
    if os.environ.get("KILL"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"paid": paid}

@old.node(name="tell")
def tell_first(state):
    return {"told": mail("ann")}

app = nt.App(graphs=[old], store="ledger.db", admins=["ann"])
"""
SECOND = """
new = nt.Graph("claim", version="{version}")

@new.node(name="pay")
def pay_second(state):
    return {{"paid": {call}}}

@new.node(name="tell")
def tell_second(state):
    return {{"told": mail("bob")}}

app = nt.App(graphs=[new, old], store="ledger.db", admins=["ann"])
"""
MINOR = FIRST.replace("(order_id: int)", '(order_id: int, note: str = "")') + SECOND.format(
    version="1.1.0", call='refund(state["order_id"], note="goodwill")'
)
# The tool takes cents: no call of the old version fits it any more.
MAJOR = FIRST.replace("(order_id: int)", "(order_id: int, cents: int)") + SECOND.format(
    version="2.0.0", call='refund(state["order_id"], cents=5)'
)
# The same with the old tool as it was, and the new one beside it under a name of its own.
BESIDE = (
    FIRST
    + """
@nt.tool("unsafe_on_replay")
def refund_cents(order_id: int, cents: int) -> str:
    note_down(f"refund {order_id}, {cents} cents")
    return "refunded"
"""
    + SECOND.format(version="2.0.0", call='refund_cents(state["order_id"], cents=5)')
)
RESUME = "print(app.run('claim', 'open', {'order_id': 7}).graph)"
START = "print(app.run('claim', 'new', {'order_id': 8}).graph)"


class Place:
    """A machine on which one program is deployed after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.deploy(FIRST)
        killed = self.python(RESUME, KILL="yes")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert self.world == ["refund 7"]

    def deploy(self, program: str) -> None:
        (self.folder / "agent.py").write_text(program)

    def python(self, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
        program = f"import nottwice as nt\nfrom agent import app\n{line}"
        return self._start([sys.executable, "-c", program], environment)

    def nottwice(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._start([sys.executable, "-m", "nottwice", *words], {})

    def _start(
        self, command: list[str], environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return starting.run(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        )

    @property
    def world(self) -> list[str]:
        return (self.folder / "world.txt").read_text().splitlines()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("lines", [(RESUME, START), (START, RESUME)])
def test_a_shared_tool_that_gains_an_optional_argument_stops_neither_version(
    place: Place, lines: tuple[str, str]
) -> None:
    place.deploy(MINOR)
    for line in lines:
        done = place.python(line)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ("claim@1.0.0\n" if line == RESUME else "claim@1.1.0\n")
    assert sorted(place.world) == ["mail ann", "mail bob", "refund 7", "refund 8"]


def test_a_worker_takes_runs_of_both_versions(place: Place) -> None:
    place.deploy(MINOR)
    assert place.python("app.enqueue('claim', 'new', {'order_id': 8})").returncode == 0
    done = place.nottwice("worker", "--app", "agent:app", "--until-idle")
    assert done.returncode == 0, done.stderr
    assert sorted(place.world) == ["mail ann", "mail bob", "refund 7", "refund 8"]


def test_a_build_accepts_the_old_version_beside_the_one_that_says_so(place: Place) -> None:
    assert place.nottwice("lock", "--app", "agent:app").returncode == 0
    alone = FIRST.replace("(order_id: int)", '(order_id: int, note: str = "")')
    place.deploy(alone)
    checked = place.nottwice("check", "--app", "agent:app")
    assert checked.returncode == 3, checked.stdout
    assert "needs 1.1.0, found 1.0.0" in checked.stdout
    place.deploy(MINOR)
    assert place.nottwice("lock", "--app", "agent:app").returncode == 0
    checked = place.nottwice("check", "--app", "agent:app")
    assert checked.returncode == 0, checked.stdout


def test_what_no_run_of_the_old_version_can_use_names_the_ways_that_are_open(
    place: Place,
) -> None:
    place.deploy(MAJOR)
    refused = place.python(RESUME)
    assert refused.returncode == 1
    assert "GraphChangedInPlace" in refused.stderr
    assert 'argument "cents" of tool "refund" was added and is required' in refused.stderr
    assert "name=" in refused.stderr
    assert "nottwice migrate --from claim@1.0.0 --to claim@2.0.0" in refused.stderr
    assert "another id" in refused.stderr
    # The new version itself is sound.
    assert place.python(START).stdout == "claim@2.0.0\n"
    assert place.world == ["refund 7", "refund 8", "mail bob"]


def test_the_old_version_runs_on_with_its_tool_beside_the_new_one(place: Place) -> None:
    place.deploy(MAJOR)
    assert place.python(RESUME).returncode == 1
    place.deploy(BESIDE)
    assert place.python(RESUME).stdout == "claim@1.0.0\n"
    assert place.python(START).stdout == "claim@2.0.0\n"
    assert place.world == ["refund 7", "mail ann", "refund 8, 5 cents", "mail bob"]


def test_a_run_of_the_old_version_can_be_migrated_although_its_code_is_refused(
    place: Place,
) -> None:
    """Between two steps: a step that has refunded is not begun again by a migration."""
    sends = "mail(to: str) -> str:\n"
    place.deploy(FIRST.replace(sends, f"{sends}    raise nt.Permanent('no such address')\n"))
    failed = place.python(RESUME)
    assert "no such address" in failed.stderr
    place.deploy(MAJOR)
    words = ["--from", "claim@1.0.0", "--to", "claim@2.0.0", "--map", "tell=tell"]
    moved = place.nottwice("migrate", *words, "--by", "ann", "--why", "cents", "--app", "agent:app")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert place.python(RESUME).stdout == "claim@2.0.0\n"
    assert place.world == ["refund 7", "mail bob"]


def test_the_same_can_be_done_afresh_under_another_id(place: Place) -> None:
    place.deploy(MAJOR)
    afresh = RESUME.replace("'open'", "'open-2'")
    assert place.python(afresh).stdout == "claim@2.0.0\n"
