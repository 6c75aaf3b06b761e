"""Does the budget of a boss cover its workers, and theirs, wherever and however often they run?"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.agent.provider import ModelReply, ModelRequest, Price
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryStore
from nottwice.testing import forget_tools
from tests.agent.workshop import GOAL, Workshop

DEAR = Price(0.0, 100.0)
"""A request costs what it says: a dollar for ten thousand tokens."""
MOST = 400
"""Tokens of a reply: at most 0.04 dollars."""


class Office:
    """A boss with workers, on a host whose processes come and go."""

    def __init__(self, workers: int, *, turns: int = 3, **options: Any) -> None:
        self.shop = Workshop(["done"])
        self.made = 0
        self.guard = threading.Lock()
        self.turns = turns
        self.helper = self.agent("helper", self.work)
        goals = [{"helper": {"goal": f"task {number}"}} for number in range(workers)]
        self.boss = self.agent("boss", [goals, "All is done."], tools=[self.helper], **options)
        self.shop.agent = self.boss

    def agent(self, name: str, script: Any, *, tools: Any = (), **options: Any) -> nt.Agent:
        provider = nt.providers.scripted(script, price=DEAR)
        complete = provider.complete

        def count(request: ModelRequest) -> ModelReply:
            with self.guard:
                self.made += 1
            return complete(request)

        provider.complete = count  # type: ignore[method-assign]
        options.setdefault("most_output_tokens", MOST)
        return nt.Agent(name, version="1.0.0", provider=provider, tools=tools, **options)

    def work(self, request: ModelRequest) -> Any:
        if request.turn < self.turns:
            return {"remember": {"name": f"n{request.turn}", "where": "x" * 900}}
        return "y" * 900

    def run(self, **said: Any) -> nt.Outcome[nt.agent.RunState]:
        return self.shop.finish(**said)

    def spent(self) -> float:
        """What all runs have really spent, by their own states."""
        with self.shop.host.process() as ledger:
            runs = [run.workflow_id for run in ledger.store.runs()]
            states = [self.helper.load(run, store=ledger) for run in runs if run != "ticket-7"]
            states.append(self.boss.load("ticket-7", store=ledger))
        return sum(state.spent.own.usd for state in states)


def test_workers_cannot_spend_past_the_budget_of_their_boss() -> None:
    """The story of a boss with 0.40 dollars whose fifteen workers spent 2.93."""
    office = Office(15, budget=nt.Budget(usd=0.40))
    outcome = office.run()
    assert outcome.status == "waiting"
    assert {review.kind.value for review in outcome.reviews} == {"budget"}
    summary = outcome.reviews[0].summary
    assert "'ticket-7', which this one works for, may spend 0.4 dollars" in summary
    assert 0.20 < office.spent() <= 0.40
    assert outcome.state.spent.with_workers.usd == pytest.approx(office.spent())
    assert outcome.state.spent.usd > 5 * outcome.state.spent.own.usd


def test_without_a_limit_nothing_is_held_back_and_all_of_it_is_reported() -> None:
    office = Office(5)
    outcome = office.run()
    assert outcome.status == "completed"
    spent = outcome.state.spent
    assert spent.own.requests == 2
    assert spent.with_workers.requests == spent.requests == office.made == 17
    assert spent.usd == pytest.approx(office.spent())
    again = nt.agent.RunState(outcome.state.plain).spent
    assert again.with_workers == spent.with_workers, "it is in the state, too"


def test_what_a_person_allows_one_worker_lets_all_continue(tmp_path: Any) -> None:
    """In real time: the others look whether the one that was allowed more has used it."""
    office, store = Office(6, budget=nt.Budget(usd=0.25)), tmp_path / "l.db"
    outcome = office.boss.run("ticket-7", goal=GOAL, store=store)
    assert outcome.status == "waiting"
    with nt.Reviews(store) as reviews:
        last = outcome.reviews[-1].review_id
        reviews.decide(last, "raise", by="ann", why="go on", result={"usd": 2})
    outcome = office.boss.run("ticket-7", store=store)
    assert outcome.status == "completed"
    assert 0.25 < outcome.state.spent.usd < 2.25
    with nt.Reviews(store) as reviews:
        assert reviews.open() == []


def test_the_same_holds_in_an_event_loop() -> None:
    office = Office(15, budget=nt.Budget(usd=0.40, workers=15))

    async def main() -> nt.Outcome[nt.agent.RunState]:
        with office.shop.host.process() as ledger:
            return await office.boss.arun("ticket-7", goal=GOAL, store=ledger)
        raise AssertionError

    outcome = asyncio.run(main())
    assert outcome.status == "waiting"
    assert 0.20 < outcome.state.spent.usd <= 0.40


def test_what_workers_took_is_missing_for_their_boss() -> None:
    office = Office(3, budget=nt.Budget(usd=1.0))
    spent = office.run().state.spent
    assert spent.with_workers.usd > 0.3
    tight = Office(3, budget=nt.Budget(usd=round(spent.usd - spent.own.usd / 2 + 0.001, 6)))
    outcome = tight.run()
    assert outcome.status == "waiting"
    with tight.shop.host.process() as ledger:
        children = ledger.store.children("ticket-7")
    assert {child.status.value for child in children} <= {"completed", "waiting"}
    assert tight.spent() <= spent.usd


def test_a_budget_covers_the_workers_of_workers() -> None:
    office = Office(0)
    lead_tasks = [{"helper": {"goal": f"task {number}"}} for number in range(4)]
    lead = office.agent("lead", [lead_tasks, "led"], tools=[office.helper])
    tasks = [{"lead": {"goal": f"part {number}"}} for number in range(3)]
    boss = office.agent("top", [tasks, "done"], tools=[lead], budget=nt.Budget(usd=0.5))
    office.shop.agent = boss
    outcome = office.run()
    assert outcome.status == "waiting"
    assert 0.2 < outcome.state.spent.with_workers.usd <= 0.5


@pytest.mark.parametrize("dies_at", range(3, 60, 4))
def test_killed_anywhere_the_tree_stays_within_the_budget(dies_at: int) -> None:
    office = Office(4, budget=nt.Budget(usd=0.30))
    office.shop.run(dies_at=dies_at)
    outcome = office.run()
    assert outcome.status == "waiting"
    spent = outcome.state.spent
    assert spent.usd + spent.unanswered_usd <= 0.30
    assert office.made * MOST * 100e-6 >= spent.usd


def test_a_crash_loop_of_workers_cannot_spend_past_the_budget() -> None:
    """Each process dies when a model has answered a worker, before that is on record."""
    office = Office(2, budget=nt.Budget(usd=0.40))
    for _ in range(60):
        for dies_at in range(6, 40):
            asked = office.made
            outcome = office.shop.run(dies_at=dies_at)
            if outcome is not None or office.made > asked:
                break
        if outcome is not None:
            break
    assert outcome is not None
    assert office.made * MOST * 100e-6 < 0.40 + MOST * 100e-6
    assert outcome.state.spent.unanswered_usd > 0


@nt.tool("unsafe_on_replay", name="pay_a_bill", approve=True)
def pay_a_bill(number: int) -> str:
    """Pay a bill."""
    PAID.append(number)
    return "paid"


PAID: list[int] = []


def clerk_of(version: str) -> nt.Agent:
    script = [{"pay_a_bill": {"number": 1}}, f"Paid, says {version}."]
    provider = nt.providers.scripted(script)
    return nt.Agent("clerk", version=version, provider=provider, tools=[pay_a_bill])


def boss_of(clerk: nt.Agent, **options: Any) -> nt.Agent:
    provider = nt.providers.scripted([{"clerk": {"goal": "pay"}}, "The boss is done."])
    return nt.Agent("boss", version="1.0.0", provider=provider, tools=[clerk], **options)


def pending(path: Any) -> None:
    """A boss waits for a worker of version 1.0.0, which a person has allowed to continue."""
    PAID.clear()
    outcome = boss_of(clerk_of("1.0.0")).run("b", goal="g", store=path)
    with nt.Reviews(path) as reviews:
        reviews.decide(outcome.reviews[0].review_id, "approve", by="ann")


def test_a_worker_finishes_in_its_own_version_which_is_deployed_beside_the_new_one(
    tmp_path: Any,
) -> None:
    path = tmp_path / "a.db"
    pending(path)
    old, new = clerk_of("1.0.0"), clerk_of("2.0.0")
    app = nt.App(graphs=[boss_of(new), old, new], store=path)
    outcome = app.run("boss", "b")
    assert outcome.status == "completed"
    assert outcome.state.transcript[1].tool_results[0].content == "Paid, says 1.0.0."
    assert PAID == [1]


@pytest.mark.parametrize("names_both", [True, False])
@pytest.mark.parametrize("by_daemon", [True, False])
def test_a_worker_of_an_older_version_is_bound_by_the_policy_of_its_boss(
    tmp_path: Any, by_daemon: bool, names_both: bool
) -> None:
    path = tmp_path / "a.db"
    pending(path)
    old, new = clerk_of("1.0.0"), clerk_of("2.0.0")
    boss = boss_of(new, policy=policy.only("nothing"))
    app = nt.App(graphs=[boss, old, new] if names_both else [boss, old], store=path)
    if by_daemon:
        nt.Worker(app).run(until_idle=True)
    else:
        app.run("boss", "b")
    assert app.outcome("b").status == "completed"
    assert PAID == []


def test_a_boss_waits_for_a_worker_whose_version_is_not_deployed_and_people_are_told(
    tmp_path: Any,
) -> None:
    path = tmp_path / "a.db"
    pending(path)
    old, new = clerk_of("1.0.0"), clerk_of("2.0.0")
    outcome = boss_of(new).run("b", store=path)
    assert outcome.status == "waiting"
    (told,) = (one.summary for one in outcome.reviews if one.kind.value == "undeployable")
    assert "no deployed version can resume this run" in told
    assert "--to clerk@2.0.0 --why TEXT" in told, "an agent needs no map"
    assert PAID == []
    outcome = nt.App(graphs=[boss_of(new), old, new], store=path).run("boss", "b")
    assert (outcome.status, outcome.reviews) == ("completed", ())
    assert PAID == [1]


def test_workers_that_other_processes_take_up_are_covered(tmp_path: Any) -> None:
    """The boss's process has ended; workers of a daemon continue the children alone."""
    office = Office(3, budget=nt.Budget(usd=0.30))
    outcome = office.run()
    assert outcome.status == "waiting"
    with office.shop.host.process() as ledger:
        app = nt.App(graphs=[office.helper], store=ledger)
        with nt.Reviews(ledger) as reviews:
            reviews.decide(
                outcome.reviews[0].review_id, "raise", by="ann", why="a bit", result={"usd": 0.05}
            )
        nt.Worker(app).run(until_idle=True)
    assert office.spent() <= 0.35
    assert office.run().status == "waiting"


@pytest.mark.parametrize("name", ["l.db", "file:runs"])
def test_many_threads_at_once_do_not_pass_the_limit(tmp_path: Any, name: str) -> None:
    """Real threads and real files: no two workers take the last of it."""
    office = Office(12, turns=2, budget=nt.Budget(usd=0.30))
    kind, _, path = name.rpartition(":")
    store = tmp_path / path if not kind else f"{kind}:{tmp_path / path}"
    outcome = office.boss.run("ticket-7", goal=GOAL, store=store)
    assert outcome.status == "waiting"
    assert outcome.state.spent.usd <= 0.30


def test_two_workers_at_once_cannot_both_take_the_last_of_it() -> None:
    """Both have looked and found room before either of them reserves."""
    office = Office(2, turns=1, budget=nt.Budget(usd=0.06))
    looked = threading.Barrier(2)
    waits = 0

    class Store(MemoryStore):
        def commit(self, commit: Commit) -> None:
            nonlocal waits
            if any(one.at_most is not None for one in commit.charges) and waits < 2:
                names = {one.charge.meter.split("/")[1] for one in commit.charges}
                if "usd" in names:
                    waits += 1
                    looked.wait(10)
            super().commit(commit)

    ledger = nt.Ledger(Store(office.shop.host.data), clock=office.shop.host.clock)
    outcome = office.boss.run("ticket-7", goal=GOAL, store=ledger)
    assert waits == 2
    assert outcome.state.spent.usd <= 0.06


def test_a_limit_of_workers_makes_the_run_wait_before_any_is_started() -> None:
    office = Office(4, budget=nt.Budget(workers=3))
    outcome = office.run()
    assert outcome.status == "waiting"
    assert "may hand 3 tasks to workers" in outcome.reviews[0].summary
    assert office.made == 1
    review = outcome.reviews[0].review_id
    with office.shop.host.process() as ledger:
        with nt.Reviews(ledger) as reviews:
            reviews.decide(review, "raise", by="ann", why="one more", result={"workers": 1})
    outcome = office.run()
    assert outcome.status == "completed"
    assert outcome.state.plain["raised"] == {"workers": 1}


def test_workers_of_workers_count_against_the_limit_of_the_first() -> None:
    office = Office(0)
    lead_tasks = [{"helper": {"goal": f"task {number}"}} for number in range(3)]
    lead = office.agent("lead", [lead_tasks, "led"], tools=[office.helper])
    boss = office.agent(
        "top", [{"lead": {"goal": "lead"}}, "done"], tools=[lead], budget=nt.Budget(workers=3)
    )
    office.shop.agent = boss
    outcome = office.run()
    assert outcome.status == "waiting"
    assert "may have 3 workers in all, and this would be one more" in outcome.reviews[0].summary
    assert office.made == 2


def test_fifty_workers_are_the_limit_unless_the_agent_says_otherwise() -> None:
    office = Office(51, turns=1)
    outcome = office.run()
    assert outcome.status == "waiting"
    assert "may hand 50 tasks to workers" in outcome.reviews[0].summary


def test_a_worker_asked_for_again_is_not_counted_again() -> None:
    office = Office(1)
    task = {"helper": {"goal": "task"}}
    office.shop.agent = office.agent(
        "other", [task, task, task, "done"], tools=[office.helper], budget=nt.Budget(workers=1)
    )
    assert office.run().status == "completed"


@pytest.mark.parametrize("dies_at", range(3, 40, 3))
def test_a_raise_of_the_number_of_workers_is_used_once(dies_at: int) -> None:
    office = Office(3, turns=1, budget=nt.Budget(workers=1))
    review = office.run().reviews[0].review_id
    with office.shop.host.process() as ledger:
        with nt.Reviews(ledger) as reviews:
            reviews.decide(review, "raise", by="ann", why="one more", result={"workers": 1})
    office.shop.run(dies_at=dies_at)
    outcome = office.run()
    assert outcome.status == "waiting"
    assert "may hand 2 tasks to workers" in outcome.reviews[0].summary


def test_a_fork_begins_with_what_workers_took_before_it() -> None:
    office = Office(3, budget=nt.Budget(usd=1.0))
    spent = office.run().state.spent
    office.shop.agent = office.agent(
        "boss",
        ["", "", "more"],
        tools=[office.helper],
        budget=nt.Budget(usd=round(spent.usd + 0.01, 6)),
    )
    with office.shop.host.process() as ledger:
        office.shop.agent.fork("ticket-7", to="fork", store=ledger)
        outcome = office.shop.agent.run("fork", message="And more.", store=ledger)
    assert outcome.status == "waiting"
    assert f"has spent {spent.usd:g}" in outcome.reviews[0].summary


def test_a_worker_whose_price_is_not_known_is_refused_under_a_limit_in_dollars() -> None:
    forget_tools()
    free = nt.Agent("free", version="1.0.0", provider=nt.providers.scripted(["hi"], price=None))
    with pytest.raises(nt.errors.UsageError, match="price of 'scripted-1' is not known"):
        nt.Agent(
            "boss",
            version="1.0.0",
            provider=nt.providers.scripted([{"free": {"goal": "g"}}, "done"]),
            tools=[free],
            budget=nt.Budget(usd=1),
        )


PROGRAM = """
import sys
import nottwice as nt

log, store, role = sys.argv[1:]
price = nt.agent.Price(0.0, 100.0)

def work(request):
    if request.turn < 6:
        return {"remember": {"name": f"n{request.turn}", "where": "x" * 900}}
    return "y" * 900

helper = nt.Agent(
    "helper", version="1.0.0", most_output_tokens=400,
    provider=nt.providers.scripted(work, price=price, log=log),
)
goals = [{"helper": {"goal": f"task {number}"}} for number in range(6)]
boss = nt.Agent(
    "boss", version="1.0.0", most_output_tokens=400, tools=[helper], budget=nt.Budget(usd=1.20),
    provider=nt.providers.scripted([goals, "All is done."], price=price, log=log),
)
if role == "boss":
    print(boss.run("ticket-7", goal="close ticket 7", store=store, acquire_timeout="30s").status)
else:
    nt.Worker(nt.App(graphs=[boss, helper], store=store)).run(until_idle=True)
"""
CHEAPEST = 0.0316
"""What the shortest reply of a worker costs."""


def start(tmp_path: Path, role: str) -> subprocess.Popen[str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    line = [sys.executable, str(program), str(tmp_path / "log"), str(tmp_path / "l.db"), role]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)


def requests_made(tmp_path: Path) -> int:
    log = tmp_path / "log"
    return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0


def test_real_processes_that_are_killed_and_run_at_once_stay_within_the_budget(
    tmp_path: Path,
) -> None:
    for _ in range(3):
        process, before = start(tmp_path, "boss"), requests_made(tmp_path)
        while process.poll() is None and requests_made(tmp_path) < before + 2:
            time.sleep(0.005)
        process.kill()
        process.communicate()
    crew = [start(tmp_path, "worker") for _ in range(2)]
    assert [process.wait(120) for process in crew] == [0, 0]
    for process in crew:
        process.communicate()
    boss = start(tmp_path, "boss")
    assert boss.communicate(timeout=120)[0].strip() == "waiting"
    made = requests_made(tmp_path)
    assert made > 8
    # The one request of the boss is the dearest; every other one is of a worker.
    assert made * CHEAPEST <= 1.20
    with nt.Reviews(tmp_path / "l.db") as reviews:
        assert {case.review.kind.value for case in reviews.open()} == {"budget"}
