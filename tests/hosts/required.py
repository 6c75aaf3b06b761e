"""Must the engines be here? With ``NOTTWICE_HOSTS=required``, as in continuous integration, yes.

With ``newest``, as in the weekly job, too: a job that skips everything would report success.
Otherwise the tests of an engine that is missing are skipped.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip a test, or fail it where the engines are required."""
    said = os.environ.get("NOTTWICE_HOSTS")
    if said in ("required", "newest"):
        pytest.fail(f"{what} NOTTWICE_HOSTS={said} says that every engine must be here.")
    pytest.skip(what)
