"""Does a store that defines only the primitives keep every claim?

That the answers which follow are those of the SQL stores is in `test_agreement.py`.
"""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from nottwice.store.base import StoreBase
from nottwice.store.interface import Store
from tests.tidy.source import ROOT


@pytest.mark.deep(part="sweeps")
def test_a_store_of_sixty_lines_keeps_every_claim_of_the_suite() -> None:
    """P217."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.store.own_claims"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_all_but_a_few_primitives_follow() -> None:
    """P217: what a later version asks for has an answer in every store that derives from this."""
    asked = {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if name[0] != "_"}
    assert asked <= set(dir(StoreBase))
    assert len(StoreBase.__abstractmethods__) <= 15
    assert {"records", "all_records"} == StoreBase.__abstractmethods__ - asked
