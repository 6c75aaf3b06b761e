"""Writes the table of docs/internals/negative-controls.md by catching every control again.

``python tools/negative_controls.py`` takes a minute or two; it fails if one is not caught.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "internals" / "negative-controls.md"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
HEAD = (
    "| what is broken | caught by level | first failing point | broken invariant |",
    "|---" * 4 + "|",
)

sys.path.insert(0, str(ROOT))

from tests.crash.controls.catalogue import CONTROLS  # noqa: E402
from tests.crash.controls.control import Caught, catch  # noqa: E402


def row(caught: Caught) -> str:
    """One control as a row of the table."""
    control = caught.control
    return f"| {control.name} | {control.level} | {caught.where} | {control.invariant} |"


def page_with_table(text: str, rows: list[str]) -> str:
    """The page with its generated part made again."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join([*HEAD, *rows])
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> int:
    """Catch every control, print the table as it grows, and write the page."""
    rows = []
    for control in CONTROLS:
        caught = catch(control)
        if caught is None:
            print(f"NOT CAUGHT: {control.name}")
            return 1
        rows.append(row(caught))
        print(rows[-1], flush=True)
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
