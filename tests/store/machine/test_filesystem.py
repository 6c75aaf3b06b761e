"""Is the file system under a path found as the kernel would find it, and judged rightly?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nottwice.errors import StoreError, UnsafeFilesystem
from nottwice.store.machine.filesystem import (
    NETWORK,
    SHARED_BY_MACHINES,
    check_filesystem,
    filesystem_of,
)
from tests.store.abilities import mounted

ROOT = "1 0 254:0 / / rw,relatime - ext4 /dev/vda rw"


def mountinfo(*lines: str) -> str:
    return "\n".join((ROOT, *lines)) + "\n"


def mount(number: int, point: str, kind: str, *, parent: int = 1, source: str = "none") -> str:
    return f"{number} {parent} 0:{number} / {point} rw,relatime shared:5 - {kind} {source} rw"


@pytest.mark.parametrize("kind", sorted(NETWORK))
def test_a_network_drive_is_refused(kind: str) -> None:
    table = mountinfo(mount(2, "/mnt/team", kind, source="server:/export"))
    with pytest.raises(UnsafeFilesystem, match=f"/mnt/team/agent.db .*{kind}.*local disk"):
        check_filesystem(Path("/mnt/team/agent.db"), mountinfo=table)
    assert issubclass(UnsafeFilesystem, StoreError)


@pytest.mark.parametrize("kind", sorted(SHARED_BY_MACHINES))
def test_a_folder_that_a_virtual_machine_shares_with_its_host_is_refused(kind: str) -> None:
    table = mountinfo(mount(2, "/mnt/host", kind, source="share"))
    with pytest.raises(UnsafeFilesystem, match=f"/mnt/host/agent.db .*{kind}.*Nothing was opened"):
        check_filesystem(Path("/mnt/host/agent.db"), mountinfo=table)


@pytest.mark.parametrize("kind", ["virtiofs", "9p", "vboxsf", "vmhgfs", "prl_fs", "fuse.sshfs"])
def test_the_usual_shares_of_virtual_machines_are_known(kind: str) -> None:
    assert kind in NETWORK | SHARED_BY_MACHINES


@pytest.mark.parametrize("kind", ["overlay", "aufs"])
def test_a_container_layer_is_warned_about(kind: str) -> None:
    table = f"1 0 0:50 / / rw,relatime - {kind} overlay rw,lowerdir=/a\n"
    warning = check_filesystem(Path("/app/agent.db"), mountinfo=table)
    assert warning is not None
    assert "/app/agent.db" in warning
    assert kind in warning
    assert "volume" in warning


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "apfs", "unheard-of"])
def test_a_local_disk_is_welcome(kind: str) -> None:
    table = mountinfo(mount(2, "/data", kind))
    assert check_filesystem(Path("/data/agent.db"), mountinfo=table) is None


def test_a_volume_inside_a_container_is_not_its_layer() -> None:
    table = "1 0 0:50 / / rw - overlay overlay rw\n" + mount(2, "/data", "ext4") + "\n"
    assert check_filesystem(Path("/data/agent.db"), mountinfo=table) is None
    assert check_filesystem(Path("/database/agent.db"), mountinfo=table) is not None


def test_a_mount_counts_for_what_is_below_it_and_not_for_its_look_alikes() -> None:
    table = mountinfo(mount(2, "/mnt/a", "nfs4"))
    for path in ("/mnt/a", "/mnt/a/x.db", "/mnt/a/b/c/x.db"):
        assert filesystem_of(Path(path), mountinfo=table) == "nfs4"
    for path in ("/mnt/ab/x.db", "/mnt/a.db", "/mnt/x.db", "/x.db"):
        assert filesystem_of(Path(path), mountinfo=table) == "ext4"


def test_a_bind_mount_is_what_it_shows() -> None:
    """A folder of a network drive shown elsewhere, a local folder shown in it, a single file."""
    table = mountinfo(
        mount(2, "/net", "nfs4", source="server:/export"),
        "3 1 0:2 /team/ann /data/ann rw,relatime - nfs4 server:/export rw",
        "4 2 254:0 /var/lib/local /net/local rw,relatime - ext4 /dev/vda rw",
        "5 1 0:2 /one.db /srv/one.db rw,relatime - nfs4 server:/export rw",
    )
    assert filesystem_of(Path("/data/ann/agent.db"), mountinfo=table) == "nfs4"
    assert filesystem_of(Path("/net/local/agent.db"), mountinfo=table) == "ext4"
    assert filesystem_of(Path("/srv/one.db"), mountinfo=table) == "nfs4"
    assert filesystem_of(Path("/srv/two.db"), mountinfo=table) == "ext4"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/mnt/My\\040Drive", "/mnt/My Drive"),
        ("/mnt/a\\011b", "/mnt/a\tb"),
        ("/mnt/a\\012b", "/mnt/a\nb"),
        ("/mnt/a\\134b", "/mnt/a\\b"),
        ("/mnt/a\\134040b", "/mnt/a\\040b"),
        ("/mnt/My\u00a0Drive", "/mnt/My\u00a0Drive"),
        ("/mnt/a\u2028b", "/mnt/a\u2028b"),
        ("/mnt/a\x0bb", "/mnt/a\x0bb"),
        ("/mnt/a\rb", "/mnt/a\rb"),
        ("/mnt/\udcff", "/mnt/\udcff"),
        ("/mnt/漢字", "/mnt/漢字"),
    ],
)
def test_odd_characters_in_a_mount_point_do_not_hide_it(written: str, meant: str) -> None:
    table = mountinfo(mount(2, written, "cifs"))
    assert filesystem_of(Path(meant) / "agent.db", mountinfo=table) == "cifs"


def test_the_mount_on_top_counts() -> None:
    table = mountinfo(mount(2, "/mnt", "nfs4"), mount(3, "/mnt", "ext4", parent=2))
    assert filesystem_of(Path("/mnt/agent.db"), mountinfo=table) == "ext4"
    table = mountinfo(mount(2, "/mnt", "ext4"), mount(3, "/mnt", "nfs4", parent=2))
    assert filesystem_of(Path("/mnt/agent.db"), mountinfo=table) == "nfs4"


def test_a_longer_mount_point_may_be_hidden_under_a_shorter_one() -> None:
    table = mountinfo(mount(2, "/mnt/a/b", "ext4"), mount(3, "/mnt/a", "nfs4"))
    assert filesystem_of(Path("/mnt/a/b/agent.db"), mountinfo=table) == "nfs4"


def test_the_order_of_the_lines_says_nothing() -> None:
    lines = [ROOT, mount(2, "/net", "nfs4"), mount(3, "/net/disk", "xfs", parent=2)]
    for table in ("\n".join(lines), "\n".join(reversed(lines))):
        assert filesystem_of(Path("/net/disk/agent.db"), mountinfo=table) == "xfs"
        assert filesystem_of(Path("/net/agent.db"), mountinfo=table) == "nfs4"


@pytest.mark.parametrize("root", ["1 1 0:2 / / rw - rootfs rootfs rw", ROOT.replace("1 0", "1 77")])
def test_a_root_is_found_for_every_parent(root: str) -> None:
    table = root + "\n" + mount(2, "/mnt", "nfs")
    assert filesystem_of(Path("/mnt/agent.db"), mountinfo=table) == "nfs"


def test_without_a_word_from_the_system_nothing_is_refused() -> None:
    for table in ("", "\n", "nonsense\n", "1 0 254:0 / /\n", "1 0 254:0 / / rw ext4\n"):
        assert filesystem_of(Path("/agent.db"), mountinfo=table) is None
        assert check_filesystem(Path("/agent.db"), mountinfo=table) is None


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="Linux only")
def test_the_real_table_is_read() -> None:
    assert filesystem_of(Path("/proc/self/stat")) == "proc"


def test_a_real_mount_with_a_space_in_its_name_is_found(tmp_path: Path) -> None:
    with mounted(tmp_path / "My Drive", kind="tmpfs") as drive:
        assert filesystem_of(drive / "agent.db") == "tmpfs"
    assert filesystem_of(tmp_path / "agent.db") == filesystem_of(tmp_path)


def test_a_file_with_a_second_name_is_refused_and_with_one_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    path.touch()
    check_filesystem(path, mountinfo=mountinfo())
    (tmp_path / "backup.db").hardlink_to(path)
    with pytest.raises(UnsafeFilesystem, match=r"several names.*Nothing was opened"):
        check_filesystem(path, mountinfo=mountinfo())
