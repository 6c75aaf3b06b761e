"""`nottwice crash` kills a function of a file everywhere, and refuses bad arguments first."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nottwice.cli.main import main
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing.fatal import without_intents

AGENT = """
import nottwice as nt

@nt.tool("unsafe_on_replay", name="cli_crash_mail")
def mail(to: str) -> str:
    raise RuntimeError("for real")

def handle():
    with nt.run("ticket-7", store="agent.db"):
        return mail(to="ann")

nothing = 3
"""
TOOLS = '{"cli_crash_mail": "sent"}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: a file is the module that it was imported as."""
    folder = tmp_path_factory.mktemp("agent")
    (folder / "crashing_agent.py").write_text(AGENT)
    return folder


@pytest.fixture
def agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    return "crashing_agent.py:handle"


def crash(*words: str) -> Result:
    return CliRunner().invoke(main, ["crash", *words])


def test_a_sound_agent_passes_with_a_verdict(agent: str) -> None:
    result = crash(agent, "--tools", TOOLS)
    assert result.exit_code == 0, result.output
    assert "boundaries: 10 of 10 points" in result.output
    assert "the world saw cli_crash_mail ×1" in result.output
    assert not Path("agent.db").exists()


def test_something_wrong_is_exit_code_3_and_a_command_that_shows_it_again(
    agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SqliteStore.commit
    monkeypatch.setattr(
        SqliteStore, "commit", lambda self, commit: whole(self, without_intents(commit))
    )
    Path("tools.json").write_text(TOOLS)
    result = crash(agent, "--tools", "@tools.json")
    assert result.exit_code == 3, result.output
    again = f"again: nottwice crash {agent} --tools @tools.json --level boundaries --points "
    assert again in result.output
    words = result.output.partition("again: nottwice crash ")[2].splitlines()[0].split()
    assert crash(*words).exit_code == 3


ASKING = """
import nottwice as nt

@nt.tool("pure", name="cli_crash_search")
def search(words: str) -> str:
    return f"found {words}"

@nt.tool("unsafe_on_replay", name="cli_crash_letter")
def letter(to: str) -> str:
    raise SystemExit("a crash test runs no effectful tool")

def handle():
    with nt.run("ticket", store="agent.db"):
        for words in ("one", "two", "three"):
            search(words)
        letter(to="ann")
"""


def test_what_may_be_made_again_is_judged_by_the_number_that_is_given(agent: str) -> None:
    Path("asking_agent.py").write_text(ASKING)
    words = ["asking_agent.py:handle", "--tools", '{"cli_crash_letter": "sent"}']
    assert crash(*words).exit_code == 0
    assert crash(*words, "--at-most-repeated", "3").exit_code == 0
    result = crash(*words, "--at-most-repeated", "2")
    assert result.exit_code == 3
    assert "3 calls were repeated (cli_crash_search ×3), but at most 2 may be" in result.output
    again = shlex.split(result.output.partition("again: nottwice crash ")[2].splitlines()[0])
    assert again[again.index("--at-most-repeated") :][:2] == ["--at-most-repeated", "2"]
    assert crash(*again).exit_code == 3
    assert crash(*words, "--at-most-repeated", "-1").exit_code == 2


def test_a_program_reads_one_document(agent: str) -> None:
    result = crash(agent, "--tools", TOOLS, "--points", "5", "--json")
    document = json.loads(result.output)
    assert (document["passed"], document["examined"]) == (True, 1)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["crashing_agent.py"], 1, "names no function"),
        (["crashing_agent.py:nothing"], 1, "names no function"),
        (["crashing_agent.py:gone"], 1, "does not exist"),
        (["crashing_agent.py:handle", "--tools", "["], 2, "not JSON"),
        (["crashing_agent.py:handle", "--tools", "[]"], 2, "must be a JSON object"),
        (["crashing_agent.py:handle", "--points", "x"], 1, "is not a point"),
        (["crashing_agent.py:handle", "--budget", "soon"], 1, "is not a duration"),
        (["crashing_agent.py:handle", "--level", "everywhere"], 2, "everywhere"),
        (["crashing_agent.py:handle"], 1, """--tools '{"cli_crash_mail": ...}'"""),
    ],
)
def test_what_cannot_be_examined_is_refused_and_nothing_runs_for_real(
    agent: str, words: list[str], code: int, text: str
) -> None:
    result = crash(*words)
    assert result.exit_code == code, result.output
    assert text in result.output


BROKEN = """
import nottwice as nt

@nt.tool("unsafe_on_replay", name="cli_broken_mail")
def mail(to: str) -> str:
    raise RuntimeError("for real")

def fails():
    raise LookupError("no such order")

def fails_late():
    with nt.run("ticket-7", store="agent.db"):
        mail(to="ann")
        raise LookupError("no such order")

def idle():
    pass

def looks():
    with nt.run("ticket-7", store="agent.db"):
        return nt.now(label="now").year
"""


@pytest.fixture
def broken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "broken_agent.py").write_text(BROKEN)
    monkeypatch.chdir(folder)
    return "broken_agent.py"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["fails"], "raises LookupError: no such order"),
        (["fails", "--raises", "LookupError"], "no point at which it could be killed"),
        (["fails_late"], "--raises LookupError"),
        (["fails_late", "--raises", "KeyError"], "raises LookupError"),
        (["idle"], "no point at which it could be killed"),
        (["looks"], "--no-effects"),
    ],
)
def test_work_that_never_works_is_exit_code_1_with_the_reason(
    broken: str, words: list[str], text: str
) -> None:
    function, *options = words
    tools = ["--tools", '{"cli_broken_mail": "sent"}']
    result = crash(f"{broken}:{function}", *tools, *options)
    assert result.exit_code == 1, result.output
    assert text in result.output
    assert "Nothing was killed" in result.output


def test_what_is_expected_can_be_said(broken: str) -> None:
    tools = ["--tools", '{"cli_broken_mail": "sent"}']
    for words in (["fails_late", "--raises", "LookupError"], ["looks", "--no-effects"]):
        result = crash(f"{broken}:{words[0]}", *tools, *words[1:], "--points", "3")
        assert result.exit_code == 0, result.output


def test_a_point_that_never_comes_is_exit_code_1(agent: str) -> None:
    result = crash(agent, "--tools", TOOLS, "--points", "999")
    assert result.exit_code == 1, result.output
    assert "Nothing was examined" in result.output


THEIRS = """
import importlib.util
from pathlib import Path

import nottwice as nt
from nottwice.store.sqlite import store as sqlite

spec = importlib.util.spec_from_file_location("their_own_sqlite", sqlite.__file__)
copy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(copy)

def open_in(folder):
    return copy.SqliteStore(Path(folder) / "theirs.db", now=0.0)

@nt.tool("unsafe_on_replay", name="cli_theirs_mail")
def mail(to: str) -> str:
    return "sent for real"

def handle():
    with nt.run("ticket-7", store=open_in(".")):
        return mail(to="ann")
"""


def test_a_third_partys_ledger_is_refused_or_redirected_and_the_real_one_stays_empty(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "their_agent.py").write_text(THEIRS)
    monkeypatch.chdir(folder)
    words = ["their_agent.py:handle", "--tools", '{"cli_theirs_mail": "canned"}']
    refused = crash(*words)
    assert refused.exit_code == 1, refused.output
    assert "--redirect MODULE:FUNCTION" in refused.output
    passed = crash(*words, "--redirect", "their_agent.py:open_in", "--points", "8")
    assert passed.exit_code == 0, passed.output
    assert "the world saw cli_theirs_mail ×1" in passed.output
    # The program itself, afterwards: its tool runs, and no receipt of a crash test is returned.
    import their_agent  # type: ignore[import-not-found]

    assert their_agent.handle() == "sent for real"
