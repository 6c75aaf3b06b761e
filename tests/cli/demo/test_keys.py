"""Is one key an immediate answer, no key an answer in time, and is the terminal restored?"""

from __future__ import annotations

import os
import select
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nottwice.cli.demo.keys import Keyboard, person_is_there

FAR_AWAY_SECONDS = 60.0


@dataclass(frozen=True)
class Terminal:
    """Both ends: a person's fingers, and what the program reads."""

    person: int
    program: int


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    person, program = os.openpty()
    yield Terminal(person, program)
    os.close(person)
    os.close(program)


def test_a_key_counts_without_enter_and_in_capitals(terminal: Terminal) -> None:
    with Keyboard(terminal.program) as keyboard:
        os.write(terminal.person, b"Y")
        assert keyboard.wait_for("yn", seconds=FAR_AWAY_SECONDS) == "y"


def test_other_keys_are_passed_over(terminal: Terminal) -> None:
    with Keyboard(terminal.program) as keyboard:
        os.write(terminal.person, b"\x1b[Aq\xc3n")
        assert keyboard.wait_for("yn", seconds=FAR_AWAY_SECONDS) == "n"


def test_other_keys_do_not_make_the_wait_longer(terminal: Terminal) -> None:
    over = threading.Event()

    def type_without_end() -> None:
        while not over.wait(0.005):
            os.write(terminal.person, b"q")

    typist = threading.Thread(target=type_without_end)
    # A keyboard that began to wait again with every key would still sit here tomorrow.
    with Keyboard(terminal.program) as keyboard:
        typist.start()
        assert keyboard.wait_for("yn", seconds=0.1) is None
    over.set()
    typist.join()


def test_what_was_typed_before_the_question_is_no_answer(terminal: Terminal) -> None:
    os.write(terminal.person, b"y\n")
    # A key takes a moment to arrive; from here on it waits to be read.
    assert select.select([terminal.program], [], [], FAR_AWAY_SECONDS)[0]
    with Keyboard(terminal.program) as keyboard:
        assert keyboard.wait_for("yn", seconds=0.05) is None


def test_the_terminal_is_as_before_even_after_an_interruption(terminal: Terminal) -> None:
    before = termios.tcgetattr(terminal.program)
    with pytest.raises(KeyboardInterrupt), Keyboard(terminal.program):
        assert termios.tcgetattr(terminal.program) != before
        raise KeyboardInterrupt
    assert termios.tcgetattr(terminal.program) == before


def test_captured_output_means_that_no_person_is_watching() -> None:
    assert not person_is_there()
