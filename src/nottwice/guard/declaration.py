"""The keyword arguments of ``nt.tool``, and the rules between them (T2, T3)."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from nottwice.errors import InvalidTool
from nottwice.model.call import Call, check_id
from nottwice.model.failure import Classifier
from nottwice.model.replay_class import ReplayClass
from nottwice.model.retry import RetryPolicy
from nottwice.model.tool import Duration, Repeat, Verification, parse_duration

__all__ = ["Declaration", "Duration", "VerifyHook", "read_declaration"]
VerifyHook = Callable[[Call], Verification] | Callable[[Call], Awaitable[Verification]]


class Declaration:
    """The keyword arguments of ``nt.tool``, checked against each other."""

    def __init__(
        self,
        tool: str,
        *,
        key: str | Callable[..., str] | None = None,
        window: Duration | None = None,
        name: str | None = None,
        verify: VerifyHook | None = None,
        settles: Duration | None = None,
        classify: Classifier | None = None,
        retry: RetryPolicy | None = None,
        time_limit: Duration | None = None,
        verify_limit: Duration = "30s",
        volatile: Iterable[str] | Literal["*"] = (),
        once_per: Iterable[str] | None = None,
        durable: bool | None = None,
        bound_by: Iterable[str] | None = None,
        tags: Iterable[str] = (),
        approve: bool | Duration = False,
        repeat: Repeat | None = None,
        parallel: bool | None = None,
        keep: Duration | None = None,
        rate: str | None = None,
        redact: Callable[[str], str] | None = None,
        title: str | None = None,
        look: str | None = None,
    ) -> None:
        self.key = key
        self.window = window
        self.name = name
        self.verify = verify
        self.settles = settles
        self.classify = classify
        self.retry = RetryPolicy() if retry is None else retry
        self.time_limit = time_limit
        self.verify_limit = verify_limit
        self.volatile: tuple[str, ...] | Literal["*"] = (
            "*" if volatile == "*" else _names(volatile, tool, "volatile")
        )
        self.once_per = None if once_per is None else _names(once_per, tool, "once_per")
        self.durable: Any = durable
        self.bound_by = None if bound_by is None else _names(bound_by, tool, "bound_by")
        self.tags = _names(tags, tool, "tags")
        self.approve = approve is not False
        self.approval_seconds = (
            None if isinstance(approve, bool) else _seconds(approve, tool, "approve")
        )
        self.given_repeat: Any = repeat
        self.parallel: Any = parallel
        self.keep = keep
        self.keep_seconds = None if keep is None else _seconds(keep, tool, "keep")
        self.redact = redact
        self.title: Any = title
        self.look: Any = look
        self.rate = None if rate is None else check_id(rate, what=f"Tool {tool!r}: rate")

    def check(self, name: str, kind: ReplayClass, *, keyless: bool = False) -> None:
        """Check T2: key and window belong to one class, and verify to effects."""
        self._check_hooks(name)
        self._check_keep(name)
        for what, value in (("key", self.key), ("window", self.window)):
            if keyless and value is not None:
                raise InvalidTool(
                    f"Tool {name!r} was not declared: an idempotent tool needs no {what}. Leave "
                    f"{what}= out, or choose idempotent_with_key."
                )
            if kind.keyed and not keyless and value is None:
                raise InvalidTool(
                    f"Tool {name!r} was not declared: {kind.value} needs {what}=... "
                    + _NEEDED[what]
                )
            if not kind.keyed and value is not None:
                raise InvalidTool(
                    f"Tool {name!r} was not declared: {what}= belongs to idempotent_with_key, and "
                    f"this tool is {kind.value}. Change the class or leave {what} out."
                )
        if self.approve and not kind.effectful:
            raise InvalidTool(
                f"Tool {name!r} was not declared: a pure tool changes nothing, so there is nothing "
                "to approve. Leave approve= out, or choose another class."
            )
        if kind.may_rerun and (self.verify or self.settles is not None):
            raise InvalidTool(
                f"Tool {name!r} was not declared: a pure tool is simply run again, so verify= and "
                "settles= mean nothing for it. Leave them out, or choose another class."
            )
        if kind.effectful and self.volatile == "*":
            raise InvalidTool(
                f"Tool {name!r} was not declared: volatile='*' would make all effects of a step "
                "one call. Name the arguments that do not matter, one by one."
            )
        self._check_once_per(name, kind)
        self._check_durable(name, kind)
        self._check_repeat(name, kind)
        self._check_parallel(name, kind)

    def _check_once_per(self, name: str, kind: ReplayClass) -> None:
        if self.once_per is None:
            return
        if not kind.effectful:
            why = "a pure tool has no effect that could happen twice. Leave once_per= out"
        elif self.volatile:
            why = (
                "once_per= says which arguments count, and volatile= which do not. Leave one of "
                "them out"
            )
        elif not self.once_per:
            why = (
                "once_per=() would make all its calls one effect. Name the arguments that say "
                "which effect it is, for example once_per=('to', 'order_id')"
            )
        else:
            return
        raise InvalidTool(f"Tool {name!r} was not declared: {why}.", tool=name)

    def _check_durable(self, name: str, kind: ReplayClass) -> None:
        if self.durable is None:
            return
        if not isinstance(self.durable, bool):
            why = f"durable must be True or False, not {self.durable!r}"
        elif kind.effectful:
            why = f"the result of an effect ({kind.value}) is always durable before it returns"
        elif self.volatile == "*" and not self.durable:
            why = "volatile='*' makes it a model call, whose reply is always durable"
        else:
            return
        raise InvalidTool(f"Tool {name!r} was not declared: {why}. Leave durable= out.")

    @property
    def repeat(self) -> Repeat:
        """Applies to keyed tools, too: a repeat gets its own key, so the upstream acts again."""
        given: Repeat = "ask" if self.given_repeat is None else self.given_repeat
        return given

    def _check_repeat(self, name: str, kind: ReplayClass) -> None:
        if self.given_repeat is None:
            return
        known = get_args(Repeat)
        if not kind.effectful:
            raise InvalidTool(
                f"Tool {name!r} was not declared: a pure tool changes nothing, so a model may "
                "call it as often as it likes. Leave repeat= out."
            )
        if not isinstance(self.given_repeat, str) or self.given_repeat not in known:
            raise InvalidTool(
                f"Tool {name!r} was not declared: repeat={self.given_repeat!r} is not one of "
                f"{', '.join(map(repr, known))}. 'ask' asks a person before a model does exactly "
                "the same again, 'free' allows it, 'never' refuses it."
            )

    def _check_parallel(self, name: str, kind: ReplayClass) -> None:
        if self.parallel is None:
            return
        if not isinstance(self.parallel, bool):
            why = f"parallel must be True or False, not {self.parallel!r}"
        elif not kind.effectful:
            why = "a pure tool changes nothing, so reads of one reply run in parallel anyway"
        else:
            return
        raise InvalidTool(f"Tool {name!r} was not declared: {why}. Leave parallel= out.")

    def _check_keep(self, name: str) -> None:
        """Refuse rows that expire too early: their keys could be reused with other arguments."""
        if self.keep_seconds is None or self.window is None:
            return
        if _seconds(self.window, name, "window") > self.keep_seconds:
            raise InvalidTool(
                f"Tool {name!r} was not declared: its rows would be removed (keep={self.keep!r}) "
                f"while the upstream still remembers their keys (window={self.window!r}). Keep "
                "them at least as long as the window."
            )

    def _check_hooks(self, name: str) -> None:
        """Refuse now what would otherwise fail while a failure is handled."""
        for what, hook in (
            ("verify", self.verify),
            ("classify", self.classify),
            ("redact", self.redact),
        ):
            if hook is not None and not callable(hook):
                raise InvalidTool(
                    f"Tool {name!r} was not declared: {what} must be a function, not {hook!r}."
                )
        if not isinstance(self.retry, RetryPolicy):
            raise InvalidTool(
                f"Tool {name!r} was not declared: retry must be an nt.RetryPolicy, not "
                f"{self.retry!r}. Write retry=nt.RetryPolicy(attempts=...)."
            )


def read_declaration(tool: str, words: Mapping[str, Any]) -> Declaration:
    """Read the declaration; a misspelt argument gets a hint at the right one."""
    known = [name for name in inspect.signature(Declaration).parameters if name != "tool"]
    for word in words:
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
            raise InvalidTool(
                f"Tool {tool!r} was not declared: it has {word}=, which is unknown. {hint}",
                tool=tool,
            )
    return Declaration(tool, **words)


_NEEDED = {
    "key": "The upstream recognises the call by its key: a template such as "
    "'refund-{order_id}', a function of the arguments, or nt.key_per_call.",
    "window": "The window is how long the upstream remembers a key, for example '24h'.",
}


def _seconds(given: Duration, tool: str, what: str) -> float:
    return parse_duration(given, what=f"Tool {tool!r}: {what}")


def _names(given: Iterable[str], tool: str, what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidTool(
            f"Tool {tool!r} was not declared: {what} must be a tuple of names: write "
            f"{what}=({given!r},)."
        )
    names: tuple[Any, ...] = tuple(given) if isinstance(given, Iterable) else (given,)
    for name in names:
        if not isinstance(name, str):
            raise InvalidTool(
                f"Tool {tool!r} was not declared: {what} must hold names, not {name!r}."
            )
    return names
