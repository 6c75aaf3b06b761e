"""Did a tool change an argument in place? Then the change is lost: on replay, or for the caller.

A receipt holds the result of a call, and a replay does not run the tool. So a list that the tool
appended to live stays unchanged on replay, and the program continues with other data. If the tool
works on a copy (an async tool, or an annotation such as ``list[str]``, which is validated into a
new list), the caller never sees the change. nottwice cannot repair either case, but it must not
stay silent: the first time, it warns.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from nottwice.errors import NottwiceError
from nottwice.guard.arguments.binding import Signature
from nottwice.model import values

log = logging.getLogger("nottwice")
_FIXED = frozenset({str, int, float, bool, type(None), bytes})
_SEEN_ONCE = (
    "The caller sees the change now, but not when the call is replayed, because a receipt holds "
    "only the result. Return the new value, or let the tool work on a copy."
)
_NEVER_SEEN = (
    "It works on a copy, so the caller does not see the change. Return the new value. If the "
    "change is not meant for the caller, change a copy inside the tool: list(...), dict(...)."
)

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]


class ChangeWatch:
    """Watches the live calls of one tool, until it has warned once."""

    def __init__(self, signature: Signature, *, tool: str, function: Callable[..., Any]) -> None:
        self._signature = signature
        self._function = function
        self._tool = tool
        self._warned = False

    def look(self, args: Args, kwargs: Kwargs, recorded: str, invoked: tuple[Args, Kwargs]) -> None:
        """Compare what the tool got for ``args`` and ``kwargs`` with the record from before it ran.

        Only lists, dicts, models and the like are compared: numbers and texts cannot change. If
        the tool got a copy of a list, changes that the caller makes to the original do not count.
        """
        if self._warned:
            return
        for value in (*invoked[0], *invoked[1].values()):
            if type(value) not in _FIXED:
                break
        else:
            return
        changed = self._changed_by_body(*invoked, recorded)
        if changed and self._changed(args, kwargs, recorded):
            self._warn(", ".join(changed), _SEEN_ONCE)
        elif changed:
            # A value that cannot change, such as a part of a graph's state, is expected as a copy.
            given = self._signature.name_arguments(args, kwargs)
            lost = [name for name in changed if type(given.get(name)) in (list, dict, set)]
            if lost:
                self._warn(", ".join(lost), _NEVER_SEEN)

    def _changed_by_body(self, args: Args, kwargs: Kwargs, recorded: str) -> list[str]:
        suspected = self._changed(args, kwargs, recorded)
        if not suspected:
            return []
        # A validator may read its own output differently. That is not a change.
        now, before = self._signature.name_arguments(args, kwargs), values.decode_object(recorded)
        same = {
            name
            for name, value in now.items()
            if type(value) in (list, dict) and value == before.get(name)
        }
        return [name for name in suspected.split(", ") if name not in same]

    def _changed(self, args: Args, kwargs: Kwargs, recorded: str) -> str:
        try:
            now = values.encode_known(self._signature.bind(args, kwargs).plain)
        except NottwiceError as error:
            # It fitted before the tool ran, so the tool changed it.
            return str(error.facts.get("parameter") or "of an argument")
        if now == recorded:
            return ""
        before, after = values.decode_object(recorded), values.decode_object(now)
        return ", ".join(name for name in after if before.get(name) != after[name])

    def _warn(self, names: str, what_is_lost: str) -> None:
        self._warned = True
        text = f"Tool {self._tool!r} changed its argument {names} in place. {what_is_lost}"
        # Python prints the warning; a log that nothing handles would print it a second time.
        log.info("%s", text)
        # Point at the tool, where the change is made. The line that called it is not always known.
        code = getattr(inspect.unwrap(self._function), "__code__", None)
        file, line = ("<tool>", 1) if code is None else (code.co_filename, code.co_firstlineno)
        warnings.warn_explicit(text, RuntimeWarning, file, line)
