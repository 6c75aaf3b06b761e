"""Is there one commit, of the named files only, whatever dies, refuses or is in the way? (P76)"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import recipes
from nottwice.guard.declare import SyncTool
from nottwice.recipes import git as git_module
from tests.recipes.killing import AROUND_THE_EFFECT, fork, kill_at, kill_at_lines, work_on

Commit = SyncTool[..., recipes.Committed]
ANN = ("Ann", "ann@example.com")


class Repository:
    """A real repository with one commit and two files that have changed since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Bob")
        self.git("config", "user.email", "bob@example.com")
        for name in ("ours.txt", "theirs.txt"):
            (path / name).write_text("old\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=begin")
        for name in ("ours.txt", "theirs.txt"):
            (path / name).write_text("new\n")

    def git(self, *words: str) -> str:
        command = ["git", *words]
        ended = subprocess.run(command, cwd=self.path, check=True, capture_output=True, text=True)
        return ended.stdout

    @property
    def commits(self) -> list[str]:
        """The subjects of all commits but the first, the newest first."""
        return self.git("log", "--all", "--format=%s").splitlines()[:-1]

    @property
    def staged(self) -> list[str]:
        return self.git("diff", "--cached", "--name-only").splitlines()

    @property
    def changed(self) -> list[str]:
        return self.git("status", "--porcelain").splitlines()

    def committed(self, revision: str = "HEAD") -> list[str]:
        """The files of one commit."""
        shown = self.git("show", "--format=", "--name-only", revision)
        return shown.splitlines()

    def hook(self, name: str, script: str) -> None:
        path = self.path / ".git/hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def commit(repository: Repository) -> Commit:
    return recipes.git_commit(repository.path, settles="10ms")


def test_a_commit_names_its_call_and_holds_the_named_files(
    repository: Repository, commit: Commit, ledger: Path
) -> None:
    (repository.path / "sub").mkdir()
    (repository.path / "sub/added.txt").write_text("x")
    (repository.path / "theirs.txt").unlink()
    paths = ["ours.txt", "sub/added.txt", "theirs.txt"]
    receipt = work_on(
        ledger,
        lambda: commit.receipt(message="Fix: it\n\n#7 is done\n\nReviewed-by: Cy", paths=paths),
    )
    assert receipt.value["commit"] == repository.git("rev-parse", "HEAD").strip()
    assert repository.committed() == paths
    assert repository.changed == []
    told = repository.git("log", "-1", "--format=%B")
    assert told.startswith("Fix: it\n\n#7 is done\n\nReviewed-by: Cy\nNottwice-Call: ")
    assert repository.git("log", "-1", "--format=%an").strip() == "Bob"


def test_what_others_have_staged_is_neither_committed_nor_unstaged(
    repository: Repository, commit: Commit, ledger: Path
) -> None:
    repository.git("add", "theirs.txt")
    (repository.path / "theirs.txt").write_text("newer\n")
    work_on(ledger, lambda: commit(message="ours", paths=["ours.txt"]))
    assert repository.committed() == ["ours.txt"]
    assert repository.staged == ["theirs.txt"]
    assert repository.git("show", ":theirs.txt") == "new\n"
    assert (repository.path / "theirs.txt").read_text() == "newer\n"


def test_the_first_commit_of_a_repository(tmp_path: Path, ledger: Path) -> None:
    path = tmp_path / "empty"
    path.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=path, check=True)
    (path / "a.txt").write_text("a")
    (path / "b.txt").write_text("b")
    commit = recipes.git_commit(path, name="first_commit", author=ANN)
    work_on(ledger, lambda: commit(message="begin", paths=["a.txt"]))
    shown = subprocess.run(
        ["git", "show", "--format=%an", "--name-only"], cwd=path, capture_output=True, text=True
    )
    assert shown.stdout.split() == ["Ann", "a.txt"]


@pytest.mark.parametrize("place", AROUND_THE_EFFECT)
def test_a_commit_whose_agent_was_killed_is_made_once(
    repository: Repository, commit: Commit, ledger: Path, place: str
) -> None:
    def work() -> Any:
        return commit(message="ours", paths=["ours.txt"])

    kill_at(place, ledger, work)
    made = work_on(ledger, work)
    assert repository.commits == ["ours"]
    assert made["commit"] == repository.git("rev-parse", "HEAD").strip()
    assert repository.staged == []


def test_killed_at_any_line_of_the_recipe_there_is_one_commit(
    repository: Repository, commit: Commit, tmp_path: Path
) -> None:
    begin = repository.git("rev-parse", "HEAD").strip()
    number = 0

    def work() -> Any:
        ledger = tmp_path / f"{number}.db"
        return work_on(ledger, lambda: commit(message=f"ours {number}", paths=["ours.txt"]))

    every = int(os.environ.get("RECIPE_LINES", "47"))
    for line in kill_at_lines((git_module,), work, every=every):
        work()
        assert repository.commits == [f"ours {number}"], f"killed at line {line}"
        assert repository.staged == []
        repository.git("reset", "--quiet", "--mixed", begin)
        repository.git("reflog", "expire", "--expire=all", "--all")
        number += 1
    assert number > 2


def test_a_git_that_outlives_its_agent_is_waited_for(
    repository: Repository, commit: Commit, ledger: Path, tmp_path: Path
) -> None:
    """The agent dies while a hook runs; git continues, and no second one is started beside it."""
    gate, pids = tmp_path / "gate", tmp_path / "pids"
    repository.hook(
        "pre-commit",
        f"echo $PPID >> {pids}; kill -9 $(ps -o ppid= -p $PPID); "
        f"while [ ! -e {gate} ]; do sleep 0.05; done",
    )

    def work() -> Any:
        return commit.receipt(message="ours", paths=["ours.txt"])

    pid = os.fork()
    if pid == 0:
        work_on(ledger, work)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    opener = subprocess.Popen(["sh", "-c", f"sleep 0.7; touch {gate}"])
    receipt = work_on(ledger, work)
    opener.wait()
    assert repository.commits == ["ours"]
    assert receipt.value["commit"] == repository.git("rev-parse", "HEAD").strip()
    assert (receipt.attempts, receipt.settled_by) == (1, "verify")
    assert len(pids.read_text().split()) == 1


@pytest.mark.parametrize("hook", ["pre-commit", "commit-msg"])
def test_a_hook_that_refuses_leaves_no_commit_and_nothing_staged(
    repository: Repository, commit: Commit, ledger: Path, hook: str
) -> None:
    repository.hook(hook, "echo 'line 7 is too long' >&2; exit 1")
    repository.git("add", "theirs.txt")
    with pytest.raises(nt.Permanent, match="line 7 is too long"):
        work_on(ledger, lambda: commit(message="ours", paths=["ours.txt"]))
    assert repository.commits == []
    assert repository.staged == ["theirs.txt"]
    assert not list((repository.path / ".git").glob("nottwice-index*"))


def test_a_hook_that_fails_behind_the_commit_changes_nothing(
    repository: Repository, commit: Commit, ledger: Path
) -> None:
    repository.hook("post-commit", "exit 1")
    work_on(ledger, lambda: commit(message="ours", paths=["ours.txt"]))
    assert repository.commits == ["ours"]


def test_what_a_hook_changes_and_adds_is_committed_and_not_undone_by_the_next_commit(
    repository: Repository, commit: Commit, ledger: Path
) -> None:
    repository.hook(
        "pre-commit",
        "echo formatted > ours.txt; echo made > made.txt; git add ours.txt made.txt",
    )
    repository.git("add", "theirs.txt")
    work_on(ledger, lambda: commit(message="ours", paths=["ours.txt"]))
    assert repository.committed() == ["made.txt", "ours.txt"]
    assert repository.git("show", "HEAD:ours.txt") == "formatted\n"
    assert repository.staged == ["theirs.txt"]
    assert repository.changed == ["M  theirs.txt"]


def test_a_hook_that_hangs_is_killed(repository: Repository, ledger: Path) -> None:
    impatient = recipes.git_commit(repository.path, name="impatient", time_limit="1s")
    repository.hook("pre-commit", "sleep 60")
    with pytest.raises(nt.Permanent, match="SIGKILL"):
        work_on(ledger, lambda: impatient(message="ours", paths=["ours.txt"]))
    assert repository.commits == []


def test_an_index_that_another_process_has_locked_is_waited_for(
    repository: Repository, commit: Commit, ledger: Path
) -> None:
    lock = repository.path / ".git/index.lock"
    lock.touch()
    opener = subprocess.Popen(["sh", "-c", f"sleep 0.5; rm {lock}"])
    receipt = work_on(ledger, lambda: commit.receipt(message="ours", paths=["ours.txt"]))
    opener.wait()
    assert receipt.attempts > 1
    assert repository.commits == ["ours"]


def test_the_lock_of_a_killed_git_of_ours_is_taken_away(
    repository: Repository, commit: Commit, ledger: Path
) -> None:
    # What is left when git itself is killed while it writes the index for us.
    (repository.path / ".git/nottwice.lock").write_text("some call")
    (repository.path / ".git/index.lock").touch()
    receipt = work_on(ledger, lambda: commit.receipt(message="ours", paths=["ours.txt"]))
    assert receipt.attempts == 1
    assert repository.commits == ["ours"]


def test_the_lock_of_a_killed_git_of_others_stays_and_is_named(
    repository: Repository, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_module, "RetryPolicy", lambda *more, **words: nt.RetryPolicy(1))
    once = recipes.git_commit(repository.path, name="commit_once")
    note, lock = (repository.path / ".git" / name for name in ("nottwice.lock", "index.lock"))
    note.write_text("some call")
    long_ago = time.time() - 60
    os.utime(note, (long_ago, long_ago))
    lock.touch()
    with pytest.raises(nt.Retryable, match=r"index\.lock"):
        work_on(ledger, lambda: once(message="ours", paths=["ours.txt"]))
    assert lock.exists()
    assert repository.commits == []


def test_a_merge_of_another_person_is_not_concluded(
    repository: Repository, commit: Commit, ledger: Path
) -> None:
    repository.git("stash", "--quiet")
    repository.git("checkout", "--quiet", "-b", "side")
    repository.git("commit", "--quiet", "--allow-empty", "--message=side")
    repository.git("checkout", "--quiet", "main")
    repository.git("commit", "--quiet", "--allow-empty", "--message=straight")
    repository.git("merge", "--quiet", "--no-commit", "--no-ff", "side")
    (repository.path / "ours.txt").write_text("new\n")
    before = repository.git("rev-parse", "HEAD")
    with pytest.raises(nt.Permanent, match="a merge, a rebase or the like is in progress"):
        work_on(ledger, lambda: commit(message="ours", paths=["ours.txt"]))
    assert repository.git("rev-parse", "HEAD") == before


@pytest.mark.parametrize(
    ("message", "paths", "match"),
    [
        ("", ["ours.txt"], "message"),
        ("ours", [], "paths"),
        ("ours", ["../out.txt"], "paths"),
        ("ours", [".git/config"], "paths"),
    ],
)
def test_what_cannot_be_committed_is_refused_before_anything_happens(
    repository: Repository,
    commit: Commit,
    ledger: Path,
    message: str,
    paths: list[str],
    match: str,
) -> None:
    with pytest.raises(nt.errors.InvalidArguments, match=match):
        work_on(ledger, lambda: commit(message=message, paths=paths))
    assert repository.commits == []


@pytest.mark.parametrize(
    ("paths", "match"), [(["gone.txt"], "did not match"), (["*.txt"], "did not match")]
)
def test_files_that_are_not_there_and_patterns_are_refused(
    repository: Repository, commit: Commit, ledger: Path, paths: list[str], match: str
) -> None:
    with pytest.raises(nt.Permanent, match=match):
        work_on(ledger, lambda: commit(message="ours", paths=paths))
    assert repository.commits == []


def test_nothing_to_commit_is_told(repository: Repository, commit: Commit, ledger: Path) -> None:
    (repository.path / "ours.txt").write_text("old\n")
    with pytest.raises(nt.Permanent, match="HEAD already has these files"):
        work_on(ledger, lambda: commit(message="ours", paths=["ours.txt"]))


def test_a_folder_that_is_no_repository_is_told(tmp_path: Path, ledger: Path) -> None:
    commit = recipes.git_commit(tmp_path, name="commit_nowhere")
    with pytest.raises(nt.Permanent, match="not a git repository"):
        work_on(ledger, lambda: commit(message="ours", paths=["ours.txt"]))


def test_many_agents_commit_to_one_repository_at_once(
    repository: Repository, commit: Commit, ledger: Path
) -> None:
    names = [f"{agent}-{number}.txt" for agent in range(3) for number in range(3)]
    for name in names:
        (repository.path / name).write_text(name)

    def work(agent: int) -> None:
        with nt.run(f"agent {agent}", store=str(ledger)):
            for name in names[agent * 3 : agent * 3 + 3]:
                commit(message=name, paths=[name])

    agents = [fork(partial(work, agent)) for agent in range(3)]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in agents] == [0, 0, 0]
    assert sorted(repository.commits) == sorted(names)
    for revision in range(len(names)):
        (name,) = repository.committed(f"HEAD~{revision}")
        assert repository.git("log", "-1", "--format=%s", f"HEAD~{revision}").strip() == name
    assert repository.staged == []


@pytest.mark.parametrize(
    "name", ["-rf.txt", "a b.txt", "grüße.txt", "[a-z]*.txt", ":(top)x", "'q\".txt"]
)
def test_odd_names_are_names(
    repository: Repository, commit: Commit, ledger: Path, name: str
) -> None:
    (repository.path / name).write_text("odd")
    work_on(ledger, lambda: commit(message="odd", paths=[name]))
    shown = repository.git("show", "-z", "--format=", "--name-only", "HEAD")
    assert shown.rstrip("\0") == name


def test_a_commit_that_was_taken_back_since_is_not_made_again(
    repository: Repository, commit: Commit, ledger: Path
) -> None:
    def work() -> Any:
        return commit(message="ours", paths=["ours.txt"])

    kill_at("before result", ledger, work)
    made = repository.git("rev-parse", "HEAD").strip()
    repository.git("reset", "--quiet", "--soft", "HEAD~1")
    assert work_on(ledger, work)["commit"] == made
    assert repository.commits == []
