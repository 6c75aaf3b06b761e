"""Which store opens a URL that nottwice itself does not know? One from an installed package.

A package registers its stores under the entry point ``nottwice.stores``: the scheme of their URLs,
and the function that opens them. Every command and every ``store=`` then finds them. Promise kept
here: P216.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nottwice.errors import StoreError
from nottwice.model.sealing.seal import Seals
from nottwice.store.interface import Store

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "nottwice.stores"


class OpenStore(Protocol):
    """What an entry point names: a function that opens the ledger at a URL.

    It may have a ``preview`` attribute, for ``nottwice check``: a function that takes the URL and
    returns two numbers without opening the ledger, its format and the format that the store writes.
    """

    def __call__(self, url: str, *, now: float, create: bool, seals: Seals | None) -> Store:
        """``create=False``: raise NoLedger if there is none. ``seals``: the key, if one was given.
        A store that cannot seal refuses a key."""


def is_installed(named: object) -> bool:
    """Whether this is a URL with a scheme for which a store is installed."""
    return _entry_point(str(named)) is not None


def open_installed(url: str, *, now: float, create: bool, seals: Seals | None) -> Store:
    """Open the ledger at a URL for which ``is_installed`` is true."""
    return _load(url)(url, now=now, create=create, seals=seals)


def preview_installed(url: str) -> tuple[int, int] | None:
    """Return the format of a ledger and the one that its store writes. None: it does not tell."""
    preview = getattr(_load(url), "preview", None)
    if preview is None:
        return None
    found, known = preview(url)
    return found, known


def _load(url: str) -> OpenStore:
    found = _entry_point(url)
    assert found is not None
    try:
        opens: OpenStore = found.load()
    except (ImportError, AttributeError) as error:
        raise StoreError(
            f"The store for {found.name}:// is installed but cannot be loaded ({error}). Nothing "
            f"was opened. It is {found.value!r}: install what it needs, or repair its package."
        ) from error
    return opens


def _entry_point(text: str) -> EntryPoint | None:
    # Entry points are read only if there is a scheme, because that takes milliseconds (P226).
    scheme, separator, _ = text.partition("://")
    if not separator:
        return None
    from importlib.metadata import entry_points

    return next(iter(entry_points(group=GROUP, name=scheme)), None)
