"""What did a run do to the world?"""

from __future__ import annotations

from tests.agent.workshop import Workshop


def test_effects_are_read_from_the_ledger_with_keys_and_labels() -> None:
    mail = {"send_mail": {"to": "ann", "text": "hello"}}
    again = {"send_mail": {"to": "ann", "text": "hello", "repeat": "twice"}}
    script = [mail, again, {"post": {"text": "x"}}, {"get_order": {"order_id": 7}}, "done"]
    shop = Workshop(script)
    state = shop.finish().state
    with shop.host.process() as ledger:
        effects = shop.agent.effects("ticket-7", store=ledger)
    assert [(one.tool, one.label, one.key, one.status) for one in effects] == [
        ("send_mail", None, None, "done"),
        ("send_mail", "twice", None, "done"),
        ("post", None, "post-x", "done"),
    ]
    assert [one.receipt_id for one in effects] == [one.receipt_id for one in state.asked]
    assert effects[0].args == {"to": "ann", "text": "hello"}
    assert effects[0].result == "mail 1"


def test_an_effect_in_doubt_is_shown_as_such() -> None:
    shop = Workshop([{"send_mail": {"to": "ann", "text": "hello"}}, "done"])
    shop.world.trouble["send_mail"] = [TimeoutError("no answer")]
    shop.finish()
    with shop.host.process() as ledger:
        (effect,) = shop.agent.effects("ticket-7", store=ledger)
    assert effect.status == "unknown"
    assert effect.result is None
