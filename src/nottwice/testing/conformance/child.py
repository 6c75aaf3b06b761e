"""The other process that the suite starts: it opens the store and follows requests."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from nottwice.testing.conformance.samples import NOW, claim, note


def main(file: str, name: str, place: str) -> None:
    """Open the store as ``name`` in ``file`` defines it. Then run one request per line of input."""
    author = _author(Path(file), name)()
    store = author.open_store(Path(place), NOW)
    _say(holder_id=store.holder().holder_id)
    for line in sys.stdin:
        errand = json.loads(line)
        if errand["do"] == "claim":
            claim(store, errand["run"])
        else:
            store.commit(note(errand["number"], errand["run"]))
        _say(did=errand["do"])


def _author(file: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location("nottwice_conformance_author", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def _say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
