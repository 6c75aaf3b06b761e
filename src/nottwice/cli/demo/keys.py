"""How does a command wait for a single key, without Enter and with a time limit?"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty


def person_is_there() -> bool:
    """Whether a person can read what is printed and press a key."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class Keyboard:
    """The terminal's keys, one by one, for the length of a block. Ctrl-C still interrupts."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> Keyboard:
        self._before = termios.tcgetattr(self._descriptor)
        # What was typed before the question was asked is not an answer to it, and is dropped.
        tty.setcbreak(self._descriptor, termios.TCSAFLUSH)
        return self

    def __exit__(self, *raised: object) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def wait_for(self, keys: str, *, seconds: float) -> str | None:
        """The first of these keys that is pressed in time; other keys are passed over."""
        give_up_at = time.monotonic() + seconds
        while (left := give_up_at - time.monotonic()) > 0:
            ready, _, _ = select.select([self._descriptor], [], [], left)
            if not ready:
                return None
            pressed = os.read(self._descriptor, 1).decode(errors="replace").lower()
            if not pressed:
                # The terminal is gone; there will be no answer.
                return None
            if pressed in keys:
                return pressed
        return None
