"""Are ledgers named for addresses so that each name is one ledger?"""

from __future__ import annotations

import pytest

from nottwice.errors import UsageError
from nottwice.views.people.inboxes import name_ledgers


@pytest.mark.parametrize(
    ("locations", "names"),
    [
        (["/var/a.db", "/var/b.db"], ["a.db", "b.db"]),
        (["/one/agent.db", "/two/agent.db"], ["one-agent.db", "two-agent.db"]),
        (["/x/one/agent.db", "/y/one/agent.db"], ["one-agent.db", "one-agent.db-2"]),
        (
            ["postgresql://ann@db/agents", "/agents"],
            ["db-agents", "agents"],
        ),
        (
            ["postgresql://h/a?schema=b", "postgresql://h/a?schema=c"],
            ["h-a", "h-a-2"],
        ),
        (["/a/..", "/a/a b/<x>"], ["ledger", "x"]),
    ],
)
def test_a_name_is_short_plain_and_only_one_has_it(locations: list[str], names: list[str]) -> None:
    assert name_ledgers(locations) == names


def test_a_ledger_that_is_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="more than once"):
        name_ledgers(["/a.db", "/b.db", "/a.db"])
