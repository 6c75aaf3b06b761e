"""Mutants of the operator's page: who may look, who may decide, what a browser runs of it."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_SAFETY = "tests/web/test_safety.py"
_VISITORS = "tests/web/test_visitors.py"
_REVIEW = "tests/web/test_review.py"
_INBOX = "tests/web/test_inbox.py"
_ACTIONS = "tests/web/test_actions.py"
_RENDERING = "tests/web/test_rendering.py"
_SEVERAL = "tests/web/test_several.py"

_DOORS: tuple[Mutant, ...] = (
    Mutant(
        name="any token is a token",
        file="web/visitors.py",
        old='if hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode()):\n',
        new="if True:\n",
        tests=(f"{_SAFETY}::test_a_stranger_sees_nothing_but_the_style",),
        why="Every process of the machine could read arguments and decide.",
    ),
    Mutant(
        name="a script can read the cookie",
        file="web/safety.py",
        old="            httponly=True,\n",
        new="            httponly=False,\n",
        tests=(f"{_SAFETY}::test_the_token_of_the_link_becomes_a_cookie_and_leaves_the_address",),
        why="Whatever gets into a page could take the right to decide with it.",
    ),
    Mutant(
        name="behind a proxy, a form of another site is taken for a program",
        file="web/visitors.py",
        old='and kind == "application/json" and not names_its_site\n',
        new="and not names_its_site\n",
        tests=(
            f"{_VISITORS}::test_behind_a_proxy_a_program_decides_and_a_browser_does_not_do_it"
            "_for_another_site",
        ),
        why="A form in a page of another site could decide.",
    ),
    Mutant(
        name="the page answers to any name",
        file="web/safety.py",
        old="        if self._hosts is not None and request",
        new="        if False and request",
        tests=(f"{_SAFETY}::test_the_page_answers_to_its_own_names_only",),
        why="A web site could point its own name at this machine, and read the page.",
    ),
    Mutant(
        name="a form of another site counts",
        file="web/safety.py",
        old="        if not visitor.is_program and not _is_from_here(request):\n",
        new="        if False:\n",
        tests=(f"{_SAFETY}::test_a_form_of_another_site_is_refused",),
        why="A web site that an operator visits could decide in their name.",
    ),
    Mutant(
        name="a form needs no secret",
        file="web/safety.py",
        old="        if not visitor.is_program and not hmac.compare_digest(\n",
        new="        if False and not hmac.compare_digest(\n",
        tests=(f"{_SAFETY}::test_a_form_without_the_secret_of_the_page_is_refused",),
        why="A web site that an operator visits could decide in their name.",
    ),
    Mutant(
        name="the secret of a form is the same for all people",
        file="web/safety.py",
        old='f"csrf {visitor.name}".encode()',
        new='b"csrf"',
        tests=(f"{_SAFETY}::test_the_secret_of_a_form_belongs_to_one_person",),
        why="One person could make another one send a form.",
    ),
    Mutant(
        name="a port is open to the network",
        file="web/serving.py",
        old="    if not _is_loopback(wanted.address) and wanted.user_header is None:\n",
        new="    if False:\n",
        tests=("tests/web/test_serving.py::test_a_port_is_never_open_to_a_network_by_accident",),
        why="The link and every argument would cross a network in the clear.",
    ),
    Mutant(
        name="a name is believed without the proxy's token",
        file="web/visitors.py",
        old="        if may_decide is None:\n            return None\n",
        new="",
        tests=(f"{_VISITORS}::test_the_name_of_a_person_is_believed_only_from_the_proxy",),
        why="Anyone who reaches the port could look under any name.",
    ),
    Mutant(
        name="a cookie counts behind a proxy",
        file="web/visitors.py",
        old="        if self._user_header is not None:\n            # Only",
        new="        if False:\n            # Only",
        tests=(f"{_VISITORS}::test_the_name_of_a_person_is_believed_only_from_the_proxy",),
        why="A person whom the proxy no longer lets in could still decide.",
    ),
    Mutant(
        name="every person behind the proxy decides",
        file="web/visitors.py",
        old="may_decide and (not self._deciders or name in self._deciders)",
        new="may_decide",
        tests=("tests/web/test_serving.py::test_behind_a_proxy_the_proxy_says_who_decides",),
        why="--decider would name people, and mean nothing.",
    ),
)

_RIGHTS: tuple[Mutant, ...] = (
    Mutant(
        name="to look is to decide",
        file="web/safety.py",
        old="        if not visitor.may_decide:\n",
        new="        if False:\n",
        tests=(f"{_SAFETY}::test_a_link_to_look_cannot_decide",),
        why="The link for people who should only look would decide.",
    ),
    Mutant(
        name="a page that is read-only records",
        file="web/safety.py",
        old="        if self._read_only:\n",
        new="        if False:\n",
        tests=(f"{_SAFETY}::test_a_page_that_is_read_only_records_nothing",),
        why="--read-only would hide the buttons and accept the forms.",
    ),
    Mutant(
        name="one ledger of several has no checks",
        file="web/app.py",
        old="        middleware=[safety],\n",
        new="",
        tests=(f"{_SEVERAL}::test_all_ledgers_have_the_same_checks",),
        why="With a second --store, the page would be open.",
    ),
    Mutant(
        name="one ledger that cannot be read hides the others",
        file="views/people/inboxes.py",
        old="            found[name] = error\n",
        new="            raise\n",
        tests=(f"{_SEVERAL}::test_a_ledger_that_cannot_be_read_hides_none_of_the_others",),
        why="A database that is down would hide the doubts of every other ledger.",
    ),
)

_TEXTS: tuple[Mutant, ...] = (
    Mutant(
        name="text of a model is HTML",
        file="web/rendering.py",
        old="        autoescape=True,\n",
        new="        autoescape=False,\n",
        tests=(f"{_RENDERING}::test_hostile_text_is_inert_on_every_page",),
        why="A model could write the buttons that a person presses.",
    ),
    Mutant(
        name="unprintable text is shown as it is",
        file="web/rendering.py",
        old="    return safe(value) if isinstance(value, str) else value\n",
        new="    return value\n",
        tests=(f"{_RENDERING}::test_hostile_text_is_inert_on_every_page",),
        why="Text could be turned around, and say the opposite of what is recorded.",
    ),
    Mutant(
        name="any address is a link",
        file="web/rendering.py",
        old='parts.scheme in ("http", "https") and bool(parts.netloc)',
        new="bool(parts.scheme)",
        tests=(f"{_RENDERING}::test_only_an_address_of_the_web_becomes_a_link",),
        why="A link that a model wrote could run as a script.",
    ),
    Mutant(
        name="the browser is told no policy",
        file="web/safety.py",
        old='    "content-security-policy": POLICY,\n',
        new="",
        tests=(f"{_SAFETY}::test_the_browser_is_told_to_run_nothing_but_our_script",),
        why="One mistake in a template would run what a model wrote.",
    ),
    Mutant(
        name="the policy allows scripts in the page",
        file="web/safety.py",
        old="script-src 'self';",
        new="script-src 'self' 'unsafe-inline';",
        tests=(f"{_SAFETY}::test_the_browser_is_told_to_run_nothing_but_our_script",),
        why="One mistake in a template would run what a model wrote.",
    ),
    Mutant(
        name="another site may frame the page",
        file="web/safety.py",
        old="frame-ancestors 'none'; ",
        new="",
        tests=(f"{_SAFETY}::test_the_browser_is_told_to_run_nothing_but_our_script",),
        why="A person could press a button that they do not see.",
    ),
)

_DECISIONS: tuple[Mutant, ...] = (
    Mutant(
        name="a decision is about any version",
        file="web/deciding.py",
        old="        tool=tool,\n        shown_version=shown,\n",
        new="        tool=tool,\n",
        tests=(f"{_REVIEW}::test_the_same_form_sent_again_is_the_same_decision",),
        why="A form that was left open would decide about what its reader has not seen.",
    ),
    Mutant(
        name="a form without a version counts",
        file="web/deciding.py",
        old='        return int(form["shown_version"])\n',
        new='        return int(form.get("shown_version", 1))\n',
        tests=(f"{_REVIEW}::test_a_form_without_the_version_that_was_shown_records_nothing",),
        why="A program could decide without having looked.",
    ),
    Mutant(
        name="doubts are decided in bulk",
        file="web/deciding.py",
        old="            if case.review.is_open and not in_bulk(case.review):\n",
        new="            if False:\n",
        tests=(f"{_INBOX}::test_a_doubt_among_them_is_refused_and_the_others_are_recorded",),
        why="A doubt would be decided by a person who has not looked at it.",
    ),
    Mutant(
        name="several are decided with any verb",
        file="web/deciding.py",
        old="    if verb not in (Verb.APPROVE.value, Verb.REJECT.value):\n",
        new="    if False:\n",
        tests=(f"{_INBOX}::test_no_other_verb_decides_several",),
        why="Several runs would be stopped permanently with one click.",
    ),
    Mutant(
        name="the second of two people sees an error of the server",
        file="web/review.py",
        old="        except DecisionConflict as error:\n"
        "            return _page(desk, request, conflict=str(error), status=409)\n",
        new="",
        tests=(f"{_REVIEW}::test_of_two_people_one_decides_and_the_other_sees_who_and_why",),
        why="They would not see who decided, and try again.",
    ),
    Mutant(
        name="a form that is sent again is another event",
        file="web/actions.py",
        old='    event_id = str(form.get("event_id", "")) or None\n',
        new="    event_id = None\n",
        tests=(f"{_ACTIONS}::test_an_event_is_sent_once_and_the_run_takes_it",),
        why="A reload of the page would send a second event.",
    ),
    Mutant(
        name="a run is cancelled without being sure",
        file="web/actions.py",
        old='        if form.get("sure") != "yes":\n',
        new="        if False:\n",
        tests=(f"{_ACTIONS}::test_a_run_is_cancelled_permanently_with_who_and_why",),
        why="One click in the wrong place would end a run permanently.",
    ),
)

_LISTS: tuple[Mutant, ...] = (
    Mutant(
        name="a changed row hides every review",
        file="views/people/reviews.py",
        old="    except LedgerCorrupt:\n        return _not",
        new="    except NotImplementedError:\n        return _not",
        tests=("tests/web/test_stores.py::test_a_changed_row_hides_no_other_review",),
        why="One forged row would hide every doubt from the person on call.",
    ),
    Mutant(
        name="a changed row hides every run",
        file="reviews/queue.py",
        old="    except LedgerCorrupt:\n        return otherwise\n",
        new="    except NotImplementedError:\n        return otherwise\n",
        tests=("tests/web/test_stores.py::test_a_changed_row_hides_no_other_review",),
        why="One forged review would hide the list of runs.",
    ),
)

WEB: tuple[Mutant, ...] = (*_DOORS, *_RIGHTS, *_TEXTS, *_DECISIONS, *_LISTS)
