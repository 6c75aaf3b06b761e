"""How does a value of an annotated type become plain data, and how does it come back?

Plain data is kept as it is and comes back as it is. Anything else is kept only if its annotation
brings back the same value of the same type; nottwice tries this before it keeps the value. Stored
data is only ever validated against an annotation in the code. It cannot name a class, a function
or a module (D8).
"""

from __future__ import annotations

import contextlib
import inspect
import json
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError

from nottwice.errors import InvalidArguments, NotPlainData
from nottwice.guard.arguments.annotations import describe
from nottwice.guard.plain_data.flatten import CannotFlatten, difference, flatten, step_into
from nottwice.model import values
from nottwice.model.records import frozen_record, light_record

# A parameter may be annotated with a class that pydantic does not know, such as a client.
_ADAPTER_CONFIG = ConfigDict(arbitrary_types_allowed=True)

_BY_NAME: dict[str, Any] = {"by_alias": False}
_BY_ALIAS: dict[str, Any] = {"by_alias": True}
_ONLY_SET = {"exclude_unset": True}
_NO_DEFAULTS = {"exclude_defaults": True}
# Since pydantic 2.11 a field that is read by its alias can also be read by its name.
_READ_NAMES: dict[str, Any] = (
    {"by_alias": True, "by_name": True}
    if "by_name" in inspect.signature(TypeAdapter.validate_python).parameters
    else {}
)


class DoesNotFit(Exception):
    """Stored data no longer fits the annotation. Callers say what that means for them."""


@light_record(frozen=True, slots=True)
class Encoded:
    """Plain data, and whether only the annotation can turn it back into the value."""

    plain: Any
    typed: bool


@frozen_record(frozen=True, slots=True)
class _Spelling:
    """One way to write a value; `exactly` if it must keep offsets and zeros."""

    options: dict[str, Any]
    exactly: bool


# A model's settings decide whether it reads aliases or field names, so both are tried. Aliases come
# first, because every release of pydantic reads them, and no hash may depend on the release.
_COMPLETE = tuple(
    _Spelling(names, exactly=exactly)
    for exactly in (True, False)
    for names in (_BY_ALIAS, _BY_NAME)
)
# A tool may pass on only what was set: `model_dump(exclude_unset=True)` makes the usual PATCH body.
# After a crash it must send the same, so what was not set stays unset where that can be kept.
_AS_SET = (
    *(_Spelling({**names, **_ONLY_SET}, exactly=True) for names in (_BY_ALIAS, _BY_NAME)),
    *_COMPLETE,
)
# Fields at their default are left out, so that a new optional field changes no hash (T4). A union
# may need them to tell its members apart; then the round trip fails and they stay.
_NORMAL = (
    *(_Spelling({**names, **_NO_DEFAULTS}, exactly=False) for names in (_BY_ALIAS, _BY_NAME)),
    *(_Spelling(names, exactly=False) for names in (_BY_ALIAS, _BY_NAME)),
)


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
        self._built: tuple[TypeAdapter[Any], str | None] | None = None

    def encode(self, value: object, *, root: str = "$", keep_unset: bool = False) -> Encoded:
        """Write a value so that `decode` returns it; NotPlainData if that is impossible.

        With `keep_unset`, fields of a model that were never set are left out and come back unset;
        without it, the record is complete, whatever defaults later code has.
        """
        if values.is_plain(value):
            return Encoded(value, typed=False)
        if values.is_too_large(value):
            values.check_plain(value, root=root)
        return Encoded(self._write(value, root, _AS_SET if keep_unset else _COMPLETE), typed=True)

    def normal_form(self, value: object, *, root: str = "$") -> Any:
        """Return the one plain form of all equal values, for hashes and keys: 10.00 is 10 here."""
        if values.is_plain(value):
            return value
        return self._write(value, root, _NORMAL)

    def decode(self, plain: Any, *, typed: bool) -> Any:
        """Return what `encode` was given; DoesNotFit if the annotation no longer allows that."""
        if not typed:
            return plain
        try:
            restored = restore(self._adapter(), plain)
        except Exception as error:
            path, text = explain(error, root="$")
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
        try:
            return restore(self._adapter(), plain)
        except Exception as error:
            path, text = explain(error, root="$")
            raise InvalidArguments(
                _sentences(
                    f"{self._where} does not fit its type {self.type_text()}: {path}: {text}.",
                    "It was not used. Correct it and try again.",
                ),
                path=path,
            ) from None

    def type_text(self) -> str:
        """The annotation, spelled as a person would."""
        return "any plain data" if self._annotation is Any else describe(self._annotation)

    def json_schema(self) -> dict[str, Any] | None:
        """The JSON schema of the type, or None if it has none."""
        try:
            return self._adapter().json_schema()
        except Exception:
            return None

    def note(self) -> str | None:
        """Why the annotation cannot be used, if so; it then counts as missing."""
        self._adapter()
        return self._built[1] if self._built else None

    def _write(self, value: object, root: str, spellings: tuple[_Spelling, ...]) -> Any:
        refusal = CannotFlatten(root, "cannot be written down")
        for spelling in spellings:
            try:
                return self._try(value, root, spelling)
            except CannotFlatten as error:
                # The others fail for other reasons, which would mislead.
                if spelling.options == _BY_ALIAS:
                    refusal = error
            except RecursionError:
                refusal = CannotFlatten(
                    root,
                    "is nested too deep, or it contains itself",
                    "Flatten it, or refer to the inner part by an id.",
                )
                break
        what = f"{self._where} cannot be kept: {refusal.path} {refusal.reason}."
        remedy = refusal.remedy or self._general_remedy()
        raise NotPlainData(_sentences(what, self._outcome, remedy), path=refusal.path)

    def _general_remedy(self) -> str:
        if self._annotation is Any:
            return f"Use plain data, or annotate {self._where} with its type."
        return (
            f"The annotation {self.type_text()!r} does not bring it back: change the annotation, "
            "or use plain data."
        )

    def _try(self, value: object, root: str, spelling: _Spelling) -> Any:
        """Write the value in one spelling; refuse it unless it comes back the same."""
        adapter = self._adapter()
        try:
            dumped = value
            if self._annotation is not Any:
                dumped = adapter.dump_python(
                    value, mode="python", round_trip=True, warnings="error", **spelling.options
                )
            plain = flatten(dumped, path=root, normalise=not spelling.exactly, reveal=self._reveal)
            values.check_plain(plain, root=root)
            restored = restore(adapter, plain)
            found = difference(value, restored, path=root, exactly=spelling.exactly)
        except (CannotFlatten, RecursionError):
            raise
        except NotPlainData as error:
            # It says what to do about this type, which is better than any general advice.
            text = _sentences(f"{self._where}: {error.message}", self._outcome)
            raise NotPlainData(text, path=error.path) from None
        except Exception as error:
            path, text = explain(error, root=root)
            raise CannotFlatten(
                path, f"does not fit the type {self.type_text()} ({text})"
            ) from error
        if found is not None:
            raise found
        return plain

    def _adapter(self) -> TypeAdapter[Any]:
        # Two threads may both build it. They build the same, and one of the two is kept.
        if self._built is None:
            self._built = build_adapter(self._annotation)
        return self._built[0]


def build_adapter(annotation: Any) -> tuple[TypeAdapter[Any], str | None]:
    """Return the adapter of an annotation; if there is none, that of Any and a note saying why."""
    try:
        adapter = _adapt(annotation)
        if not names_code(adapter):
            return adapter, None
        reason = "it imports what a text names, and stored text must not name code"
    except Exception as error:
        reason = str(error).partition("\n")[0]
    return _adapt(Any), f"the annotation {annotation!r} cannot be used: {reason}"


def names_code(adapter: TypeAdapter[Any]) -> bool:
    """Whether validation would import an object that a text names (pydantic's ImportString)."""
    pending: list[Any] = [adapter.core_schema]
    seen: set[int] = set()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            pending.extend(part.values())
        elif isinstance(part, list | tuple):
            pending.extend(part)
        elif getattr(part, "__name__", "") == "import_string":
            return True
    return False


def restore(adapter: TypeAdapter[Any], plain: Any) -> Any:
    """Turn plain data into the value it means. Raises what validation raises."""
    try:
        return adapter.validate_python(plain)
    except ValidationError:
        # A strict model takes a date only as a date, unless the data is known to come from JSON.
        text = json.dumps(plain)
        for options in ({}, _READ_NAMES):
            with contextlib.suppress(ValidationError):
                return adapter.validate_json(text, **options)
        raise


def explain(error: Exception, *, root: str) -> tuple[str, str]:
    """Say where and why validation failed, without the value: it may be a secret."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        more = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
        given = "" if first["type"] == "missing" else f" (got {type(first['input']).__name__})"
        path = root
        for step in first["loc"]:
            path = step_into(path, step)
        return path, f"{first['msg']}{given}{more}"
    if isinstance(error, PydanticSerializationError):
        return root, "a part of it has another type"
    return root, f"{type(error).__name__}: {str(error)[:200]}"


def _adapt(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation, config=_ADAPTER_CONFIG)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        # The class has its own settings, and these apply.
        return TypeAdapter(annotation)


def _sentences(*parts: str) -> str:
    text = " ".join(part for part in parts if part)
    return text[:1].upper() + text[1:]
