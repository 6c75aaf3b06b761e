"""How does a ready-made tool become one of a program, and when are two of them the same?

It is declared once for each thing that it works on: a folder, a repository, an address. Its calls
in doubt must find that very thing again, so a second tool of the same name that works on something
else is refused, like any two tools of one name (T1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from nottwice.guard.declare import tool
from nottwice.guard.definition import DEFINITION
from nottwice.model import values
from nottwice.store.confined_files import check_relative

WORKS_ON = "works_on"
"""An attribute of a function that says what it works on, where its code does not tell."""


def declare(
    function: Callable[..., Any],
    replay_class: Any,
    *,
    name: str,
    recipe: str,
    works_on: Mapping[str, object],
    **declared: Any,
) -> Any:
    """The protected tool; ``works_on`` is what tells it from others that are made alike."""
    parts = {part: _spelt(value) for part, value in works_on.items()}
    function.__name__ = name
    # The registry tells tools apart by their code and closure. These are made anew in each call of
    # a recipe, so they say what they work on; as a hash, because an address may hold a secret.
    setattr(function, DEFINITION, (recipe, values.hash_of(parts)))
    return tool(replay_class, name=name, **declared)(function)


def _spelt(value: object) -> str:
    """What a setting is, for a comparison; a function that holds something counts by itself."""
    if not callable(value):
        return repr(value)
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    told = getattr(value, WORKS_ON, None)
    if told is not None:
        return f"{name} {told}"
    owner = getattr(value, "__self__", None)
    if owner is not None:
        return f"{name} of {id(owner)}"
    is_plain = hasattr(value, "__qualname__") and not getattr(value, "__closure__", None)
    return name if is_plain and "<lambda>" not in name else f"{name} {id(value)}"


RelativePath = Annotated[
    str,
    AfterValidator(check_relative),
    Field(description="A relative path without '..', such as reports/may.txt"),
]
