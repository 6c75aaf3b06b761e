"""What a program imports that has no workflow engine: nothing of one, and a clear word."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENGINES = {
    "temporal": ("temporalio", "Plugin"),
    "dbos": ("dbos", "step"),
    "celery": ("celery", "task"),
    "restate": ("restate", "run"),
}


def test_importing_nottwice_imports_no_engine() -> None:
    rooms = ", ".join(f"nottwice.{room}" for room in ENGINES)
    engines = [engine for engine, _ in ENGINES.values()]
    code = (
        f"import sys, nottwice, nottwice.hosts, {rooms}; "
        f"print([name for name in {engines} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("room", ENGINES)
def test_a_missing_engine_is_named_with_what_to_install(room: str) -> None:
    engine, name = ENGINES[room]
    code = f"import sys; sys.modules[{engine!r}] = None; import nottwice as nt; nt.{room}.{name}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 1
    assert f"pip install 'nottwice[{room}]'" in ran.stderr
