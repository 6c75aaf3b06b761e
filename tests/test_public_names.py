"""Are the public names exactly the intended ones, and is each explained?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

import nottwice
import nottwice.testing
from tests.tidy.source import ROOT

# A name is public when it is listed here. Removing one breaks somebody: CHANGELOG, Breaking.
PUBLIC_NAMES = [
    "END",
    "Agent",
    "Ambiguous",
    "App",
    "ApprovalNeeded",
    "Budget",
    "BudgetSpent",
    "Call",
    "ChildFailed",
    "CommitUnknown",
    "ConditionUnknown",
    "Context",
    "ContextTooLong",
    "DecisionConflict",
    "Denied",
    "EventTimeout",
    "Fenced",
    "File",
    "FileChanged",
    "Graph",
    "GraphChangedInPlace",
    "InvalidArguments",
    "InvalidGraph",
    "InvalidId",
    "InvalidKey",
    "InvalidTool",
    "KeyConflict",
    "KeyMissing",
    "Ledger",
    "LedgerCorrupt",
    "LedgerDeleted",
    "LedgerTampered",
    "Migration",
    "MigrationRefused",
    "NewEffectInFork",
    "NoLedger",
    "NotInRun",
    "NotPermitted",
    "NotPlainData",
    "NottwiceError",
    "Outcome",
    "Poison",
    "PolicyFailed",
    "Price",
    "QuestionOpen",
    "Receipt",
    "RecordedCall",
    "RecordedRun",
    "Refused",
    "Rejected",
    "Removed",
    "ReplayDriftError",
    "ReplayUnsafeError",
    "ResultNotKept",
    "Retention",
    "RetryPolicy",
    "Retryable",
    "Reviews",
    "Run",
    "RunAborted",
    "RunBlocked",
    "RunBusy",
    "RunDenied",
    "RunRemoved",
    "RunState",
    "RunWaits",
    "SchemaTooNew",
    "Scratchpad",
    "Secret",
    "SelfWait",
    "StoreError",
    "Tally",
    "ToolFailure",
    "UnclassifiedTool",
    "UndeclaredEffect",
    "UnknownReview",
    "UnknownRun",
    "UnmappedNode",
    "UnsafeFilesystem",
    "UsageError",
    "Verification",
    "VersionError",
    "WorkDuringImport",
    "Worker",
    "WorkflowVersionMismatch",
    "ask",
    "aspawn",
    "backup",
    "current_call",
    "did_not_happen",
    "gather",
    "go",
    "happened",
    "key_per_call",
    "map",
    "migrate",
    "migrate_all",
    "now",
    "open",
    "phases",
    "providers",
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
    "unknown",
    "uuid",
]
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
    "Verification",
    "World",
    "WorldClient",
    "WorldNotStarted",
    "WorldRefused",
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
    # So that two people who each add one notice each other, and nobody adds one twice.
    assert list(nottwice.__all__) == in_order(nottwice.__all__)
    assert in_order(PUBLIC_NAMES) == PUBLIC_NAMES


def in_order(names: list[str]) -> list[str]:
    """Each name once, constants first: the order that ruff keeps."""
    return sorted(set(names), key=lambda name: (not name.isupper(), name))


# A constant is a plain value and cannot hold a docstring; the reference page explains it.
@pytest.mark.parametrize("name", [name for name in PUBLIC_NAMES if not name.isupper()])
def test_a_public_name_explains_itself(name: str) -> None:
    assert explanation(getattr(nottwice, name)), f"Write a docstring for nottwice.{name}"


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_a_public_name_is_documented(name: str) -> None:
    assert API_PAGE.exists(), "docs/reference/api.md is missing"
    page = API_PAGE.read_text(encoding="utf-8")
    assert is_documented(name, page), f"Describe `{name}` in docs/reference/api.md"


def explanation(value: Any) -> str | None:
    """Return the docstring that somebody wrote; inherited and generated ones explain nothing."""
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
        re.search(rf"(?:^#+ .*|`@?)(?:nt\.|nottwice\.)?\b{name}\b", page, re.MULTILINE) is not None
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
