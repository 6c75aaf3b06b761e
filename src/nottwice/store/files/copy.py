"""How is a ledger of JSON files copied? File by file, while its lock keeps other processes out.

The folder gets its final name when everything is in it and on disk. Promise kept here: P90.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from nottwice.errors import StoreError, UsageError
from nottwice.store.files import disk

OnProgress = Callable[[int, int], None]


def copy_folder(
    source: Path,
    destination: Path,
    *,
    own_folder: str,
    mark: tuple[str, bytes],
    on_progress: OnProgress,
) -> None:
    """Copy a ledger to a folder that does not exist yet. ``mark``: a journal, and a line for it.

    The caller has the lock. Durable: when it returns.
    """
    if destination.exists() or destination.is_symlink():
        raise UsageError(
            f"{destination} already exists. Nothing was copied. Choose another name, or remove it."
        )
    partial = destination.with_name(f".{destination.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        disk.make_folder(partial / own_folder)
        names = [f"{own_folder}/format.json", f"{own_folder}/holders.jsonl", *_files(source)]
        for number, name in enumerate(names, start=1):
            content = disk.read(source / name)
            if content is not None:
                disk.replace(partial / name, content)
            on_progress(number, len(names))
        journal, line = mark
        disk.append(partial / journal, line)
        os.rename(partial, destination)
        disk.sync_folder(destination.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise StoreError(
            f"{source} could not be copied to {destination} ({error}). There is no copy, and the "
            "ledger is unchanged. Free some disk space or choose another place, then try again."
        ) from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _files(source: Path) -> list[str]:
    """Runs and inboxes. The inbox is first, so that lines folded in meanwhile are in the file."""
    return [name + end for name in disk.names_in(source) for end in (disk.INBOX, disk.RUN)]
