"""Is what strace writes read correctly, and is its absence said?"""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Any

import pytest

from nottwice.testing import crash_test
from nottwice.testing.crash.faults.tracing import Called, bytes_of, read_calls, why_no_tracing
from tests.testing.crash.tools import ANSWERS, agent


def test_calls_of_several_threads_that_overlap_are_put_together() -> None:
    text = (
        '12 pwrite64(5, "\\x61\\x62", 2, 4096 <unfinished ...>\n'
        "13 fsync(7)  = 0\n"
        "12 <... pwrite64 resumed>)          = 2\n"
        "12 +++ exited with 0 +++\n"
    )
    assert list(read_calls(text)) == [
        Called(13, "fsync", ("7",), 0),
        Called(12, "pwrite64", ("5", '"\\x61\\x62"', "2", "4096"), 2),
    ]


def test_a_call_that_was_made_to_fail_is_marked() -> None:
    (call,) = read_calls("12 fsync(5) = -1 EIO (Input/output error) (INJECTED)\n")
    assert (call.failed, call.injected) == (True, True)


def test_a_call_that_never_returned_has_failed() -> None:
    (call,) = read_calls("12 fsync(5) = ?\n")
    assert (call.failed, call.injected) == (True, False)


def test_data_is_read_from_its_digits() -> None:
    assert bytes_of('"\\x00\\xff\\x0a"') == b"\0\xff\n"


@pytest.fixture
def asked_anew() -> Any:
    why_no_tracing.cache_clear()
    yield
    why_no_tracing.cache_clear()


@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("level", ["io", "power"])
def test_without_strace_the_level_is_skipped_and_says_what_to_install(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "platform", "linux")
    verdict = crash_test(agent, tools=ANSWERS, levels=["boundaries", level], budget="1s")
    assert verdict.levels[1].examined == 0
    assert any("skipped" in line and "apt install strace" in line for line in verdict.lines())


@pytest.mark.usefixtures("asked_anew")
def test_where_tracing_is_forbidden_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = subprocess.CompletedProcess([], 1, "", "strace: Operation not permitted\n")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/strace")
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: refused)
    assert "Operation not permitted" in str(why_no_tracing())


@pytest.mark.usefixtures("asked_anew")
def test_elsewhere_than_on_linux_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "Linux only" in str(why_no_tracing())
