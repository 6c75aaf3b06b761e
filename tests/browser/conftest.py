"""A real browser, and a real `nottwice serve` in front of a ledger that killed processes left.

The browser is the system's: Debian's chromium, or Chrome. Without one these tests are skipped, and
with ``NOTTWICE_BROWSER=required``, as in continuous integration, they fail instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.cli.conftest import graph_place as graph_place
from tests.cli.conftest import graph_runs as graph_runs
from tests.cli.conftest import killed as killed
from tests.cli.conftest import workplace as workplace
from tests.cli.workplace import Workplace
from tests.tidy.source import ROOT
from tests.web.test_serving import Server

AXE = "4.14.0"
# Without colours at the edges of letters, pictures are half as large.
ARGUMENTS = ["--no-sandbox", "--disable-lcd-text"]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


# The ledger of a reader is not in the folder of a test.
_WITHOUT_FOLDERS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    text.data = text.data.replace(/\\/\\S*\\/(?=agent\\.db)/g, "");
  }
}"""


def missing(what: str) -> NoReturn:
    """Skip a test, or fail it where the browser is required."""
    if os.environ.get("NOTTWICE_BROWSER") == "required":
        pytest.fail(f"{what} is missing, and NOTTWICE_BROWSER=required says that it must be here")
    pytest.skip(f"{what} is not installed")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The browser; each test opens windows of its own in it."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing("chromium (apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright (pip install playwright)")
    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which knows what a screen reader needs."""
    folder = ROOT / ".venv" / f"axe-core-{AXE}"
    script = folder / "package" / "axe.min.js"
    if not script.exists():
        if shutil.which("npm") is None:
            missing("npm")
        folder.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"axe-core@{AXE}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        with tarfile.open(folder / packed.stdout.strip().splitlines()[-1]) as archive:
            archive.extractall(folder, filter="data")
    return script.read_text(encoding="utf-8")


@pytest.fixture
def server(workplace: Workplace) -> Iterator[Server]:
    """The page of the killed ledger; the decisions are Ann's."""
    started = Server(workplace, "--by", "ann")
    yield started
    started.stop()


@pytest.fixture
def open_page(browser: Any, server: Server) -> Iterator[Any]:
    """Open a window of its own, logged in with the printed link. A script's error is a failure."""
    contexts: list[Any] = []
    problems: list[str] = []

    def opened(*, link: str = "decide", **settings: Any) -> Any:
        context = browser.new_context(**settings)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(server.links[link])
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def assert_readable(page: Any, axe: str) -> None:
    """The page is live, axe finds nothing, and nothing is wider than the window."""
    page.get_by_text("● live").wait_for()
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    said = [(one["id"], node["html"][:120]) for one in found["violations"] for node in one["nodes"]]
    assert said == [], page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url


def screenshot(page: Any, name: str) -> None:
    """Keep a picture for the docs, if ``NOTTWICE_SCREENSHOTS`` names a folder."""
    folder = os.environ.get("NOTTWICE_SCREENSHOTS")
    if folder:
        page.evaluate(_WITHOUT_FOLDERS)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True, scale="css")
