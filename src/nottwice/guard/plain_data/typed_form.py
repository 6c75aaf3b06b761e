"""How does pydantic write a value of an annotated type, and read it back?

This module alone loads pydantic for the values of a tool, which takes longer than everything else
that a protected call needs. So it is imported when the first value needs it (P226): plain data and
arguments that already have the type of their annotation do not.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError

from nottwice.errors import NotPlainData
from nottwice.guard.plain_data.flatten import CannotFlatten, difference, flatten, step_into
from nottwice.guard.plain_data.typed_dicts import readable
from nottwice.model import values
from nottwice.model.data.records import frozen_record

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


class TypedForm:
    """Writes and reads values of one annotated type. `Codec` describes the parameters."""

    def __init__(
        self, annotation: Any, *, type_text: str, where: str, outcome: str, reveal: bool
    ) -> None:
        self._annotation = annotation
        self._type_text = type_text
        self._where = where
        self._outcome = outcome
        self._reveal = reveal
        self._adapter, self.note = build_adapter(annotation)

    def write(self, value: object, root: str, *, keep_unset: bool) -> Any:
        """Write a value so that `read` returns it; NotPlainData if that is impossible."""
        return self._write(value, root, _AS_SET if keep_unset else _COMPLETE)

    def write_normal(self, value: object, root: str) -> Any:
        """Write the one plain form of all equal values."""
        return self._write(value, root, _NORMAL)

    def read(self, plain: Any) -> Any:
        """Return the value that plain data means. Raises what validation raises."""
        return restore(self._adapter, plain)

    def explain(self, error: Exception) -> tuple[str, str]:
        """Say where and why `read` failed."""
        return explain(error, root="$")

    def json_schema(self) -> dict[str, Any] | None:
        """The JSON schema of the type, or None if it has none."""
        try:
            return self._adapter.json_schema()
        except Exception:
            return None

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
            f"The annotation {self._type_text!r} does not bring it back: change the annotation, "
            "or use plain data."
        )

    def _try(self, value: object, root: str, spelling: _Spelling) -> Any:
        """Write the value in one spelling; refuse it unless it comes back the same."""
        try:
            dumped = value
            if self._annotation is not Any:
                dumped = self._adapter.dump_python(
                    value, mode="python", round_trip=True, warnings="error", **spelling.options
                )
            plain = flatten(dumped, path=root, normalise=not spelling.exactly, reveal=self._reveal)
            values.check_plain(plain, root=root)
            restored = restore(self._adapter, plain)
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
                path, f"does not fit the type {self._type_text} ({text})"
            ) from error
        if found is not None:
            raise found
        return plain


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
    annotation = readable(annotation)
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
