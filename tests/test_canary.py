"""Is a secret anywhere? Twenty are planted, everything is run, and every byte is looked at (P101).

Real processes, one of them killed, on SQLite and on JSON files; tests/postgres has the third store.
What is looked through: all files of the folder with ledgers, their write-ahead logs, a backup and
recorded checkpoints, and whatever the commands printed and logged at their loudest.
"""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nottwice.cli.main import main
from tests.canary import SECRETS, UNMARKED, found_below, found_in
from tests.cli.workplace import Ended, Workplace, make_workplace

MODULE = Path(__file__).with_name("canary_agent.py")


class Place:
    """A folder in which secrets are planted, and all that was printed there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work: Workplace = make_workplace(folder / "place")
        self.folder = self.work.folder
        shutil.copy(MODULE, self.folder / "canary_agent.py")
        vault = folder / "vault.json"
        vault.write_text(json.dumps({**SECRETS, "unmarked": UNMARKED}))
        monkeypatch.setenv("CANARY_VAULT", str(vault))
        monkeypatch.setenv("NOTTWICE_KEY", bytes(range(32)).hex())
        monkeypatch.chdir(self.folder)
        self.printed: list[str] = []

    def program(self, *words: str, **variables: str) -> Ended:
        """Run the agent itself, without any command."""
        ended = self.work.process(sys.executable, "canary_agent.py", *words, **variables)
        self.printed += [ended.stdout, ended.stderr]
        return ended

    def run(self, *lines: str, store: str, codes: tuple[int, ...] = (0,)) -> None:
        """Type lines that run the agent, or import it; one process does them all."""
        typed = [
            f"-vv {line} --app canary_agent:app --store {shlex.quote(store)}" for line in lines
        ]
        for one, line in zip(self.work.lines(*typed), lines, strict=True):
            assert one.exit_code in codes, (line, one)
            self.printed += [one.stdout, one.stderr]

    def look(self, *lines: str, store: str) -> str:
        """Type lines that only look, in this process, which was given no secret to hide."""
        shown = []
        for line in lines:
            ended = CliRunner().invoke(main, ["-vv", *shlex.split(line), "--store", store])
            assert ended.exit_code == 0, (line, ended)
            shown.append(ended.stdout)
            self.printed += [ended.stdout, ended.stderr]
        return shown[-1]

    def decide(self, words: str, *, store: str) -> None:
        """Look at the one open review, and decide it."""
        self.look("reviews", store=store)
        reviews = json.loads(self.look("reviews --json", store=store))["reviews"]
        (review,) = [one["review_id"] for one in reviews if one["status"] == "open"]
        shown = CliRunner().invoke(main, ["decide", review, "--store", store])
        self.printed += [shown.stdout, shown.stderr]
        self.look(f"decide {review} {words} --why looked", store=store)

    def found(self) -> dict[str, set[str]]:
        """Where which secrets are."""
        found = found_below(self.folder, SECRETS)
        shown = found_in("\n".join(self.printed).encode(), SECRETS)
        return found | ({"what was printed": shown} if shown else {})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def plant(place: Place, store: str) -> None:
    """Every shape through every kind of tool, with a kill, failures, an approval and a doubt."""
    killed = place.program("guard", "guard-1", store, CANARY_KILL="7")
    assert killed.exit_code == -signal.SIGKILL
    # The killed call is unknown, and a person must look; then the rest is done.
    assert "ReplayUnsafeError" in place.program("guard", "guard-1", store).stderr
    place.decide("did-not-happen", store=store)
    assert place.program("guard", "guard-1", store).exit_code == 0
    place.run("run plant --id plant-1", "run broken --id broken-1", store=store, codes=(1, 3))
    place.decide("approve", store=store)
    place.run("run plant --id plant-1", "recheck", store=store, codes=(0, 1, 3))
    for run_id in ("guard-1", "plant-1", "broken-1"):
        place.look(f"show {run_id}", f"show {run_id} --json", store=store)


def test_no_planted_secret_is_found_anywhere(place: Place) -> None:
    store = "agent.db"
    plant(place, store)
    place.decide("happened --result '\"found\"'", store=store)
    assert place.program("agent", "agent-1", store).exit_code == 0
    place.run(
        "run plant --id plant-1",
        "run plant --id plant-2 --detach",
        "run broken --id broken-2 --detach",
        "worker --until-idle --log-json",
        "check",
        "check --json",
        "lock",
        "gc --dry-run",
        "replay --record 50 checkpoints",
        "replay checkpoints",
        store=store,
        codes=(0, 1, 3),
    )
    place.look(
        "runs",
        "runs --json",
        "show agent-1",
        "show plant-2 --json",
        "history plant-1",
        "audit",
        "audit --json",
        "backup copy.db",
        store=store,
    )
    assert (place.folder / "copy.db").exists()
    assert "checkpoints resumed as recorded" in "".join(place.printed)
    assert "secret=•••" in "".join(place.printed)
    assert len(SECRETS) == 20
    assert place.found() == {}


def test_none_is_found_in_json_files(place: Place) -> None:
    plant(place, "file:runs")
    assert list((place.folder / "runs").glob("*.json"))
    assert place.found() == {}


def test_an_unmarked_secret_is_found(place: Place) -> None:
    """The search for secrets finds one that is there: in both stores, and where it is shown."""
    for store, path in (("agent.db", "agent.db"), ("file:runs", "runs/")):
        assert place.program("unmarked", "open-1", store).exit_code == 0
        found = found_below(place.folder, {"unmarked": UNMARKED})
        assert any(file.startswith(path) for file in found), found
        assert found_in(place.look("show open-1", store=store).encode(), {"unmarked": UNMARKED})


@pytest.mark.parametrize("name", SECRETS)
def test_every_planted_secret_would_be_found_however_it_is_spelled(name: str) -> None:
    secret = SECRETS[name]
    for spelled in (secret, json.dumps(secret), repr(secret), secret.encode().hex()):
        assert name in found_in(f"x{spelled}x".encode(), SECRETS)
