"""Write a file: completely or not at all, never outside its folder, and found by its content.

After a crash, the file is compared with what was to be written (P75). If another process has
written to it in the meantime, it is not overwritten. A person decides instead.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator

from typing_extensions import TypedDict

from nottwice.errors import Permanent, Retryable
from nottwice.guard.declaration import Duration
from nottwice.guard.declare import SyncTool
from nottwice.guard.ready_made import RelativePath, declare
from nottwice.guard.scopes import current_call
from nottwice.model.call import Call
from nottwice.model.tool import Verification, cannot_tell, did_not_happen, happened
from nottwice.store.files.disk import sync
from nottwice.store.machine import confined_files

# Errors that may be gone at the next attempt. Any other file system error would occur again.
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
# The kernel's clock for file timestamps may lag this much behind.
_STAMP_LAG_SECONDS = 0.01


class Written(TypedDict):
    """What ``write_file`` returns."""

    output_file: str
    """Its path below the folder, as it was given to the tool."""
    sha256: str
    bytes: int


def write_file(
    folder: str | os.PathLike[str], *, name: str = "write_file", settles: Duration = "1s"
) -> SyncTool[..., Written]:
    """Make a tool ``write_file(path, text)`` that replaces a text file below ``folder``.

    ``settles`` is how long the write of a dead process may still arrive. On a local disk it cannot.
    """
    root = os.path.realpath(folder)

    def write(path: RelativePath, text: str) -> Written:
        """Write a text file, replacing what it held. Folders on the way to it are made."""
        content, beside = text.encode(), _beside(current_call())
        with _in_our_words(), confined_files.folder_of(root, path, make=True) as (where, leaf):
            confined_files.replace(where, leaf, content, beside=beside)
        return _written(path, content)

    def find_written(call: Call) -> Verification:
        path, content = call.args["path"], call.args["text"].encode()
        try:
            with confined_files.folder_of(root, path, make=False) as (where, leaf):
                if confined_files.read(where, leaf) == content:
                    # The process may have died before it synced the folder.
                    sync(where)
                    return happened(_written(path, content))
                return did_not_happen() if _is_untouched(where, leaf, call) else cannot_tell()
        except FileNotFoundError:
            return did_not_happen()

    protected: SyncTool[..., Written] = declare(
        write,
        "unsafe_on_replay",
        name=name,
        recipe="write_file",
        works_on={"folder": root},
        verify=find_written,
        settles=settles,
        # Writing the earlier content of a file again is a normal way to revert a change.
        repeat="free",
    )
    return protected


@contextlib.contextmanager
def _in_our_words() -> Iterator[None]:
    """Convert file system errors. Up to the rename, an error means that the file is unchanged."""
    unchanged = "The file was not written and is unchanged"
    try:
        yield
    except confined_files.NotAFile as error:
        raise Permanent(f"{unchanged}: {error}.") from error
    except OSError as error:
        text = f"{unchanged}: {error.strerror or error}."
        if error.errno in _PASSING:
            raise Retryable(text) from error
        raise Permanent(text) from error


def _is_untouched(where: int, leaf: str, call: Call) -> bool:
    """Whether a file last changed before the call, or before the attempt left its part file.

    The rename that makes the new content visible removes the part file. While the part file exists,
    the new content has not become visible.
    """
    changed_at = confined_files.changed_at(where, leaf) or 0.0
    left_at = confined_files.changed_at(where, _beside(call)) or 0.0
    return changed_at <= max(left_at, call.first_started_at - _STAMP_LAG_SECONDS)


def _beside(call: Call) -> str:
    return f".{call.id}.part"


def _written(path: str, content: bytes) -> Written:
    sha256 = hashlib.sha256(content).hexdigest()
    return Written(output_file=path, sha256=sha256, bytes=len(content))
