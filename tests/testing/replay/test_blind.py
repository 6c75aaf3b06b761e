"""Can a checkpoint with secret arguments be replayed without the key and the secrets?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

import nottwice as nt
from nottwice.testing.replay.blind import BLIND, BlindKey, BlindKeys
from nottwice.testing.replay.fixture import Fixture, read_fixture
from nottwice.testing.replay.gate import replay
from nottwice.testing.replay.problems import Cause
from nottwice.testing.replay.recording import record
from tests.fakes import Host

CARDS = ["4929381332664295", "5186001172349908", "4929381332664295"]


class Deployed:
    """A graph that charges several cards, with defaults in the way, and asks about the last."""

    def __init__(self) -> None:
        self.cards = list(CARDS)
        self.cents = 5

        @nt.tool("unsafe_on_replay", name="blind_charge")
        def charge(
            card: Annotated[str, nt.Secret], cents: int, currency: str = "eur", tip: int = 0
        ) -> str:
            return "charged"

        @nt.tool("unsafe_on_replay", name="blind_approved", approve=True)
        def approved(card: Annotated[str, nt.Secret]) -> str:
            return "charged"

        flow = nt.Graph("blind", version="1.0.0")

        @flow.node
        def look(state: Any) -> dict[str, Any]:
            return {"looked": True}

        @flow.node
        def pay(state: Any) -> dict[str, Any]:
            return {"paid": [charge(card, self.cents) for card in self.cards]}

        @flow.node
        def ask(state: Any) -> dict[str, Any]:
            return {"asked": approved(self.cards[0])}

        self.flow = flow
        self.app = nt.App(graphs=[flow])


@pytest.fixture
def deployed() -> Deployed:
    return Deployed()


@pytest.fixture
def fixtures(deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Fixture]:
    monkeypatch.setenv("NOTTWICE_KEY", bytes(range(32)).hex())
    host = Host()
    with host.process() as ledger:
        assert deployed.flow.run("r", {}, store=ledger).status == "waiting"
        recorded = record(deployed.app, ledger.store, tmp_path / "checkpoints")
    monkeypatch.delenv("NOTTWICE_KEY")
    monkeypatch.chdir(tmp_path)
    assert recorded.left_out == ()
    texts = [file.read_text() for file in sorted((tmp_path / "checkpoints").glob("*.json"))]
    assert not any(card in text for card in CARDS for text in texts)
    assert any(BLIND["$secret"] in text for text in texts)
    return [read_fixture(text, where="here") for text in texts]


def test_without_key_and_with_other_secrets_it_is_resumed_as_recorded(
    deployed: Deployed, fixtures: list[Fixture]
) -> None:
    assert len(fixtures) == 3
    assert all(replay(deployed.app, one).passed for one in fixtures)
    deployed.cards = ["a card of the tests", "another one", "a card of the tests"]
    assert all(replay(deployed.app, one).passed for one in fixtures)


def test_changed_arguments_beside_a_secret_are_still_found(
    deployed: Deployed, fixtures: list[Fixture]
) -> None:
    deployed.cents = 6
    problems = [problem for one in fixtures for problem in replay(deployed.app, one).problems]
    assert {problem.cause for problem in problems} >= {Cause.ARGUMENTS_CHANGED}


def test_another_number_of_secrets_is_still_found(
    deployed: Deployed, fixtures: list[Fixture]
) -> None:
    deployed.cards = ["one", "two", "three"]
    assert not all(replay(deployed.app, one).passed for one in fixtures)


def test_a_blind_key_numbers_secrets_and_stands_for_every_key() -> None:
    key = BlindKey()
    numbers = [int(key.fingerprint("secret", told), 16) for told in (b"a", b"b", b"a")]
    assert numbers == [1, 2, 1]
    assert BlindKeys(key).find("k12345678") is key
