"""Is the script that the demo gives its viewers one that they can run, kill and continue?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.cli.demo import story as demo_module
from nottwice.model.review import Verb
from nottwice.reviews.decide import decide
from nottwice.reviews.queue import open_cases
from nottwice.testing import World
from tests.nursery import starting


@pytest.fixture
def shop() -> Iterator[World]:
    with World.start() as world:
        yield world


def command(ledger: Path) -> list[str]:
    # Its tools are declared in processes of their own, never in the one that runs the tests.
    return [sys.executable, str(demo_module.AGENT), "ticket-7", "7", str(ledger)]


def run_agent(ledger: Path, shop_url: str) -> subprocess.CompletedProcess[str]:
    return starting.run(
        command(ledger),
        env={**os.environ, "SHOP_URL": shop_url},
    )


def test_the_script_does_its_ticket_once_however_often_it_is_run(
    shop: World, tmp_path: Path
) -> None:
    for _ in range(3):
        ended = run_agent(tmp_path / "ledger.db", shop.url)
        assert ended.returncode == 0, ended.stderr
    assert [effect.tool for effect in shop.effects()] == ["refund", "send_email"]
    assert shop.effects("refund")[0].args == {"order_id": 7, "cents": 4000}
    assert shop.effects("send_email")[0].args["to"] == "customer-7@example.com"


def test_a_decision_lets_the_killed_script_continue_even_when_the_shop_is_gone(
    shop: World, tmp_path: Path
) -> None:
    ledger_path = tmp_path / "ledger.db"
    # The shop keeps the mail's answer to itself, so that the agent can be killed in mid-call.
    holding = (
        "import runpy, sys\n"
        "from nottwice.testing import WorldClient\n"
        "do = WorldClient.do\n"
        "hold = {'send_email': {'hold': 'mail'}}\n"
        "WorldClient.do = lambda self, tool, **o: do(self, tool, **o, **hold.get(tool, {}))\n"
        "del sys.argv[0]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    agent = subprocess.Popen(
        [sys.executable, "-c", holding, *command(ledger_path)[1:]],
        env={**os.environ, "SHOP_URL": shop.url},
        stderr=subprocess.DEVNULL,
    )
    try:
        shop.client().wait_until_held("mail")
    finally:
        agent.kill()
        assert agent.wait() == -signal.SIGKILL
    waits = run_agent(ledger_path, shop.url)
    assert "ReplayUnsafeError" in waits.stderr
    with nt.Ledger(ledger_path, create=False) as ledger:
        (case,) = open_cases(ledger.store)
        review_id = case.review.review_id
        verb = Verb.HAPPENED
        decide(ledger.store, ledger.clock, review_id, verb, by="me", why="seen", has_result=True)
    shop.stop()
    assert run_agent(ledger_path, shop.url).returncode == 0
    assert shop.count("send_email") == 1


def test_the_script_is_short_enough_to_be_read() -> None:
    assert len(demo_module.AGENT.read_text().splitlines()) <= 60
