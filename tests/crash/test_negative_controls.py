"""The crash test catches every engine that is broken on purpose. Otherwise it proves nothing."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from nottwice.testing.crash.sweep import level_names
from tests.crash.controls.agents import ONE_MAIL
from tests.crash.controls.catalogue import CONTROLS
from tests.crash.controls.control import Control, catch, level_named

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "negative_controls.py"))
PAGE = ROOT / "docs" / "internals" / "negative-controls.md"


@pytest.mark.sampled(part="sweeps", keep=6)
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.breaks.__name__)
def test_the_crash_test_catches(control: Control) -> None:
    why_not = level_named(control.level).why_not()
    if why_not is not None:
        pytest.skip(why_not)
    caught = catch(control)
    assert caught is not None, f"no test notices that {control.name}"
    row = TOOL["row"](caught)
    assert row in PAGE.read_text(encoding="utf-8"), "run: python tools/negative_controls.py"


def test_there_are_at_least_sixteen_and_the_page_shows_them_all() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len({control.name for control in CONTROLS}) == len(CONTROLS) >= 16
    assert [control.name for control in CONTROLS if control.name not in page] == []


def test_every_control_names_a_level_that_exists() -> None:
    assert {control.level for control in CONTROLS} <= set(level_names())


def test_an_engine_that_is_not_broken_is_not_caught() -> None:
    sound = Control(
        name="nothing is broken",
        breaks=lambda: None,
        agent=ONE_MAIL,
        level="boundaries",
        invariant="no effect twice",
    )
    assert catch(sound) is None


def test_a_control_that_merely_falls_over_is_not_caught() -> None:
    def falls_over() -> None:
        raise RuntimeError("this proves nothing")

    broken = Control(
        name="it falls over",
        breaks=falls_over,
        agent=ONE_MAIL,
        level="boundaries",
        invariant="no effect twice",
    )
    assert catch(broken) is None
