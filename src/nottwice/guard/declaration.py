"""The keyword arguments of ``nt.tool``, and what they say about each other (T2, T3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from nottwice.errors import InvalidTool
from nottwice.model.call import Call, ReplayClass
from nottwice.model.failure import Classifier, RetryPolicy
from nottwice.model.tool import Verification

Duration = str | float
VerifyHook = Callable[[Call], Verification] | Callable[[Call], Awaitable[Verification]]


class Declaration:
    """The keyword arguments of ``nt.tool``, checked for what they say about each other."""

    def __init__(
        self,
        *,
        key: str | Callable[..., str] | None = None,
        window: Duration | None = None,
        name: str | None = None,
        verify: VerifyHook | None = None,
        settles: Duration | None = None,
        classify: Classifier | None = None,
        retry: RetryPolicy | None = None,
        time_limit: Duration | None = None,
        verify_limit: Duration = 30,
        volatile: Iterable[str] | Literal["*"] = (),
        bound_by: Iterable[str] | None = None,
        tags: Iterable[str] = (),
    ) -> None:
        self.key = key
        self.window = window
        self.name = name
        self.verify = verify
        self.settles = settles
        self.classify = classify
        self.retry = retry or RetryPolicy()
        self.time_limit = time_limit
        self.verify_limit = verify_limit
        self.volatile: tuple[str, ...] | Literal["*"] = (
            "*" if volatile == "*" else _names(volatile, "volatile")
        )
        self.bound_by = None if bound_by is None else _names(bound_by, "bound_by")
        self.tags = _names(tags, "tags")

    def check(self, name: str, kind: ReplayClass) -> None:
        """T2: key and window belong to one class, and verify to effects."""
        keyed = kind is ReplayClass.IDEMPOTENT_WITH_KEY
        for what, value in (("key", self.key), ("window", self.window)):
            if keyed and value is None:
                raise InvalidTool(
                    f"Tool {name!r} was not declared: {kind.value} needs {what}=... "
                    + _NEEDED[what]
                )
            if not keyed and value is not None:
                raise InvalidTool(
                    f"Tool {name!r} was not declared: {what}= belongs to idempotent_with_key, and "
                    f"this tool is {kind.value}. Change the class or leave {what} out."
                )
        if kind is ReplayClass.PURE and (self.verify or self.settles is not None):
            raise InvalidTool(
                f"Tool {name!r} was not declared: a pure tool is simply run again, so verify= and "
                "settles= mean nothing for it. Leave them out, or choose another class."
            )
        if kind.effectful and self.volatile == "*":
            raise InvalidTool(
                f"Tool {name!r} was not declared: volatile='*' would make all effects of a step "
                "one call. Name the arguments that do not matter, one by one."
            )


_NEEDED = {
    "key": "It is what the upstream recognises the call by: a template such as "
    "'refund-{order_id}', a function of the arguments, or nt.key_per_call.",
    "window": "It is how long the upstream remembers a key, for example '24h'.",
}


def _names(given: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidTool(f"{what} must be a tuple of names: write {what}=({given!r},).")
    return tuple(given)
