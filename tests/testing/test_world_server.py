"""Does the world's process live exactly as long as it should, and report a failed start?"""

from __future__ import annotations

import gc
import http.client
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nottwice.testing import World, WorldNotStarted
from tests.testing.processes import is_running, wait_until_ended

STARTER = """
import os, sys, time
from nottwice.testing import World
world = World.start(sys.argv[1])
"""


@contextmanager
def starter(code: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that starts a world as its first act."""
    command = [sys.executable, "-c", STARTER + code, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_numbers(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


# Its life


def test_stop_ends_the_process_and_may_be_called_again() -> None:
    world = World.start()
    assert is_running(world.pid)
    world.stop()
    assert not is_running(world.pid)
    world.stop()


def test_the_world_ends_with_its_starter_though_a_forked_child_keeps_its_input_open(
    tmp_path: Path,
) -> None:
    code = """
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(world.pid, child, flush=True)
time.sleep(60)
"""
    with starter(code, tmp_path) as process:
        pid, child = read_numbers(process)
        try:
            process.kill()
            wait_until_ended(pid)
            assert is_running(child)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_world_that_was_dropped_is_ended_and_its_own_folder_removed() -> None:
    world = World.start()
    pid, folder = world.pid, world.folder
    assert folder.is_dir()
    del world
    gc.collect()
    assert not is_running(pid)
    assert not folder.exists()


def test_a_folder_of_the_users_own_is_never_removed(tmp_path: Path) -> None:
    world = World.start(tmp_path)
    world.client().do("refund")
    world.stop()
    del world
    gc.collect()
    assert (tmp_path / "effects.jsonl").read_text().count("\n") == 1


def test_ctrl_c_does_not_reach_the_world_and_would_not_end_it() -> None:
    with World.start() as world:
        assert os.getpgid(world.pid) != os.getpgid(0)
        os.kill(world.pid, signal.SIGINT)
        world.client().do("refund")
        world.client().do("refund")
        assert is_running(world.pid)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of others: Linux only")
def test_a_world_that_cannot_write_its_log_ends_instead_of_answering(tmp_path: Path) -> None:
    with World.start(tmp_path) as world:
        world.client().do("refund")
        room = world.log_path.stat().st_size + 10
        resource.prlimit(world.pid, resource.RLIMIT_FSIZE, (room, room))
        with pytest.raises(ConnectionError):
            world.client().do("refund")
        wait_until_ended(world.pid)
        assert world.count() == 1
    assert "could not be written" in (tmp_path / "world-errors.txt").read_text()


# Its start


def test_a_start_that_fails_says_what_the_process_complained_about(tmp_path: Path) -> None:
    (tmp_path / "effects.jsonl").mkdir()
    with pytest.raises(WorldNotStarted, match="No effect was applied") as failed:
        World.start(tmp_path)
    assert "IsADirectoryError" in failed.value.stderr
    assert "IsADirectoryError" in str(failed.value)


def test_a_folder_that_cannot_be_made_is_a_failed_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldNotStarted, match="could not be started"):
        World.start(tmp_path / "file")


def test_a_failed_start_leaves_no_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(WorldNotStarted, match="no-python"):
        World.start()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_never_says_its_port_does_not_hang_its_starter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "silent"
    silent.write_text('#!/bin/sh\necho $$ > "$8/pid"\nexec sleep 60\n')
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    monkeypatch.setattr("nottwice.testing.loopback.START_LIMIT_SECONDS", 0.5)
    with pytest.raises(WorldNotStarted, match="nothing at all"):
        World.start(tmp_path)
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_two_worlds_never_write_one_log(tmp_path: Path) -> None:
    with World.start(tmp_path) as first:
        with pytest.raises(WorldNotStarted, match="Another world is writing"):
            World.start(tmp_path)
        first.client().do("refund")
        assert first.count() == 1


def test_a_log_that_ends_in_mid_line_is_not_carried_on(tmp_path: Path) -> None:
    (tmp_path / "effects.jsonl").write_text('{"seq": 1, "to')
    with pytest.raises(WorldNotStarted, match="middle of a line"):
        World.start(tmp_path)


def test_the_agents_environment_does_not_reach_the_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with World.start() as world:
        world.client().do("refund")


# Its requests, from other languages than Python


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    with World.start() as world:
        yield world


def request(world: World, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    connection = http.client.HTTPConnection(world.url.removeprefix("http://"), timeout=10)
    connection.request(method, path, body)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/do", b'{"tool": "refund", "args": {}}', 200),
        ("POST", "/do", b'{"tool": "refund", "args": {}, "apply_after": 3600}', 202),
        ("POST", "/do", b'{"tool": "refund", "args": {}, "loose_response": true}', 400),
        ("POST", "/do", b'{"args": {}}', 400),
        ("POST", "/do", b'{"tool": "refund", "args": []}', 400),
        ("POST", "/do", b'{"tool": "refund", "ar', 400),
        ("POST", "/do", b'["tool", "args"]', 400),
        ("POST", "/undo", b"{}", 404),
        ("GET", "/do", b"", 404),
        ("GET", "/find", b"", 400),
        ("GET", "/find?tool=refund", b"", 200),
        ("GET", "/held?timeout=0", b"", 400),
        ("GET", "/held?name=gate&timeout=0", b"", 408),
        ("GET", "/stats", b"", 200),
    ],
)
def test_plain_http_is_answered_in_json_and_only_a_sound_order_has_an_effect(
    shared_world: World, method: str, path: str, body: bytes, expected: int
) -> None:
    before = shared_world.count()
    status, answer = request(shared_world, method, path, body)
    assert status == expected
    assert ("error" in answer) == (status >= 400)
    assert shared_world.count() - before == (1 if path == "/do" and status == 200 else 0)


def test_a_known_key_is_answered_202_while_pending_and_200_once_applied() -> None:
    pending = b'{"tool": "refund", "args": {}, "key": "k", "apply_after": 3600}'
    soon = b'{"tool": "send_mail", "args": {}, "key": "k", "apply_after": 0.01}'
    with World.start() as world:
        assert [request(world, "POST", "/do", pending)[0] for _ in range(2)] == [202, 202]
        assert request(world, "POST", "/do", soon)[0] == 202
        world.wait_until_count(1)
        assert request(world, "POST", "/do", soon)[0] == 200
        assert world.count() == 1
