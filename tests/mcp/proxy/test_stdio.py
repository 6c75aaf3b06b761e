"""Real clients, real proxies and real kills: one effect, and never an old answer (P270, P274)."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcp.plain_client import (
    PlainClient,
    effects,
    noted,
    proxy_command,
    server_command,
    vanishing_client,
    wait_for_effects,
)

CHARGE = ["charge", {"cents": 4}]


def killed_in_mid_call(folder: Path, command: Callable[[Path], list[str]]) -> PlainClient:
    """Kill what the client has started while a call is under way. The client begins again."""
    (folder / "hold").touch()
    client = PlainClient(command(folder), folder)
    client.begin_call("charge", cents=4)
    wait_for_effects(folder, 1)
    client.kill()
    (folder / "hold").unlink()
    return PlainClient(command(folder), folder)


def test_killed_in_mid_call_the_repeated_call_makes_one_effect(tmp_path: Path) -> None:
    client = killed_in_mid_call(tmp_path, proxy_command)
    said = client.call("charge", cents=4)
    assert said["isError"] is True
    assert "STOPPED: it is not known whether this happened" in said["content"][0]["text"]
    assert client.call("charge", cents=5)["structuredContent"] == {"charged": 5}
    assert effects(tmp_path).count(CHARGE) == 1
    assert client.close() == 0


def test_without_a_proxy_the_same_kill_makes_two(tmp_path: Path) -> None:
    """A negative control: the test above can fail."""
    client = killed_in_mid_call(tmp_path, server_command)
    client.call("charge", cents=4)
    assert effects(tmp_path).count(CHARGE) == 2
    client.close()


def test_a_client_killed_with_the_answer_in_its_hands_gets_it_again(tmp_path: Path) -> None:
    vanishing_client(tmp_path)
    client = PlainClient(proxy_command(tmp_path), tmp_path)
    said = client.call("charge", cents=4)
    assert said["structuredContent"] == {"charged": 4}
    assert "its answer was lost. It was not made again" in said["content"][1]["text"]
    assert effects(tmp_path) == [CHARGE]
    # That answer has arrived now, so this is a new call.
    client.call("charge", cents=4)
    assert effects(tmp_path) == [CHARGE, CHARGE]
    client.close()


def test_clients_of_one_call_each_are_never_answered_with_old_results(tmp_path: Path) -> None:
    for text in ("v1", "v2", "v1"):
        client = PlainClient(proxy_command(tmp_path), tmp_path)
        assert client.text("write", text=text) == f'did write {{"text": "{text}"}}'
        assert client.text("read") == text
        assert client.text("write", text=text) == f'did write {{"text": "{text}"}}'
        assert client.close() == 0
    assert (tmp_path / "file").read_text() == "v1"
    assert len(effects(tmp_path)) == 6


def test_two_clients_at_once_do_not_wait_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    first, second = (PlainClient(proxy_command(tmp_path), tmp_path) for _ in range(2))
    waits = first.begin_call("charge", cents=4)
    wait_for_effects(tmp_path, 1)
    other = second.begin_call("charge", cents=5)
    wait_for_effects(tmp_path, 2)
    (tmp_path / "hold").unlink()
    assert first.wait_for(waits)["structuredContent"] == {"charged": 4}
    assert second.wait_for(other)["structuredContent"] == {"charged": 5}
    # The first client lives and has its answer, so an equal call of the second is its own.
    assert "content" in second.call("charge", cents=4)
    assert len(effects(tmp_path)) == 3
    first.close()
    second.close()


def test_a_call_under_way_is_finished_when_its_client_is_killed(tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    vanishing_client(tmp_path)
    client = PlainClient(proxy_command(tmp_path), tmp_path)
    # Its receipt was written, so nothing is in doubt.
    assert "its answer was lost" in client.text("charge", cents=4)
    assert effects(tmp_path) == [CHARGE]
    client.close()


def test_a_client_that_closes_in_order_gets_the_answers_under_way(tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    client = PlainClient(proxy_command(tmp_path), tmp_path)
    number = client.begin_call("charge", cents=4)
    wait_for_effects(tmp_path, 1)
    assert client.process.stdin is not None
    client.process.stdin.close()
    (tmp_path / "hold").unlink()
    assert client.wait_for(number)["structuredContent"] == {"charged": 4}
    assert client.close() == 0
    again = PlainClient(proxy_command(tmp_path), tmp_path)
    assert "nottwice" not in again.text("charge", cents=4), "that answer arrived"
    again.close()


def test_standard_output_belongs_to_the_protocol_and_one_line_says_what_is_protected(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.toml").write_text('[tools.charge]\nclass = "unsafe_on_replay"\n')
    command = proxy_command(tmp_path, "--config", str(tmp_path / "shop.toml"))
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0
    assert [json.loads(line)["id"] for line in ran.stdout.splitlines()] == [1, 2]
    first, *_ = ran.stderr.splitlines()
    assert first.startswith("nottwice proxy: shop: once per time given: charge;")
    assert "other tools: lost answers only; read-only tools are passed through." in first
    assert str(tmp_path / "shop.db") in first


def test_a_misspelled_tool_of_the_configuration_is_reported(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text('[tools.chrage]\nclass = "unsafe_on_replay"\n')
    command = proxy_command(tmp_path, "--config", str(tmp_path / "shop.toml"))
    client = PlainClient(command, tmp_path)
    client.ask("tools/list", {})
    client.close()
    assert "nottwice proxy: not a tool of this server: chrage; " in client.errors()


@pytest.mark.parametrize(
    ("words", "code"), [(["/no/such/server"], 127), (["sh", "-c", "exit 9"], 9)]
)
def test_a_server_that_does_not_start_is_seen_as_it_would_be_without_a_proxy(
    tmp_path: Path, words: list[str], code: int
) -> None:
    command = [*proxy_command(tmp_path)[:-3], *words]
    ran = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert ran.wait(60) == code
    assert ran.stdin is not None
    assert ran.stdout is not None
    assert ran.stdout.read() == b""
    ran.stdin.close()
    ran.stdout.close()


def test_a_server_that_dies_is_started_again_and_its_call_is_in_doubt(tmp_path: Path) -> None:
    client = PlainClient(proxy_command(tmp_path), tmp_path)
    client.ask("logging/setLevel", {"level": "debug"})
    (tmp_path / "die").touch()
    assert "STOPPED" in client.text("charge", cents=4)
    assert client.text("charge", cents=5)
    assert "STOPPED" in client.text("charge", cents=4)
    assert effects(tmp_path) == [CHARGE, ["charge", {"cents": 5}]]
    heard = [one["method"] for one in noted(tmp_path, "heard")]
    assert heard.count("initialize") == heard.count("notifications/initialized") == 2
    assert heard.count("logging/setLevel") == 2, "the new process was not told what the old one was"
    client.process.send_signal(signal.SIGTERM)
    assert client.close() == 0
