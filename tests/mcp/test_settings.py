"""What a person said about a server's tools is read strictly, and nothing is guessed (P271)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from nottwice.errors import UsageError
from nottwice.mcp.settings import ToolSettings, new_settings, read_file, read_tools


def test_a_class_alone_or_a_table_is_enough() -> None:
    read = read_tools(
        {
            "search": "pure",
            "mail": {"class": "unsafe_on_replay", "fresh": "forever", "once_per": ["to"]},
            "charge": {"class": "idempotent_with_key", "key": "{order}", "window": "24h"},
            "later": {"fresh": "1h"},
        }
    )
    assert read["search"] == ToolSettings("pure")
    assert read["mail"].fresh_seconds is None
    assert read["mail"].once_per == ("to",)
    assert (read["charge"].key, read["charge"].window) == ("{order}", "24h")
    assert "later" not in read


def test_replay_means_the_same_as_class() -> None:
    said = {"replay": "unsafe_on_replay", "fresh": "2h"}
    assert read_tools({"mail": said}) == read_tools(
        {"mail": {"class": "unsafe_on_replay", "fresh": "2h"}}
    )


@pytest.mark.parametrize(
    "said",
    [
        "safe",
        {"class": "safe"},
        {"replay": "safe"},
        {"class": "pure", "replay": "pure"},
        {"class": "pure", "frsh": "1h"},
        {"frsh": "1h"},
        {"class": "pure", "fresh": 3600},
        {"class": "pure", "fresh": "soon"},
        {"class": "pure", "once_per": "to"},
        {"class": "pure", "approve": "yes"},
        {"class": "pure", "key": 7},
        7,
    ],
)
def test_what_means_nothing_is_refused_with_the_name_of_the_tool(said: Any) -> None:
    with pytest.raises(UsageError, match="charge"):
        read_tools({"charge": said})


@pytest.mark.parametrize("text", ["tools = 1", "[tool.charge]", "not toml", "[tools.a]\nclass = 1"])
def test_a_file_that_cannot_be_used_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pay.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"pay\.toml"):
        read_file(path)
    with pytest.raises(UsageError, match="--init"):
        read_file(tmp_path / "absent.toml")


def test_a_first_configuration_holds_what_the_server_says_and_guesses_nothing(
    tmp_path: Path,
) -> None:
    tools: list[dict[str, Any]] = [
        {"name": "search", "annotations": {"readOnlyHint": True}, "description": "Find.\nMore"},
        {"name": "set", "annotations": {"idempotentHint": True}},
        {"name": 'a"b', "description": "\x1b[31mred"},
    ]
    path = tmp_path / "pay.toml"
    path.write_text(new_settings("pay", tools))
    assert set(tomllib.loads(path.read_text())["tools"]) == {"search", "set", 'a"b'}
    assert read_file(path) == {"search": ToolSettings("pure")}
    assert "# Find." in path.read_text()
    assert "\x1b" not in path.read_text()
    corrected = path.read_text().replace('# class = "unsafe', 'class = "unsafe')
    path.write_text(corrected)
    assert read_file(path)['a"b'] == ToolSettings("unsafe_on_replay")
