"""Do runs, graphs and agents read the same words in ``checkpoints=``, and refuse all others?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.saving.cadence import Cadence, read_cadence


def _nothing(state: dict[str, Any]) -> None:
    return None


LAYERS: dict[str, Callable[[Any], Any]] = {
    "run": lambda words: nt.run("r", store=nt.Ledger(":memory:"), checkpoints=words),
    "ledger": lambda words: nt.Ledger(":memory:").run("r", checkpoints=words),
    "graph": lambda words: nt.Graph("g", version="1.0.0", checkpoints=words),
    "phases": lambda words: nt.phases(
        "p", version="1.0.0", phases={"one": [_nothing]}, checkpoints=words
    ),
    "agent": lambda words: nt.Agent(
        "a", version="1.0.0", provider=nt.providers.scripted(["done"]), checkpoints=words
    ),
}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())


@every_layer
@pytest.mark.parametrize(
    "words", ["effects", "every_step", "on_exit", 1, 25, "30s", "10ms", timedelta(minutes=1)]
)
def test_every_layer_takes_the_same_words(make: Callable[[Any], Any], words: Any) -> None:
    assert make(words) is not None


@every_layer
@pytest.mark.parametrize("words", ["often", "every_beat", "", "0s", "30", 0, -1, True, 2.5, []])
def test_every_layer_refuses_other_words_and_lists_those_it_takes(
    make: Callable[[Any], Any], words: Any
) -> None:
    with pytest.raises(
        nt.errors.UsageError, match="Write 'effects', 'every_step', 'on_exit', a number"
    ):
        make(words)


@pytest.mark.parametrize(
    ("words", "means"),
    [
        ("effects", Cadence(waits_seconds=0.1)),
        ("every_step", Cadence(waits_seconds=0.1, steps=1)),
        ("on_exit", Cadence(waits_seconds=None)),
        (5, Cadence(waits_seconds=0.1, steps=5)),
        ("30s", Cadence(waits_seconds=30.0)),
    ],
)
def test_words_say_how_long_something_waits_and_at_which_steps_it_does_not(
    words: Any, means: Cadence
) -> None:
    assert read_cadence(words, what="A run") == means
    assert read_cadence(words, what="A run").is_on_exit is (words == "on_exit")
