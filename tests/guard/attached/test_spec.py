"""A tool declared from data: identity, keys, bodies, and results that are failures (P240, P243)."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.adapters import ToolSpec, declare
from nottwice.model.failure import FailureClass
from tests.fakes import Host, Killed, MortalStore, dying, unwanted

SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "object"},
        "cents": {"type": "integer"},
        "currency": {"type": "string", "default": "EUR"},
    },
    "required": ["cents"],
}


@pytest.fixture
def ledger() -> nt.Ledger:
    return nt.Ledger(":memory:")


def charge(**options: Any) -> ToolSpec:
    return declare("pay/charge", **{"replay": "unsafe_on_replay", "schema": SCHEMA, **options})


def keyed(key: Any) -> ToolSpec:
    return charge(replay="idempotent_with_key", key=key, window="24h")


def ids(ledger: nt.Ledger, spec: ToolSpec, *arguments: dict[str, Any]) -> list[str]:
    with ledger.attach("r") as handle:
        return [handle.look(spec, one).call_id for one in arguments]


def sent_keys(ledger: nt.Ledger, spec: ToolSpec, arguments: dict[str, Any]) -> list[str | None]:
    keys: list[str | None] = []
    with ledger.attach("r") as handle:
        handle.call(spec, arguments, lambda _: keys.append(nt.current_call().key))
        again = lambda _: keys.append(nt.current_call().key)  # noqa: E731
        handle.call(spec, arguments, again, label="second parcel")
    return keys


def test_a_tool_is_declared_with_a_namespace_and_keeps_its_schema() -> None:
    spec = charge()
    assert (spec.name, spec.schema, spec.replay_class) == (
        "pay/charge",
        SCHEMA,
        "unsafe_on_replay",
    )
    assert spec.is_effectful


@pytest.mark.parametrize(
    "options",
    [
        {"replay": "sometimes"},
        {"replay": "pure", "key": "{cents}", "window": "1h"},
        {"replay": "idempotent_with_key", "key": "{cents}"},
        {"approve": True, "replay": "pure"},
        {"replay": "idempotent_with_key", "key": "{total}", "window": "1h"},
        {"replay": "idempotent_with_key", "key": "all the same", "window": "1h"},
        {"verify": 7},
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(nt.errors.UsageError, match="was not declared"):
        charge(**options)


def test_names_of_nottwice_are_refused() -> None:
    with pytest.raises(nt.errors.InvalidTool, match="reserved"):
        declare("nottwice.now", replay="pure")


def test_an_argument_at_its_default_is_the_same_call(ledger: nt.Ledger) -> None:
    bare, full, other = ids(
        ledger,
        charge(),
        {"cents": 1},
        {"currency": "EUR", "cents": 1},
        {"cents": 1, "currency": "USD"},
    )
    assert bare == full != other


def test_only_the_arguments_in_once_per_count(ledger: nt.Ledger) -> None:
    spec = charge(once_per=("order",))
    one, same, other = ids(
        ledger,
        spec,
        {"order": {"id": 7}, "cents": 1},
        {"order": {"id": 7}, "cents": 2},
        {"order": {"id": 8}, "cents": 1},
    )
    assert one == same != other


def test_a_key_template_looks_into_the_arguments_and_a_repeat_has_its_own_key(
    ledger: nt.Ledger,
) -> None:
    first, second = sent_keys(ledger, keyed("order-{order.id}"), {"order": {"id": 7}, "cents": 1})
    assert first == "order-7"
    assert second is not None
    assert second.startswith("order-7#")


def test_a_key_template_knows_the_defaults_of_the_schema(ledger: nt.Ledger) -> None:
    assert sent_keys(ledger, keyed("{cents}-{currency}"), {"cents": 3})[0] == "3-EUR"


def test_a_key_function_gets_the_arguments(ledger: nt.Ledger) -> None:
    spec = keyed(lambda arguments: f"cents {arguments['cents']}")
    assert sent_keys(ledger, spec, {"cents": 3})[0] == "cents 3"


def test_a_key_per_call_is_the_id_of_the_call(ledger: nt.Ledger) -> None:
    spec = keyed(nt.key_per_call)
    (call_id,) = ids(ledger, spec, {"cents": 3})
    assert sent_keys(ledger, spec, {"cents": 3})[0] == call_id


@pytest.mark.parametrize("order", [None, {}, {"id": None}, {"id": 1.5}, 7])
def test_a_key_that_cannot_be_made_sends_nothing(ledger: nt.Ledger, order: Any) -> None:
    with ledger.attach("r") as handle, pytest.raises(nt.errors.InvalidKey, match="was not run"):
        handle.call(keyed("order-{order.id}"), {"order": order, "cents": 1}, unwanted)


@pytest.mark.parametrize("arguments", [{}, {"cents": object()}, ["cents"], {"cents": {1: 2}}])
def test_arguments_that_do_not_fit_run_nothing(ledger: nt.Ledger, arguments: Any) -> None:
    wrong = (nt.errors.InvalidArguments, nt.errors.NotPlainData)
    with ledger.attach("r") as handle, pytest.raises(wrong):
        handle.call(charge(), arguments, unwanted)


@pytest.mark.parametrize("body", [None, 7])
def test_a_call_without_a_body_runs_nothing(ledger: nt.Ledger, body: Any) -> None:
    with ledger.attach("r") as handle, pytest.raises(nt.errors.InvalidTool, match="body"):
        handle.call(charge(), {"cents": 1}, body)


def test_a_name_that_a_protected_function_has_is_refused(ledger: nt.Ledger) -> None:
    @nt.tool("unsafe_on_replay", name="pay/charge")
    def protected(cents: int) -> None: ...

    try:
        with ledger.attach("r") as handle, pytest.raises(nt.errors.InvalidTool, match="namespace"):
            handle.call(charge(), {"cents": 1}, unwanted)
    finally:
        nt.testing.forget_tools()


PUT = declare("disk/put", replay="idempotent")


def left_in_doubt(host: Host, spec: ToolSpec = PUT) -> None:
    with host.process() as ledger, ledger.attach("r") as handle:
        handle.call(spec, {"text": "v1"}, dying(ledger))


def test_an_idempotent_call_is_sent_again_without_a_key_once_its_process_is_dead() -> None:
    host = Host()
    left_in_doubt(host)
    host.clock.advance(10 * 365 * 86400)
    with host.process() as ledger, ledger.attach("r") as handle:
        made = handle.call(PUT, {"text": "v1"}, lambda _: nt.current_call().key)
    assert (made.value, made.replayed, made.attempts) == (None, False, 2)
    assert PUT.replay_class == "idempotent"


def test_an_idempotent_call_is_not_sent_again_while_its_holder_may_be_alive() -> None:
    host = Host()
    left_in_doubt(host)
    # What is known of a holder on another machine: nothing.
    host.data.holders.clear()
    with host.process() as ledger, ledger.attach("r") as handle:
        with pytest.raises(nt.errors.ReplayUnsafeError, match="may still be alive"):
            handle.call(PUT, {"text": "v1"}, unwanted)


def test_a_call_recorded_as_unsafe_is_not_sent_again_because_its_tool_is_idempotent_now() -> None:
    host = Host()
    left_in_doubt(host, declare("disk/put", replay="unsafe_on_replay"))
    with host.process() as ledger, ledger.attach("r") as handle:
        with pytest.raises(nt.errors.ReplayUnsafeError):
            handle.call(PUT, {"text": "v1"}, unwanted)


@pytest.mark.parametrize("options", [{"key": "{text}"}, {"window": "1h"}])
def test_an_idempotent_tool_has_neither_key_nor_window(options: dict[str, Any]) -> None:
    with pytest.raises(nt.errors.InvalidTool, match="needs no"):
        charge(replay="idempotent", **options)


def test_a_protected_function_may_be_idempotent_without_a_key() -> None:
    host = Host()

    @nt.tool("idempotent")
    def put(text: str) -> str:
        sent.append(text)
        if len(sent) == 1:
            assert isinstance(ledger.store, MortalStore)
            ledger.store.dead = True
            raise Killed
        return "stored"

    sent: list[str] = []
    try:
        with host.process() as ledger, ledger.run("r"):
            put("v1")
        with host.process() as ledger, ledger.run("r"):
            assert put("v1") == "stored"
    finally:
        nt.testing.forget_tools()
    assert sent == ["v1", "v1"]


def is_error(outcome: Any) -> Any:
    if isinstance(outcome, dict) and outcome.get("isError"):
        return nt.Permanent(outcome["text"])
    return None


def test_a_result_that_is_an_error_never_becomes_a_receipt(ledger: nt.Ledger) -> None:
    """It is told, and the next call of the same arguments is made, not answered with the error."""
    spec = charge(classify=is_error)
    with ledger.attach("r") as handle:
        with pytest.raises(nt.Permanent, match="card declined"):
            handle.call(spec, {"cents": 1}, lambda _: {"isError": True, "text": "card declined"})
        assert handle.look(spec, {"cents": 1}).status == "failed"
        made = handle.call(spec, {"cents": 1}, lambda _: {"isError": False})
        assert (made.value, made.replayed) == ({"isError": False}, False)
        assert handle.call(spec, {"cents": 1}, unwanted).replayed


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (FailureClass.PERMANENT, nt.Permanent),
        (nt.Permanent, nt.Permanent),
        (FailureClass.AMBIGUOUS, nt.errors.ReplayUnsafeError),
        (nt.Ambiguous("half of it"), nt.errors.ReplayUnsafeError),
        ("nonsense", nt.errors.ReplayUnsafeError),
    ],
)
def test_classify_says_what_a_result_means(
    ledger: nt.Ledger, said: Any, kind: type[Exception]
) -> None:
    spec = charge(classify=lambda outcome: None if isinstance(outcome, Exception) else said)
    with ledger.attach("r") as handle, pytest.raises(kind):
        handle.call(spec, {"cents": 1}, lambda _: "result")


def test_a_classify_that_breaks_on_a_result_leaves_the_call_in_doubt(ledger: nt.Ledger) -> None:
    spec = charge(classify=lambda outcome: outcome.status_code)
    with ledger.attach("r") as handle:
        with pytest.raises(nt.errors.ReplayUnsafeError, match="AttributeError"):
            handle.call(spec, {"cents": 1}, lambda _: "result")
        with pytest.raises(nt.errors.ReplayUnsafeError):
            handle.call(spec, {"cents": 1}, unwanted)


def test_classify_still_sees_exceptions(ledger: nt.Ledger) -> None:
    spec = charge(classify=lambda outcome: nt.Permanent if outcome == 1 else FailureClass.PERMANENT)

    def refused(arguments: dict[str, Any]) -> None:
        raise ValueError("no such card")

    with ledger.attach("r") as handle, pytest.raises(nt.Permanent, match="no such card"):
        handle.call(spec, {"cents": 1}, refused)


def test_a_typed_result_comes_back_as_its_type(ledger: nt.Ledger) -> None:
    spec = charge(returns=tuple[int, str])
    with ledger.attach("r") as handle:
        handle.call(spec, {"cents": 1}, lambda _: (1, "a"))
        assert handle.call(spec, {"cents": 1}, unwanted).value == (1, "a")


def test_a_body_that_changes_its_arguments_changes_neither_record_nor_caller(
    ledger: nt.Ledger,
) -> None:
    given = {"cents": 1, "order": {"id": 7}}
    with ledger.attach("r") as handle:
        handle.call(charge(), given, lambda arguments: arguments["order"].clear())
        assert given == {"cents": 1, "order": {"id": 7}}
        assert handle.call(charge(), given, unwanted).replayed
