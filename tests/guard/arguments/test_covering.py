"""Does the tool get its secrets, and the ledger nothing but fingerprints of them? (P101)"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, SecretBytes, SecretStr

import nottwice as nt
from nottwice.model import values
from nottwice.model.policy import ProposedCall, Ruling
from nottwice.model.sealing.secrets import is_fingerprint
from nottwice.policy import allow
from tests.fakes import Host

KEY = bytes(range(32))
CARD = "4111111111111111"


class Options(BaseModel):
    token: SecretStr
    retries: int = 3


@pytest.fixture
def ledger() -> nt.Ledger:
    return nt.Ledger(":memory:", key=KEY)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTTWICE_KEY", raising=False)
    monkeypatch.delenv("NOTTWICE_KEY_FILE", raising=False)
    monkeypatch.chdir(tmp_path)


def recorded(ledger: nt.Ledger, tool: str) -> list[dict[str, Any]]:
    rows = ledger.store.calls("r")
    return [values.decode(row.args_json) for row in rows if row.identity.tool_name == tool]


def test_the_body_gets_the_real_value_and_the_record_a_fingerprint(ledger: nt.Ledger) -> None:
    got: list[Any] = []

    @nt.tool("unsafe_on_replay", name="cover_charge")
    def charge(
        card: Annotated[str, nt.Secret], cents: int, options: Options, pin: SecretBytes
    ) -> str:
        got.append((card, cents, options.token.get_secret_value(), pin.get_secret_value()))
        return str(nt.current_call().args["card"]["$secret"])

    with ledger.run("r"):
        seen = charge(CARD, 5, Options(token=SecretStr("tok-1")), pin=b"0042")  # type: ignore[arg-type]
    assert got == [(CARD, 5, "tok-1", b"0042")]
    (args,) = recorded(ledger, "cover_charge")
    assert args["cents"] == 5
    assert args["card"] == {"$secret": seen}
    assert list(args["options"]) == ["token"]
    assert all(map(is_fingerprint, (args["card"], args["options"]["token"], args["pin"])))


def test_the_same_secret_is_the_same_call_and_another_one_is_another(ledger: nt.Ledger) -> None:
    got: list[str] = []

    @nt.tool("unsafe_on_replay", name="cover_once")
    def charge(card: Annotated[str, nt.Secret], note: str = "") -> int:
        got.append(card)
        return len(got)

    for _ in range(2):
        with ledger.run("r"):
            assert [charge(CARD), charge(card=CARD), charge("5500000000000004")] == [1, 1, 2]
    assert got == [CARD, "5500000000000004"]


def test_a_value_that_is_spelled_like_the_fingerprint_is_not_taken_for_the_secret(
    ledger: nt.Ledger,
) -> None:
    got: list[Any] = []

    @nt.tool("unsafe_on_replay", name="cover_any")
    def charge(card: Annotated[Any, nt.Secret], other: Any = None) -> int:
        got.append(card)
        return len(got)

    with ledger.run("r"):
        charge(CARD)
        (args,) = recorded(ledger, "cover_any")
        assert charge(args["card"]) == 2
        assert charge(CARD, args["card"]) == 3
    assert got == [CARD, args["card"], CARD]


def test_a_retry_gets_the_real_value_although_the_first_attempt_changed_its_arguments(
    ledger: nt.Ledger,
) -> None:
    got: list[Any] = []

    @nt.tool("unsafe_on_replay", name="cover_retry", retry=nt.RetryPolicy(2, first_seconds=0))
    def charge(cards: Annotated[list[str], nt.Secret]) -> int:
        got.append(list(cards))
        cards.clear()
        if len(got) == 1:
            raise nt.Retryable("busy")
        return len(got)

    with ledger.run("r"), pytest.warns(RuntimeWarning, match="changed its argument cards"):
        assert charge([CARD]) == 2
    assert got == [[CARD], [CARD]]


@pytest.mark.usefixtures("no_key")
def test_without_a_key_nothing_is_sent_or_written() -> None:
    got: list[str] = []

    @nt.tool("unsafe_on_replay", name="cover_keyless")
    def charge(card: Annotated[str, nt.Secret]) -> None:
        got.append(card)

    ledger = nt.Ledger(":memory:")
    with ledger.run("r"), pytest.raises(nt.errors.KeyMissing, match="nottwice key") as caught:
        charge(CARD)
    assert isinstance(caught.value, nt.errors.UsageError)
    assert got == []
    assert ledger.store.calls("r") == []


@pytest.mark.usefixtures("no_key")
def test_a_volatile_secret_is_left_out_and_needs_no_key() -> None:
    got: list[Any] = []

    @nt.tool("unsafe_on_replay", name="cover_volatile", volatile=("token", "other"))
    def send(to: str, token: Annotated[str, nt.Secret], other: SecretStr) -> None:
        got.append((to, token, other.get_secret_value()))
        raise nt.Permanent(f"{token} and {other.get_secret_value()} were refused")

    ledger = nt.Ledger(":memory:")
    with ledger.run("r"), pytest.raises(nt.Permanent, match="••• and ••• were refused"):
        send("ann", "token-one", SecretStr("token-two"))
    assert got == [("ann", "token-one", "token-two")]
    assert recorded(ledger, "cover_volatile") == [{"to": "ann"}]


@pytest.mark.parametrize(
    "key", ["charge-{card}", "{order}-{card}", lambda card: card, lambda order, card: order]
)
def test_a_key_that_names_a_secret_is_refused_at_declaration(key: Any) -> None:
    with pytest.raises(nt.errors.InvalidTool, match="secret"):

        @nt.tool("idempotent_with_key", key=key, window="1d", name="cover_key")
        def charge(order: str, card: Annotated[str, nt.Secret]) -> None: ...


def test_no_key_label_or_other_argument_may_repeat_a_secret(ledger: nt.Ledger) -> None:
    got: list[str] = []
    keys = iter(["k-" + CARD] * 2)

    @nt.tool("idempotent_with_key", key=lambda order: next(keys), window="1d", name="cover_keyed")
    def keyed(order: str, card: Annotated[str, nt.Secret]) -> None:
        got.append(card)

    @nt.tool("unsafe_on_replay", name="cover_repeats")
    def charge(card: Annotated[str, nt.Secret], note: str = "", cents: int = 0) -> None:
        got.append(card)

    with ledger.run("r"):
        with pytest.raises(nt.errors.InvalidKey, match="repeats a secret"):
            keyed("7", CARD)
        with pytest.raises(nt.errors.InvalidId, match="label"):
            charge.again(f"for {CARD}")(CARD)
        repeats = "'note' repeats the value of a secret"
        with pytest.raises(nt.errors.InvalidArguments, match=repeats) as caught:
            charge(CARD, f"paid with {CARD}")
        assert CARD not in str(caught.value)
        assert got == []
        # Four digits are found anywhere by chance.
        charge("1234", "table 1234", 1234)
    assert got == ["1234"]
    assert recorded(ledger, "cover_keyed") == []


def test_an_error_about_a_secret_argument_does_not_repeat_it(ledger: nt.Ledger) -> None:
    def check(text: str) -> str:
        if text == CARD:
            raise ValueError(f"bad card {text}")
        return text

    @nt.tool("unsafe_on_replay", name="cover_validated")
    def charge(card: Annotated[str, AfterValidator(check), nt.Secret], cents: int) -> None: ...

    with ledger.run("r"):
        with pytest.raises(nt.errors.InvalidArguments, match="'card' does not fit") as caught:
            charge(CARD, 5)
        assert CARD not in f"{caught.value!r}{caught.value.__cause__!r}"
        with pytest.raises(nt.errors.InvalidArguments, match="valid integer"):
            charge("another", "many")  # type: ignore[arg-type]


def test_async_tools_keep_secrets_too(ledger: nt.Ledger) -> None:
    @nt.tool("unsafe_on_replay", name="cover_async")
    async def charge(card: Annotated[str, nt.Secret]) -> str:
        return card[-4:]

    async def work() -> list[str]:
        async with ledger.run("r"):
            return await nt.gather(charge(CARD), charge("5500000000000004"))

    assert asyncio.run(work()) == ["1111", "0004"]
    assert all(is_fingerprint(args["card"]) for args in recorded(ledger, "cover_async"))


def test_policies_and_approvals_see_the_fingerprint(host: Host, monkeypatch: Any) -> None:
    monkeypatch.setenv("NOTTWICE_KEY", KEY.hex())
    shown: list[Any] = []

    def policy(call: ProposedCall) -> Ruling:
        shown.append(call.arguments)
        return allow()

    @nt.tool("unsafe_on_replay", name="cover_approved", approve=True)
    def charge(card: Annotated[str, nt.Secret]) -> None: ...

    with (
        host.process() as ledger,
        pytest.raises(nt.errors.ApprovalNeeded) as caught,
        ledger.run("r", policy=policy),
    ):
        charge(CARD)
    (review,) = host.open_reviews
    assert is_fingerprint(shown[0]["card"])
    assert "cover_approved(card=•••)" in review.summary
    assert CARD not in f"{review}{caught.value}{shown}"


def test_the_mark_may_stand_anywhere_and_nothing_of_it_is_in_the_files(tmp_path: Path) -> None:
    @nt.tool("unsafe_on_replay", name="cover_files")
    def charge(*cards: Annotated[str, nt.Secret], **more: SecretStr) -> int:
        return len(cards) + len(more)

    path = tmp_path / "agent.db"
    with nt.Ledger(path, key=KEY) as ledger, ledger.run("r"):
        assert charge(CARD, "5500000000000004", cvc=SecretStr("cvc-0815")) == 3
        files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for secret in (CARD, "5500000000000004", "cvc-0815"):
        assert secret.encode() not in files
    with closing(sqlite3.connect(path)) as database:
        (args,) = database.execute(
            "select args_json from tool_call_results where tool_name = 'cover_files'"
        ).fetchone()
    assert args.count("$secret") == 3
