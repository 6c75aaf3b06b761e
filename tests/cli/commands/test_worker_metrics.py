"""Does `nottwice worker --metrics` answer Prometheus and probes, as a process? (P343)"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner

from nottwice.cli.main import main
from tests.metrics.test_exposition import parsed

APP = """
import nottwice as nt

@nt.tool("unsafe_on_replay", name="metered")
def act(what: str) -> str:
    return what

flow = nt.Graph("flow", version="1.0.0")

@flow.node
def first(state):
    act("a")
    return {"answer": nt.ask("Go on?")}

app = nt.App(graphs=[flow], store="agent.db")
"""
SECONDS = 60.0


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=SECONDS) as answer:
        text: str = answer.read().decode()
        return text


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def address_in(errors: IO[str]) -> str:
    for line in errors:
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
        if found is not None:
            return found[0]
    raise AssertionError("the worker did not say where its metrics are")


def test_a_worker_answers_prometheus_and_probes_while_it_works(tmp_path: Path) -> None:
    (tmp_path / "metered_app.py").write_text(APP)
    told = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-m", "nottwice"]
    app = ["--app", "metered_app:app"]
    enqueue = [*words, "run", "flow", *app, "--id", "r", "--input", "{}", "--detach"]
    subprocess.run(enqueue, cwd=tmp_path, env=told, check=True, capture_output=True)
    with subprocess.Popen(
        [*words, "worker", *app, "--metrics", "0", "--ledger-metrics"],
        cwd=tmp_path,
        env=told,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        try:
            assert worker.stderr is not None
            address = address_in(worker.stderr)
            until(lambda: "nottwice_calls_total" in parsed(get(address)))
            ((labels, calls),) = parsed(get(address))["nottwice_calls_total"]
            assert (labels["gen_ai_tool_name"], labels["nottwice_outcome"], calls) == (
                "metered",
                "done",
                1,
            )
            reviews = parsed(get(address))["nottwice_reviews_open"]
            assert {one["nottwice_review_kind"] for one, _ in reviews} >= {"in doubt", "question"}
            assert get(address.replace("/metrics", "/healthz")) == "ok\n"
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.communicate()
    assert worker.returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metrics", "http"], "is not an address to listen on"),
        (["--ledger-metrics"], "--metrics PORT, which is not given"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(
    words: list[str], said: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(main, ["worker", *words])
    assert result.exit_code in (1, 2)
    assert said in result.output
