"""Does a file with a foreign name stay below its folder, and change as a whole? (P75)"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nottwice.store.machine import confined_files
from nottwice.store.machine.confined_files import NotAFile, Unsynced, check_relative


def replace(root: Path, path: str, content: bytes) -> None:
    with confined_files.folder_of(str(root), path, make=True) as (where, leaf):
        confined_files.replace(where, leaf, content, beside=".beside")


def read(root: Path, path: str) -> bytes:
    with confined_files.folder_of(str(root), path, make=False) as (where, leaf):
        return confined_files.read(where, leaf)


def test_what_was_put_in_is_read_again(tmp_path: Path) -> None:
    root = tmp_path / "a/b"
    for content in (b"", b"first", b"x" * 1_000_000):
        replace(root, "c/d.bin", content)
        assert read(root, "c/d.bin") == content
    assert os.listdir(root / "c") == ["d.bin"]


@pytest.mark.parametrize("path", ["gone.txt", "gone/file.txt"])
def test_what_is_not_there_is_not_made_by_reading(tmp_path: Path, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path, path)
    assert list(tmp_path.iterdir()) == []


def test_no_link_is_followed_for_reading_either(tmp_path: Path) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    root.mkdir()
    out.mkdir()
    (out / "secret.txt").write_text("secret")
    (root / "folder").symlink_to(out)
    (root / "file.txt").symlink_to(out / "secret.txt")
    for path in ("folder/secret.txt", "file.txt"):
        with pytest.raises(NotAFile):
            read(root, path)


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    replace(tmp_path, "a.txt", b"old")
    monkeypatch.setattr(confined_files, "sync", fail)
    with pytest.raises(OSError):
        replace(tmp_path, "a.txt", b"new")
    assert read(tmp_path, "a.txt") == b"old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_name_that_may_not_last_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = [None, OSError(5, "Input/output error")]

    def sync(descriptor: int) -> None:
        outcome = syncs.pop(0)
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(confined_files, "sync", sync)
    with pytest.raises(Unsynced):
        replace(tmp_path, "a.txt", b"new")
    assert read(tmp_path, "a.txt") == b"new"


@pytest.mark.parametrize("path", ["a", "a.txt", "a/b/c", ".hidden", "a b", "grüße.txt", "..a/b.."])
def test_an_ordinary_path_is_let_through(path: str) -> None:
    assert check_relative(path) == path


@pytest.mark.parametrize("path", ["", "/a", "a/", "..", "a/../b", "./a", "a//b", "a\0", ".git/x"])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        check_relative(path)
