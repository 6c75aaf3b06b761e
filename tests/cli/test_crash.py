"""`nottwice crash`: a function of a file is killed everywhere; bad words are refused before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nottwice.cli.main import main
from nottwice.store.sqlite import SqliteStore
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


def test_a_program_reads_one_document(agent: str) -> None:
    result = crash(agent, "--tools", TOOLS, "--points", "5", "--json")
    document = json.loads(result.output)
    assert (document["passed"], document["examined"]) == (True, 1)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["crashing_agent.py"], 1, "names no function"),
        (["crashing_agent.py:nothing"], 1, "names no function"),
        (["crashing_agent.py:gone"], 1, "is not there"),
        (["crashing_agent.py:handle", "--tools", "["], 2, "not JSON"),
        (["crashing_agent.py:handle", "--tools", "[]"], 2, "must be a JSON object"),
        (["crashing_agent.py:handle", "--points", "x"], 1, "is not a point"),
        (["crashing_agent.py:handle", "--budget", "soon"], 1, "is not a duration"),
        (["crashing_agent.py:handle", "--level", "everywhere"], 2, "everywhere"),
        (["crashing_agent.py:handle"], 1, "was given no answer"),
    ],
)
def test_what_cannot_be_examined_is_refused_and_nothing_runs_for_real(
    agent: str, words: list[str], code: int, text: str
) -> None:
    result = crash(*words)
    assert result.exit_code == code, result.output
    assert text in result.output
