"""Which text makes a client start its servers through the proxy, and which takes that back? (P280)

``wrap`` and ``unwrap`` are pure: a text in, a text out. They replace the command of a server and
insert or remove arguments in front of its own ones, and touch nothing else. So a text that was
wrapped and unwrapped again is the same text, byte by byte. Claude Desktop, Claude Code, Cursor and
VS Code all describe a server by ``command`` and ``args``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal

from nottwice.errors import UsageError
from nottwice.mcp.clients import jsonc
from nottwice.mcp.clients.jsonc import JsonPart
from nottwice.model.data.records import frozen_record

PROGRAM = "nottwice"
State = Literal["wrapped", "unwrapped", "already", "left_alone"]
LISTS = (("mcpServers",), ("servers",), ("mcp", "servers"))
"""Under which names a client keeps its servers: ``mcp.json`` of VS Code has the second one, and its
``settings.json`` the third."""
URL_KEYS = ("url", "serverUrl", "httpUrl")
MOST_NAME_CHARACTERS = 60
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")


@frozen_record(frozen=True, slots=True)
class ServerEdit:
    """What becomes of one server of a configuration."""

    server: str
    """What the client calls it."""
    project: str | None
    """The project that it belongs to, in a file for several projects."""
    state: State
    why: str = ""
    """Why it was left alone."""


@frozen_record(frozen=True, slots=True)
class ConfigurationEdit:
    """A configuration after an edit."""

    text: str
    servers: tuple[ServerEdit, ...]


@frozen_record(frozen=True, slots=True)
class _Server:
    name: str
    project: str | None
    part: JsonPart

    @property
    def words(self) -> list[str] | None:
        """The command and its arguments. None: they are not texts."""
        command, args = self.part.find("command"), self.part.find("args")
        rest = [] if args is None else args.texts
        if command is None or not isinstance(command.value, str) or rest is None:
            return None
        return [command.value, *rest]


@frozen_record(frozen=True, slots=True)
class _Replacement:
    start: int
    end: int
    text: str


def wrap(text: str, *, program: str = PROGRAM, project: str | None = None) -> ConfigurationEdit:
    """Return the configuration in which each server is started through the proxy.

    ``program``: how the client starts nottwice. ``project``: the name of the project that the file
    belongs to; without one the servers are those of the user. Wrapping twice changes nothing.
    """
    taken = set(_names_in_use(jsonc.read(text)))

    def edit(server: _Server) -> tuple[ServerEdit, list[_Replacement]]:
        words = server.words
        if words is not None and _upstream_index(words) is not None:
            return _edited(server, "already"), []
        why = _why_not(server)
        if why:
            return _edited(server, "left_alone", why), []
        name = _proxy_name(server, project, taken)
        return _edited(server, "wrapped"), list(_wrapped(text, server, name, program))

    return _changed(text, edit)


def unwrap(text: str) -> ConfigurationEdit:
    """Return the configuration without the proxy, however it was written into it."""

    def edit(server: _Server) -> tuple[ServerEdit, list[_Replacement]]:
        words = server.words
        index = None if words is None else _upstream_index(words)
        if index is None:
            return _edited(server, "already"), []
        return _edited(server, "unwrapped"), list(_unwrapped(text, server, index))

    return _changed(text, edit)


Edit = Callable[[_Server], tuple[ServerEdit, list[_Replacement]]]


def _changed(text: str, edit: Edit) -> ConfigurationEdit:
    told: list[ServerEdit] = []
    replacements: list[_Replacement] = []
    for server in _servers(jsonc.read(text)):
        becomes, wanted = edit(server)
        told.append(becomes)
        replacements += wanted
    # From the end, so that the places of the earlier ones stay right.
    for one in sorted(replacements, key=lambda each: each.start, reverse=True):
        text = text[: one.start] + one.text + text[one.end :]
    return ConfigurationEdit(text, tuple(told))


def _servers(root: JsonPart) -> Iterator[_Server]:
    found = False
    for names in LISTS:
        listed = root.find(*names)
        if listed is not None:
            found = True
            yield from _below(listed, None)
    projects = root.find("projects")
    for path, member in {} if projects is None else projects.members.items():
        listed = member.part.find("mcpServers")
        if listed is not None:
            found = True
            yield from _below(listed, path)
    if not found:
        raise UsageError('it names no servers: it has neither "mcpServers" nor "servers"')


def _below(listed: JsonPart, project: str | None) -> Iterator[_Server]:
    for name, member in listed.members.items():
        yield _Server(name, project, member.part)


def _upstream_index(words: Sequence[str]) -> int | None:
    """Return where the server's own command begins. None: it is not started through the proxy.

    nottwice may itself be started by another program: ``uvx nottwice proxy ...``.
    """
    for index, word in enumerate(words[:-1]):
        if _is_nottwice(word) and words[index + 1] == "proxy" and "--" in words[index + 2 :]:
            begin = words.index("--", index + 2) + 1
            return begin if begin < len(words) else None
    return None


def _is_nottwice(word: str) -> bool:
    name = PureWindowsPath(PurePosixPath(word).name).name
    return re.fullmatch(r"nottwice(\.exe)?(\[[\w,-]*\])?([@=<>~!].*)?", name) is not None


def _why_not(server: _Server) -> str:
    members = server.part.members
    if "command" not in members:
        if any(key in members for key in URL_KEYS):
            return (
                "it has a URL and no command. The proxy protects servers that the client starts, "
                "not remote ones"
            )
        return "it has no command"
    return "" if server.words is not None else "its command or its args are not texts"


def _proxy_name(server: _Server, project: str | None, taken: set[str]) -> str:
    """Return the name under which the proxy keeps what it knows about this server.

    Each project has its own server of a name: one must not get the receipts of the other.
    """
    if server.project is not None:
        project = PurePosixPath(server.project).name
    spelled = [_UNUSUAL.sub("-", one).strip("-.") for one in (project or "", server.name)]
    plain = "-".join(filter(None, spelled))[:MOST_NAME_CHARACTERS] or "server"
    name, number = plain, 2
    while name in taken:
        name, number = f"{plain}-{number}", number + 1
    taken.add(name)
    return name


def _names_in_use(root: JsonPart) -> Iterator[str]:
    """Return the names that servers behind the proxy have already."""
    for server in _servers(root):
        words = server.words or []
        for index, word in enumerate(words[: _upstream_index(words) or 0]):
            option, _, name = word.partition("=")
            if option == "--name":
                yield name or words[index + 1]


def _edited(server: _Server, state: State, why: str = "") -> ServerEdit:
    return ServerEdit(server.name, server.project, state, why)


def _wrapped(text: str, server: _Server, name: str, program: str) -> Iterator[_Replacement]:
    members = server.part.members
    command, args = members["command"], members.get("args")
    own = text[command.part.start : command.part.end]
    words = ["proxy", "--name", name, "--"]
    yield _Replacement(command.part.start, command.part.end, _literal(program))
    if args is None:
        # In front of the command. By its place unwrap sees that the array was not there.
        start = command.key_start
        yield _Replacement(start, start, f'"args": [{_listed(words)}, {own}], ')
    elif args.part.value:
        start = args.part.value[0].start
        yield _Replacement(start, start, f"{_listed(words)}, {own}, ")
    else:
        if args.part.start < command.part.start:
            # This array was there, in front of the command. The other spelling says so.
            words[1:3] = [f"--name={name}"]
        end = args.part.end - 1
        yield _Replacement(end, end, f"{_listed(words)}, {own}")


def _unwrapped(text: str, server: _Server, index: int) -> Iterator[_Replacement]:
    members = server.part.members
    command, args = members["command"], members["args"]
    # The command is the first of the words, and not one of the array's items.
    items, own = args.part.value, index - 1
    literal = text[items[own].start : items[own].end]
    yield _Replacement(command.part.start, command.part.end, literal)
    if own + 1 < len(items):
        yield _Replacement(items[0].start, items[own + 1].start, "")
    elif _is_ours(text, args.key_start, args.part, command.key_start):
        yield _Replacement(args.key_start, command.key_start, "")
    else:
        yield _Replacement(items[0].start, items[own].end, "")


def _is_ours(text: str, start: int, args: JsonPart, command_start: int) -> bool:
    """Whether wrap has written the whole array: it is directly in front of the command."""
    between = text[args.end : command_start]
    written = text[start : args.start] == '"args": ' and between.strip() == ","
    return written and "--name" in (args.texts or ())


def _listed(words: Sequence[str]) -> str:
    return ", ".join(map(_literal, words))


def _literal(word: str) -> str:
    return json.dumps(word, ensure_ascii=False)
