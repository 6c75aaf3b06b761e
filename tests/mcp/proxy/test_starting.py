"""`nottwice proxy --init` writes what the server says, never over what a person wrote (P271)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nottwice.errors import UsageError
from nottwice.mcp.proxy.places import ProxyOptions
from nottwice.mcp.proxy.starting import run_proxy, write_settings
from nottwice.mcp.settings import ToolSettings, read_file
from tests.mcp.plain_client import server_command


def options(tmp_path: Path, *command: str) -> ProxyOptions:
    words = command or tuple(server_command(tmp_path))
    return ProxyOptions("shop", words, config=tmp_path / "new" / "shop.toml")


def test_the_first_configuration_comes_from_the_server(tmp_path: Path) -> None:
    path, tools = write_settings(options(tmp_path))
    assert path == tmp_path / "new" / "shop.toml"
    assert tools == ["read", "write", "charge", "set_status", "fail"]
    assert read_file(path) == {"read": ToolSettings("pure")}
    path.write_text("# mine")
    with pytest.raises(UsageError, match="exists already"):
        write_settings(options(tmp_path))
    assert path.read_text() == "# mine"


def test_a_url_needs_a_port_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://pay.example/mcp"
    with pytest.raises(UsageError, match="--init starts a command"):
        write_settings(options(tmp_path, url))
    given = ProxyOptions("shop", (url,), store=str(tmp_path / "shop.db"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="--http PORT"):
        run_proxy(given, say=print)


def test_a_configuration_that_is_named_must_exist(tmp_path: Path) -> None:
    given = ProxyOptions("shop", ("true",), str(tmp_path / "a.db"), tmp_path / "absent.toml")
    with pytest.raises(UsageError, match="--init"):
        run_proxy(given, say=print)
