"""Is a living holder in another container never taken for dead, whatever became of its lock file?

A container is a pid namespace here, made by unshare. The holder is in the middle of its effect. A
verify hook that asks too early says that nothing happened, so only a proof of death may allow
another attempt. Promises: P8, P115.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.store.abilities import run
from tests.store.children import Child

AGENT = """
import json, os, sys
import nottwice as nt
store, effects, slow = sys.argv[1:]

def say(**facts):
    os.write(1, json.dumps(facts).encode() + b"\\n")

def look(to):
    return nt.did_not_happen()

@nt.tool("unsafe_on_replay", verify=look, settles="1ms")
def mail(to: str) -> str:
    if slow == "slow":
        say(inside=True)
        for line in sys.stdin:
            if line.strip() == "send":
                break
            exec(line)
            say(did=True)
    with open(effects, "a") as file:
        file.write(to + "\\n")
    return "sent"

try:
    with nt.run("invoice-7", store=store, settle_timeout="5s"):
        say(result=mail("ann"))
except nt.NottwiceError as error:
    say(error=type(error).__name__)
"""


def unshare(*options: str) -> list[str]:
    words = ["unshare", "--pid", "--fork", "--kill-child", *options]
    if shutil.which("unshare") is None or run([*words, "true"]).returncode:
        pytest.skip("unshare may not make a pid namespace here (that needs root)")
    return words


class Corner:
    """One ledger, and the file in which the effects are counted."""

    def __init__(self, folder: Path, store: str) -> None:
        self.store, self.effects = store, folder / "effects.txt"
        is_json = store.startswith("file:")
        place = Path(store.removeprefix("file:"))
        self.lock_file = place / ".nottwice/holders.lock" if is_json else Path(f"{place}.holders")

    def agent(self, *, slow: bool) -> list[str]:
        words = [self.store, str(self.effects), "slow" if slow else "fast"]
        return [sys.executable, "-c", AGENT, *words]

    @contextmanager
    def holder(self, *options: str) -> Iterator[Child]:
        """An agent in a container, in the middle of its effect."""
        with Child([*unshare(*options), *self.agent(slow=True)]) as child:
            assert child.hear() == {"inside": True}
            yield child

    def rival(self, *options: str) -> dict[str, object]:
        """What another process hears that opens the same run, by default outside of containers."""
        before = unshare(*options) if options else []
        with Child([*before, *self.agent(slow=False)]) as child:
            said = child.hear()
            code, complaints = child.end()
            assert code == 0, complaints
            return said

    def sent(self) -> list[str]:
        return self.effects.read_text().split() if self.effects.exists() else []


@pytest.fixture(params=["sqlite", "json"])
def corner(tmp_path: Path, request: pytest.FixtureRequest) -> Corner:
    is_json = request.param == "json"
    return Corner(tmp_path, f"file:{tmp_path / 'runs'}" if is_json else str(tmp_path / "agent.db"))


def test_a_living_holder_in_a_container_is_not_repeated_when_its_lock_file_was_deleted(
    tmp_path: Path,
) -> None:
    corner = Corner(tmp_path, str(tmp_path / "agent.db"))
    with corner.holder("--mount-proc") as holder:
        corner.lock_file.unlink()
        assert corner.rival()["error"] == "ReplayUnsafeError"
        assert corner.sent() == []
        holder.tell("send")
        holder.hear()
    assert corner.sent() == ["ann"]


def test_a_living_holder_in_a_container_keeps_its_run_though_it_read_its_lock_file(
    corner: Corner,
) -> None:
    """A tool that searches the folder opens and closes the file; POSIX locks end with that."""
    with corner.holder("--mount-proc") as holder:
        assert holder.ask(f"open({str(corner.lock_file)!r}).close()") == {"did": True}
        assert corner.rival()["error"] == "RunBusy"
        assert corner.rival("--mount-proc")["error"] == "RunBusy"
        holder.tell("send")
        assert holder.hear() == {"result": "sent"}
    assert corner.sent() == ["ann"]
    assert corner.rival()["result"] == "sent"
    assert corner.sent() == ["ann"]


def test_a_dead_holder_in_a_container_is_proven_dead_by_its_lock(corner: Corner) -> None:
    with corner.holder("--mount-proc") as holder:
        holder.kill_unreaped()
        # Its container dies with it, but not in the same instant.
        assert holder.hear() == {}
    assert corner.rival()["result"] == "sent"
    assert corner.sent() == ["ann"]


def test_a_dead_holder_in_a_container_is_not_proven_dead_by_another_lock_file(
    tmp_path: Path,
) -> None:
    corner = Corner(tmp_path, str(tmp_path / "agent.db"))
    with corner.holder("--mount-proc") as holder:
        corner.lock_file.unlink()
        holder.kill_unreaped()
        assert holder.hear() == {}
    assert corner.rival()["error"] == "ReplayUnsafeError"
    assert corner.sent() == []


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("ends", [False, True])
def test_a_container_that_sees_the_processes_of_its_host_judges_by_locks(
    corner: Corner, *, ends: bool
) -> None:
    """Without a /proc of its own, process 1 of the container looks like process 1 of the host."""
    with corner.holder() as holder:
        if ends:
            holder.kill_unreaped()
            assert holder.hear() == {}
            assert corner.rival("--mount-proc")["result"] == "sent"
        else:
            assert corner.rival("--mount-proc")["error"] == "RunBusy"
            holder.tell("send")
            assert holder.hear() == {"result": "sent"}
    assert corner.sent() == ["ann"]
