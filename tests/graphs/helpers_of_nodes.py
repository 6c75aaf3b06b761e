"""Tools and helpers that nodes of tests use, in a separate module."""

from __future__ import annotations

import nottwice as nt


@nt.tool("unsafe_on_replay")
def fingerprinted_mail(to: str, subject: str = "hello") -> str:
    return f"{to} {subject}"


@nt.tool("idempotent_with_key", key="pay-{cents}", window="24h")
def fingerprinted_pay(cents: int) -> None: ...


def pay_and_mail(cents: int) -> None:
    fingerprinted_pay(cents)
    fingerprinted_mail("ann")
