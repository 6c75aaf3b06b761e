"""Is a file old or new after every failure, a journal whole lines, and a name safe?"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nottwice.errors import CommitUnknown
from nottwice.store.files import disk
from nottwice.testing.conformance.reads import HOSTILE


def full_disk(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def only_for(wanted: Callable[[int], bool], *, call: Callable[..., Any]) -> Callable[..., Any]:
    """A system call that fails for some descriptors."""

    def fail_for(descriptor: int, *more: Any) -> Any:
        if wanted(descriptor):
            raise OSError(errno.EIO, "Input/output error")
        return call(descriptor, *more)

    return fail_for


def is_folder(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


# Names


def test_a_plain_id_is_its_own_name() -> None:
    for plain in ("ticket-7", "a.b_c-d", "0", "x" * 100):
        assert disk.name_of(plain) == plain


@pytest.mark.parametrize("hostile", [*HOSTILE, "\udcff", "", "a/../b", "a\0b"], ids=ascii)
def test_no_id_leaves_the_folder_or_hides_in_it(tmp_path: Path, hostile: str) -> None:
    for ending in (disk.RUN, disk.INBOX):
        name = disk.name_of(hostile) + ending
        path = tmp_path / name
        assert path.parent == tmp_path
        assert path.resolve().parent == tmp_path.resolve()
        assert not name.startswith(".")
        assert name.isascii()
        assert len(name) < 200
        assert name.partition(".")[0] not in ("con", "nul", "aux", "prn", "com1")


def test_no_two_ids_share_a_name_where_case_does_not_count() -> None:
    names = [disk.name_of(one).lower() for one in HOSTILE]
    assert len(set(names)) == len(HOSTILE)
    # An id that looks like the name of another is not taken for it.
    forged = disk.name_of(HOSTILE[0])
    assert disk.name_of(forged) != forged


def test_only_runs_and_inboxes_are_names(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "a.inbox", "c.inbox", "a.json.new", ".x.json", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    assert disk.names_in(tmp_path) == ["a", "b", "c"]


# Replacing


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in (b"one", b"two" * 100_000, b""):
        disk.replace(path, content)
        assert disk.read(path) == content
        assert os.listdir(tmp_path) == ["a.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_dead_writer_left_beside_a_file_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.json.new").write_bytes(b"half of someth")
    disk.replace(tmp_path / "a.json", b"whole")
    assert disk.read(tmp_path / "a.json") == b"whole"


@pytest.mark.parametrize("call", ["os.write", "os.replace", "os.open"])
def test_a_file_that_cannot_be_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    disk.replace(tmp_path / "a.json", b"old")
    with monkeypatch.context() as broken:
        broken.setattr(call, full_disk)
        with pytest.raises(OSError, match="No space left"):
            disk.replace(tmp_path / "a.json", b"new")
    assert disk.read(tmp_path / "a.json") == b"old"
    disk.replace(tmp_path / "a.json", b"new")
    assert disk.read(tmp_path / "a.json") == b"new"


def test_a_file_that_cannot_be_synced_does_not_take_the_place_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.replace(tmp_path / "a.json", b"old")
    files = only_for(lambda descriptor: not is_folder(descriptor), call=os.fsync)
    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", files)
        with pytest.raises(OSError, match="Input/output"):
            disk.replace(tmp_path / "a.json", b"new")
    assert disk.read(tmp_path / "a.json") == b"old"


def test_a_name_that_cannot_be_synced_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.replace(tmp_path / "a.json", b"old")
    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", only_for(is_folder, call=os.fsync))
        with pytest.raises(CommitUnknown, match="may or may not be durable"):
            disk.replace(tmp_path / "a.json", b"new")


def test_a_name_that_can_be_synced_the_second_time_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [True]
    once = only_for(lambda fd: is_folder(fd) and bool(failures) and failures.pop(), call=os.fsync)
    monkeypatch.setattr("os.fsync", once)
    disk.replace(tmp_path / "a.json", b"new")
    assert (disk.read(tmp_path / "a.json"), failures) == (b"new", [])


# Journals


def test_a_journal_grows_by_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.inbox"
    for number in range(3):
        disk.append(path, b"line %d" % number)
    assert path.read_bytes() == b"line 0\nline 1\nline 2\n"
    assert disk.lines_of(path.read_bytes()) == [b"line 0", b"line 1", b"line 2"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("cut", [b"{", b'{"number": 2, "wor', b'{"number": 2}', b"\0\0\0", b"\0\n"])
def test_what_a_crash_cut_short_is_no_line_and_the_next_writer_cuts_it_off(
    tmp_path: Path, cut: bytes
) -> None:
    path = tmp_path / "a.inbox"
    disk.append(path, b"first")
    with path.open("ab") as torn:
        torn.write(cut)
    assert disk.lines_of(path.read_bytes()) == [b"first"]
    disk.append(path, b"second")
    assert path.read_bytes() == b"first\nsecond\n"


def test_an_empty_journal_has_no_lines() -> None:
    assert disk.lines_of(b"") == disk.lines_of(b"torn") == disk.lines_of(b"\0\n") == []


@pytest.mark.parametrize("call", ["os.write", "os.fsync"])
def test_a_line_that_cannot_be_added_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "a.inbox"
    disk.append(path, b"first")
    once = [True]
    real: Callable[..., Any] = os.write if call == "os.write" else os.fsync

    def fail_once(descriptor: int, *more: Any) -> Any:
        if once:
            once.pop()
            if more:
                real(descriptor, b"sec")
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, *more)

    with monkeypatch.context() as broken:
        broken.setattr(call, fail_once)
        with pytest.raises(OSError, match="No space left"):
            disk.append(path, b"second")
    assert path.read_bytes() == b"first\n"


def test_a_line_that_can_neither_be_added_nor_taken_back_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.inbox"
    disk.append(path, b"first")
    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", full_disk)
        with pytest.raises(CommitUnknown, match="may or may not be durable"):
            disk.append(path, b"second")


# Folders


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    disk.make_folder(tmp_path / "a" / "b" / "c")
    disk.make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_what_is_not_there_is_none_and_can_be_removed(tmp_path: Path) -> None:
    assert disk.read(tmp_path / "a.json") is None
    disk.remove(tmp_path / "a.json")


def test_a_link_in_the_place_of_an_inbox_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "a.inbox").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        disk.append(tmp_path / "a.inbox", b"line")
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_folder_looks_otherwise_when_a_run_is_replaced_grows_comes_or_goes(
    tmp_path: Path,
) -> None:
    run, inbox = tmp_path / "a.json", tmp_path / "a.inbox"
    changes: list[Callable[[], None]] = [
        lambda: disk.replace(run, b"{}"),
        lambda: disk.replace(run, b"[]"),
        lambda: disk.append(inbox, b"one"),
        lambda: disk.append(inbox, b"two"),
        lambda: disk.remove(inbox),
    ]
    looks = [disk.looks_of(tmp_path)]
    for change in changes:
        change()
        looks.append(disk.looks_of(tmp_path))
    assert all(one != other for one, other in itertools.pairwise(looks))
    (tmp_path / "a.json.new").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("not ours")
    assert disk.looks_of(tmp_path) == looks[-1]


def test_a_file_that_is_gone_at_the_second_look_is_not_missed(tmp_path: Path) -> None:
    """Other processes replace and remove files while this one reads the folder."""
    over = threading.Event()

    def disturb() -> None:
        while not over.is_set():
            disk.append(tmp_path / "a.inbox", b"line")
            disk.remove(tmp_path / "a.inbox")

    thread = threading.Thread(target=disturb)
    thread.start()
    for _ in range(200):
        disk.looks_of(tmp_path)
    over.set()
    thread.join()


def test_the_name_of_a_new_journal_is_durable_before_its_first_line_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append("folder" if is_folder(descriptor) else "file")
        real(descriptor)

    monkeypatch.setattr("os.fsync", noted)
    disk.append(tmp_path / "run.inbox", b"first")
    assert "folder" in synced


def test_the_name_of_a_journal_that_a_killed_writer_left_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far the first writer came, the name is durable when the second one returns."""
    path = tmp_path / "r.inbox"
    synced: list[Path] = []
    for call in ("sync", "_write_all"):
        with monkeypatch.context() as patched:
            patched.setattr(disk, call, _die)
            with pytest.raises(_Killed):
                disk.append(path, b"first")
        assert path.exists()
        with monkeypatch.context() as patched:
            patched.setattr(disk, "sync_folder", synced.append)
            disk.append(path, b"second")
        assert synced.pop() == tmp_path
        assert disk.lines_of(path.read_bytes()) == [b"second"]
        path.unlink()


class _Killed(BaseException):
    """Nothing after this happens."""


def _die(*_: Any) -> Any:
    raise _Killed
