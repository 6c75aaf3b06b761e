"""Read what the caller passes as ``policy=...`` into what the engine asks (L9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nottwice.engine.host import Policy
from nottwice.errors import UsageError
from nottwice.model.policy import ProposedCall

Policies = Callable[[ProposedCall], Any] | Iterable[Callable[[ProposedCall], Any]] | None
"""A function, sync or async, that returns a ruling; several: each must allow a call; None: none."""


class NoneAsked(tuple[Policy, ...]):
    """No policies, on purpose: where nothing is called, those of apps and agents are not asked."""

    __slots__ = ()


def read_policies(given: Policies) -> tuple[Policy, ...]:
    """Return one policy, several or none as a tuple; UsageError if one cannot be asked."""
    if given is None:
        return ()
    if isinstance(given, NoneAsked):
        return given
    if callable(given):
        _refuse_class(given)
        return (given,)
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    for policy in found:
        if not callable(policy):
            raise UsageError(
                f"policy={policy!r} cannot be asked about a call. Nothing happened. Give a "
                "function of one argument that returns policy.allow(), policy.deny(why), "
                "policy.ask(why) or policy.stop(why), or a list of such functions."
            )
        _refuse_class(policy)
    return found


def joined(first: tuple[Policy, ...], second: tuple[Policy, ...]) -> tuple[Policy, ...]:
    """Both, each once."""
    return (*first, *(policy for policy in second if policy not in first))


def _refuse_class(policy: object) -> None:
    if isinstance(policy, type):
        raise UsageError(
            f"policy={policy.__qualname__} is a class. Nothing happened. Pass an instance: "
            f"policy={policy.__qualname__}(...)."
        )
