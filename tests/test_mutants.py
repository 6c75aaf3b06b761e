"""Does the table of mutants still fit the tree, and does its runner report survivors?

``make mutants`` takes minutes and is not part of ``make test``. What it needs is checked here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutants import __main__ as mutants
from tools.mutants.mutant import ROOT, Mutant

TEST = "tests/model/runs/test_places.py::test_only_siblings_of_one_fan_lie_in_different_branches"
HARMLESS = Mutant(
    name="a docstring says something else",
    file="model/runs/places.py",
    old="How do two places in a run relate?",
    new="How are two places in a run related?",
    tests=(TEST,),
    why="It costs nothing, so no test can notice.",
)
GRAVE = Mutant(
    name="no branch differs from another",
    file="model/runs/places.py",
    old="    return mine[:shorter] != theirs[:shorter]\n",
    new="    return False\n",
    tests=(TEST,),
    why="A wait in one branch would stop all others.",
)


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda one: one.name)
def test_every_mutant_still_fits_the_tree(mutant: Mutant) -> None:
    assert mutant.flaws() == []
    text = (ROOT / mutant.path).read_text(encoding="utf-8")
    if mutant.file.endswith(".py"):
        compile(mutant.applied(text), mutant.path, "exec")


def test_no_mutant_fails_only_because_it_uses_a_name_that_is_not_there(tmp_path: Path) -> None:
    broken = [one for one in mutants.MUTANTS if one.file.endswith(".py")]
    for number, mutant in enumerate(broken):
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        (tmp_path / f"mutant_{number}.py").write_text(mutant.applied(text), encoding="utf-8")
    words = ["check", "--isolated", "--quiet", "--select", "F821", "--output-format", "concise"]
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", *words, str(tmp_path)], capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout) == (0, "")


def test_there_are_enough_in_every_room_and_no_name_is_used_twice() -> None:
    rooms = [one.file.partition("/")[0] for one in mutants.MUTANTS]
    assert min(rooms.count(room) for room in ("model", "engine", "store")) >= 20
    assert len({one.name for one in mutants.MUTANTS}) == len(mutants.MUTANTS)


@pytest.mark.parametrize(
    ("content", "flaw"),
    [
        (None, "there is no file"),
        ("x = 1\n", "occurs 0 times"),
        ("guard\nguard\n", "occurs 2 times"),
        ("guard\n", "there is no test"),
    ],
)
def test_a_mutant_that_no_longer_fits_is_an_error(
    tmp_path: Path, content: str | None, flaw: str
) -> None:
    mutant = Mutant(
        name="no guard",
        file="guard.py",
        old="guard",
        new="pass",
        tests=("tests/test_guard.py::test_gone",),
        why="",
    )
    if content is not None:
        path = tmp_path / mutant.path
        path.parent.mkdir(parents=True)
        path.write_text(content)
    assert any(flaw in one for one in mutant.flaws(tmp_path))


@pytest.mark.deep(part="sweeps")
@pytest.mark.timeout(1200)
def test_who_survives_is_told_and_the_working_tree_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (ROOT / GRAVE.path).read_bytes()
    monkeypatch.setattr(mutants, "MUTANTS", (HARMLESS, GRAVE))
    assert mutants.main(["--json", "--jobs", "1"]) == mutants.SURVIVED
    told = json.loads(capsys.readouterr().out)["mutants"]
    assert [(one["name"], one["outcome"]) for one in told] == [
        (HARMLESS.name, "survived"),
        (GRAVE.name, "noticed"),
    ]
    assert told[1]["by"].startswith(TEST)
    assert (ROOT / GRAVE.path).read_bytes() == before


def test_a_choice_that_fits_nothing_is_an_error() -> None:
    assert mutants.main(["--only", "no such mutant"]) == mutants.DOES_NOT_FIT
