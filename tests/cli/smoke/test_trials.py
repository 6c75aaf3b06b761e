"""Does the costume check tell upstreams that honour a key from those that do not? (T6, P85)"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nottwice.cli.main import main
from nottwice.testing import World
from nottwice.testing import smoke as trying_out
from tests.tidy.source import ROOT


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World.start() as started:
        yield started


@pytest.fixture(autouse=True)
def surroundings(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WORLD_URL", world.url)
    monkeypatch.setenv("WORLD_LOG", str(world.log_path))
    # A few will do: every process that is killed is one to be started.
    monkeypatch.setattr(trying_out, "KILL_AT", ())
    monkeypatch.setattr(trying_out, "ROUNDS", 2)


def check(*words: str) -> Result:
    return CliRunner().invoke(main, ["check", "tests.cli.trying", *words])


def smoke(tool: str, *words: str, sandbox: str = "bank") -> Result:
    return check("--smoke", tool, "--sandbox", f"tests.cli.places:{sandbox}", *words)


def findings(document: dict[str, Any]) -> dict[str, tuple[str, int | None]]:
    return {each["name"]: (each["finding"], each["effects"]) for each in document["trials"]}


def test_an_upstream_that_honours_the_key_passes_with_the_evidence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trying_out, "KILL_AT", (0.5,))
    before = world.count("pay")
    result = smoke("honest", "--yes", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["finding"], document["failed"]) == ("honours the key", False)
    assert findings(document) == {
        "twice with one key": ("honours the key", 1),
        "changed arguments under one key": ("rejects changed arguments", 1),
        "two in parallel": ("honours the key", 1),
        "killed in mid-call": ("honours the key", 1),
    }
    halfway, late = document["trials"][3]["evidence"]
    assert "killed 50% into the call, before it returned" in halfway
    assert "killed as soon as its effect showed, before it returned; effects: 1" in late
    assert late.endswith("call again returned 'paid'; effects: 1")
    assert "409" in document["trials"][1]["evidence"][-1]
    assert "two in parallel: honours the key" in result.stderr
    assert world.count("pay") - before == 6


def test_an_upstream_that_ignores_the_key_is_found_by_every_trial() -> None:
    result = smoke("costume", "--yes")
    assert result.exit_code == 3
    assert "twice with one key: ignores the key" in result.stdout
    assert "changed arguments under one key: takes changed arguments for another call" in (
        result.stdout
    )
    assert "two in parallel: races" in result.stdout
    assert "killed in mid-call: ignores the key" in result.stdout
    last = result.stdout.splitlines()[-1]
    assert last.startswith("costume ignores the key. In fact it is unsafe_on_replay")


def test_an_upstream_that_looks_first_and_acts_then_races() -> None:
    document = json.loads(smoke("racing", "--yes", "--json").stdout)
    assert document["finding"] == "races"
    assert document["failed"] is True
    found = findings(document)
    assert found["twice with one key"] == ("honours the key", 1)
    assert found["two in parallel"] == ("races", 2)
    assert found["changed arguments under one key"][0] == (
        "returns the first result for changed arguments"
    )


@pytest.mark.parametrize(
    ("tool", "sandbox", "why"),
    [
        ("broken", "bank", "first call raised Permanent: no such account"),
        ("honest", "blind", "the sandbox shows no effect"),
    ],
)
def test_what_cannot_be_seen_proves_nothing(tool: str, sandbox: str, why: str) -> None:
    result = smoke(tool, "--yes", sandbox=sandbox)
    assert result.exit_code == 3
    assert why in result.stdout
    assert f"{tool} is unclear. Nothing is proven." in result.stdout


def test_nothing_is_called_without_permission(world: World) -> None:
    before = world.count()
    without = check("--smoke", "honest", "--yes")
    unsaid = smoke("honest")
    assert (without.exit_code, unsaid.exit_code) == (2, 2)
    assert "--sandbox MODULE:NAME" in without.stderr
    assert "up to 10 real calls, and 1 of their processes killed" in unsaid.stderr
    assert "confirm with: --yes" in unsaid.stderr
    unnamed = check("--smoke", "honest", "--sandbox", "tests.cli.places", "--yes")
    assert unnamed.exit_code == 1
    assert "does not say which" in unnamed.stderr
    alone = check("--sandbox", "tests.cli.places:bank")
    assert alone.exit_code == 2
    assert "belong to --smoke" in alone.stderr
    assert world.count() == before


@pytest.mark.parametrize(
    ("tool", "sandbox", "why"),
    [
        ("honset", "bank", "declares no tool 'honset'. Nothing was called. There is: 'honest'"),
        ("unsafe", "bank", "it has no key"),
        ("honest", "elsewhere", "is str, not a nottwice.testing.Sandbox"),
        ("honest", "nowhere", "has no attribute 'nowhere'"),
        ("honest", "lost", "returned NoneType, not a number of effects"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_called(
    world: World, tool: str, sandbox: str, why: str
) -> None:
    before = world.count()
    result = smoke(tool, "--yes", sandbox=sandbox)
    assert result.exit_code == 1
    assert why in result.stderr
    assert world.count() == before
