"""Must the frameworks be here? With ``NOTTWICE_ADAPTERS=required``, as in CI, yes.

Otherwise the tests of the adapters are skipped where a framework or a tool is missing.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip a test, or fail it where the frameworks are required."""
    if os.environ.get("NOTTWICE_ADAPTERS") == "required":
        pytest.fail(f"{what} NOTTWICE_ADAPTERS=required says that it must be here.")
    pytest.skip(what)
