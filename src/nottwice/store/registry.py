"""Which store does a URL name that nottwice does not know? One that is installed beside it.

A package of its own names its stores under the entry point ``nottwice.stores``: the scheme of their
URLs, and what opens one. So every command and every ``store=`` finds it. Promise kept here: P216.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from nottwice.errors import StoreError
from nottwice.model.sealing.seal import Seals
from nottwice.store.interface import Store

GROUP = "nottwice.stores"


class OpenStore(Protocol):
    """What an entry point names: it opens the ledger at a URL."""

    def __call__(self, url: str, *, now: float, create: bool, seals: Seals | None) -> Store:
        """``create=False``: raise NoLedger if there is none. ``seals``: the key, if one was given;
        a store that cannot seal refuses it."""


def is_installed(named: object) -> bool:
    """Whether this is a URL whose scheme an installed package has a store for."""
    return _entry_point(str(named)) is not None


def open_installed(url: str, *, now: float, create: bool, seals: Seals | None) -> Store:
    """The ledger at a URL for which ``is_installed``."""
    found = _entry_point(url)
    assert found is not None
    try:
        opens: OpenStore = found.load()
    except (ImportError, AttributeError) as error:
        raise StoreError(
            f"The store for {found.name}:// is installed and cannot be loaded ({error}). Nothing "
            f"was opened. It is {found.value!r}: install what it needs, or repair its package."
        ) from error
    return opens(url, now=now, create=create, seals=seals)


def _entry_point(text: str) -> EntryPoint | None:
    # Looked for only if there is a scheme: to read what is installed takes milliseconds.
    scheme, separator, _ = text.partition("://")
    if not separator:
        return None
    return next(iter(entry_points(group=GROUP, name=scheme)), None)
