"""What the tests of the replay gate leave behind: nothing that another test could meet."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.testing.replay.deployment import MODULE


@pytest.fixture(autouse=True, scope="module")
def forget_what_was_deployed() -> Iterator[None]:
    """A module that stays imported keeps its tools, whose names belong to it then."""
    before = set(sys.modules)
    yield
    for name in (MODULE, "support_agent", "support_agent_file"):
        if name not in before:
            sys.modules.pop(name, None)
