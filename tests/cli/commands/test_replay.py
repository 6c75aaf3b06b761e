"""`nottwice replay` as people and CI use it, in a separate folder with a real ledger."""

from __future__ import annotations

import importlib
import json
import shlex
import shutil
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from nottwice.cli.main import main
from nottwice.guard.registry import forget_tools, remember_tools
from tests.nursery import starting

MODULE = "replay_agent"

AGENT = """
import nottwice as nt

@nt.tool("pure")
def replay_find(order: int) -> dict:
    return {"customer": f"ann{order}@example." + "net", "street": f"Long Lane {order}"}

@nt.tool("unsafe_on_replay")
def replay_mail(to: str, body: str) -> str:
    return "sent"

flow = nt.Graph("support", version="1.0.0")

@flow.node
def look_up(state):
    return replay_find(state["order"])

@flow.node
def tell(state):
    replay_mail(to=state["customer"], body="hello " + state["street"])

app = nt.App(graphs=[flow], store="agent.db")
"""


@dataclass(frozen=True)
class Place:
    """A folder with an agent and its ledger."""

    folder: Path

    def run(self, line: str, **variables: str) -> Result:
        """A command as if in a process of its own: the agent is imported again."""
        others = remember_tools()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(sys, "path", [*sys.path])
            # A change within the same second must not be hidden by what was compiled before.
            patch.setattr(sys, "dont_write_bytecode", True)
            patch.delitem(sys.modules, MODULE, raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            importlib.invalidate_caches()
            try:
                return CliRunner().invoke(main, shlex.split(line))
            finally:
                sys.modules.pop(MODULE, None)
                forget_tools(known=others)

    def change(self, old: str, new: str) -> None:
        agent = self.folder / f"{MODULE}.py"
        assert old in agent.read_text()
        agent.write_text(agent.read_text().replace(old, new))

    @property
    def texts(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("checkpoints/*.json")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("made"))
    (place.folder / f"{MODULE}.py").write_text(AGENT)
    (place.folder / "pyproject.toml").write_text(
        '[tool.nottwice]\napp = "replay_agent:app"\nreplay = { secrets = ["street"] }\n'
    )
    for line in (
        """run support --id 1 --input '{"order": 1}'""",
        """run support --id 2 --input '{"order": 2}'""",
        "replay --record 50 checkpoints",
    ):
        ended = place.run(line)
        assert ended.exit_code == 0, ended.output
    assert "4 checkpoints are in checkpoints, with pseudonyms for 4 values" in ended.stdout
    return place


@pytest.fixture
def place(made: Place, tmp_path: Path) -> Place:
    shutil.copytree(made.folder, tmp_path / "place")
    return Place(tmp_path / "place")


def test_the_command_after_a_recording_works_as_printed(place: Place) -> None:
    (place.folder / "pyproject.toml").unlink()
    ended = place.run(f"replay --record 50 'check points' --app {MODULE}.py")
    _, command = ended.stdout.strip().split("Replay them: nottwice ")
    assert command == f"replay 'check points' --app {MODULE}.py"
    assert place.run(command).stdout == "4 checkpoints resumed as recorded\n"


def test_recorded_checkpoints_are_resumed_without_a_ledger(place: Place) -> None:
    (place.folder / "agent.db").unlink()
    ended = place.run("replay checkpoints")
    assert (ended.exit_code, ended.stdout) == (0, "4 checkpoints resumed as recorded\n")
    assert not (place.folder / "agent.db").exists()


def test_no_secret_is_in_the_files(place: Place) -> None:
    for secret in ("ann1", "ann2", "Long Lane"):
        assert secret not in place.texts


def tables(ledger: Path) -> dict[str, list[Any]]:
    """Everything that a ledger holds."""
    connection = sqlite3.connect(ledger)
    try:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: connection.execute("SELECT * FROM " + name).fetchall() for (name,) in names}
    finally:
        connection.close()


def test_recording_changes_nothing_but_the_audit_trail_and_gives_the_same_bytes(
    place: Place,
) -> None:
    ledger = place.folder / "agent.db"
    before, texts = tables(ledger), place.texts
    ended = place.run("replay --record 50 checkpoints --by ann --json")
    document = json.loads(ended.stdout)
    assert ended.exit_code == 0
    assert list(document) == ["folder", "recorded", "left_out", "removed", "secrets"]
    assert len(document["recorded"]) == 4
    assert (document["left_out"], document["removed"], document["secrets"]) == ([], [], 4)
    after = tables(ledger)
    known, (*earlier, told) = before.pop("nottwice_audit"), after.pop("nottwice_audit")
    # A process that writes a record is itself on record.
    assert len(after.pop("nottwice_holders")) == len(before.pop("nottwice_holders")) + 1
    assert (after, earlier) == (before, known)
    assert told[0] == ""
    assert told[2:5] == ("ann", "export", str(place.folder / "checkpoints"))
    assert told[5] == "at most 50 checkpoints with their calls, for replays"
    assert place.texts == texts


def test_nothing_is_taken_out_that_cannot_be_put_on_record(place: Place) -> None:
    """Before the first file is written: a user who may only read cannot export either."""
    ledger = place.folder / "agent.db"
    connection = sqlite3.connect(ledger)
    connection.execute(
        "CREATE TRIGGER no_more BEFORE INSERT ON nottwice_audit"
        " BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    connection.close()
    ended = place.run("replay --record 50 elsewhere --by ann")
    assert ended.exit_code == 1
    assert not (place.folder / "elsewhere").exists()


def test_a_key_of_ones_own_makes_other_pseudonyms(place: Place) -> None:
    texts = place.texts
    place.run("replay --record 50 checkpoints", NOTTWICE_REPLAY_KEY="mine")
    mine = place.texts
    assert mine != texts
    (place.folder / "agent.db").rename(place.folder / "moved.db")
    again = "replay --record 50 checkpoints --store moved.db"
    place.run(again, NOTTWICE_REPLAY_KEY="mine")
    assert place.texts == mine


def test_a_failure_ends_with_1_and_names_file_cause_and_difference(place: Place) -> None:
    place.change("hello ", "Hello ")
    place.change("1.0.0", "1.0.1")
    ended = place.run("replay checkpoints --junit replay.xml")
    assert ended.exit_code == 1
    assert "FAILED checkpoints/support-look_up-" in ended.stdout
    assert "arguments changed in tell: replay_mail is called with other arguments" in ended.stdout
    assert '~ arguments.body: "hello ' in ended.stdout
    assert ended.stdout.endswith("0 checkpoints resumed as recorded, 4 failed\n")
    suite = ElementTree.parse(place.folder / "replay.xml").getroot()
    assert suite.attrib["failures"] == "4"
    ended = place.run("replay checkpoints --json")
    assert ended.exit_code == 1
    document = json.loads(ended.stdout)
    assert {one["cause"] for one in document["results"]} == {"arguments changed"}


def test_options_for_new_tools_and_other_versions(place: Place) -> None:
    place.change("1.0.0", "1.1.0")
    place.change(
        "def replay_find(",
        'def replay_rebate() -> int:\n    raise SystemExit\n\n@nt.tool("pure")\ndef replay_find(',
    )
    place.change("    return replay_find", "    replay_rebate()\n    return replay_find")
    assert place.run("replay checkpoints").exit_code == 1
    ended = place.run("replay checkpoints --drains-elsewhere")
    assert ended.exit_code == 1
    assert "new pure call in look_up" in ended.stdout
    ended = place.run("""replay checkpoints --drains-elsewhere --tools '{"replay_rebate": 5}'""")
    assert ended.exit_code == 0, ended.stdout
    place.change("1.1.0", "2.0.0")
    ended = place.run("replay checkpoints --drains-elsewhere")
    assert "4 skipped" in ended.stdout
    assert "skipped: support@1.0.0 drains elsewhere" in ended.stderr


def test_a_gate_that_skipped_every_checkpoint_is_not_green(place: Place) -> None:
    place.change("1.0.0", "2.0.0")
    ended = place.run("replay checkpoints --drains-elsewhere")
    assert ended.exit_code == 2
    assert "Every checkpoint was skipped, so nothing was replayed" in ended.stderr
    document = json.loads(place.run("replay checkpoints --drains-elsewhere --json").stdout)
    assert (document["checkpoints"], document["skipped"]) == (4, 4)


def test_checkpoints_of_the_last_major_version_are_migrated_and_resumed(place: Place) -> None:
    place.change("1.0.0", "2.0.0")
    place.change("def tell(state):", "def write(state):")
    place.change('state["street"]', 'state["address"]')
    place.change("app = nt.App", UPGRADE + "app = nt.App")
    assert "graph version missing" in place.run("replay checkpoints").stdout
    words = "replay checkpoints --to support@2.0.0 --map look_up=look_up"
    ended = place.run(words)
    assert ended.exit_code == 1
    assert "the mapping does not define where it resumes" in ended.stdout
    ended = place.run(f"{words} --map tell=write")
    assert ended.exit_code == 1
    assert "node raises in write: KeyError: 'address'" in ended.stdout
    ended = place.run(f"{words} --map tell=write --upgrade {MODULE}:to_2")
    assert ended.exit_code == 0, ended.stdout
    assert "skipped" not in ended.stdout


PLAIN = """
import nottwice as nt

@nt.tool("unsafe_on_replay", name="replay_plain_mail")
def mail(to: str, body: str) -> str:
    return "sent"

def handle(run_id):
    with nt.run(run_id, store="plain.db", version="1.0.0"):
        with nt.step("tell"):
            mail(run_id, "hello")
"""


def test_a_program_without_graphs_is_recorded_and_replayed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    file = tmp_path / f"{MODULE}.py"
    file.write_text(PLAIN)
    begin = f"import {MODULE}; {MODULE}.handle('order-7')"
    starting.run([sys.executable, "-c", begin], cwd=tmp_path, check=True)
    work = f"--work {MODULE}.py:handle"
    ended = place.run(f"replay --record 50 checkpoints {work} --store plain.db")
    assert ended.exit_code == 0, ended.output
    assert "1 checkpoints are in checkpoints" in ended.stdout
    assert ended.stdout.endswith(f"Replay them: nottwice replay checkpoints {work}\n")
    (tmp_path / "plain.db").rename(tmp_path / "moved.db")
    ended = place.run(f"replay checkpoints {work}")
    assert (ended.exit_code, ended.stdout) == (0, "1 checkpoint resumed as recorded\n")
    assert not (tmp_path / "plain.db").exists()
    place.change("hello", "Hello")
    ended = place.run(f"replay checkpoints {work}")
    assert ended.exit_code == 1
    assert "run 'order-7' (completed) without a graph, up to step tell" in ended.stdout
    assert '~ arguments.body: "hello" → "Hello"' in ended.stdout
    assert place.run(f"replay checkpoints --work {MODULE}.py").exit_code == 2


UPGRADE = """
def to_2(state):
    return {**state, "address": state.get("street", "")}

"""
REFUSED = [
    ("replay checkpoints --map a=b", 2, "Say to which version: --to"),
    ("replay checkpoints --to support@9.0.0", 2, "It has: support@1.0.0"),
    ("replay nowhere", 2, "There is no recorded checkpoint in nowhere"),
    ("replay", 2, "Missing argument"),
    ("replay checkpoints --secret x", 2, "--secret is for recording"),
    ("replay checkpoints --tools []", 2, "--tools must be a JSON object"),
    ("replay --record 0 checkpoints", 2, "0 is not in the range"),
    ("replay --record 5 c --junit x", 2, "--junit reports replays"),
    ("replay --record 5 c --secret a,,b", 1, "names no value"),
    ("replay --record 5 c --store no.db", 1, "no.db"),
    ("replay checkpoints --app nothing", 1, "could not be imported"),
]


def test_what_cannot_be_done_is_said_before_anything_is(made: Place) -> None:
    for line, code, said in REFUSED:
        ended = made.run(line)
        assert (line, ended.exit_code, said in ended.stderr) == (line, code, True), ended.stderr
    assert not (made.folder / "c").exists()
    assert not (made.folder / "no.db").exists()


def test_secrets_that_are_configured_as_something_else_are_refused(place: Place) -> None:
    settings = place.folder / "pyproject.toml"
    settings.write_text(settings.read_text().replace('["street"]', '"street"'))
    ended = place.run("replay --record 5 checkpoints")
    assert ended.exit_code == 1
    assert "replay.secrets in [tool.nottwice] must be a list of names" in ended.stderr


def test_a_newer_format_is_a_failure_that_says_so(place: Place) -> None:
    (path, *_) = (place.folder / "checkpoints").glob("*.json")
    path.write_text(
        path.read_text().replace('"nottwice_checkpoint": 1', '"nottwice_checkpoint": 9')
    )
    ended = place.run("replay checkpoints")
    assert ended.exit_code == 1
    assert "was recorded by a newer nottwice" in ended.stdout
