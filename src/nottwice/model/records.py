"""How are the records made that every single call makes several of?

Everywhere else a record is a frozen dataclass, and freezing is enforced at run time. That costs:
each field is set through ``object.__setattr__``, ten times as slow as a plain assignment, and the
dozen records of one guarded call took longer to fill than its arguments took to hash. So these
few are frozen for the type checker only, which reads all the code there is that handles them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

__all__ = ["light_record"]
T = TypeVar("T")

if TYPE_CHECKING:
    # One and the same to the type checker: it refuses every assignment to a field.
    from dataclasses import dataclass as light_record
else:

    def light_record(
        *, frozen: bool, slots: bool, kw_only: bool = False
    ) -> Callable[[type[T]], type[T]]:
        """A dataclass that compares and hashes like a frozen one, and is filled without detours."""
        return dataclass(unsafe_hash=frozen, slots=slots, kw_only=kw_only)
