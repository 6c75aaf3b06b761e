"""What do a function's annotations mean, once the names in them can be looked up?

With `from __future__ import annotations` an annotation is text. It is looked up when it is first
needed, because the class it names may be defined further down. An annotation that cannot be looked
up counts as missing, and a note says so: a tool must not stop working because of a type hint.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, MethodType, SimpleNamespace, UnionType
from typing import Any

from nottwice.model.data.records import frozen_record

RETURN = "return"
_NAME = re.compile(r"[^\W\d]\w*")
_LOCAL = ".<locals>."
_BUILT_IN = frozenset({str, int, float, bool, type(None), list, dict, tuple})


@frozen_record(frozen=True, slots=True)
class Annotations:
    """The resolved annotation of each annotated parameter, and of the result as ``return``."""

    types: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature with its annotations as written. Raises what `inspect` raises."""
    if sys.version_info >= (3, 14):
        # There, annotations are computed on demand, and may name a class that is not defined yet.
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def capture_local_names(
    function: Callable[..., Any], signature: inspect.Signature
) -> dict[str, Any]:
    """Find the local classes that annotations name, while their defining functions still run.

    Only names that occur in an annotation are kept, so that no whole frame is kept alive. Local
    names hide those of the module, as they do in Python.
    """
    innermost = _innermost(function)
    enclosing = getattr(innermost, "__qualname__", "").rpartition(_LOCAL)[0]
    wanted = _names_in(signature)
    found: dict[str, Any] = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and enclosing and wanted:
        if frame.f_code.co_qualname == enclosing and _same_file(frame, innermost):
            local = frame.f_locals
            found.update({name: local[name] for name in wanted if name in local})
            wanted -= found.keys()
            enclosing = enclosing.rpartition(_LOCAL)[0]
        frame = frame.f_back
    return found


def resolve(
    function: Callable[..., Any], signature: inspect.Signature, *, local_names: Mapping[str, Any]
) -> Annotations:
    """Look up every annotation separately, so that a bad one does not affect the others."""
    innermost = _innermost(function)
    around = {**local_names, **_closure_names(innermost), **_type_parameters(innermost)}
    written = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    written[RETURN] = signature.return_annotation
    types: dict[str, Any] = {}
    notes: list[str] = []
    for name, annotation in written.items():
        if annotation is inspect.Parameter.empty:
            continue
        holder = SimpleNamespace(__annotations__={name: annotation})
        try:
            hints = typing.get_type_hints(
                holder, _module_names(innermost), around, include_extras=True
            )
        except Exception as error:
            what = "the result" if name == RETURN else f"parameter {name!r}"
            notes.append(
                f"the annotation {annotation!r} of {what} cannot be looked up ({error}); "
                "it is treated as not annotated, so only plain data fits"
            )
            continue
        types[name] = hints[name]
    return Annotations(types, tuple(notes))


def read_into_lists(annotation: Any) -> Any:
    """Replace `Iterable` by `list`, because an argument is read more than once."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if Iterable in (annotation, origin):
        return list[parts[0]] if parts else list  # type: ignore[valid-type]
    if origin in (typing.Union, UnionType):
        return typing.Union[tuple(map(read_into_lists, parts))]  # noqa: UP007
    if origin is typing.Annotated:
        return typing.Annotated[(read_into_lists(parts[0]), *annotation.__metadata__)]
    return annotation


def is_built_in(annotation: Any) -> bool:
    """Whether a type consists of Python's own types for plain data, as `dict[str, int]` does."""
    origin = typing.get_origin(annotation)
    if origin is None:
        # The metaclass is asked first, because a class with one of its own may compare as it likes.
        return annotation is Any or (type(annotation) is type and annotation in _BUILT_IN)
    if origin not in (list, dict, tuple, typing.Union, UnionType):
        return False
    return all(part is Ellipsis or is_built_in(part) for part in typing.get_args(annotation))


def describe(annotation: Any) -> str:
    """Spell an annotation as a person would: without modules, metadata and addresses."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is None or annotation is type(None):
        return "None"
    if annotation is Ellipsis:
        return "..."
    if isinstance(annotation, list):
        return f"[{', '.join(map(describe, annotation))}]"
    if origin is typing.Annotated:
        return describe(parts[0])
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    if origin in (typing.Union, UnionType):
        return " | ".join(map(describe, parts))
    if parts:
        return f"{describe(origin)}[{', '.join(map(describe, parts))}]"
    name = getattr(annotation, "__qualname__", None) or getattr(annotation, "__name__", None)
    return str(name or annotation).rpartition("<locals>.")[2]


def _innermost(function: Callable[..., Any]) -> Any:
    """Return the function whose module the annotations were written in."""
    inner: Any = function
    while True:
        if isinstance(inner, functools.partial):
            inner = inner.func
        elif isinstance(inner, MethodType):
            inner = inner.__func__
        elif hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        elif hasattr(inner, "__globals__") or isinstance(inner, type):
            return inner
        else:
            # An object with its own `__call__`, or something written in C.
            call = inspect.getattr_static(type(inner), "__call__", inner)
            return call if hasattr(call, "__globals__") else inner


def _module_names(innermost: Any) -> dict[str, Any]:
    module = sys.modules.get(getattr(innermost, "__module__", None) or "")
    names: dict[str, Any] = getattr(innermost, "__globals__", None) or vars(module or object)
    return dict(names) if not isinstance(names, dict) else names


def _names_in(signature: inspect.Signature) -> set[str]:
    written = [parameter.annotation for parameter in signature.parameters.values()]
    written.append(signature.return_annotation)
    texts = [_text_of(annotation) for annotation in written]
    return {name for text in texts for name in _NAME.findall(text)}


def _text_of(annotation: Any) -> str:
    """Return the names an annotation still has to look up; `list["Order"]` contains one, too."""
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    return " ".join(_text_of(part) for part in typing.get_args(annotation))


def _same_file(frame: FrameType, innermost: Any) -> bool:
    code = getattr(innermost, "__code__", None)
    return code is not None and frame.f_code.co_filename == code.co_filename


def _closure_names(innermost: Any) -> dict[str, Any]:
    names: dict[str, Any] = {}
    code = getattr(innermost, "__code__", None)
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(innermost, "__closure__", None) or (), strict=True
    ):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            # The variable has not been assigned yet.
            continue
    return names


def _type_parameters(innermost: Any) -> dict[str, Any]:
    return {each.__name__: each for each in getattr(innermost, "__type_params__", ())}
