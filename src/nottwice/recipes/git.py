"""Commit some files of a git repository, once, without what others have staged (P76).

The commit has the id of its call as a trailer and is found by it. It is made from its own index,
which contains HEAD and the named files, so that what others have staged stays staged. Hooks run as
usual. If a hook refuses, there is no commit.

Killing an agent does not kill the git process that it started, nor that git's hooks. All of them
inherit an open lock file. While any of them is alive, the file stays locked, and ``verify`` answers
"still running".
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from nottwice.errors import Ambiguous, Permanent, Retryable
from nottwice.guard.declaration import Duration
from nottwice.guard.declare import SyncTool
from nottwice.guard.ready_made import RelativePath, declare
from nottwice.guard.scopes import current_call
from nottwice.model.call import Call
from nottwice.model.retry import RetryPolicy
from nottwice.model.tool import (
    Verification,
    did_not_happen,
    happened,
    parse_duration,
    still_running,
)

TRAILER = "Nottwice-Call"
_LOCK = "nottwice.lock"
_INDEX = "nottwice-index-"
# If one of these exists, an operation is in progress, and a commit would conclude it.
_UNDER_WAY = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
)
# Start nothing that outlives the command, ask nothing, and treat no file name as a pattern.
_MANNERS = (
    "--literal-pathspecs",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "core.fsmonitor=false",
)
# If these are set, the agent itself runs inside a hook, and git would work on that repository.
_ELSEWHERE = {
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
}
_OURS_SECONDS = 5.0
_MOST_CHARACTERS = 1500


def _check_message(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    if "\0" in text:
        raise ValueError("it contains a NUL character")
    return text


CommitMessage = Annotated[str, AfterValidator(_check_message)]
Paths = Annotated[
    list[RelativePath],
    Field(min_length=1, description="The files to commit; other changes are left alone"),
]


class Committed(TypedDict):
    """What ``git_commit`` returns."""

    commit: str


class _Repository(NamedTuple):
    """A working tree, and how git is run in it."""

    root: str
    options: tuple[str, ...]
    limit_seconds: float


class _Ended(NamedTuple):
    """How a git command ended."""

    code: int
    output: str
    errors: str


def git_commit(
    repository: str | os.PathLike[str],
    *,
    name: str = "git_commit",
    author: tuple[str, str] | None = None,
    time_limit: Duration = "2m",
    settles: Duration = "1s",
) -> SyncTool[..., Committed]:
    """Make a tool ``git_commit(message, paths)`` that commits these files as they are now.

    ``author`` is a name and an address, for repositories without a configured user. ``time_limit``
    is for each git command, including hooks. After that, git is killed and its outcome is checked.
    """
    root = os.path.realpath(repository)
    limit_seconds = parse_duration(time_limit, what=f"Tool {name!r}: time_limit")
    options: tuple[str, ...] = _MANNERS
    if author is not None:
        options += ("-c", f"user.name={author[0]}", "-c", f"user.email={author[1]}")
    tree = _Repository(root, options, limit_seconds)

    def commit(message: CommitMessage, paths: Paths) -> Committed:
        """Commit the named files as they are now, with this message. Nothing else is committed."""
        call = current_call()
        own = _own_folder(tree)
        with _locked(own) as lock:
            # An earlier attempt may have committed, even if a person decided that it did nothing.
            made = _find(tree, call.id) if call.attempt > 1 else None
            if made is not None:
                return Committed(commit=made)
            _refuse_in_the_middle(own)
            _clean_up_after_the_killed(own, lock)
            return Committed(commit=_commit(tree, own, lock, message, paths, call.id))

    def find_commit(call: Call) -> Verification:
        if _is_running(_own_folder(tree)):
            return still_running()
        made = _find(tree, call.id)
        return did_not_happen() if made is None else happened(Committed(commit=made))

    protected: SyncTool[..., Committed] = declare(
        commit,
        "unsafe_on_replay",
        name=name,
        recipe="git_commit",
        works_on={"repository": root},
        verify=find_commit,
        settles=settles,
        # A second commit adds what has changed since, or nothing, and can be undone.
        repeat="free",
        # A busy repository is worth another try.
        retry=RetryPolicy(8, first_seconds=0.2, most_seconds=5.0),
    )
    return protected


def _commit(
    tree: _Repository, own: Path, lock: int, message: str, paths: list[str], call_id: str
) -> str:
    """Stage and commit, and return the commit."""
    # Update the shared index first. If it came last, a kill in between would leave it with the old
    # content, and the next commit by another user would undo this one.
    _note(lock, call_id)
    staged = _git(tree, "add", "--all", "--", *paths, lock=lock)
    _note(lock, "")
    if staged.code != 0:
        raise _refusal(staged, "these files cannot be added")
    index = own / f"{_INDEX}{call_id}"
    try:
        _fill_index(tree, own, index, lock, paths)
        words = ("commit", "--quiet", "--cleanup=whitespace", f"--trailer={TRAILER}: {call_id}")
        ended = _git(tree, *words, f"--message={message}", index=index, lock=lock)
    except (Permanent, Retryable):
        _git(tree, "reset", "--quiet", "--", *paths, lock=lock)
        raise
    finally:
        index.unlink(missing_ok=True)
    made = _find(tree, call_id, only_head=True) or _find(tree, call_id)
    if made is not None:
        # Even if git failed: a post-commit hook may have failed, or the index was not writable.
        _show_to_others(tree, made, lock)
        return made
    if ended.code == 0:
        raise Ambiguous(f"git committed, but no commit has the trailer {TRAILER}: {call_id}.")
    _git(tree, "reset", "--quiet", "--", *paths, lock=lock)
    raise _refusal(ended, "git or one of its hooks refused")


def _show_to_others(tree: _Repository, commit: str, lock: int) -> None:
    """Update the shared index with what was committed, where a hook has changed it."""
    words = ("--root", "--no-commit-id", "--name-only", "-r", "-z")
    changed = _git(tree, "diff-tree", *words, commit).output.split("\0")[:-1]
    if changed:
        _git(tree, "reset", "--quiet", "--", *changed, lock=lock)


def _fill_index(tree: _Repository, own: Path, index: Path, lock: int, paths: list[str]) -> None:
    """Create an index that contains HEAD and the named files, and nothing else."""
    with contextlib.suppress(FileNotFoundError):
        # The copy has cached file stats, so git need not read all unchanged files.
        shutil.copyfile(own / "index", index)
    born = _git(tree, "rev-parse", "--quiet", "--verify", "HEAD^{commit}").code == 0
    for words in (
        ("read-tree", "--reset", "HEAD") if born else ("read-tree", "--empty"),
        ("add", "--all", "--", *paths),
    ):
        ended = _git(tree, *words, index=index, lock=lock)
        if ended.code != 0:
            raise _refusal(ended, "its index cannot be prepared")
    if _git(tree, "diff", "--cached", "--quiet", index=index).code == 0:
        raise Permanent("Nothing was committed: HEAD already has these files as they are.")


def _find(tree: _Repository, call_id: str, *, only_head: bool = False) -> str | None:
    """Return the commit of a call, on any branch or only in the reflog."""
    trailer = f"%(trailers:key={TRAILER},valueonly,separator=%x2C)"
    # Reading all of a long history takes a while.
    where = ("-1",) if only_head else ("--all", "--reflog")
    words = ("--fixed-strings", f"--grep={TRAILER}: {call_id}", f"--format=%H {trailer}")
    ended = _git(tree, "log", *where, *words)
    if ended.code != 0:
        born = _git(tree, "rev-parse", "--quiet", "--verify", "HEAD").code == 0
        if born:
            raise Ambiguous(f"It is not known whether git has committed: {_tail(ended)}")
        return None
    for line in ended.output.splitlines():
        commit, _, calls = line.partition(" ")
        if call_id in calls.split(","):
            return commit
    return None


# ---- The lock -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _locked(own: Path) -> Iterator[int]:
    """Hold the lock that serialises nottwice's commits. Whatever git starts inherits it."""
    lock = os.open(own / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if not _take(lock):
            raise Retryable("Nothing was committed: another commit is in progress here.")
        yield lock
    finally:
        # Close it, but never unlock it: that would also unlock it for a hook that still runs.
        os.close(lock)


def _is_running(own: Path) -> bool:
    try:
        lock = os.open(own / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _take(lock)
    finally:
        os.close(lock)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _note(lock: int, text: str) -> None:
    """Record in the lock file that git is about to change the index, and for which call."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, text.encode(), 0)


def _clean_up_after_the_killed(own: Path, lock: int) -> None:
    """Remove what a killed git of ours has left. Holding the lock proves that it is dead.

    Its ``index.lock`` counts as ours only if it was created while the note was set, which lasts
    milliseconds. Any other ``index.lock`` belongs to another process.
    """
    for index in own.glob(f"{_INDEX}*"):
        index.unlink(missing_ok=True)
    note = os.fstat(lock)
    if note.st_size == 0:
        return
    with contextlib.suppress(FileNotFoundError):
        left = own / "index.lock"
        age = left.stat().st_ctime - note.st_mtime
        if -0.01 <= age <= _OURS_SECONDS:
            left.unlink()
    _note(lock, "")


def _refuse_in_the_middle(own: Path) -> None:
    for name in _UNDER_WAY:
        if (own / name).exists():
            raise Permanent(
                f"Nothing was committed: a merge, a rebase or the like is in progress ({name}). "
                "Conclude or abort it first."
            )


# ---- Running git --------------------------------------------------------------------------------


def _own_folder(tree: _Repository) -> Path:
    """Where git keeps its own files for this working tree."""
    ended = _git(tree, "rev-parse", "--absolute-git-dir")
    if ended.code != 0:
        raise Permanent(f"Nothing was committed: {_tail(ended)}")
    return Path(ended.output.rstrip("\n"))


def _git(
    tree: _Repository, *words: str, index: Path | None = None, lock: int | None = None
) -> _Ended:
    """Run one git command to its end, or kill it with everything that it has started."""
    environment = {name: text for name, text in os.environ.items() if name not in _ELSEWHERE}
    environment |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":"}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    # Files, not pipes: a hook may leave a process behind that keeps a pipe open.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                ["git", *tree.options, *words],
                cwd=tree.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                pass_fds=() if lock is None else (lock,),
                start_new_session=True,
            )
        except OSError as error:
            raise Permanent(f"Nothing was committed: git cannot be run here ({error}).") from error
        code = _wait(process, tree.limit_seconds)
        for file in (output, errors):
            file.seek(0)
        return _Ended(
            code, output.read().decode("utf-8", "replace"), errors.read().decode("utf-8", "replace")
        )


def _wait(process: subprocess.Popen[bytes], limit_seconds: float) -> int:
    try:
        return process.wait(timeout=limit_seconds)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            return code
        raise


def _refusal(ended: _Ended, why: str) -> Permanent | Retryable:
    text = f"Nothing was committed: {why}. {_tail(ended)}"
    if ".lock'" in ended.errors and "File exists" in ended.errors:
        return Retryable(f"{text} If no git is running here, remove that file.")
    return Permanent(text)


def _tail(ended: _Ended) -> str:
    said = f"{ended.output.strip()}\n{ended.errors.strip()}".strip()
    if ended.code < 0:
        said = f"{said}\nIt was killed ({signal.Signals(-ended.code).name})."
    return said[-_MOST_CHARACTERS:].strip() or f"git ended with {ended.code}"
