"""Ledger and configuration are in the user's folders, wherever a client starts the proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from nottwice.errors import UsageError
from nottwice.mcp.proxy import places


def test_they_are_in_the_users_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert places.ledger_of_server("pay") == tmp_path / ".local/state/nottwice/pay.db"
    assert (tmp_path / ".local/state/nottwice").stat().st_mode & 0o777 == 0o700
    assert places.settings_of_server("pay") == tmp_path / ".config/nottwice/pay.toml"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert places.ledger_of_server("pay") == tmp_path / "state/nottwice/pay.db"
    assert places.settings_of_server("pay") == tmp_path / ".config/nottwice/pay.toml"


def test_a_name_is_given_or_made_of_the_command() -> None:
    assert places.name_of("pay", ["npx"]) == "pay"
    assert places.name_of(None, ["/usr/bin/npx", "-y", "@acme/pay-mcp"]) == "npx-pay-mcp"
    assert places.name_of(None, ["https://pay.example/mcp"]) == "mcp"


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a\nb"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--name"):
        places.name_of(name, ["npx"])
