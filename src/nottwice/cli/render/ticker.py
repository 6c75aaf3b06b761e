"""How does a long command show how far it is? One line on stderr every second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nottwice.cli.render.output import show_progress
from nottwice.engine.clock import Clock

PROGRESS_SECONDS = 1.0


class Ticker:
    """Shows the text for the latest figures, at most once a second."""

    def __init__(self, clock: Clock, text: Callable[..., str]) -> None:
        self._clock = clock
        self._text = text
        self._shown_at = clock.now()

    def __call__(self, *figures: Any) -> None:
        now = self._clock.now()
        if now - self._shown_at >= PROGRESS_SECONDS:
            self._shown_at = now
            show_progress(self._text(*figures))
