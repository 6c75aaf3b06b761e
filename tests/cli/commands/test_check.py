"""Does `nottwice check` fail a build for what is refused, and only warn about the rest?"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner

from nottwice.cli.main import main
from nottwice.guard import registry
from tests.cli.workplace import HOSTILE, Ended, Workplace
from tests.store import kept_ledgers as kept

GOOD = """
import nottwice as nt

def found(call: nt.Call) -> nt.Verification:
    return nt.happened(None) if call.id == "x" else nt.cannot_tell()

@nt.tool("pure", volatile=("hint",), tags=("cheap",), durable=True)
def look(order_id: int, hint: str = "") -> dict: ...

@nt.tool("unsafe_on_replay", verify=found, settles="30s", time_limit="90s")
async def send(to: str) -> None: ...

@nt.tool("idempotent_with_key", key="pay-{order_id}", window="24h", retry=nt.RetryPolicy(1),
         approve="24h", keep="90d", rate="bank")
def pay(order_id: int) -> str:
    return nt.current_call().key
"""
WARNED = """
import nottwice as nt

@nt.tool("unsafe_on_replay")
def send(to: str) -> None: ...
"""
WRONG = """
import nottwice as nt

@nt.tool("unsafe_on_replay")
def send(to: str) -> None: ...

def sends(call: nt.Call) -> nt.Verification:
    send(to=call.id)
    return nt.cannot_tell()

@nt.tool("unsafe_on_replay", verify=sends)
def refund(order_id: int) -> None: ...
"""


class Check(Protocol):
    def __call__(self, source: str, *words: str) -> Ended: ...


@pytest.fixture
def check(empty: Workplace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Check]:
    """Check a module with this source, in this process, as if it were the first one."""
    monkeypatch.chdir(empty.folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "_tools", {})

    def run(source: str, *words: str) -> Ended:
        sys.modules.pop("module", None)
        registry._tools.clear()
        (empty.folder / "module.py").write_text(source)
        result = CliRunner().invoke(main, ["check", "module.py", *words])
        return Ended(result.exit_code, result.stdout, result.stderr)

    yield run
    sys.modules.pop("module", None)


def document(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_good_module_passes_even_strictly(check: Check) -> None:
    ended = check(GOOD, "--strict")
    assert ended.exit_code == 0, ended
    assert ended.stdout.splitlines()[-1] == "3 tools, 0 errors, 0 warnings"


def test_everything_that_a_tool_declares_is_listed(check: Check) -> None:
    shown = check(GOOD).stdout
    tools = {part.split("\n")[0]: part for part in shown.split("\n\n")}
    facts = {
        name: dict(re.findall(r"^  (\S.*?)  +(\S.*)$", part, re.M)) for name, part in tools.items()
    }
    assert facts["look"]["class"] == "pure"
    assert facts["look"]["volatile"] == "hint"
    assert facts["look"]["tags"] == "cheap"
    assert facts["look"]["durable"] == "before it returns"
    assert "durable" not in facts["send"]
    assert facts["look"]["declared"] == "module.py:7"
    assert facts["send"]["class"] == "unsafe_on_replay, async"
    assert facts["send"]["verify"] == "found"
    assert facts["send"]["settles"] == "30s"
    assert facts["send"]["time limit"] == "90s"
    assert facts["send"]["retry"].startswith("up to 4 attempts")
    assert facts["pay"]["key"] == "pay-{order_id}"
    assert facts["pay"]["window"] == "24h"
    assert facts["pay"]["verify"] == "none"
    assert facts["pay"]["retry"] == "never"
    assert facts["pay"]["approval"] == "needed, counts for 24h"
    assert facts["pay"]["keep"] == "90d"
    assert facts["pay"]["rate"] == "bank"
    assert "approval" not in facts["send"]


def test_a_tool_that_needs_no_key_is_listed_with_the_word_that_declared_it(check: Check) -> None:
    shown = check("import nottwice as nt\n@nt.tool('idempotent')\ndef put(x: int) -> int: ...\n")
    assert re.search(r"class +idempotent$", shown.stdout, re.M)


def test_the_four_answers_are_given_for_every_tool(check: Check) -> None:
    shown = check(GOOD).stdout
    for question in (
        "a second run has effects?",
        'how is "already done" detected?',
        "is the detection free of effects?",
        "does its client retry?",
    ):
        assert shown.count(question) == 3


def test_a_warning_is_shown_and_fatal_only_with_strict(check: Check) -> None:
    lenient = check(WARNED)
    assert lenient.exit_code == 0
    assert "warning: it has no verify hook" in lenient.stdout
    strict = check(WARNED, "--strict")
    assert strict.exit_code == 3
    assert strict.stdout.splitlines()[-1] == "1 tool, 0 errors, 1 warning (fatal: --strict)"


def test_a_verify_hook_with_an_effect_is_an_error(check: Check) -> None:
    ended = check(WRONG)
    assert ended.exit_code == 3
    assert "error: its verify hook runs send, which is effectful" in ended.stdout


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("@nt.tool\ndef f(x): ...", "Tool 'f' has no replay class and was not declared."),
        ("@nt.tool('pur')\ndef f(x): ...", "Did you mean 'pure'?"),
        ("@nt.tool('idempotent_with_key', window='1h')\ndef f(x): ...", "needs key=..."),
        ("@nt.tool('pure', key='a')\ndef f(x): ...", "belongs to idempotent_with_key"),
        ("class A:\n  @nt.tool('pure')\n  def f(self): ...", "bound_by="),
        ("@nt.tool('pure')\ndef f(): ...\n@nt.tool('pure', name='f')\ndef g(): ...", "Two tools"),
        ("1 / 0", "module.py could not be imported: ZeroDivisionError"),
        ("exit()", "if __name__ == '__main__':"),
    ],
)
def test_what_is_refused_fails_with_its_remedy_and_no_traceback(
    source: str, said: str, check: Check
) -> None:
    ended = check(f"import nottwice as nt\n{source}\n")
    assert ended.exit_code == 3, ended
    assert f"error: {said}" in ended.stdout or said in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
    found = document(check(f"import nottwice as nt\n{source}\n", "--json"))
    assert found["failed"] is True
    assert found["errors"] == 1
    assert said in found["findings"][0]["text"]


def test_a_module_without_tools_is_worth_a_warning(check: Check) -> None:
    assert check("x = 1\n").exit_code == 0
    ended = check("x = 1\n", "--strict")
    assert ended.exit_code == 3
    assert "declared no tool" in ended.stdout


def test_no_ledger_is_needed_or_made(check: Check, empty: Workplace) -> None:
    assert check(GOOD).exit_code == 0
    assert not list(empty.folder.glob("*.db*"))


def test_a_module_is_named_in_any_of_the_known_ways(empty: Workplace) -> None:
    (empty.folder / "module.py").write_text(GOOD)
    for line in (
        "nottwice check module",
        "nottwice check ./module.py",
        "nottwice check --app module",
        "nottwice --app module check",
    ):
        ended = empty.shell(line)
        assert ended.exit_code == 0, ended
        assert ended.stdout.endswith("3 tools, 0 errors, 0 warnings\n")
    assert empty.shell("nottwice check").exit_code == 2
    (empty.folder / "pyproject.toml").write_text('[tool.nottwice]\napp = "module"\n')
    assert empty.shell("nottwice check").exit_code == 0


def test_nothing_is_run_but_the_import(check: Check, empty: Workplace) -> None:
    source = """
import nottwice as nt
from pathlib import Path

def touch(call: nt.Call) -> nt.Verification:
    Path(call.id + "ran").touch()
    return nt.cannot_tell()

def key_of(x: int) -> str:
    Path("ran").touch()
    return "a"

@nt.tool("unsafe_on_replay", verify=touch)
def send(x: int) -> None:
    Path("ran").touch()

@nt.tool("idempotent_with_key", key=key_of, window="1h")
def pay(x: int) -> str:
    Path("ran").touch()
    return nt.current_call().key
"""
    assert check(source, "--strict").exit_code == 0
    assert not list(empty.folder.glob("*ran*"))


@pytest.mark.parametrize("how", ["pipe", "terminal"])
def test_nothing_hostile_is_shown_as_it_is(how: str, empty: Workplace) -> None:
    source = f"raise ValueError({HOSTILE!r})\n"
    (empty.folder / "module.py").write_text(source)
    line = "nottwice check module.py"
    shown = (empty.shell(line) if how == "pipe" else empty.terminal(line)).stdout
    assert "ValueError: [red]\\x1b[31mevil" in shown
    assert "\x1b[31mevil" not in shown
    assert "\x1b]0;" not in shown
    assert not re.search(r"^Error: forged", shown, re.M)


def test_a_place_below_this_folder_is_shown_relative(empty: Workplace, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(WARNED)
    shown = empty.shell(f"nottwice check {elsewhere}").stdout
    assert f"{elsewhere}:4" in shown


def test_what_the_next_open_does_to_the_ledger_is_told_before(
    empty: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.restore(1, empty.folder / "old.db")
    kept.become_a_nottwice_to_come(monkeypatch)
    before = (empty.folder / "old.db").read_bytes()
    newest = kept.TO_COME[-1].number
    ended = CliRunner().invoke(main, ["check", "--store", str(empty.folder / "old.db")])
    assert ended.exit_code == 0
    assert f"old.db: schema 1 → {newest} at next open" in ended.stdout
    words = ["check", "--json", "--store", str(empty.folder / "old.db")]
    found = json.loads(CliRunner().invoke(main, words).stdout)
    assert (found["module"], found["format"]["found"], found["format"]["known"]) == (
        None,
        1,
        newest,
    )
    assert (empty.folder / "old.db").read_bytes() == before
    assert sorted(path.name for path in empty.folder.glob("old.db*")) == ["old.db"]


def test_a_ledger_of_a_newer_nottwice_fails_the_check(empty: Workplace) -> None:
    path = empty.folder / "new.db"
    kept.restore(1, path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    ended = CliRunner().invoke(main, ["check", "--store", str(path)])
    assert ended.exit_code == 3
    assert "has schema version 99" in ended.stdout
    missing = CliRunner().invoke(main, ["check", "--store", str(empty.folder / "none.db")])
    assert missing.exit_code == 1
    assert "There is no ledger" in missing.stderr


def test_a_store_that_cannot_be_opened_is_an_error_and_no_traceback(workplace: Workplace) -> None:
    (workplace.folder / "harmless.py").write_text("import nottwice as nt\n")
    ended = workplace.cli("check", "harmless.py", "--store", "/proc/1/mem")
    assert ended.exit_code == 1
    assert "/proc/1/mem cannot be read as a ledger" in ended.stderr


FORGOTTEN = """
import subprocess
import httpx
import nottwice as nt

flow = nt.Graph("billing", version="1.0.0")

def charge_card(order_id):
    return httpx.post("https://bank.example/charges", json={"order": order_id}).json()

@flow.node
def pay(state):
    charge_card(state["order"])
    return {}

@flow.node
def publish(state):
    subprocess.run(["git", "push"], check=True)
    return {}
"""


def test_an_effect_of_a_node_that_no_tool_declares_is_named_with_its_line_and_chain(
    check: Check,
) -> None:
    ended = check(FORGOTTEN)
    assert ended.exit_code == 0
    assert (
        "warning: node 'pay' of billing@1.0.0 sends a request outside of any tool: httpx.post at "
        "module.py:9, through charge_card (module.py:13)" in ended.stdout
    ), ended
    assert (
        "warning: node 'publish' of billing@1.0.0 starts a program outside of any tool: "
        "subprocess.run at module.py:18" in ended.stdout
    )
    strict = check(FORGOTTEN, "--strict")
    assert strict.exit_code == 3
