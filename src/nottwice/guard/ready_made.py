"""How does a ready-made tool become part of a program, and when are two of them the same?

It is declared once for each thing that it works on: a folder, a repository, an address. A call in
doubt must find the same thing again. So a second tool with the same name that works on something
else is refused, like any two tools with one name (T1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from nottwice.guard.declare import tool
from nottwice.guard.definition import DEFINITION
from nottwice.model import values
from nottwice.store.machine.confined_files import check_relative

WORKS_ON = "works_on"
"""An attribute of a function that says what it works on, if its code does not."""


def declare(
    function: Callable[..., Any],
    replay_class: Any,
    *,
    name: str,
    recipe: str,
    works_on: Mapping[str, object],
    **declared: Any,
) -> Any:
    """Return the protected tool; ``works_on`` tells it from others that are made the same way."""
    parts = {part: _spelt(value) for part, value in works_on.items()}
    function.__name__ = name
    # The registry compares tools by their code and closure. These are created in each call of a
    # recipe, so they say what they work on; as a hash, because an address may hold a secret.
    setattr(function, DEFINITION, (recipe, values.hash_of(parts)))
    return tool(replay_class, name=name, **declared)(function)


def _spelt(value: object) -> str:
    """Spell a setting for comparison; a function that holds state equals only itself."""
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
