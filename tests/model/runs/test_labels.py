"""What may be a tag or a group, and what happens to the ones that a run has already? (P220)"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import InvalidId
from nottwice.model.runs.labels import (
    MOST_TAGS,
    NO_LABELS,
    Labels,
    check_group,
    parse_tag,
    read_labels,
    tag_text,
)


def test_tags_are_sorted_so_that_their_order_means_nothing() -> None:
    read = read_labels({"tier": "gold", "customer": "acme"}, "order-7")
    assert read == Labels((("customer", "acme"), ("tier", "gold")), "order-7")
    assert read_labels({}, None) is NO_LABELS
    assert read_labels(None, None) is NO_LABELS


@pytest.mark.parametrize(
    "tags",
    [
        {"customer": 7},
        {7: "acme"},
        {"customer": None},
        {"": "acme"},
        {"customer": ""},
        {"customer": "a\nb"},
        {"a=b": "c"},
        {"customer": "x" * 2_000},
        [("customer", "acme")],
        "customer=acme",
        {f"t{number}": "x" for number in range(MOST_TAGS + 1)},
    ],
)
def test_what_is_not_short_text_for_short_text_is_refused(tags: Any) -> None:
    with pytest.raises((nt.errors.UsageError, InvalidId), match="Nothing happened"):
        read_labels(tags, None, what="Run 'r'")


def test_given_tags_are_laid_over_the_known_ones_and_nothing_leaves_them() -> None:
    known = read_labels({"customer": "acme", "tier": "gold"}, "order-7")
    assert NO_LABELS.over(known) == known
    over = read_labels({"tier": "lead", "agent": "x"}, None).over(known)
    assert dict(over.tags) == {"customer": "acme", "tier": "lead", "agent": "x"}
    assert over.group == "order-7"


def test_a_run_stays_in_its_group() -> None:
    check_group("r", None, "g")
    check_group("r", "g", None)
    check_group("r", "g", "g")
    with pytest.raises(nt.errors.UsageError, match="stays in its group"):
        check_group("r", "g", "h")


def test_a_tag_is_typed_as_name_and_value() -> None:
    assert parse_tag("customer=acme=2") == ("customer", "acme=2")
    assert tag_text(*parse_tag("customer=acme=2")) == "customer=acme=2"
    with pytest.raises(nt.errors.UsageError, match="NAME=VALUE"):
        parse_tag("customer")
