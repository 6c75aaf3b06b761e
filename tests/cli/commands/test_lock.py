"""A build fails when a graph changed more than its version says: `nottwice lock` and `check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.workplace import Workplace, make_workplace

AGENT = """
import nottwice as nt

@nt.tool("unsafe_on_replay")
def locked_pay(cents: int) -> str:
    return "paid"

refund = nt.Graph("refund", version="1.3.1")

@refund.node
def pay(state):
    total = state["cents"]
    return {"paid": locked_pay(total)}

@refund.node
def notify(state):
    return None

app = nt.App(graphs=[refund])
"""
LOCK = "lock --app deployed:app"
CHECK = "check --app deployed:app"


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    place = make_workplace(tmp_path / "place")
    write(place, AGENT)
    return place


def write(place: Workplace, text: str) -> None:
    (place.folder / "deployed.py").write_text(text)


def without_notify(version: str) -> str:
    before, _, after = AGENT.partition("@refund.node\ndef notify(state):\n    return None\n")
    return (before + after).replace("1.3.1", version)


def test_what_was_locked_passes_and_is_not_written_again(place: Workplace) -> None:
    first, again, checked = place.lines(LOCK, f"{LOCK} --json", CHECK)
    assert (first.exit_code, first.stdout) == (0, "nottwice.lock was written: refund@1.3.1\n")
    assert json.loads(again.stdout) == {
        "file": "nottwice.lock",
        "graphs": ["refund@1.3.1"],
        "changed": False,
    }
    assert checked.exit_code == 0


def test_a_removed_node_fails_the_build_with_the_version_that_is_needed(place: Workplace) -> None:
    place.lines(LOCK)
    before = (place.folder / "nottwice.lock").read_text()
    write(place, without_notify("1.3.1"))
    checked, document, locked = place.lines(CHECK, f"{CHECK} --json", LOCK)
    assert checked.exit_code == document.exit_code == 3
    assert 'refund changed: node "notify" removed' in checked.stdout
    assert "→ needs 2.0.0, found 1.3.1" in checked.stdout
    (finding,) = [one for one in json.loads(document.stdout)["findings"] if one["level"] == "error"]
    assert "needs 2.0.0, found 1.3.1" in finding["text"]
    # Locking again is no way around it.
    assert locked.exit_code == 1
    assert "Nothing was written" in locked.stderr
    assert (place.folder / "nottwice.lock").read_text() == before


def test_with_the_right_version_the_lock_file_follows(place: Workplace) -> None:
    place.lines(LOCK)
    write(place, without_notify("2.0.0"))
    behind, locked, checked = place.lines(CHECK, LOCK, CHECK)
    assert behind.exit_code == 3
    assert "refund@2.0.0 is not in the lock file" in behind.stdout
    assert (locked.exit_code, checked.exit_code) == (0, 0)


def test_a_graph_that_was_never_deployed_may_be_replaced(place: Workplace) -> None:
    place.lines(LOCK)
    write(place, without_notify("1.3.1"))
    replaced, checked = place.lines(f"{LOCK} --replace", CHECK)
    assert (replaced.exit_code, checked.exit_code) == (0, 0)


def test_a_harmless_change_passes(place: Workplace) -> None:
    place.lines(LOCK)
    changed = AGENT.replace("    total =", "    # All of it.\n    amount =")
    write(place, changed.replace("locked_pay(total)", "locked_pay(amount)"))
    (checked,) = place.lines(CHECK)
    assert checked.exit_code == 0, checked


def test_without_a_lock_file_nothing_is_compared_unless_one_is_named(place: Workplace) -> None:
    checked, named = place.lines(CHECK, f"{CHECK} --lock other.lock")
    assert checked.exit_code == 0
    assert named.exit_code == 3
    assert "other.lock" in named.stdout


def test_a_lock_file_that_cannot_be_read_fails_the_build(place: Workplace) -> None:
    (place.folder / "nottwice.lock").write_text("<<<<<<< HEAD")
    (checked,) = place.lines(CHECK)
    assert checked.exit_code == 3
    assert "not a readable lock file" in checked.stdout


def test_a_graph_that_uses_a_tool_without_a_class_fails_the_build(place: Workplace) -> None:
    bare = """
class BaseTool:
    def __init__(self, func):
        self.name, self.func = func.__name__, func

def delete_all(path): ...

naked = BaseTool(delete_all)
"""
    text = AGENT.replace("refund = nt.Graph", f"{bare}\nrefund = nt.Graph")
    write(place, text.replace("    return None", "    naked.func('/')"))
    (checked,) = place.lines(CHECK)
    assert checked.exit_code == 3
    assert "'delete_all', which has no replay class" in checked.stdout
