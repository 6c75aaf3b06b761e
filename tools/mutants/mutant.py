"""What a mutant is: one small edit that breaks one guard, and the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = "src/nottwice"
SUITE = f"{SOURCE}/testing/conformance"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One edit of one file. ``old`` must occur in it exactly once."""

    name: str
    """What is broken, as a sentence that is true of the broken code."""
    file: str
    """Below ``src/nottwice``."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Node ids for pytest; at least one of them must fail."""
    why: str
    """What it would cost: the reason why a test must notice."""

    @property
    def path(self) -> str:
        return f"{SOURCE}/{self.file}"

    def applied(self, text: str) -> str:
        """The text of the file with the edit."""
        return text.replace(self.old, self.new, 1)

    def flaws(self, root: Path = ROOT) -> list[str]:
        """Why this mutant proves nothing any more; empty if it can be run."""
        path = root / self.path
        if not path.is_file():
            return [f"{self.name}: there is no file {self.path}"]
        found = path.read_text(encoding="utf-8").count(self.old)
        flaws = []
        if found != 1:
            flaws.append(f"{self.name}: its old text occurs {found} times in {self.path}, not once")
        if self.old == self.new:
            flaws.append(f"{self.name}: it changes nothing")
        if not self.tests:
            flaws.append(f"{self.name}: it names no test")
        return [*flaws, *(flaw for test in self.tests for flaw in _missing(root, self, test))]


def _missing(root: Path, mutant: Mutant, test: str) -> list[str]:
    file, *classes, name = test.split("::") if "::" in test else (test, "")
    function = name.partition("[")[0]
    places = [root / file]
    if classes:
        # A store inherits what it is tested by from the suite for all stores.
        places += (root / SUITE).glob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in places if path.is_file())
    wanted = [f"def {function}(", *(f"class {name}(" for name in classes)]
    if any(one not in text for one in wanted):
        return [f"{mutant.name}: there is no test {test}"]
    return []
