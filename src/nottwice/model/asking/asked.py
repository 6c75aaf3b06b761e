"""What a person is shown when a run asks first: a question, or a call that needs approval.

It is stored with the review as JSON, so that deciding needs none of the code that asked. The
person decides about exactly what is shown: a question's identity covers all of it (H3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nottwice.errors import UsageError
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import checked, not_believed
from nottwice.model.review import VERBS, Review, ReviewKind, Verb

UNDO = "undo"
RESERVED = frozenset({*(verb.value for verb in Verb), UNDO, "later"})
"""Words of the command line. An option with such a name would be ambiguous."""
_OWN_WORDS = frozenset({Verb.APPROVE.value, Verb.REJECT.value, Verb.ACCEPT.value, Verb.RAISE.value})
"""Verbs that questions do not have, so an option may use these words."""
SIMPLE_TYPES = ("str", "int", "float", "bool")


@frozen_record(frozen=True, slots=True)
class Question:
    """A question in the user's words, and what counts as an answer."""

    text: str
    options: tuple[str, ...] = ()
    """If there are options, one of them is the answer."""
    about: Any = None
    """Plain data that helps the person to answer."""
    answer_type: str = "str"
    """The expected type, as a person would write it."""
    schema: Any = None
    """The JSON schema of that type, if its name does not say enough."""
    kind: ReviewKind = ReviewKind.QUESTION
    """The kind of review that asks it: a question, or a budget."""

    @property
    def verb(self) -> Verb:
        """The verb that answers it."""
        return Verb.RAISE if self.kind is ReviewKind.BUDGET else Verb.ANSWER

    def to_json(self) -> str:
        return values.encode(
            {
                "question": self.text,
                "options": list(self.options),
                "about": self.about,
                "answer_type": self.answer_type,
                "schema": self.schema,
            }
        )


@frozen_record(frozen=True, slots=True)
class WantedCall:
    """A call that is not made until a person has approved it."""

    tool: str
    args: dict[str, Any]
    replay_class: str
    lasts_seconds: float | None = None
    """How long an approval is valid. None: until it is used."""

    def to_json(self) -> str:
        return values.encode(
            {
                "tool": self.tool,
                "args": self.args,
                "replay_class": self.replay_class,
                "lasts_seconds": self.lasts_seconds,
            }
        )


def shown_in(review: Review) -> Question | WantedCall | None:
    """Return what a review shows to a person. None for reviews of doubts."""
    if review.about is None:
        return None
    plain = values.decode(review.about)
    with not_believed(f"What review {review.review_id} shows"):
        if review.kind in (ReviewKind.QUESTION, ReviewKind.BUDGET):
            question = Question(
                text=plain["question"],
                options=tuple(plain["options"]),
                about=plain["about"],
                answer_type=plain["answer_type"],
                schema=plain["schema"],
                kind=review.kind,
            )
            return checked(question)
        if review.kind is ReviewKind.APPROVAL:
            wanted = WantedCall(
                tool=plain["tool"],
                args=plain["args"],
                replay_class=plain["replay_class"],
                lasts_seconds=plain["lasts_seconds"],
            )
            return checked(wanted)
    return None


def options_of(review: Review) -> tuple[str, ...]:
    """Return the answers that a question offers. Empty if any answer of its type will do."""
    shown = shown_in(review)
    return shown.options if isinstance(shown, Question) else ()


def words_of(review: Review) -> dict[str, str]:
    """Return what a person can say about a review, each word with its meaning."""
    options = options_of(review)
    words = dict.fromkeys(options, VERBS[ReviewKind.QUESTION][Verb.ANSWER])
    for verb, meaning in VERBS[review.kind].items():
        if not (options and verb is Verb.ANSWER):
            words[verb.value] = meaning
    return words


def check_options(options: Sequence[str] | None) -> tuple[str, ...]:
    """Check options that can be shown and typed. Raises UsageError before a person is asked."""
    if options is None:
        return ()
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise UsageError(
            f"options={options!r} is not a list of answers. No question was asked. Write "
            "options=['approve', 'reject']."
        )
    checked = tuple(check_id(option, what="An option") for option in options)
    if not checked or len(set(checked)) != len(checked):
        raise UsageError(
            f"options={list(options)!r} is empty or repeats an answer. No question was asked. "
            "Leave options out if any answer will do."
        )
    for option in checked:
        if option in RESERVED - _OWN_WORDS or option.startswith("-"):
            raise UsageError(
                f"The option {option!r} means something else to `nottwice decide`. No question "
                "was asked. Use another word for it."
            )
    return checked
