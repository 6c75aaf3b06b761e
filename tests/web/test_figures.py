"""Does the page answer Prometheus with the right to look, and a probe without any? (P343)"""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.web.app import page
from tests.metrics.test_exposition import parsed
from tests.web.visiting import HOST, Visit


def test_metrics_tell_how_the_ledger_is(visit: Visit, ledger: Ledger) -> None:
    answer = visit.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parsed(answer.text)
    reviews = {one["nottwice_review_kind"]: value for one, value in found["nottwice_reviews_open"]}
    waiting = [one for one in ledger.store.open_reviews() if one.decision is None]
    assert sum(reviews.values()) == len(waiting) > 0
    # What other processes do is told by themselves.
    assert "nottwice_calls_total" not in found


def test_a_stranger_gets_no_metrics_but_may_ask_for_health(ledger: Ledger) -> None:
    client = TestClient(page(ledger, user=lambda request: None), base_url=HOST)
    assert client.get("/metrics").status_code == 401
    assert (client.get("/healthz").status_code, client.get("/healthz").text) == (200, "ok\n")
    assert client.post("/healthz").status_code == 401
    assert client.get("/healthz/..").status_code in (401, 404)


def test_a_stranger_does_not_learn_where_the_ledger_is(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(run_id: str) -> Any:
        raise nt.errors.StoreError("/var/lib/secret.db is away")

    monkeypatch.setattr(ledger.store, "load_run", away)
    client = TestClient(page(ledger, user=lambda request: None), base_url=HOST)
    answer = client.get("/healthz")
    assert (answer.status_code, answer.text) == (503, "not ready\n")


def test_a_traced_opening_links_to_its_trace(ledger: Ledger) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    stop = nt.otel.instrument(ledger, tracer_provider=TracerProvider())
    with ledger.run("traced"):
        pass
    stop()
    (opening,) = ledger.run_record("traced").openings or ()
    assert opening.trace_id is not None
    shown = Visit(ledger).get("/run?id=traced").text
    assert f"trace {opening.trace_id}" in shown
    linked = Visit(ledger, trace_url="https://traces.example/t/{trace_id}").get("/run?id=traced")
    address = f"https://traces.example/t/{opening.trace_id}"
    assert f'<a href="{address}" rel="noopener noreferrer">trace</a>' in linked.text


@pytest.mark.parametrize(
    "address", ["https://traces.example/", "javascript:alert({trace_id})", "{trace_id}", ""]
)
def test_a_place_for_traces_that_is_none_is_refused(address: str, ledger: Ledger) -> None:
    with pytest.raises(nt.errors.UsageError, match="is not an address for traces"):
        page(ledger, user=lambda request: "ann", trace_url=address)
