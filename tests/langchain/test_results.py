"""Is a protected tool for LangChain what the bare tool is? (P264)

LangChain itself, in the environment of the frameworks; see `test_saver.py` for how.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.langchain.test_saver import run_inside
from tests.test_frameworks import python

__all__ = ["python"]

pytestmark = pytest.mark.deep(part="adapters")


def test_a_tool_answers_as_without_nottwice_now_and_from_its_receipt(
    python: Path, tmp_path: Path
) -> None:
    run_inside(python, "check_results.py", tmp_path)
