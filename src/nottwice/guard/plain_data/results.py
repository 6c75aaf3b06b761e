"""How is a tool's result stored in the ledger, and how is it returned again?

A result is never refused: the effect took place, and forgetting that would repeat it. A result
that cannot be kept, or is too large, is recorded as a note of what it was. A replay then asks for
the result (``engine/doubts/lost_results.py``) instead of returning something else.
"""

from __future__ import annotations

import hashlib
import logging
import reprlib
from typing import Any

from nottwice.errors import InvalidArguments, NotPlainData, ResultNotKept
from nottwice.guard.arguments.binding import Signature
from nottwice.guard.plain_data.codec import DoesNotFit
from nottwice.model import values
from nottwice.model.call import ResultKind, StoredResult
from nottwice.model.sealing.secrets import SHOWN

MAX_RESULT_CHARACTERS = 16 * 1024 * 1024
log = logging.getLogger("nottwice")


class Results:
    """The results of one tool, on their way into the ledger and out of it."""

    def __init__(self, signature: Signature, *, tool: str) -> None:
        self._signature = signature
        self._tool = tool

    def encode(self, value: Any) -> StoredResult:
        """Keep a result, or a note of what it was. Never raises because of the value."""
        stored, why = self._kept_or_note(value)
        if why is not None:
            log.warning(
                "the result of tool=%s cannot be kept, so a resume that needs it runs a pure tool "
                "again and stops at an effect: %r",
                self._tool,
                why,
            )
        return stored

    def _kept_or_note(self, value: Any) -> tuple[StoredResult, str | None]:
        """Return what is stored, and why it is only a note if that deserves a warning."""
        if self._signature.result_is_secret():
            # The tool declares it as secret, so there is no need for a warning.
            why = "it is secret, as the tool's annotation says"
            note = values.encode(_about(value, why, SHOWN))
            return StoredResult(ResultKind.NOT_KEPT, note), None
        typed = False
        try:
            plain = value
            if not values.is_plain(value):
                encoded = self._signature.result_codec().encode(value)
                plain, typed = encoded.plain, encoded.typed
            text = values.encode_known(plain)
        except NotPlainData as error:
            return _note(value, why=error.message), error.message
        except Exception as error:
            # A hostile __eq__ or serializer of the user's type must not lose the receipt.
            why = f"it could not be written down ({type(error).__name__})"
            return _note(value, why=why), why
        if len(text) > MAX_RESULT_CHARACTERS:
            why = f"it has {len(text):,} characters, and at most {MAX_RESULT_CHARACTERS:,} are kept"
            return _note(value, why=why, text=text), why
        return StoredResult(ResultKind.TYPED if typed else ResultKind.PLAIN, text), None

    def decode(self, stored: StoredResult) -> Any:
        """The value that was kept."""
        try:
            codec = self._signature.result_codec()
            plain = values.decode(stored.json)
            if stored.kind is ResultKind.GIVEN:
                return codec.validate_plain(plain)
            return codec.decode(plain, typed=stored.kind is ResultKind.TYPED)
        except (DoesNotFit, InvalidArguments) as error:
            raise ResultNotKept(
                f"What is recorded cannot be returned: {error}. The call took effect and was not "
                "run again. Restore the return annotation it was recorded with, or see it with: "
                "nottwice show RUN"
            ) from error

    def adopt(self, plain: Any) -> StoredResult:
        """Read a result that a person gives as JSON; InvalidArguments if it does not fit."""
        return self._kept_or_note(self._signature.result_codec().validate_plain(plain))[0]

    def type_text(self) -> str:
        return self._signature.result_codec().type_text()


def _note(value: Any, *, why: str, text: str | None = None) -> StoredResult:
    note: dict[str, Any] = _about(value, why, _short(value))
    if text is None:
        note.update(_plain_form(value))
    if text is not None:
        note["characters"] = str(len(text))
        note["sha256"] = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return StoredResult(ResultKind.NOT_KEPT, values.encode(note))


def _plain_form(value: Any) -> dict[str, Any]:
    """Return a plain form that an annotation added later may turn into the value, if any (P134).

    A tuple becomes a list here, so this form is never returned as the result.
    """
    try:
        # Only here, because plain results do not need pydantic (P226).
        from nottwice.guard.plain_data.flatten import flatten

        plain = flatten(value, path="$", normalise=False)
        values.check_plain(plain, root="$")
        if len(values.encode(plain)) > MAX_RESULT_CHARACTERS:
            return {}
    except Exception:
        # A hostile value may raise anything. Then there is no such form; the receipt must survive.
        return {}
    return {"plain": plain}


def _about(value: Any, why: str, text: str) -> dict[str, str]:
    return {"type": type(value).__name__, "why": why, "text": text}


def _short(value: Any) -> str:
    try:
        return reprlib.repr(value)[:200].encode("utf-8", "backslashreplace").decode()
    except Exception:
        return f"<{type(value).__name__} without a readable repr>"
