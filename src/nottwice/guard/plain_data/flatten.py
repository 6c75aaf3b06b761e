"""How do rich values become plain data, and is what comes back the same value?

`flatten` rewrites the scalars it knows (dates, decimals, enums, paths …) as text or numbers and
leaves everything else as it is: `values.check_plain` then refuses it with its path. `difference`
judges every round trip: types must be equal all the way down. `==` is not enough, because it treats
True as 1 and 10.00 as 10.
"""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import PurePath
from typing import Any
from uuid import UUID

import pydantic
import pydantic_core

# Beyond this many digits before or after the point, plain notation could fill the memory.
MAX_DECIMAL_DIGITS = 400

_SECRETS = (pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret)
# `str` of these is text that pydantic reads back.
_WRITTEN_AS_TEXT = (
    UUID,
    PurePath,
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    pydantic_core.Url,
    pydantic_core.MultiHostUrl,
)
_ABSENT = object()


class CannotFlatten(Exception):
    """A value cannot be kept: where, why, and what to do instead."""

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{path} {reason}. {remedy}".rstrip())
        self.path = path
        self.reason = reason
        self.remedy = remedy


def flatten(value: Any, *, path: str, normalise: bool, reveal: bool = False) -> Any:
    """Rewrite values that have one obvious spelling as plain data; leave the rest to be refused.

    With `normalise`, equal values get one spelling: an instant is written in UTC, a decimal without
    trailing zeros. Without it, the offset and the zeros are kept, because a tool may print them.
    With `reveal`, a secret becomes its text, for a caller that replaces it by a fingerprint.
    """
    if isinstance(value, dict):
        return _flatten_mapping(value, path=path, normalise=normalise, reveal=reveal)
    if isinstance(value, list | tuple):
        return [
            flatten(item, path=step_into(path, index), normalise=normalise, reveal=reveal)
            for index, item in enumerate(value)
        ]
    if isinstance(value, Enum):
        return flatten(value.value, path=path, normalise=normalise, reveal=reveal)
    if isinstance(value, _SECRETS):
        if not reveal:
            raise CannotFlatten(
                path,
                "is a secret, and a secret is never written to the ledger",
                "Annotate the argument as what it is (SecretStr), or read it inside the tool.",
            )
        return flatten(_text_of(value, path), path=path, normalise=normalise, reveal=True)
    if isinstance(value, Iterator) and not isinstance(value, io.IOBase):
        raise CannotFlatten(path, "is an iterator, which can be read only once", "Use a list.")
    if dataclasses.is_dataclass(value) or isinstance(value, pydantic.BaseModel):
        # If an annotation names its class, it has already been turned into a dict.
        raise CannotFlatten(path, f"would come back as dict, not {_name(type(value))}")
    return _flatten_scalar(value, path=path, normalise=normalise)


def difference(value: Any, restored: Any, *, path: str, exactly: bool) -> CannotFlatten | None:
    """Where `restored` is not the same as `value`; None if it is, types included.

    `exactly` also requires the same offset of a datetime and the same zeros of a decimal.
    """
    kind = type(value)
    if type(restored) is not kind:
        return _other(path, f"{_name(type(restored))}, not {_name(kind)}")
    if isinstance(value, dict):
        return _difference_of_mappings(value, restored, path=path, exactly=exactly)
    if isinstance(value, list | tuple):
        if len(value) != len(restored):
            return _other(path, f"{len(restored)} items, not {len(value)}")
        return _first_difference(enumerate(value), list(restored), path=path, exactly=exactly)
    if isinstance(value, pydantic.BaseModel):
        return _difference_of_models(value, restored, path=path, exactly=exactly)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        theirs = {name: getattr(restored, name, _ABSENT) for name in names}
        ours = ((name, getattr(value, name, _ABSENT)) for name in names)
        return _first_difference(ours, theirs, path=path, exactly=exactly)
    if _same_scalar(value, restored, exactly=exactly):
        return None
    return _other(path, "another value")


def step_into(path: str, step: object) -> str:
    """Return the path of one part, spelled as `values.check_plain` spells it."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    name = step if isinstance(step, str) else str(step)
    name = name if len(name) <= 40 else f"{name[:39]}…"
    if name.isidentifier():
        return f"{path}.{name}"
    return f"{path}[{json.dumps(name, ensure_ascii=not name.isprintable())}]"


def _flatten_mapping(value: Mapping[Any, Any], *, path: str, normalise: bool, reveal: bool) -> Any:
    flat: dict[Any, Any] = {}
    for key, item in value.items():
        name = _flatten_key(key, path=path, normalise=normalise)
        if name in flat:
            raise CannotFlatten(
                path,
                f"has two keys that are both written as {name!r}",
                "Use keys of one type.",
            )
        flat[name] = flatten(item, path=step_into(path, name), normalise=normalise, reveal=reveal)
    return flat


def _text_of(secret: Any, path: str) -> Any:
    value = secret.get_secret_value()
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CannotFlatten(
            path, "is a secret that is not UTF-8 text", "Pass it in base64, as SecretStr."
        ) from None


def _flatten_key(key: Any, *, path: str, normalise: bool) -> Any:
    """Write a key as text, if the annotation can bring it back; other keys are refused later."""
    flat = _flatten_scalar(
        key.value if isinstance(key, Enum) else key, path=path, normalise=normalise
    )
    return str(flat) if type(flat) is int else flat


def _flatten_scalar(value: Any, *, path: str, normalise: bool) -> Any:
    # An instance of a subclass becomes its base here; only the annotation can bring it back.
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, datetime):
        return _write_instant(value, path=path) if normalise else value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _write_duration(value)
    if isinstance(value, Decimal):
        return _write_decimal(value, path=path, normalise=normalise)
    if isinstance(value, _WRITTEN_AS_TEXT) or _is_url(value):
        return str(value)
    return value


def _is_url(value: Any) -> bool:
    """Whether it is a pydantic URL. Since 2.10 its classes are no subclasses of the core's.

    Such a value exists only if the module of its class was imported. Importing it for every
    program would take too long.
    """
    networks = sys.modules.get("pydantic.networks")
    if networks is None:
        return False
    kinds = (networks.AnyUrl, networks.PostgresDsn)
    return isinstance(value, tuple(kind for kind in kinds if isinstance(kind, type)))


def _write_instant(value: datetime, *, path: str) -> str:
    if value.utcoffset() is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).isoformat()
    except OverflowError:
        raise CannotFlatten(
            path, "is an instant outside of the years 1 to 9999 in UTC", "Use None for never."
        ) from None


def _write_duration(value: timedelta) -> str:
    sign, rest = ("-", -value) if value.days < 0 else ("", value)
    return f"{sign}P{rest.days}DT{rest.seconds}.{rest.microseconds:06}S"


def _write_decimal(value: Decimal, *, path: str, normalise: bool) -> str:
    if not value.is_finite():
        raise CannotFlatten(
            path, f"is the decimal {value}, which is not a number", "Use None or a word."
        )
    digits = len(value.as_tuple().digits)
    if max(abs(value.adjusted()), digits) > MAX_DECIMAL_DIGITS:
        raise CannotFlatten(
            path,
            f"is a decimal that needs more than {MAX_DECIMAL_DIGITS} digits",
            "Pass it as text.",
        )
    if not normalise:
        return str(value)
    # Not Decimal.normalize: it rounds to the precision of the current context.
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if not value else text


def _difference_of_mappings(
    value: Mapping[Any, Any], restored: Mapping[Any, Any], *, path: str, exactly: bool
) -> CannotFlatten | None:
    if getattr(value, "default_factory", None) is not getattr(restored, "default_factory", None):
        return _other(path, "a mapping with another default")
    ours, theirs = list(value), list(restored)
    if ours != theirs or list(map(type, ours)) != list(map(type, theirs)):
        return _other(path, "a mapping with other keys")
    return _first_difference(iter(value.items()), restored, path=path, exactly=exactly)


def _difference_of_models(
    value: pydantic.BaseModel, restored: pydantic.BaseModel, *, path: str, exactly: bool
) -> CannotFlatten | None:
    fields = {name: value.__dict__.get(name, _ABSENT) for name in type(value).model_fields}
    theirs = {name: restored.__dict__.get(name, _ABSENT) for name in fields}
    found = _first_difference(iter(fields.items()), theirs, path=path, exactly=exactly)
    if found is None and value.__pydantic_extra__ is not None:
        extra = restored.__pydantic_extra__ or {}
        found = _difference_of_mappings(value.__pydantic_extra__, extra, path=path, exactly=exactly)
    if found is None and value.__pydantic_private__ != restored.__pydantic_private__:
        found = _other(path, f"{_name(type(value))} without its private attributes")
    return found


def _first_difference(
    ours: Iterator[tuple[Any, Any]], theirs: Any, *, path: str, exactly: bool
) -> CannotFlatten | None:
    for step, item in ours:
        found = difference(item, theirs[step], path=step_into(path, step), exactly=exactly)
        if found is not None:
            return found
    return None


def _same_scalar(value: Any, restored: Any, *, exactly: bool) -> bool:
    if isinstance(value, datetime):
        return _same_instant(value, restored, exactly=exactly)
    if isinstance(value, time) and (value.tzinfo is None) != (restored.tzinfo is None):
        return False
    if isinstance(value, Decimal) and exactly:
        return bool(value.as_tuple() == restored.as_tuple())
    return bool(value == restored)


def _same_instant(value: datetime, restored: datetime, *, exactly: bool) -> bool:
    if (value.tzinfo is None) != (restored.tzinfo is None):
        return False
    if value.utcoffset() is None:
        return bool(value == restored) and value.fold == restored.fold
    if exactly and value.utcoffset() != restored.utcoffset():
        return False
    # Python never calls times of two zones equal in the hour that a clock repeats; in UTC it does.
    return bool(value.astimezone(UTC) == restored.astimezone(UTC))


def _other(path: str, what: str) -> CannotFlatten:
    return CannotFlatten(path, f"would come back as {what}")


def _name(kind: type) -> str:
    return kind.__qualname__.rpartition("<locals>.")[2]
