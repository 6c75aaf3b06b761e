"""What is loaded only when a program first uses it?

asyncio, with its sockets and TLS, which a sync program never uses, and the names of packages that
few programs need. Promise kept here: P226.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio as asyncio
else:

    def __getattr__(name: str) -> Any:
        if name != "asyncio":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # The next use finds it without this function.
        found = globals()[name] = importlib.import_module(name)
        return found


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The running event loop of the calling code, if there is one."""
    if "asyncio" not in sys.modules:
        return None
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def names(
    package: str, homes: Mapping[str, str], *, needs: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that loads its names on first use.

    ``homes``: the module of each name. ``needs``: the frameworks that the extra of the same name as
    the package installs, by the name of their import.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(homes[name])
        except ImportError as error:
            missing = (needs or {}).get((error.name or "").partition(".")[0])
            if missing is None:
                raise
            raise ImportError(
                f"{package}.{name} needs {missing}, which is not installed. Install it: "
                f"pip install 'nottwice[{package.rpartition('.')[2]}]'",
                name=error.name,
            ) from error
        found = vars(sys.modules[package])[name] = getattr(module, name)
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return load, listed
