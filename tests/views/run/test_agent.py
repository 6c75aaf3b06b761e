"""Does the view of an agent hold what the reference page explains?"""

from __future__ import annotations

from pathlib import Path

import nottwice as nt
from nottwice.agent.state import first_state
from nottwice.views.run.agent import AgentView, agent_of, agent_view
from nottwice.views.shape import meanings, to_plain


def test_a_view_of_an_agent_holds_what_is_documented(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        plain = first_state({"goal": "g", "done_when": ["paid"]})
        document = to_plain(agent_view(ledger.store, "r", plain))
    assert list(document) == list(meanings(AgentView))
    assert document["done_when"] == [{"condition": "paid", "evidence": None}]


def test_a_run_without_a_graph_is_not_a_run_of_an_agent(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        with ledger.run("r"):
            pass
        run = ledger.store.load_run("r")
        assert run is not None
        assert agent_of(ledger.store, run) is None
