"""How does a form become a decision? By the same functions as ``nottwice decide``.

One form is one decision: it carries the version that was shown, and if it is sent again, it is the
same decision. Promises kept here: P321, P323.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nottwice.errors import NottwiceError, UsageError
from nottwice.guard import registry
from nottwice.guard.ledger import Ledger
from nottwice.model.asking.asked import UNDO
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review, Verb
from nottwice.reviews import decide as decisions
from nottwice.reviews.queue import find_case
from nottwice.views.people.choices import result_form
from nottwice.views.people.forms import FormView, read_form
from nottwice.views.people.inbox import in_bulk
from nottwice.views.people.reviews import CaseView, look_at

RESULT = "result"
MOST_AT_ONCE = 200


@frozen_record(frozen=True, slots=True)
class BulkOutcome:
    """What became of one decision of several."""

    review_id: str
    error: str | None
    """Why it was not recorded; None: it was."""


def record(ledger: Ledger, review_id: str, form: Mapping[str, Any], *, by: str) -> Review:
    """Record what a form says about a review.

    Durable: when it returns. Raises DecisionConflict if another person was first.
    """
    store, clock = ledger.store, ledger.clock
    case = look_at(ledger, review_id)
    review_id = case.review.review_id
    verb, why = str(form.get("verb", "")), str(form.get("why", "")).strip()
    shown = _shown_version(form)
    if verb == UNDO:
        return decisions.undo(store, clock, review_id, by=by, why=why, shown_version=shown)
    if not verb:
        raise UsageError("Nothing was chosen, and nothing was recorded. Choose what happened.")
    meant, result = decisions.read_verb(find_case(store, review_id).review, verb)
    has_result = result is not None
    if not has_result and (meant is Verb.HAPPENED or meant.answers):
        result, has_result = _result(case, form), True
    tool = registry.find_tool(case.review.tool)
    if meant is Verb.HAPPENED and tool is None:
        decisions.check_schema(case.review.result_schema, result)
    return decisions.decide(
        store,
        clock,
        review_id,
        meant,
        by=by,
        why=why,
        result=result,
        has_result=has_result,
        holder_stopped=form.get("holder_stopped") in ("yes", True),
        tool=tool,
        shown_version=shown,
    )


def record_several(
    ledger: Ledger, chosen: list[str], verb: str, *, by: str, why: str
) -> list[BulkOutcome]:
    """Approve or reject several calls, each as a decision of its own. A doubt is refused.

    ``chosen``: the id and the shown version of each, as ``id:version``.
    """
    if verb not in (Verb.APPROVE.value, Verb.REJECT.value):
        raise UsageError("Only approvals can be decided together. Nothing was recorded.")
    if not chosen or len(chosen) > MOST_AT_ONCE:
        raise UsageError(f"Choose 1 to {MOST_AT_ONCE} approvals. Nothing was recorded.")
    outcomes: list[BulkOutcome] = []
    for one in chosen:
        review_id, _, version = one.partition(":")
        form = {"verb": verb, "why": why, "shown_version": version}
        try:
            # A decided one is no longer open, and may be this very form, sent again.
            case = look_at(ledger, review_id)
            if case.review.is_open and not in_bulk(case.review):
                raise UsageError(f"Review {review_id} is not an approval: decide it by itself.")
            record(ledger, review_id, form, by=by)
            outcomes.append(BulkOutcome(review_id, None))
        except NottwiceError as error:
            outcomes.append(BulkOutcome(review_id, str(error)))
    return outcomes


def _shown_version(form: Mapping[str, Any]) -> int:
    """The version that the form was made for. Every form has one."""
    try:
        return int(form["shown_version"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            "The form does not say which version of the review was shown. Nothing was recorded. "
            "Reload the page and decide again."
        ) from None


def _result(case: CaseView, form: Mapping[str, Any]) -> Any:
    """The result or the answer: given as data by a program, or as the fields of the page's form."""
    if RESULT in form:
        return form[RESULT]
    wanted: FormView = result_form(case)
    given = {
        field.name: str(form.get(f"{RESULT}.{number}", ""))
        for number, field in enumerate(wanted.fields)
    }
    return read_form(wanted, given, as_json=str(form.get(f"{RESULT}.json", "")))
