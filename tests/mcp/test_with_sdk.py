"""Is the proxy invisible to the real SDK and to the official conformance tool, but for the calls?

The SDK of MCP itself, in the environment of the frameworks (tests/test_frameworks.py). The tests in
`inside/` run there, with the pytest of that environment. The conformance tool comes from npm, with
a Node of its own; it is installed once, into `.venv-frameworks/conformance`.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.frameworks.required import missing
from tests.mcp.environment import interpreter, run_inside
from tests.test_frameworks import PLACE, python
from tests.tidy.source import ROOT

__all__ = ["python"]

INSIDE = ROOT / "tests" / "mcp" / "inside"
TOOL = "@modelcontextprotocol/conformance@0.1.16"
NODE = "node@22"
INSTALL_LIMIT_SECONDS = 240
TRIES = 3

pytestmark = [pytest.mark.deep(part="adapters"), pytest.mark.timeout(1200)]


@pytest.mark.parametrize("transport", ["stdio", "command", "url"])
def test_the_real_sdk_sees_one_effect_and_no_old_answers(
    python: Path, tmp_path: Path, transport: str
) -> None:
    command = [str(python), "-m", "pytest", "-q", "--noconftest", "-c", os.devnull]
    options = [f"--rootdir={INSIDE}", f"--basetemp={tmp_path / 'inside'}"]
    chosen = f"{transport} or without" if transport == "stdio" else transport
    ran = subprocess.run(
        [*command, *options, "-k", chosen, str(INSIDE / "check_proxy.py")],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=1100,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]


# Clients of the older protocol differ in how they are asked, so they play the claims about answers.
OLDER = "TestProxyWithAnOlderClient and (answer or yes or did_not_happen)"


@pytest.mark.parametrize("suite", ["TestProxy and not Older", OLDER])
def test_the_proxy_keeps_every_claim_of_the_adapter_suite(tmp_path: Path, suite: str) -> None:
    run_inside(interpreter(), "check_suite.py", tmp_path, only=suite)


def test_the_conformance_tool_says_the_same_with_and_without_the_proxy(
    python: Path, tool: list[str], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        server = [str(python), str(INSIDE / "everything.py")]
        bare = stack.enter_context(serving([*server, "0"], tmp_path / "bare"))
        proxy = [str(python), "-m", "nottwice", "proxy", "--name", "all", "--http", "0"]
        proxy += ["--store", str(tmp_path / "all.db"), "--"]
        urls = {
            "bare": bare,
            "url": stack.enter_context(serving([*proxy, bare], tmp_path / "url")),
            "command": stack.enter_context(serving([*proxy, *server], tmp_path / "command")),
        }
        verdicts = {name: verdict(tool, url) for name, url in urls.items()}
        assert sum(not failed for failed in verdicts["bare"].values()) >= 20
        # Some scenarios race with their server, bare or not. They get more tries.
        for _ in range(TRIES - 1):
            for name in urls:
                for scenario in differing(verdicts):
                    if verdicts[name][scenario]:
                        again = verdict(tool, urls[name], "--scenario", scenario)
                        verdicts[name][scenario] = min(verdicts[name][scenario], *again.values())
        assert not differing(verdicts), verdicts


def differing(verdicts: dict[str, dict[str, int]]) -> list[str]:
    """The scenarios about which the tool says different things."""
    first, *others = verdicts.values()
    return [one for one in first if any(other.get(one) != first[one] for other in others)]


def verdict(tool: list[str], url: str, *options: str) -> dict[str, int]:
    """How many checks of each scenario fail."""
    words = [*tool, "server", "--url", url.replace("127.0.0.1", "localhost"), *options]
    folder = Path(tool[1]).parents[2]
    path = os.pathsep.join([str(folder / ".bin"), os.environ["PATH"]])
    ran = subprocess.run(
        words, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=500
    )
    said = ran.stdout + ran.stderr
    if options:
        failed = re.findall(r"(\d+) failed|Failed: (\d+)", said)
        assert failed, said[-3000:]
        return {options[-1]: max(int(one or other) for one, other in failed)}
    found = re.findall(r"^[✓✗] ([\w-]+): \d+ passed, (\d+) failed", said, re.MULTILINE)
    assert len(found) > 20, said[-3000:]
    return {name: int(count) for name, count in found}


@contextmanager
def serving(words: list[str], folder: Path) -> Iterator[str]:
    """Start a server on HTTP. Its URL, which it says when it has one."""
    folder.mkdir()
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, env=environment(folder))
    try:
        until = time.monotonic() + 120
        while not (said := re.search(r"http://127\.0\.0\.1:(?!0\b)\d+", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        url = f"{said[0]}/mcp"
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(url, timeout=60)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def environment(folder: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": paths, "HOME": str(folder), "COLUMNS": "200"}


@pytest.fixture(scope="session")
def tool(python: Path) -> list[str]:
    """The conformance tool, installed if need be."""
    npm = shutil.which("npm")
    if npm is None:
        missing("There is no npm.")
    folder = PLACE / "conformance"
    with (PLACE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, wanted = folder / ".packages", f"{TOOL} {NODE}"
        if not stamp.exists() or stamp.read_text() != wanted:
            folder.mkdir(exist_ok=True)
            (folder / "package.json").write_text("{}")
            words = [npm, "install", "--no-audit", "--no-fund", TOOL, NODE]
            try:
                ran = subprocess.run(
                    words,
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=INSTALL_LIMIT_SECONDS,
                )
            except subprocess.TimeoutExpired:
                missing(f"npm did not install the tool within {INSTALL_LIMIT_SECONDS} s.")
            if ran.returncode != 0:
                missing(f"npm could not install the tool: {ran.stderr[-500:]}")
            stamp.write_text(wanted)
    modules = folder / "node_modules"
    node = next(modules.glob("node*/bin/node"), None)
    if node is None:
        missing("npm's package node brought no node for this machine.")
    script = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [str(node), str(script)]


def test_the_types_of_the_sdk_are_not_needed(python: Path) -> None:
    """`nottwice.mcp` imports no SDK: a proxy on stdio needs none."""
    look = "import sys; print([name for name in sys.modules if name.partition('.')[0] == 'mcp'])"
    code = f"import nottwice.mcp, nottwice.mcp.proxy.stdio, nottwice.mcp.proxy.starting; {look}"
    words = [str(python), "-c", code]
    given = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(words, env=given, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    assert sys.modules.get("mcp") is None
