"""`nottwice replay` as people and CI use it, in a folder of its own with a real ledger."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.workplace import SEVERAL

AGENT = """
import nottwice as nt

@nt.tool("pure")
def find(order: int) -> dict:
    return {"customer": f"ann{order}@example." + "net", "street": f"Long Lane {order}"}

@nt.tool("unsafe_on_replay")
def mail(to: str, body: str) -> str:
    return "sent"

flow = nt.Graph("support", version="1.0.0")

@flow.node
def look_up(state):
    return find(state["order"])

@flow.node
def tell(state):
    mail(to=state["customer"], body="hello " + state["street"])

app = nt.App(graphs=[flow], store="agent.db")
"""


@dataclass(frozen=True)
class Place:
    """A folder with an agent and its ledger."""

    folder: Path

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "nottwice", *words],
            cwd=self.folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def lines(self, *lines: str) -> list[tuple[int, str, str]]:
        """Several commands in one process: exit code, output and errors of each."""
        ended = subprocess.run(
            [sys.executable, "-c", SEVERAL],
            cwd=self.folder,
            input=json.dumps(lines),
            capture_output=True,
            text=True,
            timeout=60,
        )
        found: list[tuple[int, str, str]] = json.loads(ended.stdout.splitlines()[-1])
        return found

    def change(self, old: str, new: str) -> None:
        agent = self.folder / "agent.py"
        assert old in agent.read_text()
        agent.write_text(agent.read_text().replace(old, new))

    @property
    def texts(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("checkpoints/*.json")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("made"))
    (place.folder / "agent.py").write_text(AGENT)
    (place.folder / "pyproject.toml").write_text(
        '[tool.nottwice]\napp = "agent:app"\nreplay = { secrets = ["street"] }\n'
    )
    ended = place.lines(
        """run support --id 1 --input '{"order": 1}'""",
        """run support --id 2 --input '{"order": 2}'""",
        "replay --record 50 checkpoints",
    )
    assert [code for code, _, _ in ended] == [0, 0, 0], ended
    assert "6 checkpoints are in checkpoints, with pseudonyms for 4 values" in ended[-1][1]
    return place


@pytest.fixture
def place(made: Place, tmp_path: Path) -> Place:
    shutil.copytree(made.folder, tmp_path / "place")
    return Place(tmp_path / "place")


def test_recorded_checkpoints_are_resumed_without_a_ledger(place: Place) -> None:
    (place.folder / "agent.db").unlink()
    ended = place.run("replay", "checkpoints")
    assert (ended.returncode, ended.stdout) == (0, "6 checkpoints resumed as recorded\n")
    assert not (place.folder / "agent.db").exists()


def test_no_secret_is_in_the_files(place: Place) -> None:
    for secret in ("ann1", "ann2", "Long Lane"):
        assert secret not in place.texts


def test_recording_leaves_the_ledger_as_it_was_and_gives_the_same_bytes(place: Place) -> None:
    ledger = place.folder / "agent.db"
    before, texts = hashlib.sha256(ledger.read_bytes()).digest(), place.texts
    ended = place.run("replay", "--record", "50", "checkpoints", "--json")
    document = json.loads(ended.stdout)
    assert ended.returncode == 0
    assert list(document) == ["folder", "recorded", "left_out", "removed", "secrets"]
    assert len(document["recorded"]) == 6
    assert (document["left_out"], document["removed"], document["secrets"]) == ([], [], 4)
    assert hashlib.sha256(ledger.read_bytes()).digest() == before
    assert place.texts == texts


def test_a_key_of_ones_own_makes_other_pseudonyms(place: Place) -> None:
    texts = place.texts
    place.run("replay", "--record", "50", "checkpoints", NOTTWICE_REPLAY_KEY="mine")
    mine = place.texts
    assert mine != texts
    (place.folder / "agent.db").rename(place.folder / "moved.db")
    again = ("replay", "--record", "50", "checkpoints", "--store", "moved.db")
    place.run(*again, NOTTWICE_REPLAY_KEY="mine")
    assert place.texts == mine


def test_a_failure_ends_with_1_and_names_file_cause_and_difference(place: Place) -> None:
    place.change("hello ", "Hello ")
    place.change("1.0.0", "1.0.1")
    ended = place.run("replay", "checkpoints", "--junit", "replay.xml")
    assert ended.returncode == 1
    assert "FAILED checkpoints/support-look_up-" in ended.stdout
    assert "arguments changed in tell: mail is asked for with other arguments" in ended.stdout
    assert '~ arguments.body: "hello ' in ended.stdout
    assert ended.stdout.endswith("2 checkpoints resumed as recorded, 4 failed\n")
    suite = ElementTree.parse(place.folder / "replay.xml").getroot()
    assert suite.attrib["failures"] == "4"
    ended = place.run("replay", "checkpoints", "--json")
    assert ended.returncode == 1
    document = json.loads(ended.stdout)
    assert {one["cause"] for one in document["results"]} == {None, "arguments changed"}


def test_options_for_new_tools_and_other_versions(place: Place) -> None:
    place.change("1.0.0", "1.1.0")
    place.change(
        "def find(", 'def rebate() -> int:\n    raise SystemExit\n\n@nt.tool("pure")\ndef find('
    )
    place.change("    return find", "    rebate()\n    return find")
    assert place.run("replay", "checkpoints").returncode == 1
    ended = place.run("replay", "checkpoints", "--drains-elsewhere")
    assert ended.returncode == 1
    assert "new pure call in look_up" in ended.stdout
    ended = place.run("replay", "checkpoints", "--drains-elsewhere", "--tools", '{"rebate": 5}')
    assert ended.returncode == 0, ended.stdout
    place.change("1.1.0", "2.0.0")
    ended = place.run("replay", "checkpoints", "--drains-elsewhere")
    assert ended.returncode == 0
    assert "6 skipped" in ended.stdout
    assert "skipped: support@1.0.0 drains elsewhere" in ended.stderr


REFUSED = [
    ("replay nowhere", 2, "There is no recorded checkpoint in nowhere"),
    ("replay", 2, "Missing argument"),
    ("replay checkpoints --secret x", 2, "--secret is for recording"),
    ("replay checkpoints --tools []", 2, "--tools must be a JSON object"),
    ("replay --record 0 checkpoints", 2, "0 is not in the range"),
    ("replay --record 5 c --junit x", 2, "--junit tells of replays"),
    ("replay --record 5 c --secret a,,b", 1, "names no value"),
    ("replay --record 5 c --store no.db", 1, "no.db"),
    ("replay checkpoints --app nothing", 1, "could not be imported"),
]


def test_what_cannot_be_done_is_said_before_anything_is(made: Place) -> None:
    ended = made.lines(*(line for line, _, _ in REFUSED))
    for (line, code, said), (found, _, stderr) in zip(REFUSED, ended, strict=True):
        assert (line, found, said in stderr) == (line, code, True), stderr
    assert not (made.folder / "c").exists()
    assert not (made.folder / "no.db").exists()


def test_secrets_that_are_configured_as_something_else_are_refused(place: Place) -> None:
    settings = place.folder / "pyproject.toml"
    settings.write_text(settings.read_text().replace('["street"]', '"street"'))
    ended = place.run("replay", "--record", "5", "checkpoints")
    assert ended.returncode == 1
    assert "replay.secrets in [tool.nottwice] must be a list of names" in ended.stderr


def test_a_newer_format_is_a_failure_that_says_so(place: Place) -> None:
    (path, *_) = (place.folder / "checkpoints").glob("*.json")
    path.write_text(
        path.read_text().replace('"nottwice_checkpoint": 1', '"nottwice_checkpoint": 9')
    )
    ended = place.run("replay", "checkpoints")
    assert ended.returncode == 1
    assert "was recorded by a newer nottwice" in ended.stdout
