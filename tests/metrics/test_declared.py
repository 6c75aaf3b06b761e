"""Is every metric declared once, with a name that Prometheus accepts?"""

from __future__ import annotations

import re

from nottwice.metrics.declared import ALL, Kind


def test_names_are_unique_and_as_prometheus_writes_them() -> None:
    names = [one.prometheus_name for one in ALL]
    assert len(set(names)) == len(ALL) == 13
    assert all(re.fullmatch(r"nottwice_[a-z_]+", name) for name in names)
    counters = [one for one in ALL if one.kind is Kind.COUNTER]
    assert all(one.prometheus_name.endswith("_total") for one in counters)
    assert all(one.about.endswith(".") for one in ALL)


def test_no_metric_has_a_label_for_each_run() -> None:
    labels = {label for one in ALL for label in one.labels}
    assert not any(word in label for label in labels for word in ("run_id", "call_id", "key"))
