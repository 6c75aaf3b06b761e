"""Do the commands that the demo prints work as printed, and does its page open?"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import webbrowser
from pathlib import Path

import httpx
import pytest

from nottwice.cli.demo.story import AGENT
from nottwice.cli.demo.trying import program_name, protected_lines, show_in_browser
from tests.tidy.source import ROOT

PROGRAM = Path(sys.executable).with_name("nottwice")
LIMIT_SECONDS = 240


def outside(tmp_path: Path) -> dict[str, str]:
    """An environment whose shell does not know `nottwice`, as that of a person who types make."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VIRTUAL_ENV")}
    return {**kept, "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}


def demo_words(folder: Path) -> str:
    """How make starts the program: by a path that is relative to the folder."""
    return os.path.relpath(PROGRAM, folder)


@pytest.mark.skipif(not PROGRAM.exists(), reason="nottwice is not installed as a program")
def test_every_command_that_the_demo_prints_works_as_printed(tmp_path: Path) -> None:
    """P361."""
    typed, variables = demo_words(ROOT), outside(tmp_path)
    ended = subprocess.run(
        [typed, "demo", "--no-input", "--points", "1"],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    printed = [line.strip() for line in ended.stdout.splitlines() if line.startswith(f"  {typed} ")]
    verbs = [line.removeprefix(typed).split()[0] for line in printed]
    assert verbs == ["show", "reviews", "check", "serve"]
    for line in printed[:-1]:
        tried = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=ROOT,
            env=variables,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert tried.returncode == 0, (line, tried.stdout, tried.stderr)
    server = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {printed[-1]}"],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert "1 open" in visited(server)
    finally:
        server.terminate()
        server.communicate(timeout=30)


def visited(server: subprocess.Popen[str]) -> str:
    """The page behind the first link that a process prints."""
    assert server.stdout is not None
    for line in server.stdout:
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
        if found is not None:
            with httpx.Client(follow_redirects=True, trust_env=False) as client:
                return client.get(found[0]).text
    raise AssertionError("no link was printed")


@pytest.mark.skipif(not PROGRAM.exists(), reason="nottwice is not installed as a program")
def test_the_demo_opens_its_page_and_needs_no_browser(tmp_path: Path) -> None:
    """P361."""
    without = {k: v for k, v in outside(tmp_path).items() if k not in ("DISPLAY", "BROWSER")}
    server = subprocess.Popen(
        [str(PROGRAM), "demo", "--no-input", "--points", "1", "--page"],
        env=without,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        page = visited(server)
        assert "send_email" in page
        assert "1 open" in page
        server.send_signal(signal.SIGINT)
        _, complaints = server.communicate(timeout=30)
    finally:
        server.kill()
        server.communicate()
    assert server.returncode == 0
    assert complaints == ""


def test_the_plain_name_is_printed_only_if_it_starts_this_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
        (folder / "nottwice").write_text("#!/bin/sh\n")
        (folder / "nottwice").chmod(0o755)
    typed = str(here / "nottwice")
    monkeypatch.setenv("PATH", str(here))
    assert program_name(typed) == "nottwice"
    monkeypatch.setenv("PATH", str(elsewhere))
    assert program_name(typed) == typed
    monkeypatch.setenv("PATH", "/nowhere")
    assert program_name(typed) == typed
    # Started by python -m, or from a test: the name is the best guess.
    for odd in ("-c", "/x/__main__.py", str(tmp_path / "nottwice")):
        assert program_name(odd) == "nottwice"


def test_the_lines_that_are_shown_are_those_of_the_agent() -> None:
    lines = protected_lines(AGENT)
    assert '@nt.tool("unsafe_on_replay")' in lines
    assert "    with nt.run(ticket, store=store):" in lines
    assert len(lines) < 20
    assert max(map(len, lines)) <= 76


def test_a_machine_without_windows_opens_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def opened(link: str) -> bool:
        asked.append(link)
        raise webbrowser.Error("none")

    monkeypatch.setattr(webbrowser, "open", opened)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert show_in_browser("http://127.0.0.1/") is False
    assert asked == []
    monkeypatch.setenv("DISPLAY", ":0")
    assert show_in_browser("http://127.0.0.1/") is False
    assert asked == ["http://127.0.0.1/"]
