"""Does the cache of the fake know the beginnings that were sent, and nothing else?"""

from __future__ import annotations

import pytest

from nottwice.testing.models.wire import PrefixCache, Segment, Tokens, canonical, count_tokens


def prompt(*words: str, marked: tuple[int, ...] = ()) -> list[Segment]:
    return [Segment(word, 100, number in marked) for number, word in enumerate(words)]


def test_what_is_marked_is_written_once_and_read_from_then_on() -> None:
    cache = PrefixCache()
    first = prompt("a", "b", "c", marked=(1,))
    assert cache.marked("m", first, 100) == Tokens(100, 0, 0, 200)
    assert cache.marked("m", first, 100) == Tokens(100, 0, 200, 0)
    longer = prompt("a", "b", "c", "d", marked=(3,))
    assert cache.marked("m", longer, 100) == Tokens(0, 0, 200, 200)
    assert cache.marked("other", longer, 100) == Tokens(0, 0, 0, 400)


def test_a_beginning_is_not_found_past_twenty_blocks() -> None:
    cache = PrefixCache()
    words = [str(number) for number in range(60)]
    cache.marked("m", prompt(*words[:5], marked=(4,)), 100)
    assert cache.marked("m", prompt(*words[:24], marked=(23,)), 100).cache_read == 500
    cache.marked("n", prompt(*words[:5], marked=(4,)), 100)
    assert cache.marked("n", prompt(*words[:26], marked=(25,)), 100).cache_read == 0


def test_a_prompt_that_is_too_short_is_not_cached() -> None:
    cache = PrefixCache()
    for _ in range(2):
        assert cache.marked("m", prompt("a", "b", marked=(1,)), 201) == Tokens(200, 0, 0, 0)
        assert cache.automatic("m", prompt("a", "b"), 201) == Tokens(200, 0, 0, 0)


def test_the_other_api_reads_the_longest_common_beginning_in_steps() -> None:
    cache = PrefixCache()
    assert cache.automatic("m", prompt("a", "b", "c"), 100) == Tokens(300, 0, 0, 0)
    assert cache.automatic("m", prompt("a", "b", "x"), 100) == Tokens(300 - 128, 0, 128, 0)


@pytest.mark.parametrize("kind", ["image", "document", "input_image", "input_file"])
def test_a_file_counts_a_fixed_sum_and_not_its_bytes(kind: str) -> None:
    assert count_tokens({"type": kind, "data": "x" * 100_000}) <= 3000
    held = {"type": "tool_result", "content": [{"type": kind, "data": "x" * 100_000}]}
    assert count_tokens(held) <= 3002


def test_marks_do_not_change_what_is_sent() -> None:
    assert canonical([{"b": 1, "a": 2, "cache_control": {}}]) == '[{"a": 2, "b": 1}]'
