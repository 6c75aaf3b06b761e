"""Does a run recognise its calls whatever becomes of the key? (P102)"""

from __future__ import annotations

from typing import Annotated, Any

import pytest

import nottwice as nt
from nottwice.engine.secret_key import KEY_IN_USE
from nottwice.model import values
from nottwice.model.sealing.keyring import make_key
from tests.fakes import Host

OLD, NEW = bytes(range(32)), bytes(range(50, 82))
CARD = "4111111111111111"


class Charges:
    """What a card was charged for, in the world outside."""

    def __init__(self) -> None:
        self.made: list[str] = []


@pytest.fixture
def charges() -> Charges:
    return Charges()


@pytest.fixture
def program(charges: Charges) -> Any:
    @nt.tool("unsafe_on_replay", name="charge_once")
    def charge(card: Annotated[str, nt.Secret], order: int) -> int:
        charges.made.append(f"{order}:{card}")
        return len(charges.made)

    def work(ledger: nt.Ledger, *orders: int, run: str = "r") -> list[int]:
        with ledger.run(run):
            return [charge(CARD, order) for order in orders]

    return work


def with_keys(monkeypatch: pytest.MonkeyPatch, *keys: bytes) -> None:
    monkeypatch.setenv("NOTTWICE_KEY", "\n".join(key.hex() for key in keys))


def test_a_resumed_run_continues_with_its_own_key_after_a_new_one_was_put_in_front(
    host: Host, program: Any, charges: Charges, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(monkeypatch, OLD)
    with host.process() as ledger:
        assert program(ledger, 1) == [1]
    with_keys(monkeypatch, NEW, OLD)
    with host.process() as ledger:
        assert program(ledger, 1, 2) == [1, 2]
        assert program(ledger, 1, run="newer") == [3]
    assert charges.made == [f"1:{CARD}", f"2:{CARD}", f"1:{CARD}"]
    used = {
        (
            row.identity.workflow_id,
            values.decode(row.args_json)["card"]["$secret"].partition(":")[0],
        )
        for row in host.calls
        if row.identity.tool_name == "charge_once"
    }
    assert used == {("r", make_key(OLD).id), ("newer", make_key(NEW).id)}


def test_a_run_whose_key_is_gone_sends_nothing(
    host: Host, program: Any, charges: Charges, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(monkeypatch, OLD)
    with host.process() as ledger:
        program(ledger, 1)
    with_keys(monkeypatch, NEW)
    with host.process() as ledger, pytest.raises(nt.errors.KeyMissing) as caught:
        program(ledger, 1)
    assert make_key(OLD).id in str(caught.value)
    assert make_key(NEW).id in str(caught.value)
    assert charges.made == [f"1:{CARD}"]
    with_keys(monkeypatch, NEW, OLD)
    with host.process() as ledger:
        assert program(ledger, 1) == [1]


def test_which_key_it_is_is_durable_with_the_first_intent_whenever_the_process_dies(
    host: Host, program: Any, charges: Charges, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(monkeypatch, OLD)
    with host.process() as ledger:
        program(ledger, 1, run="to count the points")
    for point in range(1, host.points + 1):
        run = f"dies at {point}"
        charges.made.clear()
        with_keys(monkeypatch, OLD)
        with host.process(dies_at=point) as ledger:
            program(ledger, 1, run=run)
        rows = [row for row in host.calls if row.identity.workflow_id == run]
        names = {row.identity.tool_name for row in rows}
        assert names in ({KEY_IN_USE, "charge_once"}, set())
        with_keys(monkeypatch, NEW, OLD)
        with host.process() as ledger:
            try:
                program(ledger, 1, run=run)
            except nt.errors.ReplayUnsafeError:
                # It was killed between intent and result: a person must look, and nothing is sent.
                assert len(charges.made) <= 1
            else:
                assert charges.made == [f"1:{CARD}"]


def test_a_row_that_does_not_say_which_key_is_not_believed(
    host: Host, program: Any, charges: Charges, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(monkeypatch, OLD)
    with host.process() as ledger:
        program(ledger, 1)
    for identity, row in host.data.calls.items():
        if identity.tool_name == KEY_IN_USE:
            host.data.calls[identity] = row._replace(result=None)
    with host.process() as ledger, pytest.raises(nt.errors.LedgerCorrupt):
        program(ledger, 1)
    assert charges.made == [f"1:{CARD}"]
