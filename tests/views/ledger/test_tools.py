"""Does the view of a tool hold what its declaration says?"""

from __future__ import annotations

import nottwice as nt
from nottwice.guard.check.report import report_on
from nottwice.views.ledger.tools import ToolView, tool_view
from nottwice.views.shape import meanings, to_plain


@nt.tool("idempotent_with_key", name="views_label", key="label-{order}", window="24h")
def label(order: str) -> str:
    return order


def test_a_tool_is_shown_with_everything_that_it_declares() -> None:
    document = to_plain(tool_view(report_on(label)))
    assert list(document) == list(meanings(ToolView))
    assert document["name"] == "views_label"
    assert document["replay_class"] == "idempotent_with_key"
    assert (document["key"], document["window_seconds"]) == ("label-{order}", 86400.0)
    assert set(document["retry"]) == {"attempts", "first_seconds", "factor", "most_seconds"}
    for finding in document["findings"]:
        assert list(finding) == ["level", "text", "fix", "place", "chain"]
