"""Are asyncio and the names of packages loaded on first use, and are missing frameworks named?"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from types import ModuleType

import pytest

from nottwice import lazy

OUTSIDE = """
import sys
from nottwice import lazy

assert lazy.running_loop() is None and "asyncio" not in sys.modules
assert lazy.asyncio is sys.modules["asyncio"]
assert lazy.running_loop() is None
"""


def test_outside_of_a_loop_asyncio_is_loaded_by_its_first_use() -> None:
    """P226."""
    subprocess.run([sys.executable, "-c", OUTSIDE], check=True)


def test_the_running_loop_is_found() -> None:
    async def here() -> bool:
        return lazy.running_loop() is asyncio.get_running_loop()

    assert asyncio.run(here())
    with pytest.raises(AttributeError, match="no attribute 'trio'"):
        lazy.trio  # type: ignore[attr-defined]  # noqa: B018


def test_a_name_is_loaded_once_and_an_unknown_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = ModuleType("packaged")
    monkeypatch.setitem(sys.modules, "packaged", package)
    load, listed = lazy.names("packaged", {"dumps": "json"})
    assert load("dumps") is sys.modules["json"].dumps
    assert vars(package)["dumps"] is sys.modules["json"].dumps
    assert "dumps" in listed()
    with pytest.raises(AttributeError, match="module 'packaged' has no attribute 'loads'"):
        load("loads")


@pytest.mark.parametrize("missing", ["no_framework", "no_library_of_its_own"])
def test_only_a_missing_framework_is_said_to_be_missing(missing: str) -> None:
    load, _ = lazy.names(
        "nottwice.packaged", {"step": missing}, needs={"no_framework": "A framework"}
    )
    says = "needs A framework" if missing == "no_framework" else f"No module named '{missing}'"
    with pytest.raises(ImportError, match=says):
        load("step")
