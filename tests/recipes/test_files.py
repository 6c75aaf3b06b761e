"""Is a file written whole, once, and nowhere else, whatever dies in between? (P75)"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import recipes
from nottwice.guard.declare import SyncTool
from nottwice.store.files import disk as jsonfile_disk
from nottwice.store.machine import confined_files
from tests.recipes.killing import AROUND_THE_EFFECT, fork, kill_at, kill_at_lines, work_on

LINES = int(os.environ.get("RECIPE_LINES", "3"))
Write = SyncTool[..., recipes.Written]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def write(folder: Path) -> Write:
    return recipes.write_file(folder, settles="10ms")


def test_a_file_is_written_with_the_folders_on_its_way(
    write: Write, folder: Path, ledger: Path
) -> None:
    written = work_on(ledger, lambda: write(path="a/b/c.txt", text="grüße\n"))
    content = "grüße\n".encode()
    assert (folder / "a/b/c.txt").read_bytes() == content
    assert written == {
        "output_file": "a/b/c.txt",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }
    assert [each.name for each in (folder / "a/b").iterdir()] == ["c.txt"]


def test_a_replaced_file_keeps_its_permissions(write: Write, folder: Path, ledger: Path) -> None:
    folder.mkdir()
    (folder / "run.sh").write_text("old")
    (folder / "run.sh").chmod(0o750)
    work_on(ledger, lambda: write(path="run.sh", text="new"))
    assert (folder / "run.sh").read_text() == "new"
    assert (folder / "run.sh").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("place", AROUND_THE_EFFECT)
def test_a_file_whose_writer_was_killed_is_written_once(
    write: Write, folder: Path, ledger: Path, place: str
) -> None:
    def work() -> Any:
        return write.receipt(path="a/c.txt", text="new")

    kill_at(place, ledger, work)
    stamp = (folder / "a/c.txt").stat().st_ino if place != "after intent" else None
    receipt = work_on(ledger, work)
    assert (folder / "a/c.txt").read_text() == "new"
    assert receipt.value["output_file"] == "a/c.txt"
    if stamp is not None:
        # It was found, not written again: the file is the very same.
        assert (folder / "a/c.txt").stat().st_ino == stamp
        assert receipt.attempts == 1
    else:
        assert receipt.attempts == 2


def test_killed_at_any_line_the_file_is_the_old_one_or_the_new_one(
    write: Write, folder: Path, tmp_path: Path
) -> None:
    folder.mkdir()
    target = folder / "c.txt"
    ledgers = iter(tmp_path / f"{number}.db" for number in range(1000))
    ledger = next(ledgers)
    target.write_text("old")

    def work() -> Any:
        return work_on(ledger, lambda: write(path="c.txt", text="new"))

    deaths = 0
    for _ in kill_at_lines((confined_files,), work, every=LINES):
        deaths += 1
        assert target.read_text() in ("old", "new")
        work()
        assert target.read_text() == "new"
        assert [each.name for each in folder.iterdir()] == ["c.txt"]
        ledger = next(ledgers)
        target.write_text("old")
        # An edit in the same hundredth of a second as the intent counts as made after it.
        _age(target)
    assert deaths > 10


def kill_at_rename(
    ledger: Path, work: Callable[[], Any], first: Callable[[], Any] = lambda: None
) -> None:
    """The new content is there, under another name. ``first`` is done after the intent."""
    look = confined_files._permissions

    def done_first(where: int, leaf: str) -> int | None:
        first()
        return look(where, leaf)

    def child() -> None:
        confined_files._permissions = done_first
        os.rename = lambda *more, **words: os.kill(os.getpid(), signal.SIGKILL)
        work_on(ledger, work)

    assert os.waitstatus_to_exitcode(os.waitpid(fork(child), 0)[1]) == -signal.SIGKILL


def _age_folder(folder: Path) -> None:
    for each in folder.iterdir():
        _age(each)


def test_a_file_that_was_written_just_before_needs_no_person(
    write: Write, folder: Path, ledger: Path
) -> None:
    """Two writes in a row, killed in the second: no clock can tell which came first, but the part
    that it left behind can."""
    folder.mkdir()

    def work() -> Any:
        return write.receipt(path="c.txt", text="new")

    kill_at_rename(ledger, work, first=lambda: (folder / "c.txt").write_text("old"))
    assert work_on(ledger, work).attempts == 2
    assert (folder / "c.txt").read_text() == "new"


def _age(path: Path) -> None:
    """Wait until the file is a little older than the clock's resolution."""
    before = path.stat().st_ctime
    probe = path.parent.parent / "probe"
    while True:
        probe.write_text("")
        if probe.stat().st_ctime > before + 0.02:
            return


@pytest.mark.parametrize("line", [None, "rename"], ids=["after its effect", "before its effect"])
def test_what_another_program_wrote_in_the_meantime_is_not_overwritten(
    write: Write, folder: Path, ledger: Path, line: str | None
) -> None:
    def work() -> Any:
        return write(path="c.txt", text="new")

    if line is None:
        kill_at("before result", ledger, work)
    else:
        kill_at_rename(ledger, work)
    _age_folder(folder)
    (folder / "c.txt").write_text("edited by ann")
    with pytest.raises(nt.errors.ReplayUnsafeError):
        work_on(ledger, work)
    assert (folder / "c.txt").read_text() == "edited by ann"


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../c.txt",
        "a/../../c.txt",
        "/etc/passwd",
        "a//b",
        "a/",
        "./a",
        "a\0b",
        "a\nb",
        "..\\c.txt",
        ".git/hooks/pre-commit",
        "sub/.GIT/config",
    ],
)
def test_a_path_that_leads_out_is_refused_before_anything_happens(
    write: Write, folder: Path, ledger: Path, path: str
) -> None:
    with pytest.raises(nt.errors.InvalidArguments, match="path"):
        work_on(ledger, lambda: write(path=path, text="x"))
    assert not folder.exists()


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda folder, out: (folder / "a").symlink_to(out), "a/c.txt"),
        (lambda folder, out: (folder / "c.txt").symlink_to(out / "c.txt"), "c.txt"),
        (lambda folder, out: (folder / "a").write_text("a file"), "a/c.txt"),
        (lambda folder, out: (folder / "c.txt").mkdir(), "c.txt"),
        (lambda folder, out: os.mkfifo(folder / "c.txt"), "c.txt"),
    ],
    ids=["linked folder", "linked file", "file as folder", "folder as file", "pipe"],
)
def test_links_are_not_followed_and_nothing_else_is_replaced(
    write: Write,
    folder: Path,
    ledger: Path,
    tmp_path: Path,
    make: Callable[[Path, Path], Any],
    path: str,
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    folder.mkdir()
    make(folder, out)
    with pytest.raises(nt.Permanent, match="not written"):
        work_on(ledger, lambda: write(path=path, text="x"))
    assert list(out.iterdir()) == []


def test_a_name_that_is_too_long_is_told_and_tried_once(write: Write, ledger: Path) -> None:
    with pytest.raises(nt.Permanent, match="too long"):
        work_on(ledger, lambda: write(path="x" * 300, text="x"))


def test_a_full_disk_is_tried_again(
    write: Write, folder: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError(28, "No space left on device")]
    real = jsonfile_disk.sync

    def sync(descriptor: int) -> None:
        if failures:
            raise failures.pop()
        real(descriptor)

    folder.mkdir()
    monkeypatch.setattr(confined_files, "sync", sync)
    receipt = work_on(ledger, lambda: write.receipt(path="c.txt", text="x"))
    assert receipt.attempts == 2
    assert [each.name for each in folder.iterdir()] == ["c.txt"]


def test_another_folder_needs_another_name(write: Write, tmp_path: Path) -> None:
    with pytest.raises(nt.errors.InvalidTool, match="Give it another name"):
        recipes.write_file(tmp_path / "elsewhere")
    other = recipes.write_file(tmp_path / "elsewhere", name="write_elsewhere")
    assert other.tool.name == other.__name__ == "write_elsewhere"
    # The same one once more, as in a notebook, is the same tool.
    assert recipes.write_file(tmp_path / "files").tool.name == write.tool.name
