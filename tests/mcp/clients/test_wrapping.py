"""Does a client start each server through the proxy then, and is nothing else touched? (P280)"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import UsageError
from nottwice.mcp.clients.wrapping import State, unwrap, wrap
from tests.mcp.clients.samples import CLAUDE_STATE, DESKTOP, VSCODE


def servers_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)["mcpServers"]
    return found


def states(text: str) -> dict[str, State]:
    return {each.server: each.state for each in wrap(text).servers}


def test_each_server_is_started_through_the_proxy() -> None:
    before, after = servers_of(DESKTOP), servers_of(wrap(DESKTOP).text)
    assert after["pay"] == {
        **before["pay"],
        "command": "nottwice",
        "args": ["proxy", "--name", "pay", "--", "npx", "-y", "pay-mcp"],
    }
    assert after["files"] == {
        "command": "nottwice",
        "args": ["proxy", "--name", "files", "--", "files-mcp"],
    }
    assert states(DESKTOP) == {"pay": "wrapped", "files": "wrapped", "remote": "left_alone"}


def test_only_the_lines_of_commands_change() -> None:
    old, new = DESKTOP.split("\n"), wrap(DESKTOP).text.split("\n")
    changed = [line for line in old if line not in new]
    assert changed == [
        '      "command": "npx",',
        '      "args": ["-y", "pay-mcp"],',
        '    "files": {"command": "files-mcp"},',
    ]


@pytest.mark.parametrize("text", [DESKTOP, VSCODE, CLAUDE_STATE], ids=["desktop", "code", "state"])
def test_unwrapping_gives_the_same_text_back(text: str) -> None:
    edit = wrap(text, project="shop")
    assert edit.text != text
    assert unwrap(edit.text).text == text
    assert wrap(edit.text, project="shop").text == edit.text


def test_comments_stay_and_the_servers_of_vs_code_are_found() -> None:
    wrapped = wrap(VSCODE, project="shop").text
    assert '"command": "nottwice", // the shop' in wrapped
    assert '"proxy", "--name", "shop-pay", "--", "${workspaceFolder}/pay", "--port",' in wrapped
    assert wrapped.count("//") == VSCODE.count("//")


def test_servers_of_several_projects_have_names_of_their_own() -> None:
    told = json.loads(wrap(CLAUDE_STATE).text)
    assert told["mcpServers"]["db"]["args"][:3] == ["proxy", "--name", "db"]
    one, other, third = (
        told["projects"][path]["mcpServers"]["db"]["args"][2]
        for path in ("/src/shop", "/src/bank", "/old/shop")
    )
    assert (one, other, third) == ("shop-db", "bank-db", "shop-db-2")
    assert told["numStartups"] == 7


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"url": "https://shop.example/mcp"}, "it has a URL and no command"),
        ({"type": "http", "serverUrl": "https://shop.example/mcp"}, "it has a URL"),
        ({"type": "stdio"}, "it has no command"),
        ({"command": 7}, "not texts"),
        ({"command": "a", "args": ["b", 7]}, "not texts"),
        ({"command": "a", "args": "b"}, "not texts"),
        ("a", "it has no command"),
    ],
)
def test_what_has_no_command_is_left_alone_and_said(entry: Any, why: str) -> None:
    text = json.dumps({"mcpServers": {"x": entry}})
    edit = wrap(text)
    assert edit.text == text
    assert edit.servers[0].state == "left_alone"
    assert why in edit.servers[0].why


@pytest.mark.parametrize(
    "words",
    [
        ["nottwice", "proxy", "--", "pay"],
        ["/opt/tools/bin/nottwice", "proxy", "--name", "a", "--store", "b.db", "--", "pay"],
        ["uvx", "--from", "nottwice[mcp]", "nottwice", "proxy", "--", "pay"],
        ["uvx", "nottwice[mcp]==0.1.0", "proxy", "--", "pay"],
        ["python3", "-m", "nottwice", "proxy", "--", "pay"],
        ["wsl.exe", "nottwice", "proxy", "--", "pay"],
        ["C:\\tools\\nottwice.exe", "proxy", "--", "pay"],
    ],
)
def test_a_server_behind_the_proxy_is_known_however_that_was_written(words: list[str]) -> None:
    text = json.dumps({"mcpServers": {"x": {"command": words[0], "args": [*words[1:], "--", "7"]}}})
    assert wrap(text).text == text
    assert states(text) == {"x": "already"}
    assert servers_of(unwrap(text).text) == {"x": {"command": "pay", "args": ["--", "7"]}}


@pytest.mark.parametrize(
    "words",
    [
        ["nottwice", "status", "--", "pay"],
        ["nottwice", "proxy", "pay"],
        ["nottwice", "proxy", "--"],
        ["nottwice-tools", "proxy", "--", "pay"],
        ["echo", "proxy", "--", "pay"],
    ],
)
def test_what_only_looks_like_the_proxy_is_not_unwrapped(words: list[str]) -> None:
    text = json.dumps({"mcpServers": {"x": {"command": words[0], "args": words[1:]}}})
    assert unwrap(text).text == text
    assert states(text) == {"x": "wrapped"}


@pytest.mark.parametrize("text", ["{}", "[]", '{"mcp": 1}', '{"projects": {"a": {}}}'])
def test_a_file_without_servers_is_refused(text: str) -> None:
    for edit in (wrap, unwrap):
        with pytest.raises(UsageError, match="names no servers"):
            edit(text)


def test_a_name_for_the_proxy_is_a_name_for_a_file() -> None:
    entries = {"a/b": {"command": "x"}, "a b": {"command": "y"}, "../é": {"command": "z"}}
    names = [
        entry["args"][2]
        for entry in servers_of(wrap(json.dumps({"mcpServers": entries})).text).values()
    ]
    assert names == ["a-b", "a-b-2", "server"]


@pytest.mark.parametrize("named", [["--name", "a-b"], ["--name=a-b"]])
def test_a_name_that_a_server_has_already_is_not_given_to_another(named: list[str]) -> None:
    first = {"command": "nottwice", "args": ["proxy", *named, "--", "x"]}
    text = json.dumps({"mcpServers": {"new": {"command": "y"}, "a/b": first, "a b": first}})
    entries = servers_of(wrap(text.replace("new", "a-b")).text)
    assert entries["a-b"]["args"][:3] == ["proxy", "--name", "a-b-2"]


def test_the_program_can_be_named() -> None:
    edit = wrap(DESKTOP, program='/my "tools"/nottwice')
    assert servers_of(edit.text)["pay"]["command"] == '/my "tools"/nottwice'
    assert unwrap(edit.text).text == DESKTOP


# All that a person may have written

BLANKS = st.sampled_from(["", " ", "\n    ", "\r\n\t", " // a note\n  ", " /* a note */ "])
WORDS = st.sampled_from(['"npx"', '"a\\/b"', '"\\u00e9"', '"--"', '"proxy"', '"nottwice"', '""'])
LAST_COMMA = st.sampled_from(["", ","])


@st.composite
def written_servers(draw: st.DrawFn) -> str:
    """The text of a server, in any layout and order, with escapes and comments."""

    def blank() -> str:
        return draw(BLANKS)

    items = draw(st.lists(WORDS, max_size=3))
    inner = "".join(f"{blank()}{item}{blank()}," for item in items)
    inner = inner[:-1] + draw(LAST_COMMA) if items else ""
    members = [f'"command"{blank()}:{blank()}{draw(WORDS)}']
    if draw(st.booleans()):
        members.append(f'"args"{blank()}:{blank()}[{inner}{blank()}]')
    if draw(st.booleans()):
        members.append(f'"env":{blank()}{{"KEY": "1"}}')
    members = draw(st.permutations(members))
    body = ",".join(f"{blank()}{member}{blank()}" for member in members)
    return f"{{{body}{draw(LAST_COMMA)}{blank()}}}"


@given(st.lists(written_servers(), max_size=3), BLANKS)
def test_wrapping_and_unwrapping_is_exact_for_every_layout(entries: list[str], blank: str) -> None:
    listed = ",".join(f'{blank}"s{number}": {entry}' for number, entry in enumerate(entries))
    text = f'{blank}{{"mcpServers": {{{listed}{blank}}}, "other": [1, 2]}}{blank}'
    once = wrap(text)
    if any(each.state == "already" for each in once.servers):
        return
    assert {each.state for each in once.servers} <= {"wrapped"}
    assert wrap(once.text).text == once.text
    assert unwrap(once.text).text == text
