"""How is a call with secrets recorded without them? (L9)

Its record, its hash and everything people see contain fingerprints; the tool gets the real values.
A call that would leak a secret is refused before anything happens: if there is no key, or if the
secret is repeated in another argument, in the idempotency key or in a label.
Promises kept here: P101, P102.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from nottwice.engine import hiding
from nottwice.engine.drivers import drive
from nottwice.engine.secret_key import key_of_run
from nottwice.engine.session import Session
from nottwice.errors import InvalidArguments, InvalidId, InvalidKey, KeyMissing
from nottwice.guard.arguments.binding import BoundArguments
from nottwice.guard.arguments.secrets import Shape, replace_secrets
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.sealing.keyring import Key
from nottwice.model.sealing.secrets import Known, fingerprint


@frozen_record(frozen=True, slots=True)
class Covered:
    """The arguments of one call without their secrets, and what only this process knows."""

    bound: BoundArguments
    clear_json: str
    secrets: Known

    def check(self, *, tool: str, key: str | None, label: str | None) -> None:
        """Refuse a key or a label that contains a secret, because both are recorded."""
        if key is not None and self.secrets.is_in(json.dumps(key, ensure_ascii=False)):
            raise InvalidKey(
                f"Tool {tool!r} was not run: its idempotency key repeats a secret argument, and a "
                "key is recorded and sent. Build it from other arguments.",
                tool=tool,
            )
        if label is not None and self.secrets.is_in(json.dumps(label, ensure_ascii=False)):
            raise InvalidId(
                f"Tool {tool!r} was not run: the label of its repeat holds a secret argument, and "
                "a label is recorded. Use another one."
            )


def cover(
    bound: BoundArguments,
    shapes: Mapping[str, Shape],
    *,
    tool: str,
    volatile: Collection[str],
    session: Session,
) -> Covered:
    """Replace the secrets of one call by fingerprints.

    A volatile secret is not part of the call's identity. It is left out and needs no key.
    """
    found: list[Any] = []

    def covered(plain: dict[str, Any], see: Callable[[Any], Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in plain.items():
            if name not in shapes:
                made[name] = value
            elif name in volatile:
                replace_secrets(value, shapes[name], see)
            else:
                make = _maker(_key(session, tool), f"{tool}.{name}", see)
                made[name] = replace_secrets(value, shapes[name], make)
        return made

    # Only here: only a call with secrets needs pydantic for them (P226).
    from pydantic import SecretStr

    plain = covered(bound.plain, found.append)
    # A volatile secret of a type that is never recorded is missing there, but must be hidden, too.
    found += [
        value.get_secret_value()
        for value in map(bound.values.get, volatile)
        if isinstance(value, SecretStr)
    ]
    secrets = Known()
    secrets.learn(found)
    hiding.learn(found)
    _refuse_repeated(plain, secrets, tool=tool)
    return Covered(
        bound=replace(
            bound,
            plain=plain,
            normal=covered(bound.normal, _ignore),
            identity=covered(bound.identity, _ignore),
            surveyed=None,
        ),
        clear_json=values.encode_known(bound.plain),
        secrets=secrets,
    )


def _key(session: Session, tool: str) -> Key:
    if session.secret_key is None:
        ring = session.host.keys()
        if ring is None:
            raise KeyMissing(
                f"Tool {tool!r} was not run: it takes a secret, of which only a keyed fingerprint "
                "may be kept, and there is no key. Nothing was sent or written. Make one: nottwice "
                "key. Put it into NOTTWICE_KEY, or into a file that NOTTWICE_KEY_FILE names.",
                tool=tool,
            )
        session.keep_secret_key(drive(key_of_run(session, ring), session.host))
    assert session.secret_key is not None
    return session.secret_key


def _maker(key: Key, where: str, see: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def make(plain: Any) -> dict[str, str]:
        see(plain)
        return fingerprint(key, where, plain)

    return make


def _ignore(plain: Any) -> None:
    """Do nothing: the same secrets were already collected in their other form."""


def _refuse_repeated(plain: dict[str, Any], secrets: Known, *, tool: str) -> None:
    for name, value in plain.items():
        if secrets.is_in(values.encode_known(value), short=False):
            raise InvalidArguments(
                f"Tool {tool!r} was not run: its argument {name!r} repeats the value of a secret "
                "argument, and would be recorded. Mark it as secret, too, or leave the secret out "
                "of it.",
                tool=tool,
                parameter=name,
            )
