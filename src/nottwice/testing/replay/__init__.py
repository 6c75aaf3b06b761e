"""The replay gate: record checkpoints of a ledger, and resume them with changed code in CI.

How the files belong together, from the inside to the outside:

- ``fixture``: one recorded checkpoint as a file.
- ``visits``: which visit of a node something in a record belongs to.
- ``plain``: runs without a graph, which a function resumes.
- ``runner``: resumes a checkpoint through the engine without calling anything, and takes notes.
- ``problems``, ``judging``: how a replay and its record differ, and the names for it.
- ``gate``: which graph takes a checkpoint, and with what result. ``report`` shows it to people.
- ``choosing``: which checkpoints of a ledger to keep.
- ``pseudonyms``, ``disguise``, ``learning``: no secret leaves the ledger, and all still matches.
- ``recording``: combines these and writes to a folder.
"""

from __future__ import annotations

from nottwice.testing.replay.fixture import Fixture, InvalidFixture
from nottwice.testing.replay.gate import Result, Terms, replay, replay_file, replay_folder
from nottwice.testing.replay.problems import Cause, Problem
from nottwice.testing.replay.recording import LeftOut, Recorded, record

__all__ = [
    "Cause",
    "Fixture",
    "InvalidFixture",
    "LeftOut",
    "Problem",
    "Recorded",
    "Result",
    "Terms",
    "record",
    "replay",
    "replay_file",
    "replay_folder",
]
