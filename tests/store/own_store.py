"""The store of `docs/guides/write-a-store.md`, copied from there as a reader would.

`own_claims.py` runs the suite against it, `test_agreement.py` compares it with ours, and
`test_registry.py` installs it as a package of its own and names it in a command.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.tidy import documents
from tests.tidy.source import ROOT

GUIDE = "docs/guides/write-a-store.md"
SHOWN = ("class FolderStore", "def open_folder")

CODE = "\n".join(
    block.code
    for block in documents.blocks(GUIDE, (ROOT / GUIDE).read_text(encoding="utf-8"))
    if any(line.startswith(SHOWN) for line in block.code.splitlines())
)
_module = ModuleType("folder_ledger")
exec(compile(CODE, str(ROOT / GUIDE), "exec", dont_inherit=True), _module.__dict__)
FolderStore: Any = _module.__dict__["FolderStore"]
