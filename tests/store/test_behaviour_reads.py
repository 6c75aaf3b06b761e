"""Does every store find the same records, in the same order, whatever the ids look like?"""

from __future__ import annotations

import pytest

from nottwice.model.call import CallIdentity, CallStatus, branch_node, child_node
from nottwice.model.review import ReviewStatus
from nottwice.store.interface import CallWrite, Claim, Commit, ReviewWrite, Store
from tests.store.conftest import OpenStore
from tests.store.samples import (
    FAILURE,
    NOW,
    RESULT,
    audit,
    claim,
    evidence,
    follow,
    identity,
    intent,
    pending,
    review,
    run_record,
    step,
)

HOSTILE = [
    "'; DROP TABLE runs; --",
    '"quoted" and \\backslashed\\',
    "100% _under_score",
    "../../etc/passwd",
    "/absolute/path",
    "a/b[0]/c",
    "?1 :name @name $name",
    "NULL",
    "0",
    "Ünïcödé ☃ 漢字 🦀",
    "case",
    "CASE",
    " spaces ",
    "x" * 512,
    "line\nfeed\ttab\x7f",
]


def test_any_text_is_an_id_like_any_other(open_store: OpenStore) -> None:
    store = open_store()
    for text in HOSTILE:
        fence = claim(store, text)
        row = pending(CallIdentity(text, text, text, text, text), key=text, key_since=NOW)
        store.commit(
            Commit(
                workflow_id=text,
                fence=fence,
                calls=(CallWrite(row),),
                steps=(step(text, text, checkpoint_id=text),),
                reviews=(ReviewWrite(review(text, text)),),
                evidence=(evidence(text, text),),
                audit=(audit(text, text, who=text, subject=text),),
            )
        )
    again = open_store()
    assert len(again.runs()) == len(HOSTILE)
    for text in HOSTILE:
        row = pending(CallIdentity(text, text, text, text, text), key=text, key_since=NOW)
        assert [run.workflow_id for run in again.runs(prefix=text)] == [text]
        assert again.calls(text) == again.calls_in_doubt(text) == [row]
        assert again.calls_under(text, text) == [row]
        assert again.load_call(row.identity) == row
        assert again.last_use_of_key(text, text) == row
        assert again.steps(text) == [step(text, text, checkpoint_id=text)]
        assert again.load_step(text, text, text) is not None
        assert again.reviews(text) == again.open_reviews(text) == [review(text, text)]
        assert again.find_reviews(text) == [review(text, text)]
        assert again.evidence(text, evidence(text, text).call_id) == [evidence(text, text)]
        assert again.audit(text) == [audit(text, text, who=text, subject=text)]


def test_an_id_that_no_store_could_keep_is_simply_not_there(store: Store) -> None:
    claim(store)
    surrogate = "\udcff"
    assert store.load_run(surrogate) is None
    assert store.load_call(identity(surrogate)) is None
    assert store.find_reviews(surrogate) == []
    assert store.runs(prefix=surrogate) == []


# Prefixes are literal


def test_a_prefix_of_a_run_id_is_matched_literally(store: Store) -> None:
    names = ["a%b", "a_b", "axb", "a", "A%b", "a%"]
    for number, name in enumerate(names):
        record = run_record(name, updated_at=NOW + number)
        store.commit(Commit(workflow_id=name, claim=Claim(record)))
    found = {prefix: [run.workflow_id for run in store.runs(prefix=prefix)] for prefix in names}
    assert found == {
        "a%b": ["a%b"],
        "a_b": ["a_b"],
        "axb": ["axb"],
        "a": ["a%", "a", "axb", "a_b", "a%b"],
        "A%b": ["A%b"],
        "a%": ["a%", "a%b"],
    }
    assert store.runs(prefix="%") == store.runs(prefix="_") == store.runs(prefix="[a]") == []


def test_a_prefix_of_a_review_id_is_matched_literally(store: Store) -> None:
    names = ["ab%c", "ab_c", "abxc", "AB%C"]
    for name in names:
        store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(review(name)),)))
    assert [one.review_id for one in store.find_reviews("ab")] == ["ab%c", "ab_c", "abxc"]
    assert [one.review_id for one in store.find_reviews("ab%")] == ["ab%c"]
    assert [one.review_id for one in store.find_reviews("ab_")] == ["ab_c"]
    assert store.find_reviews("%") == []
    assert len(store.find_reviews("")) == 4


# What is inside a node


def test_what_is_under_a_node_does_not_include_its_look_alikes(store: Store) -> None:
    fence = claim(store)
    inside = ["a", "a/b", "a/b/c", "a[0]", "a[10]", "a[0]/b", "a[0][1]"]
    look_alikes = ["ab", "a b", "a.b", "a-", "a%5B1%5D", "A", "b/a", "/", "a\U0010fffd", "ä"]
    for number, node in enumerate(inside + look_alikes):
        store.commit(intent(pending(identity(node=node), created_at=NOW + number), fence))
    assert [row.identity.node_id for row in store.calls_under("run", "a")] == inside


@pytest.mark.parametrize("other", ["a[10]", "a[1", "a[11]/b", "a[2]", "a"])
def test_branch_one_is_not_branch_ten(store: Store, other: str) -> None:
    fence = claim(store)
    mine = [branch_node("a", 1), child_node(branch_node("a", 1), "b"), "a[1][0]"]
    for node in (other, *mine):
        store.commit(intent(pending(identity(node=node)), fence))
    found = store.calls_under("run", branch_node("a", 1))
    assert [row.identity.node_id for row in found] == mine


def test_a_node_of_another_run_is_not_found(store: Store) -> None:
    for run in ("run", "run 2"):
        store.commit(intent(pending(identity(run, node="a")), claim(store, run)))
    assert [row.identity.workflow_id for row in store.calls_under("run", "a")] == ["run"]


# Order


def test_calls_come_oldest_first_and_then_in_the_order_they_were_recorded(store: Store) -> None:
    fence = claim(store)
    times = {"c": 2.0, "b": 1.0, "z": 1.0, "a": 1.0, "d": 0.5}
    for tool, at in times.items():
        store.commit(intent(pending(identity(tool=tool), created_at=NOW + at), fence))
    middle = pending(identity(tool="z"), created_at=NOW + 1)
    store.commit(follow(middle.unknown(FAILURE, now=NOW + 9), middle, fence))
    done = pending(identity(tool="b"), created_at=NOW + 1)
    store.commit(follow(done.done(RESULT, now=NOW + 9), done, fence))
    assert [row.identity.tool_name for row in store.calls("run")] == ["d", "b", "z", "a", "c"]
    in_doubt = store.calls_in_doubt("run")
    assert [row.identity.tool_name for row in in_doubt] == ["d", "z", "a", "c"]
    assert [row.identity.tool_name for row in store.calls_under("run", "/")] == list("dbzac")


def test_only_pending_and_unknown_calls_are_in_doubt(store: Store) -> None:
    fence = claim(store)
    for status in CallStatus:
        row = pending(identity(tool=status.value), status=status)
        store.commit(intent(row, fence))
    store.commit(intent(pending(identity("other")), claim(store, "other")))
    found = {row.status for row in store.calls_in_doubt("run")}
    assert found == {CallStatus.PENDING, CallStatus.UNKNOWN}


def test_runs_come_last_changed_first(store: Store) -> None:
    for name, at in {"a": 1.0, "c": 3.0, "b": 3.0, "d": 2.0}.items():
        record = run_record(name, updated_at=NOW + at)
        store.commit(Commit(workflow_id=name, claim=Claim(record)))
    assert [run.workflow_id for run in store.runs()] == ["c", "b", "d", "a"]
    assert [run.workflow_id for run in store.runs(limit=2)] == ["c", "b"]
    assert store.runs(limit=0) == []
    assert len(store.runs(limit=99)) == 4


def test_steps_come_in_the_order_they_began(store: Store) -> None:
    fence = claim(store)
    for ordinal, node in ((3, "a"), (1, "b"), (2, "c")):
        record = step(node=node, ordinal=ordinal)
        store.commit(Commit(workflow_id="run", fence=fence, steps=(record,)))
    assert [record.node_id for record in store.steps("run")] == ["b", "c", "a"]


def test_reviews_come_oldest_first(store: Store) -> None:
    for name, at in {"b": 2.0, "c": 1.0, "a": 2.0}.items():
        write = ReviewWrite(review(name, opened_at=NOW + at))
        store.commit(Commit(workflow_id="run", reviews=(write,)))
    other = review("d", "other", opened_at=NOW)
    store.commit(Commit(workflow_id="other", reviews=(ReviewWrite(other),)))
    assert [one.review_id for one in store.reviews("run")] == ["c", "a", "b"]
    assert [one.review_id for one in store.open_reviews("run")] == ["c", "a", "b"]
    assert [one.review_id for one in store.reviews()] == ["d", "c", "a", "b"]
    assert [one.review_id for one in store.open_reviews()] == ["d", "c", "a", "b"]


def test_open_are_the_reviews_that_are_not_used_or_closed(store: Store) -> None:
    for status in ReviewStatus:
        write = ReviewWrite(review(status.value, status=status))
        store.commit(Commit(workflow_id="run", reviews=(write,)))
    assert {one.review_id for one in store.open_reviews()} == {"open", "decided"}
    assert {one.review_id for one in store.open_reviews("run")} == {"open", "decided"}
    assert len(store.reviews("run")) == len(ReviewStatus)


def test_evidence_and_audit_come_oldest_first(store: Store) -> None:
    for number in (3, 1, 2):
        commit = Commit(
            workflow_id="run",
            evidence=(
                evidence(f"{number}", at=NOW + number),
                evidence(f"{number} of another call", at=NOW + number, call_id="other"),
            ),
            audit=(audit(f"{number}", at=NOW + number), audit(f"{number}, later", at=NOW + number)),
        )
        store.commit(commit)
    mine = store.evidence("run", evidence().call_id)
    assert [item.text for item in mine] == ["1", "2", "3"]
    assert len(store.evidence("run")) == 6
    assert store.evidence("other run") == []
    reasons = ["1", "1, later", "2", "2, later", "3", "3, later"]
    assert [entry.why for entry in store.audit("run")] == reasons
    assert [entry.why for entry in store.audit()] == reasons
    assert store.audit("other run") == []


def test_the_last_use_of_a_key_is_found_in_any_run(store: Store) -> None:
    for run, at in {"first": 1.0, "last": 5.0, "between": 3.0, "last too": 5.0}.items():
        row = pending(identity(run), key="key", key_since=NOW, created_at=NOW + at)
        store.commit(intent(row, claim(store, run)))
    found = store.last_use_of_key("send", "key")
    assert found is not None
    assert found.identity.workflow_id == "last too"
    assert store.last_use_of_key("other tool", "key") is None
    assert store.last_use_of_key("send", "ke") is None
