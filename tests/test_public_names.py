"""Are the public names exactly the intended ones, and is each explained?"""

from __future__ import annotations

import ast
import builtins
import pydoc
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nottwice
import nottwice.errors
import nottwice.testing
from tests.tidy.source import ROOT

# A name is public when it is listed here. Removing one breaks users: CHANGELOG, Breaking.
PUBLIC_NAMES = [
    "END",
    "Agent",
    "Ambiguous",
    "App",
    "Budget",
    "Call",
    "Graph",
    "Ledger",
    "Limit",
    "Notify",
    "NottwiceError",
    "Outcome",
    "Permanent",
    "Retention",
    "RetryPolicy",
    "Retryable",
    "Reviews",
    "RunBlocked",
    "RunBusy",
    "RunWaits",
    "Secret",
    "ToolFailure",
    "Verification",
    "Worker",
    "ask",
    "aspawn",
    "attach",
    "backup",
    "cannot_tell",
    "current_call",
    "did_not_happen",
    "gather",
    "goto",
    "happened",
    "key_per_call",
    "now",
    "phases",
    "random",
    "receive",
    "recorded",
    "remove_expired",
    "run",
    "send",
    "single_request",
    "sleep",
    "spawn",
    "step",
    "still_running",
    "tool",
    "uuid",
]
# There and documented, but not for ``import *``, which would replace the builtin.
NOT_FOR_STAR = ["map"]
ROOMS = {
    "adapters": [
        "REPEAT",
        "VERDICTS",
        "CallResult",
        "CallState",
        "Handle",
        "ToolSpec",
        "Verdict",
        "aanswer",
        "abort",
        "answer",
        "approve",
        "declare",
        "reject",
        "text_for_lost_answer",
        "text_for_model",
        "text_for_repeat",
        "verdict_of",
    ],
    "agent": ["Context", "File", "Price", "RunState", "Scratchpad"],
    "types": [
        "AsyncTool",
        "Call",
        "Checkpoints",
        "Clock",
        "Duration",
        "Failure",
        "Migration",
        "NodeMark",
        "Outcome",
        "Progress",
        "Receipt",
        "RecordedCall",
        "RecordedOpening",
        "RecordedRun",
        "RemovalReport",
        "Review",
        "Run",
        "Store",
        "SyncTool",
        "Verification",
        "Wait",
        "WorkerStats",
    ],
    "versions": ["Migration", "migrate", "migrate_all"],
}
MODULES = [
    "adapters",
    "agent",
    "errors",
    "events",
    "policy",
    "providers",
    "recipes",
    "testing",
    "types",
    "versions",
]
ERRORS = sorted(
    name
    for name, value in vars(nottwice.errors).items()
    if isinstance(value, type) and issubclass(value, Exception)
)
TESTING_NAMES = [
    "Asking",
    "CrashTestRefused",
    "Effect",
    "FailsFirst",
    "FakeModels",
    "FakeModelsNotStarted",
    "Fault",
    "Late",
    "LevelsUnavailable",
    "Lost",
    "NotDeterministic",
    "Sandbox",
    "SeenRequest",
    "Turn",
    "Verdict",
    "World",
    "WorldClient",
    "WorldNotStarted",
    "WorldRefused",
    "WorldVerification",
    "crash_test",
    "forget_tools",
]
API_PAGE = ROOT / "docs" / "reference" / "api.md"


def test_the_public_names_are_exactly_the_intended_ones() -> None:
    assert sorted(nottwice.__all__) == sorted(PUBLIC_NAMES)


def test_the_names_for_tests_are_exactly_the_intended_ones() -> None:
    assert list(nottwice.testing.__all__) == TESTING_NAMES == in_order(TESTING_NAMES)


@pytest.mark.parametrize("name", TESTING_NAMES)
def test_a_name_for_tests_explains_itself_and_is_documented(name: str) -> None:
    assert explanation(getattr(nottwice.testing, name)), f"Write a docstring for {name}"
    page = API_PAGE.read_text(encoding="utf-8")
    section = page.partition("\n## Testing\n")[2].partition("\n## ")[0]
    assert is_documented(name, section), f"Describe `{name}` in docs/reference/api.md, Testing"


def test_the_public_names_are_listed_in_order() -> None:
    # So that two people who each add one notice each other, and no name is there twice.
    assert list(nottwice.__all__) == in_order(nottwice.__all__)
    assert in_order(PUBLIC_NAMES) == PUBLIC_NAMES


def test_a_star_import_replaces_no_builtin() -> None:
    assert not set(nottwice.__all__) & set(vars(builtins))
    assert nottwice.map.__module__ == "nottwice.guard.scopes"


@pytest.mark.parametrize("room", ROOMS)
def test_the_names_of_a_room_are_exactly_the_intended_ones(room: str) -> None:
    module = getattr(nottwice, room)
    assert list(module.__all__) == ROOMS[room] == in_order(ROOMS[room])
    for name in ROOMS[room]:
        assert hasattr(module, name)
        assert name in dir(module)


def test_modules_behind_the_front_door_are_found_without_an_import() -> None:
    for name in MODULES:
        assert isinstance(getattr(nottwice, name), ModuleType), name
        assert name in dir(nottwice)


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in (nottwice, nottwice.agent, nottwice.versions):
        with pytest.raises(AttributeError, match="has no attribute 'toool'"):
            module.toool  # noqa: B018


def test_what_type_checkers_see_is_what_programs_get() -> None:
    """The imports for type checkers and the places for programs are two lists of the same."""
    seen = seen_by_type_checkers(nottwice)
    assert seen == {name: f"{home}.{name}" for name, home in nottwice._HOME.items()} | (
        nottwice._ROOMS
    )
    for module in (nottwice.agent, nottwice.versions):
        seen = seen_by_type_checkers(module)
        assert set(seen) == set(module.__all__)
        for name, place in seen.items():
            assert getattr(module, name) is pydoc.locate(place)


def seen_by_type_checkers(module: ModuleType) -> dict[str, str]:
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
        if alias.name != "lazy"
    }


def test_help_shows_every_public_name() -> None:
    shown = pydoc.plain(pydoc.render_doc(nottwice))
    for name in PUBLIC_NAMES:
        assert re.search(rf"\b{name}\b", shown), name


# Rooms that a program which only protects tools does without. A count, so that an import which
# loads half of the library again is noticed; the number of seconds would depend on the machine.
GUARD_ONLY = """
import sys
before = set(sys.modules)
import nottwice as nt
imported = set(sys.modules) - before

@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int) -> dict[str, int]:
    return {"refunded": cents}

with nt.run("ticket-7", store="agent.db"):
    refund(order_id=7, cents=4000)
used = set(sys.modules) - before
print(*imported, sep=",")
print(*used, sep=",")
"""


def loaded_modules(folder: Path) -> tuple[set[str], set[str]]:
    ran = subprocess.run(
        [sys.executable, "-c", GUARD_ONLY], cwd=folder, capture_output=True, text=True, check=True
    )
    imported, used = ran.stdout.splitlines()
    return set(imported.split(",")), set(used.split(","))


def test_an_import_loads_nothing_but_the_front_door(tmp_path: Path) -> None:
    imported, _ = loaded_modules(tmp_path)
    assert {name for name in imported if name.startswith("nottwice")} == {"nottwice"}
    assert not imported & {"pydantic", "asyncio", "sqlite3", "rich", "click"}
    assert len(imported) < 60


def test_a_program_that_protects_tools_does_not_load_the_other_rooms(tmp_path: Path) -> None:
    _, used = loaded_modules(tmp_path)
    others = "agent cli graphs policy recipes reviews testing types versions worker".split()
    others.append("adapters")
    loaded = {name.split(".")[1] for name in used if name.startswith("nottwice.")}
    assert not loaded & set(others)
    assert not used & {
        "nottwice.store.files.store",
        "nottwice.store.postgres.store",
        "pydantic",
        "typing_extensions",
        "importlib.metadata",
        "importlib.resources",
        "email.utils",
        "http.client",
        "rich",
        "click",
    }


def in_order(names: list[str]) -> list[str]:
    """Each name once, constants first: the order that ruff keeps."""
    return sorted(set(names), key=lambda name: (not name.isupper(), name))


# A constant is a plain value and cannot hold a docstring; the reference page explains it.
@pytest.mark.parametrize("name", [name for name in PUBLIC_NAMES if not name.isupper()])
def test_a_public_name_explains_itself(name: str) -> None:
    assert explanation(getattr(nottwice, name)), f"Write a docstring for nottwice.{name}"


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_explains_itself(name: str) -> None:
    assert explanation(getattr(nottwice.errors, name)), f"Write a docstring for {name}"


@pytest.mark.parametrize("room", ROOMS)
def test_the_names_of_a_room_are_documented(room: str) -> None:
    page = API_PAGE.read_text(encoding="utf-8")
    for name in ROOMS[room]:
        assert is_documented(name, page), f"Describe nt.{room}.{name} in docs/reference/api.md"


@pytest.mark.parametrize("name", [*PUBLIC_NAMES, *NOT_FOR_STAR, *MODULES, *ERRORS])
def test_a_public_name_is_documented(name: str) -> None:
    assert API_PAGE.exists(), "docs/reference/api.md is missing"
    page = API_PAGE.read_text(encoding="utf-8")
    assert is_documented(name, page), f"Describe `{name}` in docs/reference/api.md"


def explanation(value: Any) -> str | None:
    """Return the docstring that a person wrote; inherited and generated ones explain nothing."""
    if isinstance(value, ModuleType):
        return value.__doc__
    if not isinstance(value, type):
        # An instance has no docstring of its own, only its class's.
        return value.__doc__ if callable(value) and hasattr(value, "__name__") else None
    text: str | None = vars(value).get("__doc__")
    generated = text is not None and text.startswith(f"{value.__name__}(")
    return None if generated else text


def is_documented(name: str, page: str) -> bool:
    """Tell whether a heading or code on the page names it, alone or behind `nt.`."""
    return (
        re.search(rf"(?:^#+ .*|`@?)(?:nt\.|nottwice\.)?(?:[a-z]+\.)?\b{name}\b", page, re.MULTILINE)
        is not None
    )


class Explained:
    """It says what it is."""


class Inheriting(Explained):
    pass


@dataclass
class Generated:
    number: int


def silent() -> None:
    pass


@pytest.mark.parametrize("value", [Inheriting, Generated, silent, 7, Explained()])
def test_what_does_not_explain_itself_is_found(value: Any) -> None:
    assert explanation(value) is None


def test_what_explains_itself_is_let_through() -> None:
    assert explanation(Explained)
    assert explanation(explanation)


@pytest.mark.parametrize("page", ["## run and step\n", "Use `nt.run(id)`.", "`@run`", "### `run`"])
def test_a_documented_name_is_let_through(page: str) -> None:
    assert is_documented("run", page)


@pytest.mark.parametrize("page", ["", "Just run it.", "`nt.rerun`", "## runs"])
def test_an_undocumented_name_is_found(page: str) -> None:
    assert not is_documented("run", page)
