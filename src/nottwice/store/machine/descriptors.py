"""How does a file of ours never become a standard stream?

A program that was started with a closed standard stream, as some services are, gives its number, 0
to 2, to the next file that it opens. Whatever then writes to "standard error" (a C library, the
interpreter when it crashes) would write over the ledger. Promise kept here: P414.
"""

from __future__ import annotations

import os


def open_file(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, for its owner only if it is new, and never as 0, 1 or 2."""
    occupy_standard_streams()
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def occupy_standard_streams() -> None:
    """Let a standard stream that is closed be ``/dev/null``, which only reads: a write still fails.

    SQLite does the same for its own files.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            taken = os.open(os.devnull, os.O_RDONLY)
            if taken != number:
                # Another thread was faster.
                os.close(taken)
