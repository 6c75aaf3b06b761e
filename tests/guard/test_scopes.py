"""Steps, parallel branches and the current call, as user code writes them (D6, D7, L5)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.model.run import StepStatus
from nottwice.store.interface import Commit, Store
from nottwice.store.memory import MemoryStore
from tests.fakes import Host

declare: Any = nt.tool


class Crash(Exception):
    """Ends a block early, as a bug in user code would."""


class Sender:
    """A tool that counts what it sends, sync and async."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self._guard = threading.Lock()

        @nt.tool("unsafe_on_replay", name="scopes send")
        def send(to: Any) -> str:
            return self.happen(to)

        @nt.tool("unsafe_on_replay", name="scopes send async")
        async def send_async(to: Any) -> str:
            await asyncio.sleep(0)
            return self.happen(to)

        self.send = send
        self.send_async = send_async

    def happen(self, to: Any) -> str:
        with self._guard:
            self.sent.append(to)
        return f"sent to {to}"


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def host() -> Host:
    return Host()


def marks(host: Host) -> dict[str, str]:
    """Every durable step mark: its node and visit, and how far it got."""
    return {
        f"{step.node_id} {step.checkpoint_id}": step.status.value
        for step in sorted(host.data.steps.values(), key=lambda step: step.ordinal)
    }


# The current call


def test_a_tool_can_read_its_own_call(host: Host) -> None:
    seen: list[nt.Call] = []

    @nt.tool("unsafe_on_replay")
    def scopes_current(to: str, note: str = "none") -> str:
        seen.append(nt.current_call())
        if len(seen) == 1:
            raise nt.Retryable("busy", retry_after=5)
        return "sent"

    with host.process() as ledger, ledger.run("r"), nt.step("tell"):
        receipt = scopes_current.receipt("ann")
    first, second = seen
    assert {first.id, second.id} == {receipt.id}
    assert (first.attempt, second.attempt) == (1, 2)
    assert (first.run_id, first.tool, first.step) == ("r", "scopes_current", "tell")
    assert first.args == {"to": "ann", "note": "none"}
    assert first.key is None
    assert first.first_started_at == second.first_started_at == first.started_at
    assert second.started_at == first.started_at + 5


def test_an_inner_call_does_not_hide_the_outer_one_permanently() -> None:
    names: list[str] = []

    @nt.tool("pure")
    def scopes_inner(x: int) -> int:
        names.append(nt.current_call().tool)
        return x

    @nt.tool("pure")
    def scopes_outer(x: int) -> int:
        scopes_inner(x)
        names.append(nt.current_call().tool)
        return x

    with nt.Ledger(":memory:").run("r"):
        scopes_outer(1)
    assert names == ["scopes_inner", "scopes_outer"]


def test_there_is_no_current_call_outside_a_tool(sender: Sender) -> None:
    with nt.Ledger(":memory:").run("r"), pytest.raises(nt.errors.NotInRun, match=r"bare \.fn"):
        nt.current_call()

    @nt.tool("pure")
    def scopes_bare() -> str:
        return nt.current_call().id

    with pytest.raises(nt.errors.NotInRun, match="outside a protected tool"):
        scopes_bare.fn()


# Steps


@pytest.mark.parametrize(
    "what",
    [
        lambda: nt.step("s").__enter__(),
        lambda: nt.map(str, [1]),
        lambda: asyncio.run(nt.gather(asyncio.sleep(0))),
    ],
)
def test_steps_and_branches_need_a_run(what: Callable[[], object]) -> None:
    """And a coroutine that is refused is closed: no warning comes up in another place."""
    with pytest.raises(
        nt.errors.NotInRun, match=r"^nt\.(step|map|gather).* was used outside a run"
    ):
        what()


def test_the_marks_of_steps_ride_with_commits_that_are_made_anyway(sender: Sender) -> None:
    """Four commits: the claim, the intent, the result and the release; steps add none."""
    store = CountingStore(inner := MemoryStore())
    with nt.Ledger(cast(Store, store)).run("r"):
        with nt.step("look"), nt.step("closer"):
            pass
        assert store.commits == 1
        assert inner.steps("r") == []
        with nt.step("tell", at=1):
            sender.send("ann")
        assert store.commits == 3
        with nt.step("end"):
            pass
    assert store.commits == 4
    assert [(step.node_id, step.status) for step in inner.steps("r")] == [
        ("look", StepStatus.DONE),
        ("look/closer", StepStatus.DONE),
        ("tell", StepStatus.DONE),
        ("end", StepStatus.DONE),
    ]


class CountingStore:
    """Everything is done by the store inside; commits are counted."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, commit: Commit) -> None:
        self.commits += 1
        self._inner.commit(commit)

    def commit_soon(self, commit: Commit) -> Future[None]:
        self.commits += 1
        return self._inner.commit_soon(commit)


def test_a_step_is_marked_before_its_first_effect_and_after_its_last(host: Host) -> None:
    seen: list[dict[str, str]] = []

    @nt.tool("unsafe_on_replay")
    def scopes_marked(to: str) -> str:
        seen.append(marks(host))
        return to

    with host.process() as ledger, ledger.run("r"):
        with nt.step("one"):
            scopes_marked("ann")
        with nt.step("two", at="first"), nt.step("deep", at=7):
            scopes_marked("bob")
    assert seen == [
        {"one start/": "in_progress"},
        {
            "one start/": "done",
            "two start/first": "in_progress",
            "two/deep start/first/7": "in_progress",
        },
    ]
    assert set(marks(host).values()) == {"done"}


def test_a_step_that_raises_is_marked_failed_with_its_error_and_is_resumed(
    host: Host, sender: Sender
) -> None:
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(ValueError, match="no luck"), nt.step("tell"):
            sender.send("ann")
            raise ValueError("no luck")
        sender.send("outside")
        (step,) = host.data.steps.values()
        assert step.status is StepStatus.FAILED
        assert step.failure is not None
        assert (step.failure.error_type, step.failure.message) == ("ValueError", "no luck")
        with nt.step("tell"):
            sender.send("ann")
            sender.send("bob")
    assert sender.sent == ["ann", "outside", "bob"]
    assert marks(host) == {"tell start/": "done"}


def test_an_open_step_replays_what_it_holds_and_may_add_to_it(host: Host, sender: Sender) -> None:
    for names in (["ann"], ["ann", "bob"]):
        with host.process() as ledger, pytest.raises(Crash), ledger.run("r"), nt.step("tell"):
            for name in names:
                sender.send(name)
            raise Crash
    assert sender.sent == ["ann", "bob"]


def test_a_finished_step_only_replays(host: Host, sender: Sender) -> None:
    pure: list[int] = []

    @nt.tool("pure")
    def scopes_look(x: int) -> int:
        pure.append(x)
        return x

    for _ in range(2):
        with host.process() as ledger, ledger.run("r"), nt.step("tell"):
            sender.send("ann")
    with host.process() as ledger, ledger.run("r"):
        with nt.step("tell"):
            assert scopes_look(1) == 1
            with pytest.raises(nt.errors.ReplayDriftError) as caught:
                sender.send("bob")
            with pytest.raises(nt.errors.ReplayDriftError):
                sender.send.again("once more")("ann")
        with nt.step("tell", at=2):
            sender.send("bob")
    text = str(caught.value)
    assert "Step 'tell' of run 'r' is finished and only replays" in text
    assert "It was not sent. If this is another visit, say so: nt.step(name, at=...)" in text
    assert sender.sent == ["ann", "bob"]
    assert pure == [1]
    assert host.open_reviews == [], "this is the caller's mistake, and no person need decide it"


def test_no_name_can_imitate_another_step_or_branch(host: Host, sender: Sender) -> None:
    with host.process() as ledger, ledger.run("r"):
        for open_steps in (
            [nt.step("a"), nt.step("b")],
            [nt.step("a/b")],
            [nt.step("a%2Fb")],
            [nt.step("a[0]")],
            [nt.step("/")],
            [nt.step("a", at="1/2")],
            [nt.step("a", at=1), nt.step("b", at=2)],
            [nt.step("a"), nt.step("b", at="1/2")],
        ):
            for each in open_steps:
                each.__enter__()
            sender.send("ann")
            for each in reversed(open_steps):
                each.__exit__(None, None, None)
    assert len(sender.sent) == 8


def test_at_tells_visits_apart_and_is_a_text_or_a_whole_number() -> None:
    for wrong in (1.5, True, ["a"], b"a"):
        with pytest.raises(nt.errors.UsageError, match="cannot tell visits of step 's' apart"):
            nt.step("s", at=wrong)  # type: ignore[arg-type]
    for unkept in ("", "a\nb", 10**5000):
        with pytest.raises(nt.errors.InvalidId, match="The step's at"):
            nt.step("s", at=unkept)


def test_a_step_object_is_entered_once_at_a_time_and_leaves_no_mark_when_refused(
    host: Host, sender: Sender
) -> None:
    with host.process() as ledger, ledger.run("r"):
        step = nt.step("tell")
        with step:
            with pytest.raises(nt.errors.UsageError, match="entered already"), step:
                raise AssertionError("entered")
            sender.send("ann")
        with step:
            sender.send("ann")
    assert sender.sent == ["ann"]
    assert marks(host) == {"tell start/": "done"}


def test_a_step_may_be_left_in_another_context_than_it_was_entered_in(host: Host) -> None:
    async def scoped() -> AsyncIterator[int]:
        async with nt.step("s"):
            yield 1

    async def main(ledger: nt.Ledger) -> None:
        async with ledger.run("r"):
            generator: Any = scoped()
            assert await asyncio.create_task(anext(generator)) == 1
            await generator.aclose()

    with host.process() as ledger:
        asyncio.run(main(ledger))
    assert marks(host) == {"s start/": "failed"}


def test_async_steps_are_steps(host: Host, sender: Sender) -> None:
    async def main(ledger: nt.Ledger) -> None:
        async with ledger.run("r"):
            for turn in (1, 2, 1):
                async with nt.step("tell", at=turn):
                    await sender.send_async("ann")

    with host.process() as ledger:
        asyncio.run(main(ledger))
    assert sender.sent == ["ann", "ann"]
    assert marks(host) == {"tell start/1": "done", "tell start/2": "done"}


# Branches


def test_branches_have_identities_by_index(host: Host, sender: Sender) -> None:
    with host.process() as ledger, ledger.run("r"):
        assert nt.map(sender.send, ["ann", "ann"]) == ["sent to ann"] * 2
        with nt.step("tell"):
            nt.map(sender.send, ["ann", "bob"])
            nt.map(sender.send, ["ann", "bob"])
    assert sorted(sender.sent) == ["ann", "ann", "ann", "bob"]
    assert {row.identity.node_id for row in host.calls} == {
        "map send[0]",
        "map send[1]",
        "tell[0]",
        "tell[1]",
    }


def test_results_come_in_the_order_of_the_items_and_threads_are_bounded(host: Host) -> None:
    three, four = threading.Barrier(3, timeout=10), threading.Barrier(4, timeout=0.2)
    too_many: list[int] = []

    def meet(x: int) -> int:
        three.wait()
        return -x

    def crowd(x: int) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            four.wait()
            too_many.append(x)

    with host.process() as ledger, ledger.run("r"):
        assert nt.map(meet, range(6), threads=3) == [-x for x in range(6)]
        nt.map(crowd, range(4), threads=3)
        assert nt.map(abs, [], name="none") == []
        assert nt.map(abs, [-1], name="odd", threads=1) == [1]
    assert too_many == []


class Later:
    async def __call__(self, x: int) -> int:
        return x


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((abs, None), {}),
        ((5, [1]), {}),
        ((Later(), [1]), {}),
        *(((abs, [1]), {"threads": threads}) for threads in (0, -1, 1.5, "2")),
    ],
)
def test_what_map_cannot_do_is_refused_before_anything_happens(
    host: Host, given: tuple[Any, Any], words: dict[str, Any]
) -> None:
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.UsageError, match="Nothing happened"):
            nt.map(*given, **words)
    assert marks(host) == {}


def test_what_gather_cannot_await_is_refused_before_anything_happens(host: Host) -> None:
    """And a coroutine beside it is closed: no warning comes up in another place."""
    gather: Any = nt.gather

    async def main(ledger: nt.Ledger) -> None:
        async with ledger.run("r"):
            for given in ((asyncio.sleep(0), 5), ([asyncio.sleep],), (None,)):
                with pytest.raises(nt.errors.UsageError, match="Nothing happened"):
                    await gather(*given)

    with host.process() as ledger:
        asyncio.run(main(ledger))
    assert marks(host) == {}


def test_gather_does_the_same_in_one_loop(host: Host, sender: Sender) -> None:
    async def branch(to: str) -> str:
        first = await sender.send_async(to)
        return first + await sender.send_async(f"{to} again")

    async def main(ledger: nt.Ledger) -> None:
        async with ledger.run("r"):
            for _ in range(2):
                assert (
                    await nt.gather(branch("ann"), branch("ann"))
                    == ["sent to annsent to ann again"] * 2
                )
            assert await nt.gather(name="none") == []

    with host.process() as ledger:
        asyncio.run(main(ledger))
    assert len(sender.sent) == 4
    assert {row.identity.node_id for row in host.calls} == {"gather branch[0]", "gather branch[1]"}


def test_all_branches_end_before_the_first_error_is_raised(host: Host, sender: Sender) -> None:
    def work(x: int) -> str:
        if x % 2 == 0:
            raise ValueError(f"no {x}")
        return sender.send(x)

    with host.process() as ledger, pytest.raises(ValueError, match="no 0") as caught:
        with ledger.run("r"):
            nt.map(work, range(4))
    assert sorted(sender.sent) == [1, 3]
    assert caught.value.__notes__ == ["Another branch ended with ValueError: no 2"]
    assert marks(host) == {"map work start/": "failed"}


def test_an_error_that_blocks_the_run_comes_before_any_other(host: Host) -> None:
    @nt.tool("unsafe_on_replay")
    def scopes_doubtful(x: int) -> int:
        raise TimeoutError

    async def branch(x: int) -> int:
        if x == 0:
            raise ValueError("no 0")
        return scopes_doubtful(x)

    async def main(ledger: nt.Ledger) -> None:
        async with ledger.run("r"):
            await nt.gather(branch(0), branch(1))

    with host.process() as ledger, pytest.raises(nt.errors.ReplayUnsafeError) as caught:
        asyncio.run(main(ledger))
    assert caught.value.__notes__ == ["Another branch ended with ValueError: no 0"]


def test_nested_branches_have_nested_identities(host: Host, sender: Sender) -> None:
    def outer(x: str) -> list[str]:
        return nt.map(sender.send, [x, "ann"])

    with host.process() as ledger, ledger.run("r"):
        for _ in range(2):
            nt.map(outer, ["ann", "bob"])
    assert sorted(sender.sent) == ["ann", "ann", "ann", "bob"]
    assert {row.identity.node_id for row in host.calls} == {
        f"map outer[{i}][{j}]" for i in (0, 1) for j in (0, 1)
    }


def test_a_resumed_map_sends_only_what_is_missing(host: Host, sender: Sender) -> None:
    def work(x: int) -> str:
        if x == 2 and not sender.sent.count("go"):
            raise Crash
        return sender.send(x)

    with host.process() as ledger, pytest.raises(Crash), ledger.run("r"):
        nt.map(work, range(4))
    assert sorted(sender.sent) == [0, 1, 3]
    sender.sent.append("go")
    with host.process() as ledger, ledger.run("r"):
        assert nt.map(work, range(4)) == [f"sent to {x}" for x in range(4)]
    assert sender.sent[4:] == [2]


@pytest.mark.parametrize("items", [["eve", "bob"], ["bob", "ann"], ["ann"], []])
def test_other_items_in_a_resumed_map_are_drift(
    host: Host, sender: Sender, items: list[str]
) -> None:
    with host.process() as ledger, pytest.raises(Crash), ledger.run("r"), nt.step("tell"):
        nt.map(sender.send, ["ann", "bob"])
        raise Crash
    with (
        host.process() as ledger,
        pytest.raises(nt.errors.ReplayDriftError, match="the code has drifted"),
        ledger.run("r"),
        nt.step("tell"),
    ):
        nt.map(sender.send, items)
    assert sorted(sender.sent) == ["ann", "bob"]


def test_more_items_in_a_resumed_map_are_welcome(host: Host, sender: Sender) -> None:
    with host.process() as ledger, pytest.raises(Crash), ledger.run("r"), nt.step("tell"):
        nt.map(sender.send, ["ann", "bob"])
        raise Crash
    with host.process() as ledger, ledger.run("r"), nt.step("tell"):
        nt.map(sender.send, ["ann", "bob", "eve"])
    assert sorted(sender.sent) == ["ann", "bob", "eve"]


def test_a_second_map_of_one_name_outside_steps_is_refused_and_another_name_is_not(
    host: Host, sender: Sender
) -> None:
    with host.process() as ledger, ledger.run("r"):
        nt.map(sender.send, ["ann"])
        with pytest.raises(
            nt.errors.ReplayDriftError, match=r"'map send\[0\]' .*finished and only"
        ):
            nt.map(sender.send, ["bob"])
        nt.map(sender.send, ["bob"], name="second round")
    assert sender.sent == ["ann", "bob"]


def test_map_refuses_what_it_could_not_await(sender: Sender) -> None:
    with (
        nt.Ledger(":memory:").run("r"),
        pytest.raises(nt.errors.UsageError, match=r"await nt\.gather"),
    ):
        nt.map(sender.send_async, ["ann"])
    assert sender.sent == []


def test_branches_of_a_cancelled_gather_begin_nothing_new(host: Host, sender: Sender) -> None:
    """What was sent stays sent and is recorded; the code after it does not continue alone."""

    async def main(ledger: nt.Ledger) -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        @nt.tool("unsafe_on_replay")
        async def scopes_slow(x: int) -> str:
            began.set()
            await go_on.wait()
            return sender.happen(x)

        async def branch(x: int) -> None:
            await scopes_slow(x)
            await scopes_slow(x + 10)

        async with ledger.run("r"):
            gathering = asyncio.ensure_future(nt.gather(branch(0), branch(1)))
            await began.wait()
            await asyncio.sleep(0)
            gathering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gathering
            go_on.set()

    with host.process() as ledger:
        asyncio.run(main(ledger))
    assert sorted(sender.sent) == [0, 1]
    assert [row.status for row in host.calls] == [CallStatus.DONE] * 2
    assert marks(host) == {"gather branch start/": "failed"}


def test_a_cancelled_branch_cancels_the_gathering_after_all_have_ended(host: Host) -> None:
    ended: list[int] = []

    async def branch(x: int) -> None:
        if x == 0:
            raise asyncio.CancelledError
        await asyncio.sleep(0)
        ended.append(x)

    async def main(ledger: nt.Ledger) -> None:
        async with ledger.run("r"):
            with pytest.raises(asyncio.CancelledError):
                await nt.gather(branch(0), branch(1))

    with host.process() as ledger:
        asyncio.run(main(ledger))
    assert ended == [1]


def test_a_thread_of_ones_own_is_in_the_step_it_was_started_in(host: Host, sender: Sender) -> None:
    with host.process() as ledger, ledger.run("r"), nt.step("tell"):
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(sender.send, "ann"))
        thread.start()
        thread.join()
        sender.send("ann")
    assert sender.sent == ["ann"]
    assert [row.identity.node_id for row in host.calls] == ["tell"]
