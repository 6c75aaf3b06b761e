"""Which store opens a URL that nottwice itself does not know? One from an installed package.

A package registers its stores under the entry point ``nottwice.stores``: the scheme of their URLs,
and the function that opens them. Every command and every ``store=`` then finds them. Promise kept
here: P216.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from nottwice.errors import StoreError
from nottwice.model.sealing.seal import Seals
from nottwice.store.interface import Store

GROUP = "nottwice.stores"


class OpenStore(Protocol):
    """What an entry point names: a function that opens the ledger at a URL."""

    def __call__(self, url: str, *, now: float, create: bool, seals: Seals | None) -> Store:
        """``create=False``: raise NoLedger if there is none. ``seals``: the key, if one was given.
        A store that cannot seal refuses a key."""


def is_installed(named: object) -> bool:
    """Whether this is a URL with a scheme for which a store is installed."""
    return _entry_point(str(named)) is not None


def open_installed(url: str, *, now: float, create: bool, seals: Seals | None) -> Store:
    """Open the ledger at a URL for which ``is_installed`` is true."""
    found = _entry_point(url)
    assert found is not None
    try:
        opens: OpenStore = found.load()
    except (ImportError, AttributeError) as error:
        raise StoreError(
            f"The store for {found.name}:// is installed but cannot be loaded ({error}). Nothing "
            f"was opened. It is {found.value!r}: install what it needs, or repair its package."
        ) from error
    return opens(url, now=now, create=create, seals=seals)


def _entry_point(text: str) -> EntryPoint | None:
    # Entry points are read only if there is a scheme, because that takes milliseconds.
    scheme, separator, _ = text.partition("://")
    if not separator:
        return None
    return next(iter(entry_points(group=GROUP, name=scheme)), None)
