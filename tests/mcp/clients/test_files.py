"""Is a configuration changed as a whole or not at all, and is what it was kept? (P281)"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nottwice.errors import UsageError
from nottwice.mcp.clients import files
from nottwice.mcp.clients.files import (
    program_for,
    project_of,
    read_configuration,
    unwrapped,
    wrapped,
    write_configuration,
)
from tests.mcp.clients.samples import DESKTOP
from tests.tidy.source import ROOT


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "claude_desktop_config.json"
    path.write_text(DESKTOP)
    return path


def wrap_file(path: Path) -> Path:
    configuration = read_configuration(path)
    return write_configuration(configuration, wrapped(configuration, program="nottwice"))


def unwrap_file(path: Path) -> Path:
    configuration = read_configuration(path)
    return write_configuration(configuration, unwrapped(configuration))


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_the_file_is_replaced_and_the_backup_is_what_it_was(file: Path) -> None:
    backup = wrap_file(file)
    assert backup.read_text() == DESKTOP
    assert json.loads(file.read_text())["mcpServers"]["pay"]["command"] == "nottwice"
    assert names(file.parent) == [file.name, f"{file.name}.nottwice-backup"]


def test_unwrapping_restores_the_bytes_and_no_backup_is_overwritten(file: Path) -> None:
    first = wrap_file(file)
    between = file.read_bytes()
    second = unwrap_file(file)
    assert file.read_bytes() == first.read_bytes() == DESKTOP.encode()
    assert (second.name, second.read_bytes()) == (f"{file.name}.nottwice-backup-2", between)


@pytest.mark.parametrize("text", [DESKTOP.replace("\n", "\r\n"), "\ufeff" + DESKTOP])
def test_line_ends_and_a_byte_order_mark_stay(file: Path, text: str) -> None:
    file.write_bytes(text.encode())
    wrap_file(file)
    assert file.read_bytes()[:3] == text.encode()[:3]
    assert file.read_bytes().count(b"\r\n") == text.count("\r\n")
    unwrap_file(file)
    assert file.read_bytes() == text.encode()


def test_no_one_may_read_more_than_before(file: Path) -> None:
    file.chmod(0o600)
    backup = wrap_file(file)
    assert [each.stat().st_mode & 0o777 for each in (file, backup)] == [0o600, 0o600]
    file.chmod(0o644)
    assert unwrap_file(file).stat().st_mode & 0o777 == 0o644


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    link = tmp_path / "home" / "linked.json"
    link.symlink_to(file)
    wrap_file(link)
    assert link.is_symlink()
    assert '"nottwice"' in file.read_text()


def test_a_file_that_another_program_changed_meanwhile_is_left_alone(file: Path) -> None:
    configuration = read_configuration(file)
    edit = wrapped(configuration)
    file.write_text(DESKTOP + " ")
    with pytest.raises(UsageError, match="was not changed: another program changed it"):
        write_configuration(configuration, edit)
    assert file.read_text() == DESKTOP + " "
    assert names(file.parent) == [file.name]


def test_a_failure_while_writing_leaves_the_old_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        wrap_file(file)
    assert file.read_text() == DESKTOP
    assert names(file.parent) == [file.name, f"{file.name}.nottwice-backup"]


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_kill_leaves_the_old_file_or_the_new_one(file: Path, dies: str) -> None:
    program = f"""
import os, signal, sys
from pathlib import Path
from tests.mcp.clients.test_files import wrap_file
replace = os.replace
def dying(*words):
    if {dies!r} == "after":
        replace(*words)
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = dying
wrap_file(Path({str(file)!r}))
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60)
    assert ran.returncode == -signal.SIGKILL
    assert (file.read_text() == DESKTOP) == (dies == "before")
    assert file.with_name(f"{file.name}.nottwice-backup").read_text() == DESKTOP
    if dies == "before":
        # What was left behind does not stop the next attempt.
        wrap_file(file)
    assert json.loads(file.read_text())["mcpServers"]["pay"]["command"] == "nottwice"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff\xfe{\x00}\x00", "it is not UTF-8 text"),
        (b"{'a': 1}", "it is not JSON: line 1, column 2"),
        (b"{}", "it names no servers"),
    ],
)
def test_what_is_no_configuration_is_refused(file: Path, data: bytes, why: str) -> None:
    file.write_bytes(data)
    for edit in (wrapped, unwrapped):
        with pytest.raises(UsageError) as caught:
            edit(read_configuration(file))
        assert f"{file} was not changed: {why}" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.json was not changed: it cannot be read"):
        read_configuration(tmp_path / "no.json")


def test_files_of_a_project_name_it_and_files_of_the_user_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shop = tmp_path / "shop"
    assert project_of(shop / ".mcp.json") == "shop"
    assert project_of(shop / ".cursor" / "mcp.json") == "shop"
    assert project_of(shop / ".vscode" / "mcp.json") == "shop"
    for users in (".cursor/mcp.json", ".claude.json", ".config/Code/User/mcp.json", ".mcp.json"):
        assert project_of(tmp_path / users) is None


def test_a_shared_file_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    assert program_for(tmp_path / "shop" / ".mcp.json") == "nottwice"
    own = Path(program_for(tmp_path / "claude_desktop_config.json"))
    assert own == Path(sys.executable).with_name("nottwice")
    assert own.is_file()


def test_a_file_of_windows_is_refused_inside_of_wsl(monkeypatch: pytest.MonkeyPatch) -> None:
    there = files.Configuration(Path("/mnt/c/Users/ann/claude_desktop_config.json"), b"{}")
    monkeypatch.setattr(files, "_kernel", lambda: "6.6.87.2-microsoft-standard-wsl2")
    with pytest.raises(UsageError, match=r"through wsl\.exe"):
        wrapped(there)
    monkeypatch.setattr(files, "_kernel", lambda: "6.6.87-generic")
    with pytest.raises(UsageError, match="names no servers"):
        wrapped(there)
