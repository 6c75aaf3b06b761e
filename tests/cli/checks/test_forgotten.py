"""Does `nottwice check` find a forgotten decorator wherever code runs in a run? (P165, P166)"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.workplace import Ended, Workplace

PACKAGE = {
    "__init__.py": "",
    "bank.py": """
import httpx
import nottwice as nt

def charge(order_id):
    httpx.post("https://bank.example/charges", json={"order": order_id})

@nt.tool("pure")
def look(order_id: int) -> int:
    return httpx.post("https://bank.example/search").status_code
""",
    "agents.py": """
from pathlib import Path
import nottwice as nt
from shop import bank

def show(state):
    Path("trace.txt").write_text("x")
    return helper.default_context(state)

def is_done(state):
    bank.charge(7)
    return True

helper = nt.Agent("helper", version="1.0.0", provider=nt.providers.scripted([]), context=show,
                  done_when=[is_done], tools=[bank.look])
flow = nt.Graph("orders", version="2.0.0")

@flow.node
async def pay(state):
    bank.look(1)
    bank.charge(7)
    return {}

app = nt.App(graphs=[flow])
""",
    "job.py": """
import subprocess
import nottwice as nt
from shop import agents

def main():
    with nt.run("night", store="a.db"):
        subprocess.run(["make", "deploy"])

if __name__ == "__main__":
    main()
""",
}


@pytest.fixture
def shop(empty: Workplace) -> Workplace:
    (empty.folder / "shop").mkdir()
    for name, source in PACKAGE.items():
        (empty.folder / "shop" / name).write_text(source)
    return empty


def findings(ended: Ended) -> list[dict[str, Any]]:
    document = json.loads(ended.stdout)
    return [one for one in document["findings"] if one["place"]]


def test_nodes_hooks_and_blocks_of_a_package_are_read_and_told_as_json(shop: Workplace) -> None:
    ended = shop.shell("nottwice check shop.job --json")
    assert ended.exit_code == 0, ended
    by_place = {Path(one["place"]).name: one for one in findings(ended)}
    assert sorted(by_place) == ["agents.py:7", "bank.py:6", "job.py:8"]
    assert by_place["job.py:8"]["text"].startswith("the run at line 7 starts a program")
    assert by_place["job.py:8"]["chain"] == []


def test_an_app_is_read_through_its_graphs_and_agents_through_their_hooks(shop: Workplace) -> None:
    ended = shop.shell("nottwice check shop.agents:app --json")
    by_place = {Path(one["place"]).name: one for one in findings(ended)}
    assert "context of helper@1.0.0 changes files" in by_place["agents.py:7"]["text"]
    (link,) = by_place["bank.py:6"]["chain"]
    assert link.startswith("bank.charge ")
    assert Path(link).name in ("agents.py:11", "agents.py:21")
    text = by_place["bank.py:6"]["text"]
    assert "node 'pay' of orders@2.0.0" in text
    assert "helper@1.0.0" in text
    assert ", also reached from " in text
    assert {one["level"] for one in by_place.values()} == {"warning"}
    assert all("@nt.tool" in one["fix"] for one in by_place.values())
    assert shop.shell("nottwice check shop.agents --strict").exit_code == 3


def test_a_waiver_without_a_reason_fails_the_check_and_one_with_a_reason_passes(
    empty: Workplace,
) -> None:
    source = """
import os
import nottwice as nt

@nt.tool("pure")
def look() -> int: ...

flow = nt.Graph("flow", version="1.0.0")

@flow.node
def clean(state):
    os.remove("cache")  # nottwice: no effect{why}
"""
    (empty.folder / "module.py").write_text(source.format(why=""))
    ended = empty.shell("nottwice check module.py")
    assert ended.exit_code == 3
    assert "error: the comment at module.py:12 is ignored" in ended.stdout
    assert "warning: node 'clean' of flow@1.0.0 changes files" in ended.stdout
    (empty.folder / "module.py").write_text(source.format(why=", a cache is made again"))
    ended = empty.shell("nottwice check module.py --strict")
    assert (ended.exit_code, ended.stdout.splitlines()[-1]) == (0, "1 tool, 0 errors, 0 warnings")
