"""How does a value of an annotated type become plain data, and how does it come back?

Plain data is kept as it is and comes back as it is. Anything else is kept only if its annotation
brings back the same value of the same type; nottwice tries this before it keeps the value. Stored
data is only ever validated against an annotation in the code. It cannot name a class, a function
or a module (D8).
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from nottwice.errors import InvalidArguments
from nottwice.guard.arguments.annotations import describe
from nottwice.guard.plain_data.plain_schema import plain_schema
from nottwice.model import values
from nottwice.model.data.records import light_record

if TYPE_CHECKING:
    from nottwice.guard.plain_data.typed_form import TypedForm


class DoesNotFit(Exception):
    """Stored data no longer fits the annotation. Callers say what that means for them."""


@light_record(frozen=True, slots=True)
class Encoded:
    """Plain data, and whether only the annotation can turn it back into the value."""

    plain: Any
    typed: bool


class Codec:
    """Turns values of one annotated type into plain data and back, or says why it cannot.

    `where` names the place in errors ("the result of tool 'refund'"), `outcome` is a sentence that
    says what did not happen. With `reveal`, secrets become text, which the caller must replace.
    """

    def __init__(
        self, annotation: object, *, where: str, outcome: str = "", reveal: bool = False
    ) -> None:
        self._annotation = Any if annotation is inspect.Parameter.empty else annotation
        self._where = where
        self._outcome = outcome
        self._reveal = reveal
        self._built: TypedForm | None = None

    def encode(self, value: object, *, root: str = "$", keep_unset: bool = False) -> Encoded:
        """Write a value so that `decode` returns it; NotPlainData if that is impossible.

        With `keep_unset`, fields of a model that were never set are left out and come back unset;
        without it, the record is complete, whatever defaults later code has.
        """
        if values.is_plain(value):
            return Encoded(value, typed=False)
        if values.is_too_large(value):
            values.check_plain(value, root=root)
        return Encoded(self._form().write(value, root, keep_unset=keep_unset), typed=True)

    def normal_form(self, value: object, *, root: str = "$") -> Any:
        """Return the one plain form of all equal values, for hashes and keys: 10.00 is 10 here."""
        if values.is_plain(value):
            return value
        return self._form().write_normal(value, root)

    def decode(self, plain: Any, *, typed: bool) -> Any:
        """Return what `encode` was given; DoesNotFit if the annotation no longer allows that."""
        if not typed:
            return plain
        form = self._form()
        try:
            restored = form.read(plain)
        except Exception as error:
            path, text = form.explain(error)
            raise DoesNotFit(
                f"{self._where} no longer fits its type {self.type_text()}: {path}: {text}"
            ) from error
        if values.is_plain(restored):
            # Only values that were not plain are stored as typed, so this would be another value.
            raise DoesNotFit(
                f"{self._where} was recorded as a value of a class, and its annotation "
                f"{self.type_text()!r} gives plain data"
            )
        return restored

    def validate_plain(self, plain: Any) -> Any:
        """Read JSON from a person or a model; InvalidArguments names the path of a wrong value."""
        form = self._form()
        try:
            return form.read(plain)
        except Exception as error:
            path, text = form.explain(error)
            where = self._where[:1].upper() + self._where[1:]
            raise InvalidArguments(
                f"{where} does not fit its type {self.type_text()}: {path}: {text}. "
                "It was not used. Correct it and try again.",
                path=path,
            ) from None

    def prepare(self) -> None:
        """Load now what values of a class need, which takes a while."""
        self._form()

    def type_text(self) -> str:
        """The annotation, spelled as a person would."""
        return "any plain data" if self._annotation is Any else describe(self._annotation)

    def json_schema(self) -> dict[str, Any] | None:
        """The JSON schema of the type, or None if it has none."""
        plain = plain_schema(self._annotation)
        return self._form().json_schema() if plain is None else plain

    def note(self) -> str | None:
        """Why the annotation cannot be used, if so; it then counts as missing."""
        return self._form().note

    def _form(self) -> TypedForm:
        # Two threads may both build it. They build the same, and one of the two is kept.
        if self._built is None:
            # Only here, because plain data does not need pydantic (P226).
            from nottwice.guard.plain_data.typed_form import TypedForm

            self._built = TypedForm(
                self._annotation,
                type_text=self.type_text(),
                where=self._where,
                outcome=self._outcome,
                reveal=self._reveal,
            )
        return self._built
