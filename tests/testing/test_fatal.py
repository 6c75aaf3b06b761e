"""Are the points where they are said to be, is death real, and is the broken ledger broken?"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.testing import World
from nottwice.testing.fatal import FatalClient, FatalPoints, FatalStore

EVERY_POINT = [
    "before claiming the run",
    "after claiming the run",
    "before recording the intent of pay",
    "after recording the intent of pay",
    "before the effect of pay",
    "after the effect of pay",
    "before recording the receipt of pay",
    "after recording the receipt of pay",
    "before releasing the run",
    "after releasing the run",
]


def pay_once(store: FatalStore, client: FatalClient) -> list[list[CallStatus]]:
    """Run one effectful call, after one that only reads; what the ledger held meanwhile."""
    held: list[list[CallStatus]] = []

    @nt.tool("pure")
    def look() -> int:
        return 7

    @nt.tool("unsafe_on_replay")
    def pay(order_id: int) -> None:
        held.append([row.status for row in store.calls("ticket")])
        client.do("pay", order_id=order_id)

    with nt.run("ticket", store=store):
        pay(look())
    held.append([row.status for row in store.calls("ticket")])
    return held


@pytest.mark.parametrize("intents", [True, False])
def test_there_is_a_point_before_and_after_each_write_and_each_effect(
    tmp_path: Path, intents: bool
) -> None:
    points = FatalPoints()
    with World.start() as world:
        store = FatalStore(tmp_path / "ledger.db", points, intents=intents)
        pay_once(store, FatalClient(world.url, points))
        store.close()
        assert world.count("pay") == 1
    assert points.passed == EVERY_POINT


@pytest.mark.parametrize(
    ("intents", "meanwhile"),
    [(True, [CallStatus.DONE, CallStatus.PENDING]), (False, [CallStatus.DONE])],
)
def test_only_the_broken_ledger_knows_nothing_of_a_call_while_it_runs(
    tmp_path: Path, intents: bool, meanwhile: list[CallStatus]
) -> None:
    points = FatalPoints()
    with World.start() as world:
        store = FatalStore(tmp_path / "ledger.db", points, intents=intents)
        held = pay_once(store, FatalClient(world.url, points))
        store.close()
    # Both keep the pending writes of an intent: only the intent is forgotten.
    assert held == [meanwhile, [CallStatus.DONE, CallStatus.DONE]]


def test_what_raises_has_no_point_after_it() -> None:
    points = FatalPoints()
    with pytest.raises(ValueError, match="no"), points.around("it"):
        raise ValueError("no")
    assert points.passed == ["before it"]


@pytest.mark.parametrize(("die_at", "said"), [("before it", ""), ("after it", "it\n")])
def test_a_process_dies_at_its_point_and_nothing_unwinds(die_at: str, said: str) -> None:
    code = (
        "import sys\n"
        "from nottwice.testing.fatal import FatalPoints\n"
        "try:\n"
        "    with FatalPoints(die_at=sys.argv[1]).around('it'):\n"
        "        print('it', flush=True)\n"
        "finally:\n"
        "    print('unwound', flush=True)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, die_at],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout == said
