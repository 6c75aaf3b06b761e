"""``nt.attach`` by the name of a ledger (P241)."""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.adapters import declare

CHARGE = declare("pay/charge", replay="unsafe_on_replay")


def test_a_run_is_attached_to_by_the_path_of_its_ledger(tmp_path: Path) -> None:
    for replayed in (False, True):
        with nt.attach("r", store=tmp_path / "agent.db") as handle:
            assert handle.call(CHARGE, {}, lambda _: 1).replayed is replayed


def test_an_id_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(nt.errors.InvalidId):
        nt.attach("", store=tmp_path / "agent.db")


def test_a_run_of_a_graph_cannot_be_attached_to(tmp_path: Path) -> None:
    graph = nt.Graph("orders", version="1.0.0")
    graph.node(nothing)
    graph.run("g", {}, store=tmp_path / "agent.db")
    with pytest.raises(nt.errors.UsageError, match="run of graph"):
        nt.attach("g", store=tmp_path / "agent.db").__enter__()


def nothing(state: dict[str, int]) -> dict[str, int]:
    return {}
