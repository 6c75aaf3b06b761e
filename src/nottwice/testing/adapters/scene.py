"""What does a framework do in a test of its adapter? A scripted model, tools, and when to die.

A scene is played in a process of its own by the author's driver, with the real framework. The tools
write each effect to a file that stands for the world, so that effects can be counted after a kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from nottwice.errors import Permanent

Dies = Literal["", "after the effect", "when all have begun", "before the next reply"]


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One call that the scripted model asks for."""

    name: str
    arguments: dict[str, Any]
    id: str
    """The id that the model made up for it. A model that is asked again makes up another one."""


@dataclass(frozen=True, slots=True)
class Driven:
    """What a driver saw."""

    told: list[str] = field(default_factory=list)
    """What the model was told about each call, in the order of the calls."""
    paused: list[str] = field(default_factory=list)
    """The reviews for which the framework paused."""
    stopped: str = ""
    """The error that stopped the framework. Empty: none."""
    schemas: dict[str, Any] = field(default_factory=dict)
    """The JSON schema of each tool's parameters, by name, as the model gets it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One turn of a conversation, to be played from its beginning or continued."""

    folder: Path
    """Where the framework may keep its own state, and where the world is."""
    script: tuple[tuple[ScriptedCall, ...], ...]
    """The replies of the model. Each asks for calls at the same time. After the last one, the model
    is done."""
    thread: str = "ticket-7"
    protected: bool = True
    """False: play it without nottwice, as the control."""
    dies: Dies = ""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What people answered through the framework, by review. True is the framework's own yes;
    continue with it for a pause without an answer, too."""
    is_answered: bool = True
    """False: people do not answer at all. Leave a pause as it is."""
    streams: bool = False
    """Whether to play it through the framework's streaming."""

    @property
    def store(self) -> str:
        """The ledger to use."""
        return str(self.folder / "agent.db")

    @property
    def classes(self) -> dict[str, str]:
        """What a second run of each tool does; pass it to the adapter."""
        return {"read": "pure"}

    @property
    def declared(self) -> dict[str, dict[str, Any]]:
        """The classes with the other words of ``adapters.declare``, if the adapter takes them."""
        unsafe = {"replay": "unsafe_on_replay"}
        return {
            "read": {"replay": "pure"},
            "mail": {**unsafe, "once_per": ["to"]},
            "refund": {**unsafe, "approve": True},
        }

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """The tools, as a user of the framework writes them: plain functions with annotations."""
        every = (self.charge, self.mail, self.pay, self.read, self.refund, self.write)
        return {each.__name__: each for each in every}

    def reply(self, replies: int) -> tuple[ScriptedCall, ...]:
        """Return what the model asks for when the conversation has so many replies of it."""
        if replies and self.dies == "before the next reply":
            self.die()
        return self.script[replies] if replies < len(self.script) else ()

    def charge(self, cents: int) -> dict[str, int]:
        """Charge the card."""
        self._note(f"charge {cents}")
        self._die_after(cents)
        return {"charged": cents}

    def refund(self, cents: int) -> dict[str, int]:
        """Pay back. A person approves it first, if the adapter was told so."""
        self._note(f"refund {cents}")
        self._die_after(cents)
        return {"refunded": cents}

    def mail(self, to: str, text: str) -> str:
        """Send a mail."""
        self._note(f"mail {to}")
        return f"sent: {text}"

    def pay(self, cents: int) -> dict[str, int]:
        """Pay a bill. The first attempt is declined, without effect."""
        tried = self.folder / "tried.txt"
        if not tried.exists():
            tried.touch()
            raise Permanent("card declined")
        self._note(f"pay {cents}")
        return {"paid": cents}

    def read(self) -> str:
        """Read the file."""
        disk = self.folder / "disk.txt"
        return disk.read_text(encoding="utf-8") if disk.exists() else "v0"

    def write(self, text: str) -> str:
        """Write the file."""
        (self.folder / "disk.txt").write_text(text, encoding="utf-8")
        self._note(f"write {text}")
        return "written"

    @property
    def effects(self) -> list[str]:
        """What reached the world, in order."""
        world = self.folder / "world.txt"
        return world.read_text(encoding="utf-8").split("\n")[:-1] if world.exists() else []

    def die(self) -> None:
        """End this process as a crash does. If others must die with it, override it."""
        os.kill(os.getpid(), signal.SIGKILL)

    def _die_after(self, cents: int) -> None:
        if self.dies == "after the effect" and cents == DEADLY_CENTS:
            self.die()
        if self.dies != "when all have begun":
            return
        for _ in range(MOST_LOOKS):
            if len(self.effects) == len(self.script[0]):
                self.die()
            time.sleep(_LOOK_SECONDS)
        print("The calls of one reply are not made at the same time.", file=sys.stderr, flush=True)
        os._exit(1)

    def _note(self, effect: str) -> None:
        with open(self.folder / "world.txt", "a", encoding="utf-8") as world:
            world.write(f"{effect}\n")
            world.flush()
            os.fsync(world.fileno())

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "folder": str(self.folder)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        told = json.loads(text)
        told["script"] = tuple(
            tuple(ScriptedCall(**one) for one in reply) for reply in told["script"]
        )
        return cls(**{**told, "folder": Path(told["folder"])})


DEADLY_CENTS = 7
"""The charge or refund in which a process dies that is to die after the effect."""
MOST_LOOKS = 3000
"""How often a call looks whether the others of its reply have begun."""
_LOOK_SECONDS = 0.01
