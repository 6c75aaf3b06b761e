"""Which disks may be found after a loss of power, and which may not?"""

from __future__ import annotations

from pathlib import Path

from nottwice.testing.crash.faults.disk import (
    FOLDER,
    SECTOR_BYTES,
    TEARS,
    Disk,
    DiskWrite,
    Image,
    Named,
    Resized,
    Unnamed,
)


def all_images(disk: Disk) -> list[dict[str, bytes]]:
    state = disk.state
    return [state.image(kept).files for kept in range(1 << len(state.pending))]


def disk_with_file(content: bytes = b"") -> tuple[Disk, int]:
    disk = Disk()
    file = disk.new_file("a")
    disk.sync_folder("")
    if content:
        disk.change(DiskWrite(file, 0, content))
        disk.sync_file(file)
    return disk, file


def test_what_was_synced_is_in_every_image() -> None:
    disk, file = disk_with_file(b"old")
    disk.change(DiskWrite(file, 3, b" and new"))
    assert all_images(disk) == [{"a": b"old"}, {"a": b"old and new"}]
    disk.sync_file(file)
    assert all_images(disk) == [{"a": b"old and new"}]


def test_of_unsynced_writes_any_may_be_kept_without_those_before_it() -> None:
    disk, file = disk_with_file()
    disk.change(DiskWrite(file, 0, b"one"))
    disk.change(DiskWrite(file, 3, b"two"))
    found = [image["a"] for image in all_images(disk)]
    assert found == [b"", b"one", b"\0\0\0two", b"onetwo"]


def test_syncing_a_file_does_not_make_its_name_safe() -> None:
    disk = Disk()
    file = disk.new_file("a")
    disk.change(DiskWrite(file, 0, b"x"))
    disk.sync_file(file)
    assert all_images(disk) == [{}, {"a": b"x"}]
    disk.sync_folder("")
    assert all_images(disk) == [{"a": b"x"}]


def test_a_rename_may_be_lost_until_its_folder_is_synced_and_loses_no_file() -> None:
    disk, _ = disk_with_file(b"old")
    new = disk.new_file("a.new")
    disk.change(DiskWrite(new, 0, b"new"))
    disk.sync_file(new)
    disk.sync_folder("")
    disk.change(Named("a", new, instead_of="a.new"))
    assert all_images(disk) == [{"a": b"old", "a.new": b"new"}, {"a": b"new"}]
    disk.sync_folder("")
    assert all_images(disk) == [{"a": b"new"}]


def test_a_removed_name_may_come_back() -> None:
    disk, _ = disk_with_file(b"x")
    disk.change(Unnamed("a"))
    assert all_images(disk) == [{"a": b"x"}, {}]


def test_files_in_a_folder_that_was_lost_are_lost() -> None:
    disk = Disk()
    disk.change(Named("deep", FOLDER))
    disk.new_file("deep/a")
    disk.sync_folder("deep")
    lost, kept = (disk.state.image(bits) for bits in (0, 1))
    assert (lost.files, lost.folders) == ({}, ())
    assert (kept.files, kept.folders) == ({"deep/a": b""}, ("deep",))


def test_cut_and_extended_files_have_their_length() -> None:
    disk, file = disk_with_file(b"long")
    disk.change(Resized(file, 2))
    disk.change(Resized(file, 3))
    assert disk.size(file) == 3
    found = [image["a"] for image in all_images(disk)]
    assert found == [b"long", b"lo", b"lon", b"lo\0"]


def test_a_torn_write_keeps_whole_sectors_and_the_length() -> None:
    disk, file = disk_with_file(b"-" * SECTOR_BYTES)
    disk.change(DiskWrite(file, SECTOR_BYTES - 1, b"x" * (2 * SECTOR_BYTES)))
    tears = disk.state.tears()
    assert tears == [(0, way) for way in range(len(TEARS))]
    found = [disk.state.image(1, tear).files["a"] for tear in tears]
    assert {len(content) for content in found} == {3 * SECTOR_BYTES - 1}
    first_sectors = [content[SECTOR_BYTES - 1 : SECTOR_BYTES] for content in found]
    assert first_sectors == [b"-", b"x", b"-", b"x"]
    assert found[0].count(b"x") == 0
    assert found[1].count(b"x") == 1 + SECTOR_BYTES
    assert found[2].count(b"x") == 2 * SECTOR_BYTES - 1


def test_a_forgotten_file_is_in_no_image() -> None:
    disk, _ = disk_with_file(b"x")
    shared = disk.new_file("a-shm", forgotten=True)
    disk.change(DiskWrite(shared, 0, b"y"))
    assert all_images(disk) == [{"a": b"x"}]


def test_an_image_is_written_with_its_folders(tmp_path: Path) -> None:
    image = Image({"deep/a": b"x"}, ("deep",))
    image.write_into(tmp_path)
    assert (tmp_path / "deep" / "a").read_bytes() == b"x"
    assert image.mark == Image({"deep/a": b"x"}, ("deep",)).mark
    assert image.mark != Image({"deep/a": b"y"}, ("deep",)).mark
