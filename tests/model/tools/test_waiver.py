"""Does a waiver count only with a reason, and only as a comment? (P166)"""

from __future__ import annotations

import pytest

from nottwice.model.tools.waiver import read_waivers


@pytest.mark.parametrize(
    "comment",
    [
        "# nottwice: no effect, a search that needs a body",
        "#nottwice: no effect: it asks the sandbox",
        "# Nottwice:  No effect,  it only reads",
    ],
)
def test_a_waiver_with_a_reason_counts_for_its_line(comment: str) -> None:
    waivers = read_waivers(f"x = 1\npost()  {comment}\ny = 2\n")
    assert waivers.lines == {2}
    assert waivers.refused == ()
    assert waivers.cover(1, 2)
    assert not waivers.cover(3, 9)


@pytest.mark.parametrize(
    "comment",
    [
        "# nottwice: no effect",
        "# nottwice: no effect,",
        "# nottwice: no effect, -",
        "# nottwice: no effect, <why>",
        "# nottwice: noqa",
        "# nottwice:",
    ],
)
def test_without_a_reason_it_is_refused(comment: str) -> None:
    waivers = read_waivers(f"post()  {comment}\n")
    assert not waivers.lines
    assert waivers.refused == ((1, comment),)


@pytest.mark.parametrize(
    "line",
    [
        "text = '# nottwice: no effect, it only reads'",
        "# nottwice records every call",
        "# see nottwice: no effect, it only reads",
    ],
)
def test_texts_and_other_comments_are_not_meant(line: str) -> None:
    waivers = read_waivers(f"{line}\n")
    assert not waivers.lines
    assert not waivers.refused


def test_what_is_not_python_has_the_waivers_before_it_breaks() -> None:
    assert read_waivers("a()  # nottwice: no effect, it reads\n'''").lines == {1}
