"""Does Prometheus' own parser read what is written?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from nottwice.metrics import declared
from nottwice.metrics.exposition import Series, exposition


def parsed(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@given(st.text(), st.floats(min_value=0, max_value=1e15))
def test_every_label_and_every_number_is_read_as_it_was(label: str, value: float) -> None:
    series = Series(declared.DUPLICATES, ((declared.TOOL, label),), value)
    ((labels, read),) = parsed(exposition([series]))["nottwice_duplicates_prevented_total"]
    assert labels == {"gen_ai_tool_name": label.encode("utf-8", "replace").decode()}
    assert read == value


def test_a_histogram_adds_up() -> None:
    buckets = tuple(range(len(declared.BOUNDS) + 1))
    text = exposition([Series(declared.COMMIT_DURATION, (), 1.5, buckets)])
    found = parsed(text)
    counts = [value for _, value in found["nottwice_commit_duration_seconds_bucket"]]
    assert counts == sorted(counts)
    ((_, total),) = found["nottwice_commit_duration_seconds_count"]
    assert total == sum(buckets) == counts[-1]
    ((_, seconds),) = found["nottwice_commit_duration_seconds_sum"]
    assert seconds == 1.5


def test_each_metric_is_explained_once() -> None:
    series = [Series(declared.RUNS, ((declared.RUN_STATE, s),), 1) for s in ("waiting", "failed")]
    text = exposition(series)
    assert text.count("# HELP nottwice_runs ") == text.count("# TYPE nottwice_runs gauge") == 1
    assert exposition([]) == ""
