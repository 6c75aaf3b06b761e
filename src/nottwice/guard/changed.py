"""Did a tool change what it was given? Then the caller's objects differ live and on replay.

A receipt holds the result of a call, and no body runs for it. So a list that the tool appended to
live stays as it was when the call is replayed, and the program goes on with other data. This cannot
be repaired here, but it must not be silent: the first time is a warning, in the log and in Python.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any

from nottwice.errors import NottwiceError
from nottwice.guard.binding import Signature
from nottwice.model import values

log = logging.getLogger("nottwice")
_FIXED = frozenset({str, int, float, bool, type(None), bytes})


class ChangeWatch:
    """Looks after the live calls of one tool, until it has warned once."""

    def __init__(self, signature: Signature, *, tool: str) -> None:
        self._signature = signature
        self._tool = tool
        self._warned = False

    def look(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], recorded: str) -> None:
        """Compare what the caller passed with its record, which was made before the tool ran.

        Only lists, dicts, models and the like are looked at: numbers and texts cannot change.
        """
        if self._warned:
            return
        for value in args:
            if type(value) not in _FIXED:
                break
        else:
            for value in kwargs.values():
                if type(value) not in _FIXED:
                    break
            else:
                return
        changed = self._changed(args, kwargs, recorded)
        if changed:
            self._warn(changed)

    def _changed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], recorded: str) -> str:
        try:
            now = values.encode_known(self._signature.bind(args, kwargs).plain)
        except NottwiceError as error:
            # It fitted before the tool ran.
            return str(error.facts.get("parameter") or "of an argument")
        if now == recorded:
            return ""
        before, after = values.decode_object(recorded), values.decode_object(now)
        return ", ".join(name for name in after if before.get(name) != after[name])

    def _warn(self, names: str) -> None:
        self._warned = True
        text = (
            f"Tool {self._tool!r} changed its argument {names} in place. The caller sees the "
            "change now, and will not see it when the call is replayed, because a receipt holds "
            "only the result. Return what is new, or let the tool work on a copy."
        )
        log.warning("%s", text)
        # At the line that called the tool: _warn, look, look_after, call and the protected
        # function lie in between.
        warnings.warn(text, RuntimeWarning, stacklevel=6)
