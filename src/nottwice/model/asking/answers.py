"""What does an answer look like that comes through a framework? One shape everywhere (P245).

``{"nottwice": {"review": …, "answer": …, "result": …, "by": …, "why": …}}``. It names the review it
is for, so a yes to something else never answers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Verb

MARK: Final = "nottwice"
_FIELDS = ("review", "answer", "result", "by", "why")
_WORDS = {
    verb.value: verb
    for verb in (
        Verb.HAPPENED,
        Verb.DID_NOT_HAPPEN,
        Verb.ABORT,
        Verb.APPROVE,
        Verb.REJECT,
        Verb.ACCEPT,
        Verb.ANSWER,
    )
}


@frozen_record(frozen=True, slots=True)
class GivenAnswer:
    """An answer of a person to one review."""

    review_id: str
    verb: Verb
    by: str
    why: str = ""
    result: Any = None
    has_result: bool = False

    def payload(self) -> dict[str, Any]:
        """Return the answer as plain data, to be sent through a framework."""
        told: dict[str, Any] = {"review": self.review_id, "answer": self.verb.value}
        if self.has_result:
            told["result"] = self.result
        return {MARK: {**told, "by": self.by, "why": self.why}}


def read_answer(given: object) -> GivenAnswer | None:
    """Read what came back through a framework. None: it is no answer of this shape.

    Raises UsageError if it has the mark and is malformed: then a person meant something.
    """
    if not isinstance(given, Mapping) or MARK not in given:
        return None
    told = given[MARK]
    if not isinstance(told, Mapping):
        raise _malformed(f"{MARK!r} is {type(told).__name__}, and not an object")
    unknown = [str(name) for name in told if name not in _FIELDS]
    if unknown:
        raise _malformed(f"it has {unknown[0]!r}")
    texts = {name: told.get(name, "") for name in ("review", "answer", "by", "why")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise _malformed(f"{name!r} is {type(text).__name__}, and not text")
    if not texts["review"]:
        raise _malformed("it does not name its review")
    if texts["answer"] not in _WORDS:
        raise _malformed(f"{texts['answer']!r} is not one of: {', '.join(_WORDS)}")
    return GivenAnswer(
        texts["review"],
        _WORDS[texts["answer"]],
        by=texts["by"],
        why=texts["why"],
        result=told.get("result"),
        has_result="result" in told,
    )


def _malformed(what: str) -> UsageError:
    return UsageError(
        f"The answer is malformed: {what}. Nothing was decided. Make it with "
        "nt.happened(result).payload(review_id, by=..., why=...), nt.did_not_happen().payload(...) "
        "or nt.adapters.abort(...)."
    )
