"""The result of a crash test, for people and for programs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from nottwice.model.data.records import frozen_record
from nottwice.testing.crash.invariants import INVARIANTS, Violation


@frozen_record(frozen=True, slots=True)
class SweepFailure:
    """A point at which something that must be true was not."""

    level: str
    numbers: tuple[int, ...]
    where: str
    violations: tuple[Violation, ...]
    reproduce: str
    """The command that examines just this point again."""


@frozen_record(frozen=True, slots=True)
class Swept:
    """The result of one level."""

    level: str
    sentence: str
    examined: int = 0
    total: int = 0
    whole: bool = True
    """False: there are more points than ``total``. The budget did not allow finding them all."""
    seed: int | None = None
    """The seed of the sample. None: every point was examined."""
    failures: tuple[SweepFailure, ...] = ()
    repeated: int = 0
    """How many effects and recorded model calls one point repeated, at most."""
    repeated_waiting: int = 0
    """The same for other pure calls, whose results were waiting for a commit."""
    skipped: str | None = None
    """Why this level was not examined at all."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of all levels."""

    name: str
    levels: tuple[Swept, ...]
    effects: tuple[str, ...]
    """What the world sees of the work without a fault."""
    ending: str
    seconds: float
    varies: bool = False
    """The points come in another order every time, because the work has threads."""

    @property
    def failures(self) -> tuple[SweepFailure, ...]:
        return tuple(failure for level in self.levels for failure in level.failures)

    @property
    def examined(self) -> int:
        return sum(level.examined for level in self.levels)

    @property
    def repeated(self) -> int:
        """How many effects and recorded model calls were repeated after a fault, at most."""
        return max((level.repeated for level in self.levels), default=0)

    @property
    def repeated_waiting(self) -> int:
        """The same for other pure calls: all that were made since the last commit."""
        return max((level.repeated_waiting for level in self.levels), default=0)

    def lines(self) -> list[str]:
        """Return the verdict as text, one paragraph per failure."""
        said = [
            f"{self.name}: {self.examined:,} points in {self.seconds:.1f} s, "
            f"{len(self.failures)} with something wrong"
        ]
        said += [f"  {_level_text(level)}" for level in self.levels]
        seen = _effects_text(self.effects)
        said.append(f"  without a crash it {self.ending}, and the world {seen}")
        said.append(f"  checked after every crash and every resume: {len(INVARIANTS)} invariants")
        said.append(f"  calls repeated after a crash: {self._repeated_text()}")
        if self.varies:
            said.append("  its points come in a different order every time, as with threads")
        for failure in self.failures:
            said += ["", *_failure_lines(failure)]
        return said

    def _repeated_text(self) -> str:
        text = f"at most {self.repeated}"
        if self.repeated_waiting:
            text += f", and {self.repeated_waiting} of pure tools whose results waited for a commit"
        return text

    def to_plain(self) -> dict[str, Any]:
        """Return the verdict for programs."""
        return {
            "name": self.name,
            "passed": not self.failures,
            "examined": self.examined,
            "seconds": round(self.seconds, 3),
            "effects": list(self.effects),
            "ending": self.ending,
            "repeated": self.repeated,
            "repeated_waiting": self.repeated_waiting,
            "levels": [dataclasses.asdict(level) for level in self.levels],
        }


def _level_text(level: Swept) -> str:
    if level.skipped is not None:
        return f"{level.level}: skipped, {level.skipped}"
    of = "of" if level.whole else "of more than"
    how_many = f"{level.examined:,} {of} {level.total:,} points"
    sampled = f" (sampled, seed {level.seed})" if level.seed is not None else ""
    failed = f", {len(level.failures)} WRONG" if level.failures else ""
    return f"{level.level}: {how_many}{sampled}, {level.sentence}{failed}"


def _effects_text(effects: tuple[str, ...]) -> str:
    if not effects:
        return "saw no effect at all"
    counted = Counter(effect.partition("(")[0] for effect in effects)
    return "saw " + ", ".join(f"{tool} ×{count}" for tool, count in counted.items())


def _failure_lines(failure: SweepFailure) -> list[str]:
    point = ",".join(map(str, failure.numbers))
    said = [f"{failure.level} {point}: {failure.where}"]
    for violation in failure.violations:
        said.append(
            f"  {violation.promise} {violation.invariant}, {violation.moment}: {violation.text}"
        )
    said.append(f"  again: {failure.reproduce}")
    return said
