"""Is the page of a process reachable from this machine only, and does it survive its end?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.web.serving import Serving, check, own_names
from tests.cli.workplace import PROGRAM, Workplace
from tests.web.visiting import hidden, words

TOKEN = "a-token-that-is-long-enough-to-be-one"


class Server:
    """`nottwice serve` as a process of its own."""

    def __init__(self, workplace: Workplace, *words: str) -> None:
        command = [sys.executable, "-c", PROGRAM, "serve", "--port", "0", "--json", *words]
        self.process = subprocess.Popen(
            [*command, "--store", workplace.store],
            cwd=workplace.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        told = ""
        while not told.endswith("}\n"):
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            told += line
        self.links = json.loads(told)
        self.address = self.links["look"].partition("?")[0].rstrip("/")
        self.client = httpx.Client(base_url=self.address, follow_redirects=True, trust_env=False)

    def stop(self, how: int = signal.SIGTERM) -> None:
        self.client.close()
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        self.process.communicate(timeout=30)


@pytest.fixture
def server(workplace: Workplace) -> Iterator[Server]:
    started = Server(workplace, "--by", "ann")
    yield started
    started.stop()


def test_the_printed_link_opens_the_page_and_a_decision_survives_a_kill(
    server: Server, workplace: Workplace, doubt: str
) -> None:
    assert server.client.get("/").status_code == 401
    assert "3 open" in words(server.client.get(server.links["decide"]).text)
    form = hidden(server.client.get(f"/review/{doubt}").text)
    form |= {"verb": "did-not-happen", "why": "not in the outbox"}
    sent = server.client.post(f"/review/{doubt}", data=form)
    assert sent.status_code == 200, sent.text
    # What the browser was told is durable, whatever becomes of the server.
    server.stop(signal.SIGKILL)
    found = workplace.json("decide", doubt)["review"]["decision"]
    assert (found["verb"], found["by"]) == ("did-not-happen", "ann")


def test_the_server_answers_to_its_own_names_and_listens_on_loopback(server: Server) -> None:
    port = server.address.rpartition(":")[2]
    assert server.address == f"http://127.0.0.1:{port}"
    evil = {"host": f"evil.example.com:{port}"}
    assert server.client.get("/", headers=evil).status_code == 421
    local = {"host": f"localhost:{port}"}
    assert server.client.get("/", headers=local).status_code == 401
    # A forwarded name is not a name of ours, and no proxy was announced.
    assert server.client.get("/", headers={"x-forwarded-user": "bob"}).status_code == 401


def test_behind_a_proxy_the_proxy_says_who_decides(
    workplace: Workplace, tmp_path: Path, doubt: str
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    words_ = ["--user-header", "X-User", "--token-file", str(tmp_path / "token")]
    server = Server(workplace, *words_, "--decider", "bob", "--host", "ops.example.com")
    try:
        assert server.links["decide"] is None
        assert TOKEN not in server.links["look"]
        proxy = {"authorization": f"Bearer {TOKEN}", "host": "ops.example.com"}
        assert server.client.get("/", headers=proxy).status_code == 401
        assert server.client.get("/", headers={"x-user": "bob"}).status_code == 401
        eve = server.client.get(f"/review/{doubt}", headers=proxy | {"x-user": "eve"})
        assert "You may look, and not decide" in words(eve.text)
        bob = proxy | {"x-user": "bob"}
        form = hidden(server.client.get(f"/review/{doubt}", headers=bob).text)
        form |= {"verb": "abort", "why": "stop"}
        sent = server.client.post(
            f"/review/{doubt}", data=form, headers=bob, follow_redirects=False
        )
        assert sent.status_code == 303, sent.text
    finally:
        server.stop()
    with Ledger(workplace.store, create=False) as ledger:
        review = ledger.store.load_review(doubt)
        assert review is not None
        assert review.decision is not None
        assert review.decision.by == "bob"


def test_one_server_shows_all_ledgers_that_were_named(workplace: Workplace, tmp_path: Path) -> None:
    """P356. And Ctrl-C ends it well."""
    other = tmp_path / "other.db"
    with Ledger(other) as ledger, ledger.run("r"):
        pass
    server = Server(workplace, "--store", str(other))
    try:
        assert server.links["ledgers"] == [str(other), workplace.store]
        assert "Inbox of 2 ledgers" in words(server.client.get(server.links["decide"]).text)
        page = words(server.client.get("/in/other.db/runs").text)
        assert "1×" in page
        assert f"nottwice runs --store {other}" in page
        os.kill(server.process.pid, signal.SIGINT)
        assert server.process.wait(timeout=30) == 0
    finally:
        server.stop()


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.7", "ops.example.com"])
def test_a_port_is_never_open_to_a_network_by_accident(address: str) -> None:
    with pytest.raises(UsageError, match=r"ssh -L .* Nothing|Nothing was started"):
        check(Serving(by="ann", address=address))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_this_machine_is_fine(address: str) -> None:
    check(Serving(by="ann", address=address))
    names = own_names(Serving(by="ann", address=address), 81)
    assert {"localhost:81", "127.0.0.1:81", "[::1]:81"} <= set(names)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Serving(by="ann", user_header="X-User"), "--token-file"),
        (Serving(by="ann", deciders=["bob"]), "--user-header"),
    ],
)
def test_what_would_prove_nothing_is_refused(wanted: Serving, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check(wanted)
