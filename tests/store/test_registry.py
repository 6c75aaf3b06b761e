"""Is a store of another package found by its URL, by programs and by commands?

The package is a real one: a folder on the path with its metadata, as pip leaves it behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nottwice.errors import StoreError
from nottwice.store import registry
from tests.nursery import starting
from tests.store import own_store

PROGRAM = """
import sys
import nottwice as nt

@nt.tool("unsafe_on_replay")
def send(to: str) -> str:
    print("sent to", to)
    return "ok"

with nt.run("order 7", store=sys.argv[1]):
    send("ann")
"""


def install(site: Path, *, names: str = "folder = folder_ledger:open_folder") -> None:
    """What pip would put there."""
    metadata = site / "folder_ledger-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: folder-ledger\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{names}\n")
    (site / "folder_ledger.py").write_text(own_store.CODE)


def run(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}
    return starting.run([sys.executable, *words], env=environment)


def test_a_store_of_another_package_is_named_by_its_url(tmp_path: Path) -> None:
    """P216."""
    site, url = tmp_path / "site", f"folder://{tmp_path / 'ledger'}"
    install(site)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    first, second = run(site, str(program), url), run(site, str(program), url)
    assert (first.stdout, second.stdout) == ("sent to ann\n", ""), first.stderr + second.stderr
    listed = run(site, "-m", "nottwice", "runs", "--store", url)
    assert "order 7" in listed.stdout, listed.stderr
    shown = run(site, "-m", "nottwice", "show", "order 7", "--store", url)
    assert "send" in shown.stdout, shown.stderr


def test_a_command_creates_no_ledger_in_a_store_of_another_package(tmp_path: Path) -> None:
    site, ledger = tmp_path / "site", tmp_path / "ledger"
    install(site)
    listed = run(site, "-m", "nottwice", "runs", "--store", f"folder://{ledger}")
    assert "There is no ledger" in listed.stderr
    assert not ledger.exists()


PREVIEW = """

def preview(url):
    return int(url.rpartition("=")[2]), 3

open_folder.preview = preview
"""


def check(site: Path, url: str) -> subprocess.CompletedProcess[str]:
    return run(site, "-m", "nottwice", "check", "--store", url)


def test_check_asks_a_store_of_another_package_for_its_format_and_opens_nothing(
    tmp_path: Path,
) -> None:
    """P216."""
    site, ledger = tmp_path / "site", tmp_path / "ledger"
    install(site)
    url = f"folder://ann:hunter2@{ledger}"
    silent = check(site, url)
    assert (silent.returncode, silent.stderr) == (0, "")
    assert "its store does not tell its format" in " ".join(silent.stdout.split())
    with (site / "folder_ledger.py").open("a") as module:
        module.write(PREVIEW)
    same, older, newer = (check(site, f"{url}?format={number}") for number in (3, 2, 4))
    assert (same.returncode, older.returncode, newer.returncode) == (0, 0, 3)
    assert "format 3, as this nottwice writes it" in " ".join(same.stdout.split())
    assert "format 2 → 3 at next open" in " ".join(older.stdout.split())
    assert "has format 4, and its store writes format 3" in " ".join(newer.stdout.split())
    assert "hunter2" not in silent.stdout + same.stdout + older.stdout + newer.stdout
    assert not ledger.exists()


def test_check_names_a_store_that_cannot_be_loaded(tmp_path: Path) -> None:
    install(tmp_path, names="broken = no_such_module:open_it")
    refused = check(tmp_path, "broken://x")
    assert refused.returncode == 1
    assert "no_such_module:open_it" in " ".join(refused.stderr.split())


def test_a_scheme_that_no_package_has_is_refused_by_name(tmp_path: Path) -> None:
    listed = run(tmp_path, "-m", "nottwice", "runs", "--store", f"folder://{tmp_path / 'ledger'}")
    assert "'folder' is not a store that this version knows" in listed.stderr
    assert "install the package" in " ".join(listed.stderr.split())


def test_a_package_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, names="broken = no_such_module:open_it")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registry.is_installed("broken://x")
    with pytest.raises(StoreError, match=r"cannot be loaded.*no_such_module:open_it"):
        registry.open_installed("broken://x", now=0.0, create=True, seals=None)
