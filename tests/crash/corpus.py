"""Points that failed once. Every test run examines each of them again.

A file of ``corpus/`` is one case: which agent on which store, at which level, which points, and
what was wrong there. ``python -m tests.crash.corpus "late" sqlite boundaries 12 --why "..."`` adds
one, after the fault was fixed. Until then the point must not get lost, so the line that a sweep
prints contains all of this.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from nottwice.testing.crash.entry import parse_points
from nottwice.testing.crash.levels import Numbers
from nottwice.testing.crash.sweep import Orders, level_names, sweep
from nottwice.testing.crash.verdict import Verdict
from tests.crash import agents
from tests.crash.scenarios import GRAPHS, GUARD
from tests.crash.sweeping import STORES

FOLDER = Path(__file__).parent / "corpus"
AGENTS = {**GUARD, **GRAPHS, **agents.AGENTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One case of the corpus."""

    agent: str
    store: str
    level: str
    points: tuple[Numbers, ...]
    why: str
    """What was wrong there once."""

    @property
    def file(self) -> Path:
        return (
            FOLDER / f"{re.sub('[^a-z0-9]+', '-', f'{self.agent}-{self.store}-{self.level}')}.json"
        )

    def examine(self) -> Verdict:
        """Examine just these points."""
        scenario = AGENTS[self.agent].scenario(self.agent, STORES[self.store])
        return sweep(scenario, Orders(levels=(self.level,), points=self.points))


def cases() -> list[Kept]:
    """The whole corpus, by name of file."""
    return [_read(path) for path in sorted(FOLDER.glob("*.json"))]


def _read(path: Path) -> Kept:
    plain = json.loads(path.read_text(encoding="utf-8"))
    return Kept(**{**plain, "points": tuple(tuple(numbers) for numbers in plain["points"])})


def main() -> int:
    """Add a point to its case, or a case for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agent", choices=AGENTS)
    parser.add_argument("store", choices=STORES)
    parser.add_argument("level", choices=level_names())
    parser.add_argument("point", nargs="+")
    parser.add_argument("--why", required=True)
    given = parser.parse_args()
    points = tuple(map(parse_points, given.point))
    kept = Kept(
        agent=given.agent, store=given.store, level=given.level, points=points, why=given.why
    )
    if kept.file.exists():
        known = _read(kept.file)
        points = tuple(sorted({*known.points, *points}))
        why = known.why if given.why in known.why else f"{known.why}; {given.why}"
        kept = Kept(agent=kept.agent, store=kept.store, level=kept.level, points=points, why=why)
    kept.file.write_text(json.dumps(asdict(kept), indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
