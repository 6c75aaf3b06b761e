"""An app with an approval as something that is deployed, changed and deployed again.

Each ``deploy`` imports a copy of `approval_app.py`, with changes, under one and the same name: as
in CI, where the code of the pull request has taken the place of the code that recorded the
checkpoints.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nottwice as nt
from nottwice.guard.registry import forget_tools, remember_tools
from nottwice.model.review import Verb
from nottwice.testing.replay.gate import Result, Terms, replay_folder
from nottwice.testing.replay.recording import Recorded, record
from tests.fakes import Host

MODULE = "deployed_approval"
# A process knows each tool once, and other tests have tools of these names.
_NAMES = {
    "get_order": "example_order",
    "send_email": "example_email",
    "pay_refund": "example_refund",
}
EXAMPLE = Path(__file__).with_name("approval_app.py").read_text(encoding="utf-8")
for _name, _own_name in _NAMES.items():
    EXAMPLE = EXAMPLE.replace(_name, _own_name)


class Deployment:
    """A folder with the code that is deployed, and its ledger."""

    def __init__(self, folder: Path, source: str = EXAMPLE) -> None:
        self.folder = folder
        self.source = source
        self.host = Host()
        self.checkpoints = folder / "checkpoints"
        self._number = 0
        self.module: ModuleType = self.deploy()

    def deploy(self, *changes: tuple[str, str]) -> ModuleType:
        """Import the code with these changes, each of which must change something."""
        source = self.source
        for old, new in changes:
            assert old in source, old
            source = source.replace(old, new)
        self._number += 1
        file = self.folder / f"deployed_{self._number}.py"
        file.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(MODULE, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[MODULE] = module
        # In CI another process runs the new code, which has never heard of the old tools.
        tools = remember_tools().items()
        forget_tools(known={name: one for name, one in tools if one.__module__ != MODULE})
        spec.loader.exec_module(module)
        if hasattr(module, "WORLD"):
            vars(module)["WORLD"] = self.folder / "world.txt"
        self.module = module
        return module

    @property
    def app(self) -> nt.App:
        app = self.module.app
        assert isinstance(app, nt.App)
        return app

    def run(self, graph: str, run_id: str, given: Any = None) -> nt.Outcome[Any]:
        """Advance a run in a process of its own."""
        self.host.clock.advance(1)
        with self.host.process() as ledger:
            return nt.App(graphs=self.app.graphs, store=ledger).run(graph, run_id, given)

    def decide(self, run_id: str, answer: str) -> None:
        """Answer the question that a run waits for."""
        (review,) = [one for one in self.host.open_reviews if one.identity[0] == run_id]
        with self.host.process() as ledger:
            nt.Reviews(ledger).decide(
                review.review_id, Verb.ANSWER.value, by="ann", why="due", result=answer
            )

    def record(self, number: int = 50, **options: Any) -> Recorded:
        with self.host.process() as ledger:
            return record(self.app, ledger.store, self.checkpoints, number=number, **options)

    def replay(self, terms: Terms | None = None) -> list[Result]:
        return replay_folder(self.app, self.checkpoints, terms=terms)


def approvals(folder: Path) -> Deployment:
    """Tickets in every state: completed, rejected, waiting, failed."""
    place = Deployment(folder)
    for number, answer in ((1, "approve"), (2, "reject"), (3, None), (4, "approve")):
        run_id = f"ticket-{number}"
        place.run("approval", run_id, {"order_id": number})
        if answer is not None:
            place.decide(run_id, answer)
            place.run("approval", run_id)
    return place


def causes(results: list[Result]) -> set[str]:
    """What is wrong with those that failed, each by its first cause."""
    return {result.cause.value for result in results if result.cause is not None}
