"""Does a process answer Prometheus and probes, on this machine unless told otherwise? (P343)"""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.metrics.endpoint import answering, health, read_place
from tests.metrics.test_exposition import parsed


def get(address: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["content-type"], error.read().decode()


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with nt.Ledger(tmp_path / "agent.db") as opened:
        yield opened


def test_metrics_and_health_are_answered_and_nothing_else(ledger: nt.Ledger) -> None:
    figures = nt.metrics.count(ledger, gauges=True)
    with answering(("127.0.0.1", 0), figures, ledger) as address:
        status, kind, text = get(address)
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert "nottwice_runs" in parsed(text)
        assert get(address.replace("/metrics", "/healthz"))[::2] == (200, "ok\n")
        assert get(address.replace("/metrics", "/../etc/passwd"))[0] == 404
    figures.stop()
    with pytest.raises(urllib.error.URLError):
        get(address)


def test_a_name_that_another_site_made_lead_here_is_not_answered(ledger: nt.Ledger) -> None:
    def status(host: str) -> int:
        request = urllib.request.Request(address, headers={"Host": host})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    place = ("127.0.0.1", 0)
    with answering(place, nt.metrics.Figures(), ledger, hosts=["Worker.example"]) as address:
        for host in ("localhost:1", "LOCALHOST", "127.0.0.1", "[::1]:9464", "worker.example:9464"):
            assert status(host) == 200, host
        for host in ("evil.com", "evil.com:9464", "127.0.0.1.evil.com", "localhost.evil.com", "x"):
            assert status(host) == 421, host
        address = address.replace("/metrics", "/healthz")
        assert status("evil.com") == 421


def test_a_ledger_that_cannot_be_read_is_told(
    ledger: nt.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(run_id: str) -> None:
        raise nt.errors.StoreError("the database is away")

    assert health(ledger).status == 200
    monkeypatch.setattr(ledger.store, "load_run", away)
    found = health(ledger)
    assert found.status == 503
    assert "the database is away" in found.text


def test_figures_that_cannot_be_read_do_not_end_the_server(
    ledger: nt.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = nt.metrics.count(ledger, gauges=True)

    def away() -> None:
        raise nt.errors.StoreError("the database is away")

    with answering(("127.0.0.1", 0), figures, ledger) as address:
        with monkeypatch.context() as patch:
            patch.setattr(ledger.store, "count_runs", away)
            assert get(address)[0] == 503
        assert get(address)[0] == 200
    figures.stop()


def test_a_place_is_this_machine_unless_an_address_is_named() -> None:
    assert read_place("9464") == ("127.0.0.1", 9464)
    assert read_place("0.0.0.0:9464") == ("0.0.0.0", 9464)
    assert read_place("[::1]:0") == ("::1", 0)
    for text in ("", "http", "70000", "example.com:9464", "1.2.3.4:", "-1"):
        with pytest.raises(nt.errors.UsageError, match="Nothing was started"):
            read_place(text)


def test_a_port_that_is_taken_is_refused_with_what_to_do(ledger: nt.Ledger) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = ("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(nt.errors.UsageError, match="0 takes one that is free"):
            with answering(place, nt.metrics.Figures(), ledger):
                pass
