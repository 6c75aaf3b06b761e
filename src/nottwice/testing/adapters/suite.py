"""The claims that an adapter must keep, each with the real framework and a real kill (P250).

Derive a class from ``AdapterConformance``, name your driver, and let pytest collect it. pytest is
not needed: each claim is a method.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import nottwice as nt
from nottwice.adapters import REPEAT
from nottwice.testing.adapters.scene import DEADLY_CENTS, Dies, Driven, Scene, ScriptedCall

LIMIT_SECONDS = 180.0
CHARGE = ("charge", {"cents": DEADLY_CENTS})
REFUND = ("refund", {"cents": DEADLY_CENTS})
Call = tuple[str, dict[str, Any]]
_OPTIONAL = {
    "repeats": ("test_a_deliberate_repeat_is_made",),
    "declares": (
        "test_an_effect_that_is_asked_for_in_other_words_is_made_once",
        "test_an_approved_effect_whose_process_was_killed_is_not_made_again",
    ),
    "streams": ("test_an_effect_that_was_killed_in_a_stream_is_not_made_again",),
    "shows_schemas": ("test_the_schemas_of_the_tools_are_unchanged",),
}
"""The claims about what only some adapters have."""


class AdapterFailed(AssertionError):
    """A claim that the adapter does not keep, or a driver that did not work."""


class AdapterConformance:
    """All claims. Set ``driver``, and say what your framework and its adapter can do."""

    driver: ClassVar[str]
    """``module:function``. The function plays a ``Scene`` with the framework and returns
    ``Driven``."""
    repeats: ClassVar[bool] = False
    """Whether the adapter adds the parameter ``nottwice_repeat`` to its tools."""
    declares: ClassVar[bool] = False
    """Whether the driver passes ``scene.declared`` to the adapter: ``once_per`` and ``approve``."""
    streams: ClassVar[bool] = False
    """Whether the driver can play a scene through the framework's streaming."""
    shows_schemas: ClassVar[bool] = False
    """Whether the driver returns the schemas of the tools."""
    parallel: ClassVar[bool] = True
    """Whether the framework makes the calls of one reply at the same time."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for ability, claims in _OPTIONAL.items():
            for claim in claims:
                if not getattr(cls, ability):
                    # pytest does not collect it: what was not checked must not count as kept.
                    setattr(cls, claim, None)
                elif getattr(cls, claim) is None:
                    setattr(cls, claim, getattr(AdapterConformance, claim))

    def setup_method(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nottwice-adapter-"))
        self._ids = itertools.count()

    def teardown_method(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # The claims

    def test_the_bare_framework_makes_the_effect_twice(self) -> None:
        """The control: without it, one effect in the other claims proves nothing."""
        self.play([CHARGE], dies="after the effect", protected=False)
        self.play([CHARGE], protected=False)
        self.expect(self.effects, ["charge 7", "charge 7"], "The effects of the bare framework")

    def test_an_effect_whose_process_was_killed_is_not_made_again(self) -> None:
        review = self.doubt()
        again = self.play([CHARGE])
        self.expect(again.paused, [review], "The review, when it is asked for once more")
        self.expect(self.effects, ["charge 7"], "The effects")

    def test_a_receipt_that_the_framework_did_not_save_answers_the_same_call(self) -> None:
        """The model asks again under another id: the id is no part of the call."""
        self.play([CHARGE], dies="before the next reply")
        again = self.play([CHARGE])
        self.expect((again.paused, len(again.told)), ([], 1), "Pauses, and results told")
        self.expect_in("7", again.told[0], "The result that the model is told")
        self.expect(self.effects, ["charge 7"], "The effects")

    def test_what_was_decided_in_the_inbox_is_used_without_an_answer(self) -> None:
        review = self.doubt()
        with nt.Reviews(self.scene([]).store) as inbox:
            inbox.decide(review, "happened", by="ann", why="saw it", result={"charged": 1234})
        again = self.play([CHARGE])
        self.expect(again.paused, [], "Pauses")
        self.expect_in("1234", again.told[0], "The result that the model is told")
        self.expect(self.effects, ["charge 7"], "The effects")

    def test_the_yes_of_the_framework_does_not_decide_a_doubt(self) -> None:
        review = self.doubt()
        again = self.play([CHARGE], answers={review: True})
        self.expect(again.paused, [review], "The review, after a yes")
        self.expect(self.effects, ["charge 7"], "The effects")

    def test_an_answer_through_the_framework_becomes_the_receipt(self) -> None:
        review = self.doubt()
        seen = nt.happened({"charged": 1234}).payload(review, by="ann", why="saw it")
        again = self.play([CHARGE], answers={review: seen})
        self.expect(again.paused, [], "Pauses")
        self.expect_in("1234", again.told[0], "The result that the model is told")
        self.expect(self.effects, ["charge 7"], "The effects")

    def test_what_did_not_happen_is_made_exactly_once_more(self) -> None:
        review = self.doubt()
        missing = nt.did_not_happen().payload(review, by="ann", why="not there")
        for _ in range(2):
            again = self.play([CHARGE], answers={review: missing})
            self.expect(again.paused, [], "Pauses")
        self.expect(self.effects, ["charge 7", "charge 7"], "The effects, with the one in doubt")

    def test_of_parallel_calls_each_is_made_once_and_answered_by_itself(self) -> None:
        calls: list[Call] = [("charge", {"cents": cents}) for cents in (5, 6, DEADLY_CENTS)]
        self.play(calls, dies="when all have begun" if self.parallel else "after the effect")
        answers: dict[str, Any] = {}
        for _ in range(len(calls) + 1):
            again = self.play(calls, answers=answers)
            if not again.paused:
                break
            # The last one first: an answer is for its own call, in whatever order they come.
            review = again.paused[-1]
            answers[review] = self.truth_about(review)
        self.expect(again.paused, [], "Pauses, after every review was answered")
        doubts = len(calls) if self.parallel else 1
        self.expect(len(answers), doubts, "The number of calls in doubt")
        made = sorted(self.effects)
        self.expect(made, ["charge 5", "charge 6", "charge 7"], "The effects")

    def test_a_failure_without_effect_is_told_and_can_be_tried_again(self) -> None:
        pay: Call = ("pay", {"cents": 3})
        seen = self.play(pay, pay)
        self.expect_in("card declined", seen.told[0], "What the model is told of the failure")
        self.expect_in("3", seen.told[1], "What the model is told of the second attempt")
        self.expect(self.effects, ["pay 3"], "The effects")

    def test_a_read_after_a_write_returns_the_new_value(self) -> None:
        read: Call = ("read", {})
        seen = self.play(read, ("write", {"text": "v1"}), read, ("write", {"text": "v2"}), read)
        self.expect_in("v0", seen.told[0], "The first read")
        self.expect_in("v1", seen.told[2], "The read after the first write")
        self.expect_in("v2", seen.told[4], "The read after the second write")

    def test_what_a_model_is_told_of_a_doubt_has_no_command(self) -> None:
        self.doubt()
        for text in self.play([CHARGE]).told:
            if "nottwice decide" in text or "--store" in text:
                raise AdapterFailed(f"The model is told a command that decides: {text}")

    def test_a_deliberate_repeat_is_made(self) -> None:
        again: Call = ("charge", {"cents": 5, REPEAT: "a second parcel"})
        self.play(("charge", {"cents": 5}), again)
        self.expect(self.effects, ["charge 5", "charge 5"], "The effects")

    def test_an_effect_that_is_asked_for_in_other_words_is_made_once(self) -> None:
        """``once_per`` names what identifies the effect: the text of a mail does not."""
        self.play(("mail", {"to": "ann", "text": "Hello"}), dies="before the next reply")
        again: Call = ("mail", {"to": "ann", "text": "Dear Ann"})
        seen = self.play(again, again)
        self.expect_in("Hello", seen.told[-1], "The result that the model is told")
        self.expect(self.effects, ["mail ann"], "The effects")

    def test_an_approved_effect_whose_process_was_killed_is_not_made_again(self) -> None:
        asked = self.play([REFUND], is_answered=False).paused
        self.expect((len(asked), self.effects), (1, []), "Pauses for an approval, and effects")
        # For an approval, the yes of the framework is enough.
        self.play([REFUND], answers={asked[0]: True}, dies="after the effect")
        doubt = self.play([REFUND]).paused
        self.expect((len(doubt), doubt == asked), (1, False), "Pauses, and whether as before")
        self.expect(self.effects, ["refund 7"], "The effects")

    def test_an_effect_that_was_killed_in_a_stream_is_not_made_again(self) -> None:
        self.play([CHARGE], dies="after the effect", streams=True)
        paused = self.play([CHARGE], streams=True).paused
        self.expect(len(paused), 1, "The number of pauses after a kill")
        seen = nt.happened({"charged": 1234}).payload(paused[0], by="ann", why="saw it")
        again = self.play([CHARGE], streams=True, answers={paused[0]: seen})
        self.expect(again.paused, [], "Pauses")
        self.expect_in("1234", again.told[0], "The result that the model is told")
        self.expect(self.effects, ["charge 7"], "The effects")

    def test_the_schemas_of_the_tools_are_unchanged(self) -> None:
        bare = self.play(("read", {}), protected=False).schemas
        shown = self.play(("read", {})).schemas
        self.expect(sorted(bare), sorted(self.scene([]).tools), "The tools with a schema")
        if self.repeats:
            for schema in shown.values():
                schema["properties"].pop(REPEAT, None)
        self.expect(shown, bare, "The schemas, without the parameter for a repeat")

    # What the claims are made of

    def doubt(self) -> str:
        """Kill the process after its effect, and return the review that the next one pauses for."""
        self.play([CHARGE], dies="after the effect")
        seen = self.play([CHARGE])
        self.expect(len(seen.paused), 1, "The number of pauses after a kill")
        return seen.paused[0]

    def truth_about(self, review_id: str) -> dict[str, Any]:
        """Answer a review as a person who looks at the world does."""
        with nt.Reviews(self.scene([]).store) as inbox:
            row = inbox.find(review_id).row
        cents = None if row is None else json.loads(row.args_json).get("cents")
        if f"charge {cents}" in self.effects:
            return nt.happened({"charged": cents}).payload(review_id, by="ann", why="saw it")
        return nt.did_not_happen().payload(review_id, by="ann", why="not there")

    @property
    def effects(self) -> list[str]:
        """What reached the world."""
        return self.scene([]).effects

    def scene(self, replies: list[list[Call]], **options: Any) -> Scene:
        """Return a scene; the model makes up a new id for every call."""
        script = tuple(
            tuple(ScriptedCall(name, told, f"call_{next(self._ids)}") for name, told in reply)
            for reply in replies
        )
        return Scene(folder=self.folder, script=script, **options)

    def play(
        self,
        *replies: Call | list[Call],
        dies: Dies = "",
        protected: bool = True,
        answers: dict[str, Any] | None = None,
        is_answered: bool = True,
        streams: bool = False,
    ) -> Driven:
        """Play a scene in a process of its own. Each reply is a call, or calls at the same time."""
        scene = self.scene(
            [one if isinstance(one, list) else [one] for one in replies],
            dies=dies,
            protected=protected,
            answers=answers or {},
            is_answered=is_answered,
            streams=streams,
        )
        ran = self.process(scene)
        wanted = -signal.SIGKILL if dies else 0
        if ran.returncode != wanted:
            raise AdapterFailed(
                f"The driver ended with {ran.returncode}, not {wanted}:\n{ran.stdout}\n{ran.stderr}"
            )
        if dies:
            return Driven()
        seen = Driven(**json.loads(ran.stdout.splitlines()[-1]))
        if seen.stopped:
            raise AdapterFailed(f"The framework was stopped: {seen.stopped}")
        return seen

    def process(self, scene: Scene) -> subprocess.CompletedProcess[str]:
        """Play a scene in a process of its own, and wait for its end.

        If importing the framework takes long, override it and fork from a process that has done so.
        """
        paths = os.pathsep.join(filter(None, sys.path))
        return subprocess.run(
            [sys.executable, "-m", "nottwice.testing.adapters.child", self.driver],
            input=scene.to_json(),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            env={**os.environ, "PYTHONPATH": paths},
        )

    def expect(self, found: object, wanted: object, what: str) -> None:
        """Raise AdapterFailed if the two differ."""
        if found != wanted:
            raise AdapterFailed(f"{what}: {found!r}, and it should be {wanted!r}")

    def expect_in(self, wanted: str, text: str, what: str) -> None:
        """Raise AdapterFailed if the text does not contain it."""
        if wanted not in text:
            raise AdapterFailed(f"{what}: {text!r}, and it should contain {wanted!r}")
