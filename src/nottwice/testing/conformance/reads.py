"""Does a store find the same records, in the same order, whatever the ids look like?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nottwice.model.call import CallIdentity, CallRow, CallStatus, branch_node, child_node
from nottwice.model.policy import ChargeRecord
from nottwice.model.review import ReviewStatus
from nottwice.model.run import (
    Fence,
    LastVisit,
    RunCount,
    RunStatus,
    Standing,
    StepStatus,
    Wait,
    WaitKind,
    plain_input,
)
from nottwice.model.runs.tally import Tally
from nottwice.store.interface import (
    LEDGER,
    CallWrite,
    ChargeWrite,
    Claim,
    Commit,
    EventWrite,
    ReviewWrite,
    RunUpdate,
    Store,
)
from nottwice.testing.conformance.bench import Bench, expect
from nottwice.testing.conformance.samples import (
    FAILURE,
    NOW,
    RESULT,
    audit,
    checkpoint,
    claim,
    decision,
    event,
    evidence,
    follow,
    graph,
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
    "..",
    ".",
    ".hidden",
    "/absolute/path",
    "a/b[0]/c",
    "a",
    "a.json",
    "a.inbox",
    "a~b",
    "C:\\Windows",
    "con",
    "nul.txt",
    "COM1",
    "?1 :name @name $name",
    "*?<>|",
    "NULL",
    "0",
    "-v",
    "Ünïcödé ☃ 漢字 🦀",
    "e\u0301",
    "\u00e9",
    "ß",
    "SS",
    "case",
    "CASE",
    "Case",
    " spaces ",
    "trailing dot.",
    "x" * 512,
    "x" * 511 + "y",
    "🦀" * 512,
    "line\nfeed\ttab\x7f",
]


class Reads(Bench):
    """Ids are plain text, and every list has a defined order."""

    def test_it_says_whether_its_reads_can_block(self) -> None:
        """Otherwise an event loop could not know which reads to run in a thread."""
        said = getattr(self.open(), "reads_can_block", None)
        expect(isinstance(said, bool), True, "Whether reads_can_block is True or False")

    def test_any_text_is_an_id_like_any_other(self) -> None:
        store = self.open()
        for text in HOSTILE:
            store.commit(_everything_named(text, claim(store, text).holder_id))
        again = self.open()
        expect(len(again.runs()), len(HOSTILE), "The number of runs")
        for text in HOSTILE:
            self._check_hostile(again, text)

    def _check_hostile(self, store: Store, text: str) -> None:
        row = pending(CallIdentity(text, text, text, text, text), key=text, key_since=NOW)
        opened = [review(text, text)]
        shown: dict[str, tuple[Any, Any]] = {
            "its run": (text in [run.workflow_id for run in store.runs(prefix=text)], True),
            "its calls": (store.calls(text), [row]),
            "its calls in doubt": (store.calls_in_doubt(text), [row]),
            "its calls under a node": (store.calls_under(text, text), [row]),
            "its call": (store.load_call(row.identity), row),
            "its key": (store.last_use_of_key(text, text), row),
            "its steps": (store.steps(text), [step(text, text, checkpoint_id=text)]),
            "its step": (store.load_step(text, text, text) is not None, True),
            "its reviews": (store.reviews(text), opened),
            "its open reviews": (store.open_reviews(text), opened),
            "its review by prefix": (opened[0] in store.find_reviews(text), True),
            "its review": (store.load_review(text), opened[0]),
            "its evidence": (
                store.evidence(text, evidence(text, text).call_id),
                [evidence(text, text)],
            ),
            "its audit": (store.audit(text), [audit(text, text, who=text, subject=text)]),
            "its events": (store.events(text, text), [event(text, text, name=text)]),
            "its checkpoint": (
                store.checkpoint_chain(text),
                [checkpoint(1, 1, workflow_id=text, node_id=text)],
            ),
        }
        for what, (actual, expected) in shown.items():
            expect(actual, expected, f"The id {text[:40]!r}: {what}")

    def test_any_text_names_a_graph_a_family_a_meter_and_a_label_like_any_other(self) -> None:
        store = self.open()
        for number, text in enumerate(HOSTILE):
            row, graph_id = _labelled(text), f"{text}@1.0.0"
            write = ChargeWrite(ChargeRecord(text, row.identity, row.call_id, NOW, 7))
            store.commit(intent(row, claim(store, text), charges=(write,)))
            child = run_record(
                f"child {number}", graph_id=graph_id, parent_id=text, root_id=text, origin=text
            )
            store.commit(
                Commit(workflow_id=child.workflow_id, claim=Claim(child), graph=graph(graph_id))
            )
        again = self.open()
        for number, text in enumerate(HOSTILE):
            graph_id, what = f"{text}@1.0.0", f"The name {text[:40]!r}"
            expect(again.load_call(_labelled(text).identity), _labelled(text), f"{what}: its label")
            expect(again.load_graph(graph_id), graph(graph_id), f"{what}: its graph")
            expect(again.charged(text), 7, f"{what}: its meter")
            (child,) = again.children(text)
            named = (
                child.workflow_id,
                child.graph_id,
                child.parent_id,
                child.root_id,
                child.origin,
            )
            expect(named, (f"child {number}", graph_id, text, text, text), f"{what}: its family")
        expect(len(again.graphs()), len(HOSTILE), "The number of graphs")

    def test_an_id_that_no_store_could_keep_is_simply_not_there(self) -> None:
        store = self.open()
        claim(store)
        surrogate = "\udcff"
        found = (store.load_run(surrogate), store.load_call(identity(surrogate)))
        expect(found, (None, None), "What has an impossible id")
        listed = (store.find_reviews(surrogate), store.runs(prefix=surrogate))
        expect(listed, ([], []), "What begins with an impossible id")

    def test_a_prefix_of_a_run_id_is_matched_literally(self) -> None:
        store = self.open()
        names = ["a%b", "a_b", "axb", "a", "A%b", "a%"]
        for number, name in enumerate(names):
            record = run_record(name, updated_at=NOW + number)
            store.commit(Commit(workflow_id=name, claim=Claim(record)))
        found = {prefix: [run.workflow_id for run in store.runs(prefix=prefix)] for prefix in names}
        wanted = {
            "a%b": ["a%b"],
            "a_b": ["a_b"],
            "axb": ["axb"],
            "a": ["a%", "a", "axb", "a_b", "a%b"],
            "A%b": ["A%b"],
            "a%": ["a%", "a%b"],
        }
        expect(found, wanted, "Runs by prefix")
        for pattern in ("%", "_", "[a]", "*"):
            expect(store.runs(prefix=pattern), [], f"Runs that begin with {pattern!r}")

    def test_a_prefix_of_a_review_id_is_matched_literally(self) -> None:
        store = self.open()
        for name in ("ab%c", "ab_c", "abxc", "AB%C"):
            store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(review(name)),)))
        wanted = {"ab": ["ab%c", "ab_c", "abxc"], "ab%": ["ab%c"], "ab_": ["ab_c"], "%": []}
        for prefix, names in wanted.items():
            found = [one.review_id for one in store.find_reviews(prefix)]
            expect(found, names, f"Reviews that begin with {prefix!r}")
        expect(len(store.find_reviews("")), 4, "All reviews")

    def test_what_is_under_a_node_does_not_include_its_look_alikes(self) -> None:
        store = self.open()
        fence = claim(store)
        inside = ["a", "a/b", "a/b/c", "a[0]", "a[10]", "a[0]/b", "a[0][1]"]
        look_alikes = ["ab", "a b", "a.b", "a-", "a%5B1%5D", "A", "b/a", "/", "a\U0010fffd", "ä"]
        for number, node in enumerate(inside + look_alikes):
            store.commit(intent(pending(identity(node=node), created_at=NOW + number), fence))
        found = [row.identity.node_id for row in store.calls_under("run", "a")]
        expect(found, inside, "The nodes under a node")

    def test_a_visit_of_a_node_is_not_another_visit(self) -> None:
        store = self.open()
        fence = claim(store)
        mine = ["g/2", "g/2/", "g/2/7", "g/2//x"]
        others = ["g/1", "g/20", "g/2.", "g/20/7", "g/", "g", "x/g/2", "g/2\U0010fffd", "G/2"]
        for number, visit in enumerate(mine + others):
            where = identity(node="a" if number % 2 else "a/b", at=visit)
            store.commit(intent(pending(where, created_at=NOW + number), fence))
        store.commit(intent(pending(identity(node="ab", at="g/2")), fence))
        for reader in (store, self.open()):
            under = reader.calls_under("run", "a", visit="g/2")
            found = [row.identity.checkpoint_id for row in under]
            expect(found, mine, "The calls of one visit, and of the steps inside it")

    def test_branch_one_is_not_branch_ten(self) -> None:
        for other in ("a[10]", "a[1", "a[11]/b", "a[2]", "a"):
            store = self.fresh()
            fence = claim(store)
            mine = [branch_node("a", 1), child_node(branch_node("a", 1), "b"), "a[1][0]"]
            for node in (other, *mine):
                store.commit(intent(pending(identity(node=node)), fence))
            found = store.calls_under("run", branch_node("a", 1))
            expect([row.identity.node_id for row in found], mine, f"Branch 1 beside {other}")

    def test_a_node_of_another_run_is_not_found(self) -> None:
        store = self.open()
        for run in ("run", "run 2"):
            store.commit(intent(pending(identity(run, node="a")), claim(store, run)))
        found = [row.identity.workflow_id for row in store.calls_under("run", "a")]
        expect(found, ["run"], "The runs that calls under a node belong to")

    def test_calls_come_oldest_first_and_then_in_the_order_they_were_recorded(self) -> None:
        store = self.open()
        fence = claim(store)
        times = {"c": 2.0, "b": 1.0, "z": 1.0, "a": 1.0, "d": 0.5}
        for tool, at in times.items():
            store.commit(intent(pending(identity(tool=tool), created_at=NOW + at), fence))
        middle = pending(identity(tool="z"), created_at=NOW + 1)
        store.commit(follow(middle.unknown(FAILURE, now=NOW + 9), middle, fence))
        done = pending(identity(tool="b"), created_at=NOW + 1)
        store.commit(follow(done.done(RESULT, now=NOW + 9), done, fence))
        for reader in (store, self.open()):
            tools = [row.identity.tool_name for row in reader.calls("run")]
            expect(tools, ["d", "b", "z", "a", "c"], "The order of calls")
            in_doubt = [row.identity.tool_name for row in reader.calls_in_doubt("run")]
            expect(in_doubt, ["d", "z", "a", "c"], "The order of calls in doubt")
            under = [row.identity.tool_name for row in reader.calls_under("run", "/")]
            expect(under, list("dbzac"), "The order of calls under a node")

    def test_the_last_calls_are_found_a_few_at_a_time(self) -> None:
        store = self.open()
        fence = claim(store)
        times = {"c": 2.0, "b": 1.0, "z": 1.0, "a": 1.0, "d": 0.5}
        for tool, at in times.items():
            store.commit(intent(pending(identity(tool=tool), created_at=NOW + at), fence))
        store.commit(intent(pending(identity("other")), claim(store, "other")))
        for limit, names in {0: "", 1: "c", 2: "ac", 5: "dbzac", 9: "dbzac"}.items():
            found = [row.identity.tool_name for row in store.last_calls("run", limit=limit)]
            expect(found, list(names), f"The last {limit} calls")
        for before, names in {"c": "za", "a": "bz", "z": "db", "b": "d", "d": "", "x": ""}.items():
            rows = store.last_calls("run", limit=2, before=identity(tool=before))
            found = [row.identity.tool_name for row in rows]
            expect(found, list(names), f"The last two calls before {before}")
        counted = store.count_calls("run"), store.count_calls("missing")
        expect(counted, (5, 0), "The number of calls")

    def test_only_pending_and_unknown_calls_are_in_doubt(self) -> None:
        store = self.open()
        fence = claim(store)
        for status in CallStatus:
            store.commit(intent(pending(identity(tool=status.value), status=status), fence))
        store.commit(intent(pending(identity("other")), claim(store, "other")))
        found = {row.status for row in store.calls_in_doubt("run")}
        expect(found, {CallStatus.PENDING, CallStatus.UNKNOWN}, "What is in doubt")

    def test_runs_come_last_changed_first(self) -> None:
        store = self.open()
        for name, at in {"a": 1.0, "c": 3.0, "b": 3.0, "d": 2.0}.items():
            record = run_record(name, updated_at=NOW + at)
            store.commit(Commit(workflow_id=name, claim=Claim(record)))
        for limit, names in {None: "cbda", 2: "cb", 0: "", 99: "cbda"}.items():
            found = [run.workflow_id for run in store.runs(limit=limit)]
            expect(found, list(names), f"Runs, at most {limit}")

    def test_runs_are_listed_page_by_page(self) -> None:
        store = self.open()
        for number in range(7):
            record = run_record(f"run {number}", updated_at=NOW + number // 2)
            store.commit(Commit(workflow_id=record.workflow_id, claim=Claim(record)))
        whole, pages = store.runs(), store.runs(limit=2)
        while page := store.runs(limit=2, before=pages[-1]):
            pages += page
        expect(pages, whole, "All pages together")
        expect(len(whole), 7, "The number of runs")

    def test_runs_are_chosen_by_status_and_graph_and_whether_they_are_queued(self) -> None:
        store = self.open()
        _store_a_mixed_lot(store)
        asked: dict[str, dict[str, Any]] = {
            "fedcba": {},
            "dc": {"status": RunStatus.COMPLETED},
            "ba": {"queued": True},
            "fedc": {"queued": False},
            "e": {"status": RunStatus.RUNNING, "queued": False},
            "fda": {"graph": "refund"},
            "fa": {"graph": "refund@1.0.0"},
            "d": {"graph": "refund", "status": RunStatus.COMPLETED},
            "b": {"graph": "re"},
            "": {"graph": "refund@"},
            "c": {"prefix": "c", "status": RunStatus.COMPLETED},
        }
        for names, choice in asked.items():
            found = "".join(run.workflow_id for run in store.runs(**choice))
            expect(found, names, f"Runs chosen by {choice}")

    def test_runs_are_counted_by_status_and_those_that_run_by_holder(self) -> None:
        store = self.open()
        expect(store.count_runs(), [], "The counts of an empty ledger")
        _store_a_mixed_lot(store)
        running, completed, waiting = RunStatus.RUNNING, RunStatus.COMPLETED, RunStatus.WAITING
        wanted = {
            RunCount(running, None, 2, 2),
            RunCount(running, "another", 1, 0),
            RunCount(completed, None, 2, 0),
            RunCount(waiting, None, 1, 0),
        }
        expect(set(store.count_runs()), wanted, "The counts")
        of_graph = {
            RunCount(running, None, 1, 1),
            RunCount(completed, None, 1, 0),
            RunCount(waiting, None, 1, 0),
        }
        expect(set(store.count_runs(graph="refund")), of_graph, "The counts of a graph")
        by_prefix = {RunCount(running, "another", 1, 0)}
        expect(set(store.count_runs(prefix="e")), by_prefix, "The counts of a prefix")

    def test_how_runs_stand_is_counted_by_version_and_by_what_has_come(self) -> None:
        store = self.open()
        expect(store.tally(now=NOW, limit=9), Tally((), (), 0, 0, ()), "An empty ledger")
        _store_runs_that_wait(store)
        tally = store.tally(now=NOW + 100, limit=3)
        stands = ((one.graph_id or one.version, one.status, one) for one in tally.groups)
        found = {
            (name, status.value, one.waits, one.ready, one.queued): (one.runs, one.oldest_at)
            for name, status, one in stands
        }
        wanted: dict[Any, Any] = {
            ("a@1.0.0", "waiting", ("review",), False, False): (2, NOW),
            ("a@1.0.0", "waiting", ("decided", "timer"), True, False): (1, NOW + 2),
            ("a@1.0.0", "waiting", ("timer",), True, False): (1, NOW + 3),
            ("a@1.0.0", "waiting", ("event",), True, False): (1, NOW + 4),
            ("a@1.0.0", "waiting", ("event",), False, False): (1, NOW + 5),
            ("a@1.0.0", "waiting", ("child",), False, False): (1, NOW + 6),
            ("1.2.0", "waiting", ("child",), True, False): (1, NOW + 7),
            ("1.2.0", "completed", (), False, False): (2, None),
            ("a@1.0.0", "failed", (), False, False): (1, NOW + 10),
            ("a@2.0.0", "running", (), False, True): (1, NOW + 11),
            ("a@2.0.0", "completed", (), False, False): (1, None),
        }
        expect(found, wanted, "How runs stand")
        ready = [run.workflow_id for run in tally.ready]
        expect(ready, ["7", "4", "3"], "Runs that something has arrived for, at most three")
        expect((tally.open_reviews, tally.decided_reviews), (2, 1), "The reviews")
        expect([one.review_id for one in tally.reviews], ["open0", "open1"], "The open reviews")
        expect(store.tally(now=NOW, limit=0).ready, (), "No run at all")
        chosen: list[tuple[dict[str, Any], int]] = [
            ({"graph": "a"}, 10),
            ({"graph": "a@2.0.0"}, 2),
            ({"prefix": "1"}, 4),
            ({"only_waiting": True}, 8),
        ]
        for choice, number in chosen:
            groups = store.tally(now=NOW, **choice).groups
            expect(sum(one.runs for one in groups), number, f"Runs chosen by {choice}")

    def test_the_calls_of_a_run_are_read_page_by_page(self) -> None:
        store = self.open()
        fence = claim(store)
        for number in range(7):
            row = pending(identity(tool=f"tool {number}"), created_at=NOW + number // 2)
            store.commit(intent(row, fence))
        whole, pages = store.calls("run"), store.calls("run", limit=2)
        while page := store.calls("run", limit=2, after=pages[-1].identity):
            pages += page
        expect(pages, whole, "All pages together")
        expect(len(whole), 7, "The number of calls")
        expect(store.calls("run", limit=0), [], "No calls at all")

    def test_calls_in_doubt_are_found_in_all_runs_that_may_have_some(self) -> None:
        store = self.open()
        first, second = claim(store, "first"), claim(store, "second")
        doubtful = [
            pending(identity("second"), created_at=NOW),
            pending(identity("first"), created_at=NOW + 1, status=CallStatus.UNKNOWN),
        ]
        store.commit(intent(doubtful[0], second))
        store.commit(intent(doubtful[1], first))
        settled = pending(identity("first", tool="settled"), created_at=NOW + 2)
        store.commit(intent(settled, first))
        store.commit(follow(settled.done(RESULT, now=NOW + 3), settled, first))
        expect(store.calls_in_doubt(), doubtful, "The calls in doubt of all runs")
        for status in (RunStatus.WAITING, RunStatus.IDLE, RunStatus.FAILED, RunStatus.ABORTED):
            update = RunUpdate(status=status, at=NOW + 4)
            store.commit(Commit(workflow_id="first", fence=first, run=update))
            expect(store.calls_in_doubt(), doubtful, f"Also those of a run that is {status.value}")

    def test_steps_come_in_the_order_they_began(self) -> None:
        store = self.open()
        fence = claim(store)
        for ordinal, node in ((3, "a"), (1, "b"), (2, "c")):
            record = step(node=node, ordinal=ordinal)
            store.commit(Commit(workflow_id="run", fence=fence, steps=(record,)))
        found = [record.node_id for record in store.steps("run")]
        expect(found, ["b", "c", "a"], "The order of steps")
        found = [record.node_id for record in store.steps("run", after=1)]
        expect(found, ["c", "a"], "Steps that began after the first")

    def test_the_visits_of_a_node_that_are_in_progress_are_found(self) -> None:
        store = self.open()
        fence, other = claim(store), claim(store, "other")
        over = {StepStatus.DONE: 3, StepStatus.FAILED: 4}
        visits = [
            step(checkpoint_id="second", ordinal=5),
            step(checkpoint_id="first", ordinal=2),
            *(step(checkpoint_id=one.value, ordinal=n, status=one) for one, n in over.items()),
            step(node="notify/inside", checkpoint_id="first/", ordinal=6),
        ]
        store.commit(Commit(workflow_id="run", fence=fence, steps=tuple(visits)))
        store.commit(Commit(workflow_id="other", fence=other, steps=(step("other"),)))
        found = store.steps("run", in_progress_at="notify")
        expect(found, [visits[1], visits[0]], "Visits of the node that are in progress")
        found = store.steps("run", after=2, in_progress_at="notify")
        expect(found, [visits[0]], "Those of them that began later")

    def test_the_last_visit_of_every_node_is_found_in_the_order_they_began(self) -> None:
        store = self.open()
        fence, other = claim(store), claim(store, "other")
        visits = [
            step(node="loop", checkpoint_id="g#1", ordinal=1),
            step(node="once", checkpoint_id="g#1", ordinal=4),
            step(node="loop", checkpoint_id="g#3", ordinal=3),
            step(node="loop", checkpoint_id="g#2", ordinal=2),
        ]
        store.commit(Commit(workflow_id="run", fence=fence, steps=tuple(visits)))
        elsewhere = step("other", node="loop", checkpoint_id="g#9", ordinal=9)
        store.commit(Commit(workflow_id="other", fence=other, steps=(elsewhere,)))
        found = store.last_visits("run")
        expect(found, [LastVisit(visits[2], 3), LastVisit(visits[1], 1)], "The last visits")
        expect(store.last_visits("missing"), [], "The last visits of a missing run")

    def test_what_there_is_to_look_at_is_found_for_each_run_by_itself(self) -> None:
        store = self.open()
        names = ("in doubt", "asked", "told", "visited", "run")
        for name in names:
            expect(store.standing(name), Standing(), "The standing of a missing run")
        fences = {name: claim(store, name) for name in names}
        visits = (step("visited", node="a", ordinal=7), step("visited", node="b", ordinal=3))
        for commit in (
            intent(pending(identity("in doubt")), fences["in doubt"]),
            Commit(workflow_id="asked", reviews=(ReviewWrite(review(run="asked")),)),
            Commit(workflow_id="told", events=(EventWrite(event(run="told")),)),
            Commit(workflow_id="visited", fence=fences["visited"], steps=visits),
        ):
            store.commit(commit)
        for name, found in {
            "in doubt": Standing(in_doubt=True),
            "asked": Standing(reviews=True),
            "told": Standing(events=True),
            "visited": Standing(last_ordinal=7),
            "run": Standing(),
        }.items():
            expect(store.standing(name), found, f"The standing of run {name!r}")
        store.commit(Commit(workflow_id=LEDGER, audit=(audit(run=LEDGER),)))
        expect(store.standing("run"), Standing(ledger_audit=True), "The standing of the ledger")

    def test_reviews_come_oldest_first(self) -> None:
        store = self.open()
        for name, at in {"b": 2.0, "c": 1.0, "a": 2.0}.items():
            write = ReviewWrite(review(name, opened_at=NOW + at))
            store.commit(Commit(workflow_id="run", reviews=(write,)))
        other = review("d", "other", opened_at=NOW)
        store.commit(Commit(workflow_id="other", reviews=(ReviewWrite(other),)))
        for found in (store.reviews("run"), store.open_reviews("run")):
            expect([one.review_id for one in found], list("cab"), "The reviews of a run")
        for found in (store.reviews(), store.open_reviews()):
            expect([one.review_id for one in found], list("dcab"), "All reviews")


def _labelled(text: str) -> CallRow:
    return pending(identity(text, tool=text), label=text, trace_id=text)


def _everything_named(text: str, holder_id: str) -> Commit:
    row = pending(CallIdentity(text, text, text, text, text), key=text, key_since=NOW)
    return Commit(
        workflow_id=text,
        fence=Fence(holder_id, 1),
        calls=(CallWrite(row),),
        steps=(step(text, text, checkpoint_id=text),),
        reviews=(ReviewWrite(review(text, text)),),
        evidence=(evidence(text, text),),
        audit=(audit(text, text, who=text, subject=text),),
        events=(EventWrite(event(text, text, name=text)),),
        checkpoints=(checkpoint(1, 1, workflow_id=text, node_id=text),),
    )


def _store_runs_that_wait(store: Store) -> None:
    """Store runs named by number. Higher numbers were created and changed later."""
    ones: list[tuple[RunStatus, str | None, tuple[Wait, ...]]] = [
        (RunStatus.WAITING, "a@1.0.0", (Wait(WaitKind.REVIEW, "open0", "/"),)),
        (RunStatus.WAITING, "a@1.0.0", (Wait(WaitKind.REVIEW, "open1", "/"),)),
        (
            RunStatus.WAITING,
            "a@1.0.0",
            (
                Wait(WaitKind.REVIEW, "decided2", "/"),
                Wait(WaitKind.TIMER, "x", "/", until=NOW + 900),
            ),
        ),
        (RunStatus.WAITING, "a@1.0.0", (Wait(WaitKind.TIMER, "x", "/", until=NOW + 100),)),
        (RunStatus.WAITING, "a@1.0.0", (Wait(WaitKind.EVENT, "paid", "/"),)),
        (RunStatus.WAITING, "a@1.0.0", (Wait(WaitKind.EVENT, "other", "/", until=NOW + 900),)),
        (RunStatus.WAITING, "a@1.0.0", (Wait(WaitKind.CHILD, "5", "/"),)),
        (RunStatus.WAITING, None, (Wait(WaitKind.CHILD, "8", "/"),)),
        (RunStatus.COMPLETED, None, ()),
        (RunStatus.COMPLETED, None, ()),
        (RunStatus.FAILED, "a@1.0.0", ()),
        (RunStatus.RUNNING, "a@2.0.0", ()),
        (RunStatus.COMPLETED, "a@2.0.0", ()),
    ]
    for number, (status, graph_id, waits) in enumerate(ones):
        at, name = NOW + number, str(number)
        record = run_record(
            name,
            created_at=at,
            updated_at=at,
            graph_id=graph_id,
            input_json="{}" if graph_id else plain_input("1.2.0"),
            **({"epoch": 0, "holder_id": None} if status is RunStatus.RUNNING else {}),
        )
        store.commit(Commit(workflow_id=name, claim=Claim(record)))
        if status is not RunStatus.RUNNING:
            failure = FAILURE if status is RunStatus.FAILED else None
            update = RunUpdate(status=status, at=at, release=True, waits=waits, failure=failure)
            store.commit(Commit(workflow_id=name, fence=Fence("holder", 1), run=update))
    for number, name in enumerate(("open0", "open1", "decided2")):
        asked = review(name, str(number), opened_at=NOW + number)
        store.commit(Commit(workflow_id=str(number), reviews=(ReviewWrite(asked),)))
    said = replace(asked, status=ReviewStatus.DECIDED, decision=decision(), version=2)
    store.commit(Commit(workflow_id="2", reviews=(ReviewWrite(said, asked.version),)))
    for told in ("4", "5"):
        store.commit(Commit(workflow_id=told, events=(EventWrite(event("e", told)),)))


def _store_a_mixed_lot(store: Store) -> None:
    """Store six runs. The later the letter, the later the run changed."""
    queued = {"epoch": 0, "holder_id": None}
    kinds: dict[str, tuple[RunStatus, dict[str, Any]]] = {
        "a": (RunStatus.RUNNING, {**queued, "graph_id": "refund@1.0.0"}),
        "b": (RunStatus.RUNNING, {**queued, "graph_id": "re@1.0.0"}),
        "c": (RunStatus.COMPLETED, {}),
        "d": (RunStatus.COMPLETED, {"graph_id": "refund@1.10.0"}),
        "e": (RunStatus.RUNNING, {"holder_id": "another"}),
        "f": (RunStatus.WAITING, {"graph_id": "refund@1.0.0"}),
    }
    for number, (name, (status, kind)) in enumerate(kinds.items()):
        record = run_record(name, updated_at=NOW + number, **kind)
        store.commit(Commit(workflow_id=name, claim=Claim(record)))
        if status is not RunStatus.RUNNING:
            update = RunUpdate(status=status, at=NOW + number, release=True)
            store.commit(Commit(workflow_id=name, fence=Fence("holder", 1), run=update))
