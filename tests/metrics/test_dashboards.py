"""Do the dashboard and the alerts ask only for metrics, labels and values that exist? (P347)"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from nottwice.metrics.declared import ALL, Instrument, Kind, prometheus_label
from nottwice.model.review import ReviewKind
from nottwice.model.runs.workers import WorkerState
from nottwice.views.runs import STATES
from tests.tidy.source import ROOT

FOLDER = ROOT / "docs" / "guides" / "telemetry"
BOARD = json.loads((FOLDER / "grafana.json").read_text())
RULES = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
VALUES = {
    "nottwice_review_kind": {kind.value for kind in ReviewKind},
    "nottwice_run_state": set(STATES),
    "nottwice_worker_state": {state.value for state in WorkerState},
}
METRIC = re.compile(r"(nottwice_[a-z_]+)(\{[^}]*\})?")
PAIR = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')


def expressions() -> Iterator[tuple[str, str]]:
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


def names_of(instrument: Instrument) -> set[str]:
    name = instrument.prometheus_name
    if instrument.kind is Kind.HISTOGRAM:
        return {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
    return {name}


KNOWN = {name: one for one in ALL for name in names_of(one)}


def asked(expression: str) -> list[tuple[Instrument, set[str], list[tuple[str, str]]]]:
    """The metrics in an expression, with all labels it names and the values it compares with."""
    named = set(re.findall(r"by \(([^)]*)\)", expression))
    grouped = {word.strip() for words in named for word in words.split(",")}
    rest = re.sub(r"by \([^)]*\)", "", expression)
    found = []
    for name, braces in METRIC.findall(rest):
        assert name in KNOWN, f"{name} does not exist: {expression}"
        pairs = PAIR.findall(braces)
        labels = grouped | {label for label, _, _ in pairs}
        values = [(label, one) for label, _, text in pairs for one in text.split("|")]
        found.append((KNOWN[name], labels, values))
    assert found, expression
    return found


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_every_expression_asks_for_what_exists(title: str, expression: str) -> None:
    for instrument, labels, values in asked(expression):
        known = {prometheus_label(label) for label in instrument.labels}
        if instrument.kind is Kind.HISTOGRAM:
            known.add("le")
        assert labels <= known, (title, labels - known)
        for label, value in values:
            assert value in VALUES[label], (title, value)


def test_a_check_that_looked_away_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="does not exist"):
        asked("sum(nottwice_refunds_total)")
    ((_, labels, _),) = asked('sum by (run_id) (nottwice_runs{nottwice_run_state="lost"})')
    assert labels == {"run_id", "nottwice_run_state"}


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {
        instrument
        for panel in BOARD["panels"]
        for target in panel["targets"]
        for instrument, _, _ in asked(target["expr"])
    }
    assert shown == set(ALL)


def test_no_two_panels_overlap_and_each_is_explained() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["description"].endswith(".")
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_every_alert_says_what_to_type() -> None:
    assert [rule["alert"] for rule in RULES][:4] == [
        "NottwiceInDoubt",
        "NottwiceTampered",
        "NottwiceReviewOld",
        "NottwiceNoWorker",
    ]
    for rule in RULES:
        said: dict[str, Any] = rule["annotations"]
        assert "nottwice " in said["description"]
        assert rule["labels"]["severity"] in ("page", "ticket")
