"""Must the engines be here? With ``NOTTWICE_HOSTS=required``, as in continuous integration, yes.

Otherwise the tests of an engine that is missing are skipped.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip a test, or fail it where the engines are required."""
    if os.environ.get("NOTTWICE_HOSTS") == "required":
        pytest.fail(f"{what} NOTTWICE_HOSTS=required says that every engine must be here.")
    pytest.skip(what)
