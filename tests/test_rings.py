"""Do the Makefile, CI and the workflow on GitHub run the rings that CONTRIBUTING.md describes?"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import product
from typing import Any

import pytest
import yaml
from hypothesis import settings

from tests.tidy import rings
from tests.tidy.source import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"
PARTS = [f"deep-{part}" for part in rings.parts(MAKEFILE)]


def planned(*targets: str, **settings: str) -> str:
    """The commands that make would run, without running them."""
    words = [f"{name}={value}" for name, value in settings.items()]
    command = ["make", "--dry-run", "--no-print-directory", *targets, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    found = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def commands(job: dict[str, Any]) -> list[str]:
    """What the steps of a job run, for every combination of its matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    lines = [step["run"] for step in job["steps"] if "run" in step]
    found = []
    for chosen in product(*matrix.values()):
        for line in lines:
            for name, value in zip(matrix, chosen, strict=True):
                line = line.replace(f"${{{{ matrix.{name} }}}}", value)
            found.append(line)
    return found


def test_make_test_leaves_out_what_is_deep() -> None:
    assert '-m "not deep"' in planned("test")


def test_the_two_runs_of_make_test_leave_nothing_out() -> None:
    first, second = [line for line in planned("test").splitlines() if "-m pytest " in line]
    alone = [word for word in first.split() if word.startswith("tests/")]
    assert alone
    assert [word for word in second.split() if word.startswith(("tests", "--ignore"))] == [
        "tests",
        *(f"--ignore={folder}" for folder in alone),
    ]


def test_a_part_is_named_in_the_file_of_its_tests() -> None:
    """Because `make deep` looks for the name, and collects no other files."""
    found = {
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"\bmark\.(deep|sampled)\(", path.read_text(encoding="utf-8"))
    }
    assert {name for name in found if not name.startswith("test_")} == {"conftest.py", "rings.py"}


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_make_deep_runs_the_tests_that_name_it(part: str) -> None:
    assert f'''-m 'deep(part="{part.removeprefix("deep-")}")\'''' in planned(part)


def test_a_sampled_test_keeps_some_cases_and_leaves_the_others_to_its_part() -> None:
    file = "tests/kill/test_paid_work.py"
    whole, kept, deep = (
        collected(file),
        collected(file, "-m", "not deep"),
        collected(file, "-m", 'deep(part="sweeps")'),
    )
    assert kept == collected(file, "-m", "not deep")
    assert len(kept) == 4
    assert (kept | deep, kept & deep) == (whole, set())


def collected(*words: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in ran.stdout.splitlines() if "::" in line}


def test_make_deep_runs_every_part() -> None:
    together = planned("deep")
    assert PARTS
    for part in PARTS:
        assert f'part="{part.removeprefix("deep-")}"' in together


def test_make_deep_tries_more_examples_of_every_property_than_make_test() -> None:
    assert "-m hypothesis --hypothesis-profile deep" in planned("deep")
    deep, usual = settings.get_profile("deep"), settings.get_profile("nottwice")
    assert deep.max_examples == 20 * usual.max_examples


def test_make_deep_keeps_its_files_on_a_disk() -> None:
    assert "$(DEEP:%=deep-%): export TMPDIR ?= /tmp" in MAKEFILE.splitlines()


@pytest.mark.parametrize("target", ["quick", "test", *PARTS, "deep-properties"])
def test_no_process_of_the_tests_compiles_nottwice_again(target: str) -> None:
    lines = planned(target).splitlines()
    (compiles,) = [number for number, line in enumerate(lines) if "-m compileall -q src" in line]
    runs = [number for number, line in enumerate(lines) if "-m pytest " in line]
    assert compiles < min(runs)
    assert re.search(r"^export PYTHONDONTWRITEBYTECODE :=$", MAKEFILE, re.MULTILINE)


@pytest.mark.parametrize("target", ["quick", "test", *PARTS, "deep-properties"])
def test_the_number_of_workers_follows_the_machine(target: str) -> None:
    assert " -n auto " in planned(target)


def test_what_make_quick_names_exists() -> None:
    (chosen,) = re.findall(r"^QUICK := ((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)
    for name in chosen.replace("\\\n", " ").split():
        path, *names = name.split("::")
        assert (ROOT / path).exists(), f"{path} is not there"
        for each in names:
            assert f"def {each.split('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


def test_continuous_integration_runs_both_rings() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"^make (?:--keep-going )?(\w+)$", script, re.MULTILINE) == ["test", "deep"]


def test_the_workflow_runs_both_rings_on_every_python_that_is_supported(
    workflow: dict[Any, Any],
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    matrix = workflow["jobs"]["rings"]["strategy"]["matrix"]
    # The workflow also tries the next one. It is named as supported once the tests have passed.
    assert matrix["python"] == [*supported, "3.14"]
    assert project["requires-python"] == f">={supported[0]}"
    assert matrix["ring"] == ["test", "deep"]


def test_every_target_that_the_workflow_makes_exists(workflow: dict[Any, Any]) -> None:
    made = [
        re.search(r"make (?:--keep-going )?([\w-]+)", line)
        for job in workflow["jobs"].values()
        for line in commands(job)
        if "make " in line
    ]
    targets = {found[1] for found in made if found}
    assert targets == {"test", "deep", "deep-adapters", "deep-hosts", "newest-sdks"}
    for target in targets:
        planned(target)


def test_the_newest_frameworks_only_report(workflow: dict[Any, Any]) -> None:
    newest = workflow["jobs"]["newest"]
    assert newest["continue-on-error"] is True
    assert [step["env"] for step in newest["steps"] if "env" in step] == [
        {"NOTTWICE_FRAMEWORKS": "newest"}
    ]
    assert "continue-on-error" not in workflow["jobs"]["rings"]


def test_the_newest_versions_of_the_hosts_only_report(workflow: dict[Any, Any]) -> None:
    job = workflow["jobs"]["newest-hosts"]
    assert job["continue-on-error"] is True
    assert commands(job)[-1] == "make deep-hosts PYTHON=python"
    assert job["steps"][-1]["env"] == {"NOTTWICE_HOSTS": "newest"}


def test_the_newest_versions_of_every_pinned_sdk_only_report(workflow: dict[Any, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = re.findall(
        r"^(\w+)==", "\n".join(project["optional-dependencies"]["dev"]), re.MULTILINE
    )
    job = workflow["jobs"]["newest-sdks"]
    assert job["continue-on-error"] is True
    assert commands(job) == ["make newest-sdks PYTHON=python"]
    assert pinned
    assert f"--upgrade {' '.join(pinned)}\n" in planned("newest-sdks")


def test_every_step_of_the_workflow_does_one_thing(workflow: dict[Any, Any]) -> None:
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])
        assert all("@v" in step["uses"] for step in job["steps"] if "uses" in step)
