"""How do a call's arguments become validated values, a record, and the identity of the call? (T4)

A call has one identity, however it is written: by position or by name, with a default written out
or left out, `"7"` or `7` for an integer. The record holds every argument as plain data. It is
enough to make the same call again after a crash. Nothing here runs the tool.
"""

from __future__ import annotations

import copy
import inspect
import threading
import typing
from collections.abc import Callable, Collection, Mapping
from types import UnionType
from typing import Any, Literal

from nottwice.errors import InvalidTool, NotPlainData
from nottwice.guard.arguments.annotations import (
    RETURN,
    Annotations,
    capture_local_names,
    is_built_in,
    read_into_lists,
    read_signature,
    resolve,
)
from nottwice.guard.arguments.parameters import Parameters
from nottwice.guard.arguments.secrets import (
    Secret,
    Shape,
    find_secrets,
    holds_secret,
    may_be_secret,
)
from nottwice.guard.arguments.validation import Validator
from nottwice.guard.plain_data.codec import Codec
from nottwice.model import values
from nottwice.model.data.records import frozen_record, light_record
from nottwice.model.saving.frozen import thaw

_KIND = inspect.Parameter
_SCALARS = (str, int, float, bool)
_LEAVES = frozenset({*_SCALARS, type(None)})
_LEFT_ALONE = (*_LEAVES, Any, object, dict)
_NOTHING_RAN = "The tool was not run."


@light_record(frozen=True, slots=True)
class BoundArguments:
    """The arguments of one call, in the forms that the caller, the record and the hash need.

    The plain forms may share lists and dicts with the caller's arguments. Hash and write them
    before the tool runs, because the tool may change what it was given.
    """

    values: Mapping[str, Any]
    """Validated values of all parameters, defaults applied; `*args` as a tuple, `**kwargs` as a
    dict, each under its own name."""
    plain: dict[str, Any]
    """The record: plain data of all parameters that can be represented. It needs no type marks,
    because the annotations say what its text means."""
    normal: dict[str, Any]
    """The record without volatile arguments, and with one spelling for equal values: for keys."""
    identity: dict[str, Any]
    """What is hashed: `normal` without the arguments that equal their default."""
    surveyed: int | None
    """What `values.survey` found in `identity`, if it has been called already."""
    passed: Mapping[str, Any]
    """The values that the caller passed; all other parameters keep their default."""


class Signature:
    """The parameters of one tool: binds calls to them, and rebuilds calls from their record.

    It is created when the tool is declared, which is cheap. Annotations are looked up and
    validators built at the first call, because a class that one names may not be defined before.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        tool: str,
        volatile: tuple[str, ...] | Literal["*"] = (),
        once_per: tuple[str, ...] | None = None,
        skip_first: bool = False,
    ) -> None:
        self._tool = tool
        self._function = function
        try:
            self._signature = read_signature(function)
        except (TypeError, ValueError) as error:
            raise InvalidTool(
                f"Tool {tool!r} was not declared: the parameters of {function!r} cannot be read "
                f"({error}). Wrap it in a function with named parameters.",
                tool=tool,
            ) from None
        self._parameters = Parameters(self._signature, tool=tool, skip_first=skip_first)
        self._read_volatile(volatile if once_per is None else self._all_but(once_per))
        self._local_names = capture_local_names(function, self._signature)
        self._lock = threading.RLock()
        self._prepared: _Prepared | None = None

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundArguments:
        """Validate the arguments of one call. Raises only InvalidArguments or NotPlainData.

        Volatile arguments need not be plain data. If they are not, the record leaves them out.
        """
        given = self._parameters.assign(args, kwargs)
        for name, default in self._parameters.defaults.items():
            # As if it had been left out: a default need not fit its annotation or be plain data.
            if name in given and given[name] is default:
                del given[name]
        prepared = self._prepared or self._prepare()
        checked = prepared.validator.check(given)
        for name in prepared.reordering:
            if name in given and name not in self._volatile:
                self._refuse_sets(name, given[name])
        surveyed = values.survey(checked)
        if surveyed is None or surveyed & values.HOLDS_FROZEN:
            # A part of a graph's state: a reissued call gets a list, so the first attempt does too.
            checked = {
                name: thaw(value) if values.holds_frozen(value) else value
                for name, value in checked.items()
            }
        if surveyed is not None:
            plain = normal = prepared.with_defaults(checked) if prepared.plain else checked
            own = checked
        else:
            written, own = self._write(checked, prepared)
            plain = prepared.with_defaults(written)
            for name in checked.keys() - written.keys():
                # For example a request body, which cannot be recorded. The record must not hold its
                # default instead: after a crash the tool would run without the body (P132).
                plain.pop(name, None)
            normal = prepared.with_normal_defaults(own)
        return BoundArguments(
            values=self._parameters.apply_defaults(checked),
            plain=plain,
            normal=normal,
            identity=self._identify(own, prepared),
            surveyed=surveyed,
            passed=checked,
        )

    def rebuild(self, record: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments for calling the function again; InvalidArguments if it has changed.

        A recorded value that still has its parameter's type is passed as recorded, because
        validating it again might change it. Otherwise it is converted to that type.
        """
        prepared = self._prepared or self._prepare()
        unknown = [name for name in record if name not in self._parameters.by_name]
        if unknown:
            self._parameters.refuse(
                f"the record has the argument {unknown[0]!r}, which it no longer takes"
            )
        given = {
            name: plain
            for name, plain in record.items()
            if name not in prepared.plain or not _same_value(plain, prepared.plain[name])
        }
        self._parameters.refuse_missing(given, "the record has no value for")
        checked = prepared.validator.check_recorded(given)
        return self._parameters.arrange(
            {
                name: given[name] if values.same_types(given[name], value) else value
                for name, value in checked.items()
            }
        )

    def invoke_with(self, bound: BoundArguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return how to call the function: each passed argument by position or name, as it allows.

        Arguments that the caller left out stay out, so the function uses its own default.
        """
        return self._parameters.arrange(bound.passed)

    def name_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of one call by parameter name, unchanged."""
        return self._parameters.assign(args, kwargs)

    def parameter_names(self) -> tuple[str, ...]:
        """All parameters in order, without the instance of a method."""
        return tuple(self._parameters.by_name)

    def volatile_names(self) -> tuple[str, ...]:
        """What does not count for the identity of a call: parameters, then names in `**kwargs`."""
        named = (name for name in self._parameters.by_name if name in self._volatile)
        return (*named, *sorted(self._volatile_extra))

    def secrets(self) -> Mapping[str, Shape]:
        """The parameters that hold secrets, and where in them."""
        return (self._prepared or self._prepare()).secrets

    def secret_names(self) -> tuple[str, ...]:
        """The secret parameters, as far as they are known when the tool is declared."""
        return tuple(find_secrets(self._types(self._resolve())))

    def result_is_secret(self) -> bool:
        """Whether the result, or part of it, is secret."""
        return (self._prepared or self._prepare()).result_is_secret

    def result_codec(self) -> Codec:
        """The codec of the return annotation."""
        return (self._prepared or self._prepare()).result

    def schemas(self) -> tuple[dict[str, Any], Any]:
        """The JSON schemas of the arguments, as one object, and of the result."""
        prepared = self._prepared or self._prepare()
        optional = {*self._parameters.defaults, self._parameters.rest, self._parameters.extra}
        arguments = {
            "properties": {name: each.json_schema() for name, each in prepared.codecs.items()},
            "required": [name for name in prepared.codecs if name not in optional],
        }
        return arguments, prepared.result.json_schema()

    def notes(self) -> tuple[str, ...]:
        """What `nottwice check` should say: annotations that could not be looked up or used."""
        prepared = self._prepared or self._prepare()
        result = prepared.result.note()
        return (*prepared.notes, *([result] if result else []))

    def _refuse_sets(self, name: str, value: Any) -> None:
        """Refuse a set that is read as a list: a resume may see another order, so another hash."""
        seen: set[int] = set()
        pending: list[Any] = [(value,)]
        while pending:
            items = pending.pop()
            for item in items.values() if type(items) is dict else items:
                kind = type(item)
                if kind is dict or kind is list or kind is tuple:
                    if id(item) not in seen:
                        seen.add(id(item))
                        pending.append(item)
                elif kind not in _LEAVES and isinstance(item, set | frozenset):
                    raise NotPlainData(
                        f"The argument {name!r} of tool {self._tool!r} cannot be kept: it holds a "
                        f"set, whose order may differ after a crash. {_NOTHING_RAN} Use a "
                        "sorted list.",
                        path=name,
                        tool=self._tool,
                        parameter=name,
                    )

    def _all_but(self, once_per: tuple[str, ...]) -> tuple[str, ...]:
        """Return the parameters that do not identify the effect (P202)."""
        known = self._parameters.by_name
        for name in once_per:
            if name not in known:
                raise InvalidTool(
                    f"Tool {self._tool!r} was not declared: once_per names {name!r}, which is not "
                    f"one of its parameters ({', '.join(known) or 'it has none'}).",
                    tool=self._tool,
                )
        return tuple(name for name in known if name not in once_per)

    def _read_volatile(self, volatile: tuple[str, ...] | Literal["*"]) -> None:
        known = self._parameters.by_name
        names = frozenset(known if volatile == "*" else volatile)
        self._volatile = names & known.keys()
        # Arguments that `**` collects may be volatile, too; they have no parameter of their own.
        self._volatile_extra = names - known.keys()
        if self._volatile_extra and self._parameters.extra is None:
            raise InvalidTool(
                f"Tool {self._tool!r} was not declared: volatile names "
                f"{min(self._volatile_extra)!r}, which is not one of its parameters "
                f"({', '.join(known) or 'it has none'}).",
                tool=self._tool,
            )

    def _write(
        self, checked: dict[str, Any], prepared: _Prepared
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the record and the normal form if at least one argument is not plain data."""
        written: dict[str, Any] = {}
        normal: dict[str, Any] = {}
        for name, value in checked.items():
            codec = prepared.codecs[name]
            if name == self._parameters.extra:
                value = _without(
                    value,
                    {each for each in self._volatile_extra if not values.is_plain(value.get(each))},
                )
            try:
                written[name] = codec.encode(value, root=name, keep_unset=True).plain
                if name not in self._volatile:
                    normal[name] = codec.normal_form(value, root=name)
            except NotPlainData as error:
                if name not in self._volatile:
                    raise NotPlainData(
                        f"{error.message} If it does not matter for what the call does, "
                        f"declare volatile=({name!r},).",
                        path=error.path,
                        tool=self._tool,
                        parameter=name,
                    ) from None
        # Each argument may be as deep as plain data can be. Together they are one level deeper.
        values.check_plain(written, root="arguments")
        return written, normal

    def _identify(self, own: dict[str, Any], prepared: _Prepared) -> dict[str, Any]:
        defaults = prepared.normal
        if not (defaults or self._volatile or self._volatile_extra):
            return own
        identity: dict[str, Any] = {}
        for name, value in own.items():
            if name in self._volatile:
                continue
            if name in defaults and _same_value(value, defaults[name]):
                continue
            identity[name] = value
        extra = self._parameters.extra
        if self._volatile_extra and extra in identity:
            kept = _without(identity.pop(extra), self._volatile_extra)
            if kept:
                identity[extra] = kept
        return identity

    def _prepare(self) -> _Prepared:
        with self._lock:
            if self._prepared is None:
                self._prepared = self._build()
            return self._prepared

    def _resolve(self) -> Annotations:
        return resolve(self._function, self._signature, local_names=self._local_names)

    def _types(self, found: Annotations) -> dict[str, Any]:
        """Return the type of each parameter. One that cannot be looked up has none, but a secret
        stays secret: a needless fingerprint is better than a secret in the ledger."""
        types: dict[str, Any] = {}
        for name, parameter in self._parameters.by_name.items():
            annotation = found.types.get(name, Any)
            if name not in found.types and may_be_secret(parameter.annotation):
                annotation = typing.Annotated[Any, Secret]
            types[name] = _type_of(parameter, annotation)
        return types

    def _build(self) -> _Prepared:
        found = self._resolve()
        types = self._types(found)
        secrets = find_secrets(types)
        validator = Validator(types, tool=self._tool)
        codecs = {
            name: Codec(
                annotation,
                where=f"the argument {name!r} of tool {self._tool!r}",
                outcome=_NOTHING_RAN,
                reveal=name in secrets and name not in self._volatile,
            )
            for name, annotation in types.items()
        }
        plain: dict[str, Any] = {}
        normal: dict[str, Any] = {}
        for name, default in self._parameters.defaults.items():
            try:
                plain[name] = codecs[name].encode(default, keep_unset=True).plain
                normal[name] = codecs[name].normal_form(default)
            except NotPlainData:
                # A client or a cache, for example: it is never recorded.
                continue
        return _Prepared(
            validator=validator,
            codecs=codecs,
            plain=copy.deepcopy(plain),
            normal=copy.deepcopy(normal),
            has_containers=any(type(each) in (list, dict) for each in plain.values()),
            reordering=tuple(name for name, each in types.items() if _may_reorder(each)),
            result=self._result_codec(found.types.get(RETURN, Any)),
            secrets=secrets,
            result_is_secret=holds_secret(found.types.get(RETURN, Any)),
            notes=(*found.notes, *validator.notes),
        )

    def _result_codec(self, annotation: Any) -> Codec:
        codec = Codec(annotation, where=f"the result of tool {self._tool!r}")
        if not is_built_in(annotation):
            # Now, before the effect: a call is in doubt until its result is recorded.
            codec.prepare()
        return codec


@frozen_record(frozen=True, slots=True)
class _Prepared:
    """What a signature needs in every call; built at the first one."""

    validator: Validator
    codecs: Mapping[str, Codec]
    plain: dict[str, Any]
    normal: dict[str, Any]
    has_containers: bool
    reordering: tuple[str, ...]
    """Parameters whose validation may turn a set into a list."""
    result: Codec
    secrets: Mapping[str, Shape]
    result_is_secret: bool
    notes: tuple[str, ...]

    def with_defaults(self, own: dict[str, Any]) -> dict[str, Any]:
        return self._merge(own, self.plain)

    def with_normal_defaults(self, own: dict[str, Any]) -> dict[str, Any]:
        return self._merge(own, self.normal)

    def _merge(self, own: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
        if not defaults:
            return own
        if self.has_containers:
            defaults = copy.deepcopy(defaults)
        # The arguments that were passed come first, because readers of a call look for them.
        return {**own, **{name: defaults[name] for name in defaults if name not in own}}


def _without(mapping: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in names}


def _type_of(parameter: inspect.Parameter, annotation: Any) -> Any:
    if parameter.kind is _KIND.VAR_POSITIONAL:
        return list[annotation]
    if parameter.kind is _KIND.VAR_KEYWORD:
        if _is_unpacked(typing.get_origin(annotation)):
            return typing.get_args(annotation)[0]
        return dict[str, annotation]
    return read_into_lists(annotation)


def _is_unpacked(origin: Any) -> bool:
    # Before Python 3.12, typing_extensions has one of its own. Only `**` parameters need it (P226).
    import typing_extensions

    return origin in (typing.Unpack, typing_extensions.Unpack)


def _may_reorder(annotation: Any) -> bool:
    """Whether validation may turn a set into a list; where it does not look, a set stays a set."""
    if annotation in _LEFT_ALONE:
        return False
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) in (dict, typing.Union, UnionType):
        return any(map(_may_reorder, parts))
    return True


def _same_value(one: Any, other: Any) -> bool:
    """Whether two plain values are equal: 10 is 10.0, but True is not 1."""
    if one is other:
        return True
    if one != other:
        return False
    if type(one) is type(other) and type(one) in _SCALARS:
        return True
    return values.canonical(one) == values.canonical(other)
