"""Does a shell complete the ids of the ledger, and never show an error instead?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from nottwice.cli.main import main
from nottwice.guard.ledger import Ledger
from tests.cli.workplace import Workplace

PROGRAM = Path(sys.executable).with_name("nottwice")
COMPLETING = """
eval "$(_NOTTWICE_COMPLETE=bash_source nottwice)"
COMP_WORDS=({words})
COMP_CWORD=$(({count} - 1))
_nottwice_completion nottwice
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def offered(words: list[str], begin: str) -> list[str]:
    completion = ShellComplete(main, {}, "nottwice", "_NOTTWICE_COMPLETE")
    return [item.value for item in completion.get_completions(words, begin)]


def in_bash(*words: str, folder: Path, store: str | None = None) -> list[str]:
    """What bash itself offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in ("nottwice", *words))
    variables = {
        **os.environ,
        "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}",
        **({} if store is None else {"NOTTWICE_STORE": store}),
    }
    ended = subprocess.run(
        ["bash", "--norc", "-c", COMPLETING.format(words=quoted, count=len(words) + 1)],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    return ended.stdout.split()


@pytest.mark.skipif(not PROGRAM.exists(), reason="nottwice is not installed as a program")
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_runs_reviews_and_verbs(killed: Workplace) -> None:
    """P362."""
    with Ledger(killed.store, create=False) as ledger:
        (review,) = ledger.store.open_reviews("ticket-8")
    known: dict[str, Any] = {"folder": killed.folder, "store": killed.store}
    assert in_bash("dec", **known) == ["decide"]
    assert in_bash("show", "ticket-8", **known) == ["ticket-8"]
    assert set(in_bash("show", "tick", **known)) >= {"ticket-7", "ticket-8", "ticket-9"}
    assert in_bash("decide", review.review_id[:4], **known) == [review.review_id]
    found = in_bash("decide", review.review_id, "", **known)
    assert found == ["happened", "did-not-happen", "abort"]
    assert in_bash("runs", "--stor", **known) == ["--store"]
    elsewhere = in_bash("show", "--store", killed.store, "ticket-9", folder=killed.folder.parent)
    assert elsewhere == ["ticket-9"]


def test_a_ledger_that_is_missing_or_broken_offers_nothing(empty: Workplace) -> None:
    """P362."""
    missing = str(empty.folder / "none.db")
    assert offered(["show", "--store", missing], "") == []
    assert not Path(missing).exists()
    broken = empty.folder / "broken.db"
    broken.write_text("this is not a ledger")
    assert offered(["decide", "--store", str(broken)], "") == []
    assert offered(["decide", "--store", missing, "nope"], "") == []


def test_only_words_that_a_shell_takes_as_they_are_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P362. An id may hold anything, also what a shell would run."""
    store = str(tmp_path / "a.db")
    with Ledger(store) as ledger:
        for run_id in ("a-1", "a b", "a;rm", "a$(x)", "-a", "a:1"):
            with ledger.run(run_id):
                pass
    assert sorted(offered(["show", "--store", store], "")) == ["a-1", "a:1"]
    monkeypatch.setenv("_NOTTWICE_COMPLETE", "bash_complete")
    assert offered(["show", "--store", store], "a") == ["a-1"]


def test_graphs_and_runs_are_completed_in_options_too(graph_place: Workplace) -> None:
    assert "listen-1" in offered(["run", "--store", graph_place.store, "--id"], "li")
    assert offered(["graph", "--store", graph_place.store], "")
