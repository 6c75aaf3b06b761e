"""Is no secret in a failure, in evidence, a result or the log, and no fingerprint sent? (P101)"""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pytest
from pydantic import SecretStr

import nottwice as nt
from nottwice.model.call import CallStatus, ResultKind
from nottwice.model.review import Verb
from nottwice.model.sealing.secrets import is_fingerprint
from nottwice.testing import forget_tools
from tests.fakes import Host

CARD = "4111111111111111"
AFTER_THE_INTENT, AFTER_THE_EFFECT = 4, 5


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_KEY", bytes(range(32)).hex())


def test_a_failure_is_recorded_and_raised_without_the_secret(host: Host) -> None:
    @nt.tool("unsafe_on_replay", name="hide_failing")
    def charge(card: Annotated[str, nt.Secret]) -> None:
        # Cut where a message is too long, half of the secret would be left.
        raise nt.Permanent("x" * 1990 + f" refused {card!r}")

    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.Permanent) as caught:
        charge(CARD)
    row = host.calls[-1]
    assert row.status is CallStatus.FAILED
    assert row.failure is not None
    assert "4111" not in f"{row}{caught.value}"


def test_what_the_code_around_it_raises_is_recorded_without_it(host: Host) -> None:
    @nt.tool("unsafe_on_replay", name="hide_around")
    def charge(card: Annotated[str, nt.Secret]) -> None: ...

    with (
        host.process() as ledger,
        pytest.raises(ValueError, match=CARD),
        ledger.run("r"),
        nt.step("pay"),
    ):
        charge(CARD)
        raise ValueError(f"no receipt for {CARD}")
    (run,) = host.data.runs.values()
    (step,) = host.data.steps.values()
    assert run.failure is not None
    assert step.failure is not None
    assert run.failure.message == step.failure.message == "no receipt for •••"


def test_a_result_that_repeats_the_secret_is_handed_out_once_and_not_kept(host: Host) -> None:
    @nt.tool("unsafe_on_replay", name="hide_echo")
    def charge(card: Annotated[str, nt.Secret]) -> dict[str, str]:
        return {"id": "ch_1", "card": card}

    with host.process() as ledger, ledger.run("r"):
        assert charge(CARD) == {"id": "ch_1", "card": CARD}
    row = host.calls[-1]
    assert row.result is not None
    assert row.result.kind is ResultKind.NOT_KEPT
    assert CARD not in row.result.json
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ResultNotKept):
        charge(CARD)


def test_a_secret_result_is_not_kept_and_a_pure_one_is_made_again(host: Host) -> None:
    made: list[int] = []

    @nt.tool("pure", name="hide_login")
    def login() -> SecretStr:
        made.append(1)
        return SecretStr(f"token-{len(made)}")

    @nt.tool("unsafe_on_replay", name="hide_grant")
    def grant() -> Annotated[str, nt.Secret]:
        made.append(1)
        return "token-of-grant"

    for number in (1, 3):
        with host.process() as ledger, ledger.run("r"):
            assert login().get_secret_value() == f"token-{number}"
            if number == 1:
                assert grant() == "token-of-grant"
            else:
                with pytest.raises(nt.errors.ResultNotKept):
                    grant()
    assert len(made) == 3
    assert "token-" not in str(host.data.calls)


def test_redact_is_asked_about_every_text_and_a_result_that_it_would_change_is_not_kept(
    host: Host,
) -> None:
    @nt.tool("pure", name="hide_redacting", redact=lambda text: text.replace("hunter2", "***"))
    def look(fails: bool) -> str:
        if fails:
            raise nt.Permanent("hunter2 was refused")
        return "it is hunter2"

    with host.process() as ledger, ledger.run("r"):
        assert look(False) == "it is hunter2"
        with pytest.raises(nt.Permanent, match=r"\*\*\* was refused"):
            look(True)
    assert "hunter2" not in str(host.data.calls)


@pytest.mark.parametrize("redact", [lambda text: 1 / 0, lambda text: None])
def test_a_redact_that_fails_lets_no_text_through(host: Host, redact: Any) -> None:
    @nt.tool("pure", name="hide_broken", redact=redact)
    def look() -> str:
        raise nt.Permanent("hunter2 was refused")

    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.Permanent):
        look()
    failure = host.calls[-1].failure
    assert failure is not None
    assert failure.message == "•••"


def test_redact_must_be_a_function() -> None:
    with pytest.raises(nt.errors.InvalidTool, match="redact"):
        nt.tool("pure", name="hide_not", redact="card")(len)  # type: ignore[call-overload]


def test_log_lines_hide_it_for_every_logger(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    def verify(call: nt.Call) -> nt.Verification:
        raise ValueError(f"no trace of {CARD}")

    @nt.tool("unsafe_on_replay", name="hide_logged", verify=verify)
    def charge(card: Annotated[str, nt.Secret]) -> None:
        logging.getLogger("nottwice").warning("charging %s now", card)
        raise TimeoutError(card)

    caplog.set_level(logging.DEBUG, "nottwice")
    with (
        host.process() as ledger,
        pytest.raises(nt.errors.ReplayUnsafeError) as caught,
        ledger.run("r"),
    ):
        charge(CARD)
    assert "charging ••• now" in caplog.text
    assert CARD not in caplog.text.partition("Traceback")[0]
    assert CARD not in f"{caught.value}{host.open_reviews}{host.data.evidence}"


@pytest.mark.parametrize("dies_at", [AFTER_THE_INTENT, AFTER_THE_EFFECT])
def test_a_keyed_call_in_doubt_waits_for_its_secret_and_is_reissued_with_it(
    host: Host, dies_at: int
) -> None:
    got: list[tuple[Any, str | None]] = []
    reached: list[int] = []

    @nt.tool("idempotent_with_key", key="charge-{order}", window="1d", name="hide_keyed")
    def charge(order: int, card: Annotated[Any, nt.Secret]) -> str:
        got.append((card, nt.current_call().key))
        return "ok"

    for at in (dies_at, None):
        with host.process(dies_at=at) as ledger, ledger.run("r"):
            reached.append(len(got))
            assert charge(7, CARD) == "ok"
    # Nothing was sent before the code came to it: there was only a fingerprint to send.
    assert reached == [0, len(got) - 1]
    assert set(got) == {(CARD, "charge-7")}


def test_verify_gets_the_fingerprint_and_a_licensed_attempt_the_value(host: Host) -> None:
    got: list[Any] = []
    asked: list[Any] = []

    def verify(call: nt.Call) -> nt.Verification:
        asked.append(call.args["card"])
        return nt.cannot_tell()

    @nt.tool("unsafe_on_replay", name="hide_verified", verify=verify)
    def charge(card: Annotated[Any, nt.Secret]) -> str:
        got.append(card)
        return "ok"

    with host.process(dies_at=AFTER_THE_INTENT) as ledger, ledger.run("r"):
        charge(CARD)
    with host.process() as ledger, pytest.raises(nt.errors.ReplayUnsafeError), ledger.run("r"):
        charge(CARD)
    host.decide(Verb.DID_NOT_HAPPEN)
    with host.process() as ledger, ledger.run("r"):
        assert charge(CARD) == "ok"
    assert got[-1:] == [CARD]
    assert all(map(is_fingerprint, asked))
    assert asked


def test_a_record_with_fingerprints_is_not_called_by_code_that_forgot_the_mark(host: Host) -> None:
    got: list[Any] = []

    @nt.tool("idempotent_with_key", key="charge-{order}", window="1d", name="hide_forgotten")
    def marked(order: int, card: Annotated[Any, nt.Secret]) -> None:
        got.append(card)

    with host.process(dies_at=AFTER_THE_INTENT) as ledger, ledger.run("r"):
        marked(7, CARD)
    forget_tools()

    @nt.tool("idempotent_with_key", key="charge-{order}", window="1d", name="hide_forgotten")
    def unmarked(order: int, card: Any) -> None:
        got.append(card)

    with host.process() as ledger, ledger.run("r"):
        pass
    assert not any(map(is_fingerprint, got))
