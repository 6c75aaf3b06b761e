"""Celery itself with real brokers, real workers, real SIGKILLs. Runs inside `.venv-hosts`.

A folder is the broker that always works: it delivers again what a pool process left. Redis also
delivers again what a whole worker left, and what takes longer than its visibility timeout.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from redis import Redis

import nottwice as nt
from nottwice.celery.tasks import _time_left
from tests.hosts.inside.celery_program import FOLDERS, made
from tests.hosts.inside.effects import lines, looks, plan_death, wait_for
from tests.hosts.inside.servers import database, free_port, is_listening
from tests.hosts.inside.tools import apart, place_ledger, store_of
from tests.hosts.required import missing

__all__ = ["database"]

WORKER = [sys.executable, "-m", "celery", "--app", "tests.hosts.inside.celery_program", "worker"]
QUIET = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO"]


class Shop:
    """One test: its broker, its workers, and what it sends."""

    def __init__(
        self, folder: Path, broker: str = FOLDERS, *, bare: bool = False, place: str = ""
    ) -> None:
        """``place``: the database of the ledger."""
        self.folder, self.bare = folder, bare
        for name in ("queue", "control", "results"):
            (folder / name).mkdir()
        (folder / "broker").write_text(broker)
        place_ledger(folder, place)
        self._app = made(folder)

    @contextmanager
    def worker(self, *before: str, processes: int = 1) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that is ready. ``before``: what to put before its command."""
        log = (self.folder / "log").open("ab")
        (self.folder / "ready").unlink(missing_ok=True)
        words = ["--pool", "prefork", "--concurrency", str(processes)]
        words += ["-n", f"{os.urandom(4).hex()}@x"]
        facts = {"CELERY_FOLDER": str(self.folder), "CELERY_BARE": str(int(self.bare))}
        process = subprocess.Popen(
            [*before, *WORKER, *words, *QUIET],
            stdout=log,
            stderr=log,
            env={**os.environ, **facts},
            start_new_session=True,
        )
        try:
            wait_for(lambda: (self.folder / "ready").exists() or process.poll() is not None)
            assert process.poll() is None, self.log[-3000:]
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def send(self, name: str, line: str, **options: Any) -> Any:
        return self._app.send_task(name, [line], **options)

    def revoke(self, sent: Any, *, terminate: bool) -> None:
        """Revoke a task, and wait until Celery has recorded it.

        To terminate takes Redis: with a folder, Celery's processes share a pipe, and one that is
        terminated may leave it locked.
        """
        self._app.control.revoke(sent.id, terminate=terminate)
        wait_for(lambda: sent.state == "REVOKED")

    def result(self, sent: Any) -> Any:
        try:
            return sent.get(timeout=150, interval=0.1)
        except Exception as error:
            raise AssertionError(f"{error!r}\n{self.log[-4000:]}") from error

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def done(self) -> list[str]:
        return sorted(lines(self.folder))


@pytest.fixture
def redis() -> Iterator[str]:
    """The URL of a Redis of this test, in memory: it delivers nothing that another test left."""
    program = shutil.which("redis-server")
    if program is None:
        missing("There is no redis-server (apt-get install redis-server).")
    port = free_port()
    command = [program, "--port", str(port), "--save", "", "--bind", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: is_listening(port))
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()


CONTROL = pytest.mark.parametrize("bare", [True, False], ids=["bare", "protected"])


@CONTROL
def test_a_process_killed_after_the_effect(tmp_path: Path, *, bare: bool) -> None:
    """P288. Two effects without nottwice, one with it."""
    shop = Shop(tmp_path, bare=bare)
    plan_death(tmp_path, "after")
    with shop.worker():
        assert shop.result(shop.send("send", "a")) == {"did": "a"}
    assert shop.done == (["a", "a"] if bare else ["a"])


@CONTROL
@pytest.mark.parametrize("at", ["before", "acknowledge"])
def test_a_process_killed_before_the_effect_or_after_the_receipt(
    tmp_path: Path, at: str, *, bare: bool
) -> None:
    """P288. A kill before the effect repeats nothing in the control either."""
    shop = Shop(tmp_path, bare=bare)
    plan_death(tmp_path, at)
    with shop.worker():
        sent = shop.send("send", "a")
        # Celery has not stored the result of the first delivery, so this is that of the second.
        assert shop.result(sent) == {"did": "a"}
        assert not list(tmp_path.glob("die-*"))
    assert shop.done == (["a", "a"] if bare and at == "acknowledge" else ["a"])


@CONTROL
def test_a_worker_of_redis_that_is_killed_as_a_whole(
    tmp_path: Path, redis: str, *, bare: bool
) -> None:
    shop = Shop(tmp_path, redis, bare=bare)
    plan_death(tmp_path, "after", whole=True)
    with shop.worker() as first:
        sent = shop.send("send", "a")
        assert first.wait(60) == -signal.SIGKILL
    with shop.worker():
        assert shop.result(sent) == {"did": "a"}
    assert shop.done == (["a", "a"] if bare else ["a"])


@CONTROL
def test_an_effect_that_outlives_the_visibility_timeout_of_redis_on_two_workers(
    tmp_path: Path, redis: str, *, bare: bool
) -> None:
    """P288. The second worker waits for the first instead of doing it again."""
    shop = Shop(tmp_path, redis, bare=bare)
    (tmp_path / "slow").touch()
    with shop.worker(), shop.worker():
        sent = shop.send("send", "a")
        wait_for((tmp_path / "slowed").exists)
        wait_for(lambda: len(shop.done) == 2 if bare else "Retry in" in shop.log)
        (tmp_path / "go").touch()
        assert shop.result(sent) == {"did": "a"}
    assert shop.done == (["a", "a"] if bare else ["a"])


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "namespace"])
@CONTROL
def test_a_message_that_is_sent_again_while_a_slow_worker_has_it(
    tmp_path: Path, *, bare: bool, elsewhere: bool
) -> None:
    """P288. Also if the process that has it is in another pid namespace."""
    shop = Shop(tmp_path, bare=bare)
    (tmp_path / "slow").touch()
    with shop.worker(*(apart() if elsewhere else [])):
        first = shop.send("send", "a")
        wait_for((tmp_path / "slowed").exists)
        with shop.worker():
            again = shop.send("send", "a")
            wait_for(lambda: len(shop.done) == 2 if bare else "Retry in" in shop.log)
            (tmp_path / "go").touch()
            assert shop.result(first) == shop.result(again) == {"did": "a"}
    assert shop.done == (["a", "a"] if bare else ["a"])


@CONTROL
def test_parallel_tasks_are_made_once_each(tmp_path: Path, *, bare: bool) -> None:
    """P288. Each is sent three times, and one process is killed. The control makes all of them."""
    shop = Shop(tmp_path, bare=bare)
    plan_death(tmp_path, "after")
    with shop.worker(processes=4):
        sent = [shop.send("send", f"{n % 6}") for n in range(18)]
        assert [shop.result(one) for one in sent] == [{"did": f"{n % 6}"} for n in range(18)]
    assert len(shop.done) == (19 if bare else 6)
    assert sorted(set(shop.done)) == [f"{n}" for n in range(6)]


def test_a_doubt_is_retried_until_a_person_has_decided(tmp_path: Path) -> None:
    """P288. It is retried more often than Celery does by default, and the decision is used.

    Celery alone asks nobody: its control is the process killed after the effect.
    """
    shop = Shop(tmp_path)
    plan_death(tmp_path, "after")
    with shop.worker():
        sent = shop.send("post", "a")
        wait_for(lambda: shop.log.count("Retry in") >= 5)
        assert sent.state == "RETRY"
        with nt.Reviews(store_of(tmp_path)) as reviews:
            (case,) = reviews.open()
            assert case.review.review_id in shop.log
            said: dict[str, Any] = {"result": {"did": "seen"}, "by": "ann", "why": "looked"}
            reviews.decide(case.review.review_id, "happened", **said)
        assert shop.result(sent) == {"did": "seen"}
        assert shop.result(shop.send("post", "a")) == {"did": "seen"}
    assert shop.done == ["a"]


@pytest.mark.parametrize("limits", [{}, {"time_limit": 4}], ids=["unlimited", "limited"])
def test_a_task_whose_retry_the_broker_refuses_is_not_lost(
    tmp_path: Path, redis: str, limits: dict[str, float]
) -> None:
    """P288. Celery drops a task if its broker does not take the message of its retry. A task with a
    limit gives its message back. Here the broker refuses that too, and the worker ends."""
    shop = Shop(tmp_path, redis)
    plan_death(tmp_path, "after")
    with shop.worker() as first, Redis.from_url(redis) as server:
        sent = shop.send("post", "a", **limits)
        wait_for(lambda: "Retry in" in shop.log)
        server.execute_command("ACL", "SETUSER", "default", "-lpush")
        # Celery itself tries four times.
        wait_for(lambda: sum(one["count"] for one in server.acl_log()) > 4, seconds=30)
        if limits:
            first.wait(30)
        server.execute_command("ACL", "SETUSER", "default", "+lpush")
        with nt.Reviews(store_of(tmp_path)) as reviews:
            (case,) = reviews.open()
            said: dict[str, Any] = {"result": {"did": "seen"}, "by": "ann", "why": "looked"}
            reviews.decide(case.review.review_id, "happened", **said)
        with shop.worker() if limits else nullcontext():
            assert shop.result(sent) == {"did": "seen"}
    assert shop.done == ["a"]


def test_a_tool_that_fails_permanently_fails_its_task(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with shop.worker():
        sent = shop.send("refuse", "a")
        wait_for(lambda: sent.state == "FAILURE")
    assert "Retry in" not in shop.log


@CONTROL
def test_the_database_is_restarted_under_a_task(
    tmp_path: Path, database: Any, *, bare: bool
) -> None:
    """P290. A receipt waits for the database. The control keeps its own receipts, and loses one."""
    shop = Shop(tmp_path, bare=bare, place=database.url)
    (tmp_path / "slow").touch()
    with shop.worker():
        sent = shop.send("send", "a")
        wait_for((tmp_path / "slowed").exists)
        database.restart()
        (tmp_path / "go").touch()
        assert shop.result(sent) == {"did": "a"}
        database.restart()
        assert shop.result(shop.send("send", "a")) == {"did": "a"}
    assert shop.done == (["a", "a"] if bare else ["a"])


ENDS = {"soft": {"soft_time_limit": 4}, "hard": {"time_limit": 4}, "revoked": {}}


@CONTROL
@pytest.mark.parametrize("end", ENDS)
def test_a_tool_that_celery_ends_is_not_repeated(
    tmp_path: Path, redis: str, end: str, *, bare: bool
) -> None:
    """P304. The same work is sent again. The control does it again, or has retried it already."""
    shop = Shop(tmp_path, redis if end == "revoked" else FOLDERS, bare=bare)
    (tmp_path / "slow").touch()
    with shop.worker():
        sent = shop.send("send", "a", **ENDS[end])
        wait_for((tmp_path / "slowed").exists)
        if end == "revoked":
            shop.revoke(sent, terminate=True)
        wait_for(sent.ready)
        assert sent.successful() == (end == "soft")
        assert shop.result(shop.send("send", "a")) == {"did": "a"}
    assert set(shop.done) == {"a"}
    assert (len(shop.done) > 1) == bare


@pytest.mark.parametrize("limit", ["soft_time_limit", "time_limit"])
@pytest.mark.parametrize("name", ["ponder", "brood"])
def test_a_wait_ends_before_the_limit_of_its_task(tmp_path: Path, name: str, limit: str) -> None:
    """P304. One tool has to be verified often, the other one's verify takes long. Celery ends no
    attempt: each says when to come back. Celery alone waits for nothing, so there is no control."""
    shop = Shop(tmp_path)
    plan_death(tmp_path, "after")
    with shop.worker():
        sent = shop.send(name, "a", **{limit: 5})
        wait_for(lambda: shop.log.count("Retry in") >= 3)
        assert looks(tmp_path) >= 3
        assert sent.state == "RETRY"
        assert "time limit" not in shop.log
        with nt.Reviews(store_of(tmp_path)) as reviews:
            assert reviews.open() == []
    assert shop.done == ["a"]


LIMITS: dict[str, tuple[dict[str, float], str | None]] = {
    "none": ({}, None),
    "hard": ({"time_limit": 10}, "9000ms"),
    "both": ({"time_limit": 10, "soft_time_limit": 5}, "4000ms"),
    "short": ({"time_limit": 1}, "500ms"),
}


@pytest.mark.parametrize("case", LIMITS)
def test_a_wait_may_last_until_a_moment_before_the_limit(case: str) -> None:
    """P304. Also a limit of a second leaves time to say when to come back."""
    limits, left = LIMITS[case]
    assert _time_left(Celery("shop").task(**limits)(lines)) == left


def test_a_task_that_is_revoked_while_it_asks_verify_leaves_nothing_to_decide(
    tmp_path: Path, redis: str
) -> None:
    """P304. Its process is killed. The next one asks again, and finds the effect."""
    shop = Shop(tmp_path, redis)
    plan_death(tmp_path, "after")
    with shop.worker():
        sent = shop.send("brood", "a")
        wait_for(lambda: looks(tmp_path) >= 1)
        shop.revoke(sent, terminate=True)
        with nt.Reviews(store_of(tmp_path)) as reviews:
            assert reviews.open() == []
        (tmp_path / "answer").touch()
        assert shop.result(shop.send("brood", "a")) == {"did": "a"}
    assert shop.done == ["a"]


def test_a_task_that_is_revoked_while_a_person_is_asked_ends(tmp_path: Path) -> None:
    """P304. It is not retried any more. The question stays, and the same work gets its answer."""
    shop = Shop(tmp_path)
    plan_death(tmp_path, "after")
    with shop.worker():
        sent = shop.send("post", "a")
        wait_for(lambda: sent.state == "RETRY")
        shop.revoke(sent, terminate=False)
        retried = shop.log.count("Retry in")
        with nt.Reviews(store_of(tmp_path)) as reviews:
            (case,) = reviews.open()
            said: dict[str, Any] = {"result": {"did": "seen"}, "by": "ann", "why": "looked"}
            reviews.decide(case.review.review_id, "happened", **said)
        assert shop.result(shop.send("post", "a")) == {"did": "seen"}
        assert shop.log.count("Retry in") == retried
    assert shop.done == ["a"]


DECLARED = """
import nottwice as nt
from celery import Celery
from redis import Redis

app = Celery("shop")

{decorator}
@nt.tool('unsafe_on_replay')
{kind} refund(order_id: int, cents: int = 5) -> int:
    return cents
"""
WRONG = {
    "no argument": ("@nt.celery.task(app)", "run='order_id'"),
    "another argument": ("@nt.celery.task(app, run='order')", "run='order_id'"),
    "async": ("@nt.celery.task(app, run='order_id')", "Write it with def"),
    "bound": ("@nt.celery.task(app, run='order_id', bind=True)", "Leave bind out"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_declaration_that_cannot_work_says_what_to_write(what: str) -> None:
    decorator, wanted = WRONG[what]
    code = DECLARED.format(decorator=decorator, kind="async def" if what == "async" else "def")
    with pytest.raises(nt.errors.InvalidTool, match=r"refund.* declared") as said:
        exec(compile(code, "declared", "exec"), {"__name__": "declared"})
    assert wanted in str(said.value)
