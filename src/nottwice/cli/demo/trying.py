"""What can a viewer of the demo read and try? The code, commands that work as printed, the page.

Promise kept here: P361.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nottwice.cli.inputs.options import login_name
from nottwice.guard.ledger import Ledger
from nottwice.views.commands import CommandLine

if TYPE_CHECKING:
    from nottwice.web.serving import Links

PROGRAM = "nottwice"
_FIRST, _LAST = "# A second run would mail twice", "if __name__"


def protected_lines(script: Path) -> list[str]:
    """Return the part of the agent that says what may not happen twice."""
    text = script.read_text(encoding="utf-8")
    return text[text.index(_FIRST) : text.index(_LAST)].strip().splitlines()


def program_name(typed: str | None = None) -> str:
    """Return how this program was started, if its plain name would start another one, or none.

    ``make demo`` starts ``.venv/bin/nottwice``, which is not on the path of the viewer's shell.
    """
    typed = sys.argv[0] if typed is None else typed
    if Path(typed).name != PROGRAM or not os.path.isfile(typed):
        return PROGRAM
    found = shutil.which(PROGRAM)
    return PROGRAM if found is not None and os.path.samefile(found, typed) else typed


def has_page() -> bool:
    """Whether what the page needs is installed (``nottwice[web]``)."""
    return all(map(importlib.util.find_spec, ("starlette", "uvicorn", "jinja2")))


def serve_page(ledger: str, *, announce: Callable[[str], None], open_browser: bool) -> None:
    """Serve the page of a ledger until Ctrl-C. Where no browser can be opened, the link is enough.

    ``announce`` is given the link.
    """
    from nottwice.web.serving import Serving, serve

    def tell(links: Links) -> None:
        announce(links.decide or links.look)
        if open_browser:
            show_in_browser(links.decide or links.look)

    with Ledger(ledger, create=False) as opened:
        serve([opened], Serving(by=login_name(), port=0), [CommandLine(ledger)], announce=tell)


def show_in_browser(link: str) -> bool:
    """Open a link; False if this machine has no browser with windows.

    A browser for terminals would take over the terminal that the link was just printed on.
    """
    has_windows = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    try:
        return has_windows and webbrowser.open(link)
    except (webbrowser.Error, OSError):
        return False
