"""What a ledger knows about a tool is kept as it was given. (P222)"""

from __future__ import annotations

from nottwice.model.replay_class import ReplayClass
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store.tables import TOOLS


def test_a_tool_comes_back_as_it_was_recorded_with_and_without_texts() -> None:
    bare = ToolRecord("mail", ReplayClass.PURE, 1.5)
    full = ToolRecord("pay", ReplayClass.UNSAFE_ON_REPLAY, 2.0, "a", "b", "c", "d", '{"e":1}')
    for record in (bare, full):
        assert TOOLS.record(TOOLS.row(record)) == record
