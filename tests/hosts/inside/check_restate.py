"""Restate's own server and SDK, real services, real SIGKILLs. Runs inside `.venv-hosts`."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from tests.hosts.inside.effects import lines, looks, plan_death, wait_for
from tests.hosts.inside.restate_server import Servers, asked, running
from tests.hosts.inside.servers import database, free_port, is_connected, is_listening
from tests.hosts.inside.tools import apart, place_ledger, store_of

__all__ = ["database"]

SERVICE = Path(__file__).with_name("restate_service.py")
CONTROL = pytest.mark.parametrize("bare", [True, False], ids=["bare", "protected"])


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """One node for all tests of this process."""
    with running(tmp_path_factory.mktemp("restate")) as found:
        yield found


class Stage:
    """One test: its service, and what it asks of the server."""

    def __init__(
        self, servers: Servers, folder: Path, *, bare: bool = False, place: str = ""
    ) -> None:
        """``place``: the database of the ledger."""
        self.servers, self.folder, self.bare = servers, folder, bare
        self.name, self.port = f"Task{uuid.uuid4().hex[:8]}", free_port()
        place_ledger(folder, place)

    @contextmanager
    def service(
        self, *before: str, port: int | None = None, register: bool = True
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A service that listens. ``before``: what to put before its command."""
        at = port or self.port
        command = [*before, sys.executable, str(SERVICE), str(at), self.name, str(self.folder)]
        log = (self.folder / "log").open("ab")
        process = subprocess.Popen([*command, *["bare"] * self.bare], stdout=log, stderr=log)
        try:
            wait_for(lambda: is_listening(at) or process.poll() is not None)
            assert process.poll() is None, self.log[-3000:]
            if register:
                self.servers.register(self.port)
            yield process
        finally:
            process.kill()
            process.wait()

    def start(self, plan: list[list[str]], *, handler: str = "task") -> str:
        """Start an invocation; its id."""
        url = f"{self.servers.node.ingress}/{self.name}/{handler}/send"
        invocation: str = asked(url, plan)["invocationId"]
        return invocation

    def start_with_key(self, plan: list[list[str]]) -> str:
        """The same with an idempotency key."""
        url = f"{self.servers.node.ingress}/{self.name}/task/send"
        invocation: str = asked(url, plan, headers={"idempotency-key": "7"})["invocationId"]
        return invocation

    def result(self, invocation: str) -> Any:
        try:
            return asked(f"{self.servers.node.ingress}/restate/invocation/{invocation}/attach")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.read()!r}\n{self.log[-3000:]}") from error

    def end(self, invocation: str, verb: str) -> None:
        """Cancel or kill an invocation, and wait until it has failed with that."""
        self.servers.change(invocation, verb)
        with pytest.raises(AssertionError, match=f"{verb}l?ed"):
            self.result(invocation)

    def killed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.wait(60) == -signal.SIGKILL, self.log[-3000:]

    def sleeps(self, invocation: str) -> bool:
        """Whether a handler has decided to wait."""
        entries = f"SELECT entry_type FROM sys_journal WHERE id = '{invocation}'"
        return any("Sleep" in row["entry_type"] for row in self.servers.query(entries))

    @property
    def attempts(self) -> list[str]:
        file = self.folder / "attempts"
        return file.read_text().split() if file.exists() else []

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def done(self) -> list[str]:
        return sorted(lines(self.folder))


@CONTROL
def test_a_service_killed_after_the_effect(servers: Servers, tmp_path: Path, *, bare: bool) -> None:
    """P289. Two effects without nottwice, one with it."""
    stage = Stage(servers, tmp_path, bare=bare)
    plan_death(tmp_path, "after")
    with stage.service() as first:
        invocation = stage.start([["send", "a"], ["send", "b"]])
        stage.killed(first)
    with stage.service(register=False):
        assert stage.result(invocation) == [{"did": "a"}, {"did": "b"}]
    assert stage.done == (["a", "a", "b"] if bare else ["a", "b"])


@pytest.mark.parametrize("how", ["bare", "send", "asend"])
@pytest.mark.parametrize("at", ["before", "acknowledge"])
def test_a_service_killed_before_the_effect_or_after_the_receipt(
    servers: Servers, tmp_path: Path, at: str, how: str
) -> None:
    """P289. A kill before the effect repeats nothing in the control either."""
    bare, name = (True, "send") if how == "bare" else (False, how)
    stage = Stage(servers, tmp_path, bare=bare)
    plan_death(tmp_path, at)
    with stage.service() as first:
        invocation = stage.start([[name, "a"], [name, "b"]])
        stage.killed(first)
    with stage.service(register=False):
        assert stage.result(invocation) == [{"did": "a"}, {"did": "b"}]
    assert stage.done == (["a", "a", "b"] if bare and at == "acknowledge" else ["a", "b"])


class Road:
    """What is between Restate and two services: it leads to the first, until it is turned."""

    def __init__(self, port: int, first: int, second: int) -> None:
        self._listening = socket.create_server(("127.0.0.1", port))
        self._ports, self._turned = (first, second), False
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def turn(self) -> None:
        """Cut what leads to the first, as a broken network would, and lead to the second."""
        self._turned = True
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.turn()
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._ports[self._turned]))
                self._open += [near, far]
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, suppress(OSError):
            other = {near: far, far: near}
            while True:
                for one in select.select([near, far], [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    other[one].sendall(data)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "namespace"])
@CONTROL
def test_an_effect_that_outlives_its_timeout_on_two_services(
    servers: Servers, tmp_path: Path, *, bare: bool, elsewhere: bool
) -> None:
    """P289. The second waits for the first, also if that is in another pid namespace."""
    stage = Stage(servers, tmp_path, bare=bare)
    first, second = free_port(), free_port()
    road = Road(stage.port, first, second)
    (tmp_path / "slow").touch()
    before = apart() if elsewhere else []
    with (
        stage.service(*before, port=first),
        stage.service(port=second, register=False),
    ):
        invocation = stage.start([["send", "a"]])
        wait_for((tmp_path / "slowed").exists)
        road.turn()
        # The second has done it again, or has found it in the hands of the first and waits.
        wait_for(lambda: len(stage.done) == 2 if bare else stage.sleeps(invocation))
        (tmp_path / "go").touch()
        assert stage.result(invocation) == [{"did": "a"}]
    road.close()
    assert stage.done == (["a", "a"] if bare else ["a"])


@CONTROL
def test_steps_that_a_handler_gathers_are_under_way_together_and_made_once_each(
    servers: Servers, tmp_path: Path, *, bare: bool
) -> None:
    """P289. All of them are under way when the service is killed."""
    stage = Stage(servers, tmp_path, bare=bare)
    invocation = _killed_under_parallel_steps(stage, "send")
    with stage.service(register=False):
        assert stage.result(invocation) == [{"did": n} for n in "012"]
    assert stage.done == sorted("012" * (2 if bare else 1))


def test_doubts_about_several_steps_of_a_handler_are_all_waited_for(
    servers: Servers, tmp_path: Path
) -> None:
    """P289. The steps were under way together; their doubts are waited for one after another."""
    stage = Stage(servers, tmp_path)
    invocation = _killed_under_parallel_steps(stage, "post")
    with stage.service(register=False), nt.Reviews(store_of(tmp_path)) as reviews:
        wait_for(lambda: len(reviews.open()) == 3)
        for case in reviews.open():
            said: dict[str, Any] = {"result": {"did": "seen"}, "by": "ann", "why": "looked"}
            reviews.decide(case.review.review_id, "happened", **said)
        assert stage.result(invocation) == [{"did": "seen"}] * 3
    assert stage.done == ["0", "1", "2"]


def _killed_under_parallel_steps(stage: Stage, name: str) -> str:
    """Kill a service while three steps of one handler are under way; the invocation."""
    for file in ("all-slow", "patient"):
        (stage.folder / file).touch()
    with stage.service() as first:
        invocation = stage.start([[name, n] for n in "012"], handler="gathered")
        wait_for(lambda: len(stage.done) == 3)
        first.kill()
        stage.killed(first)
    (stage.folder / "all-slow").unlink()
    return invocation


@CONTROL
def test_parallel_invocations_are_made_once_each(
    servers: Servers, tmp_path: Path, *, bare: bool
) -> None:
    stage = Stage(servers, tmp_path, bare=bare)
    plan_death(tmp_path, "after")
    plan = [["send", f"{n}"] for n in range(6)]
    with stage.service() as first:
        invocation = stage.start(plan, handler="together")
        stage.killed(first)
    with stage.service(register=False):
        assert stage.result(invocation) == [{"did": f"{n}"} for n in range(6)]
    assert sorted(set(stage.done)) == [f"{n}" for n in range(6)]
    assert (len(stage.done) > 6) == bare


@CONTROL
def test_a_paused_invocation_that_an_operator_resumes(
    servers: Servers, tmp_path: Path, *, bare: bool
) -> None:
    """P289. It was paused while its effect was under way."""
    stage = Stage(servers, tmp_path, bare=bare)
    (tmp_path / "slow").touch()
    with stage.service():
        invocation = stage.start([["send", "a"]])
        wait_for((tmp_path / "slowed").exists)
        servers.change(invocation, "pause")
        status = f"SELECT status FROM sys_invocation WHERE id = '{invocation}'"
        wait_for(lambda: servers.query(status) == [{"status": "paused"}])
        if not bare:
            (tmp_path / "go").touch()
        servers.change(invocation, "resume")
        assert stage.result(invocation) == [{"did": "a"}]
        (tmp_path / "go").touch()
    assert stage.done == (["a", "a"] if bare else ["a"])


@pytest.mark.parametrize("how", ["bare", "by invocation", "by group"])
def test_an_invocation_that_is_restarted_as_a_new_one(
    servers: Servers, tmp_path: Path, how: str
) -> None:
    """P289. It is a new task, unless its calls belong to a group of yours."""
    stage = Stage(servers, tmp_path, bare=how == "bare")
    plan = [["send", "a", *(["order-7"] if how == "by group" else [])]]
    with stage.service():
        invocation = stage.start(plan)
        first = stage.result(invocation)
        again = servers.change(invocation, "restart-as-new")["new_invocation_id"]
        assert stage.result(again) == first == [{"did": "a"}]
    assert stage.done == (["a"] if how == "by group" else ["a", "a"])


@CONTROL
def test_an_idempotency_key_that_restate_has_forgotten(
    servers: Servers, tmp_path: Path, *, bare: bool
) -> None:
    """P289. The id of an invocation follows from its key. So its calls have their names again."""
    stage = Stage(servers, tmp_path, bare=bare)
    with stage.service():
        invocation = stage.start_with_key([["send", "a"]])
        assert stage.result(invocation) == [{"did": "a"}]
        servers.change(invocation, "purge")
        known = f"SELECT id FROM sys_invocation WHERE id = '{invocation}'"
        wait_for(lambda: servers.query(known) == [])
        assert stage.start_with_key([["send", "a"]]) == invocation
        assert stage.result(invocation) == [{"did": "a"}]
    assert stage.done == (["a", "a"] if bare else ["a"])


@pytest.mark.parametrize("woken", [False, True], ids=["looks", "woken"])
def test_a_doubt_is_waited_for_in_the_handler_until_a_person_has_decided(
    servers: Servers, tmp_path: Path, *, woken: bool
) -> None:
    """P289. Nothing fails. An awakeable lets it look before its time.

    Restate alone asks nobody: its control is the service killed after the effect.
    """
    stage = Stage(servers, tmp_path)
    if woken:
        (tmp_path / "told").touch()
    plan_death(tmp_path, "after")
    with stage.service() as first:
        invocation = stage.start([["post", "a"], ["post", "b"]])
        stage.killed(first)
    with stage.service(register=False), nt.Reviews(store_of(tmp_path)) as reviews:
        wait_for(reviews.open)
        (case,) = reviews.open()
        said: dict[str, Any] = {"result": {"did": "seen"}, "by": "ann", "why": "looked"}
        reviews.decide(case.review.review_id, "happened", **said)
        if woken:
            wait_for((tmp_path / "awakeable").exists)
            awakeable, review = (tmp_path / "awakeable").read_text().split()
            assert review == case.review.review_id
            asked(f"{servers.node.ingress}/restate/awakeables/{awakeable}/resolve", "look")
        assert stage.result(invocation) == [{"did": "seen"}, {"did": "b"}]
    assert stage.done == ["a", "b"]


def test_a_tool_that_fails_permanently_fails_its_invocation(
    servers: Servers, tmp_path: Path
) -> None:
    stage = Stage(servers, tmp_path)
    with stage.service():
        invocation = stage.start([["refuse", "a"]])
        with pytest.raises(AssertionError, match=r"nottwice\.Permanent: .*a is not accepted"):
            stage.result(invocation)


ENDED = pytest.mark.parametrize("verb", ["cancel", "kill"])


@ENDED
@pytest.mark.parametrize("name", ["bare", "post", "apost"])
def test_an_invocation_that_is_ended_while_its_tool_runs(
    servers: Servers, tmp_path: Path, name: str, verb: str
) -> None:
    """P304. The tool is not interrupted, and its outcome is recorded: the next invocation for the
    same order gets it, and nobody is asked."""
    bare = name == "bare"
    stage = Stage(servers, tmp_path, bare=bare)
    for file in ("slow", "patient"):
        (tmp_path / file).touch()
    plan = [["post" if bare else name, "a", "order-7"]]
    with stage.service():
        invocation = stage.start(plan)
        wait_for((tmp_path / "slowed").exists)
        stage.end(invocation, verb)
        (tmp_path / "go").touch()
        # A doubt would not end without a person.
        assert stage.result(stage.start(plan)) == [{"did": "a"}]
    assert stage.done == (["a", "a"] if bare else ["a"])


@ENDED
@pytest.mark.parametrize("name", ["ponder", "brood"])
def test_an_invocation_that_is_ended_while_it_asks_verify(
    servers: Servers, tmp_path: Path, name: str, verb: str
) -> None:
    """P304. It is left immediately, and no person is asked. The next invocation asks again."""
    stage, invocation = _in_doubt(servers, tmp_path, name, "patient")
    with stage.service(register=False), nt.Reviews(store_of(tmp_path)) as reviews:
        wait_for(lambda: looks(tmp_path) >= 1)
        stage.end(invocation, verb)
        asked_before = looks(tmp_path)
        again = stage.start([[name, "a", "order-7"]])
        wait_for(lambda: looks(tmp_path) > asked_before)
        assert reviews.open() == []
        if name == "brood":
            (tmp_path / "answer").touch()
            assert stage.result(again) == [{"did": "a"}]
    assert stage.done == ["a"]


@ENDED
def test_an_invocation_that_is_ended_while_a_person_is_asked(
    servers: Servers, tmp_path: Path, verb: str
) -> None:
    """P304. The question stays, and the next invocation for the same order uses the answer."""
    stage, invocation = _in_doubt(servers, tmp_path, "post")
    with stage.service(register=False), nt.Reviews(store_of(tmp_path)) as reviews:
        wait_for(lambda: reviews.open() and stage.sleeps(invocation))
        stage.end(invocation, verb)
        (case,) = reviews.open()
        said: dict[str, Any] = {"result": {"did": "seen"}, "by": "ann", "why": "looked"}
        reviews.decide(case.review.review_id, "happened", **said)
        assert stage.result(stage.start([["post", "a", "order-7"]])) == [{"did": "seen"}]
    assert stage.done == ["a"]


def test_attempts_that_restate_aborts_while_they_ask_verify(
    servers: Servers, tmp_path: Path
) -> None:
    """P304. Each attempt lasts two seconds, and verify takes longer. An aborted attempt leaves the
    call to the next one."""
    stage, invocation = _in_doubt(servers, tmp_path, "brood")
    with stage.service(register=False), nt.Reviews(store_of(tmp_path)) as reviews:
        wait_for(lambda: looks(tmp_path) >= 3)
        assert reviews.open() == []
        (tmp_path / "answer").touch()
        assert stage.result(invocation) == [{"did": "a"}]
    assert stage.done == ["a"]


def _in_doubt(servers: Servers, folder: Path, name: str, *files: str) -> tuple[Stage, str]:
    """An invocation for an order, whose service was killed after the effect."""
    stage = Stage(servers, folder)
    for file in files:
        (folder / file).touch()
    plan_death(folder, "after")
    with stage.service() as first:
        invocation = stage.start([[name, "a", "order-7"]])
        stage.killed(first)
    return stage, invocation


@CONTROL
def test_the_database_is_restarted_under_a_step(
    servers: Servers, tmp_path: Path, database: Any, *, bare: bool
) -> None:
    """P290. A receipt waits for the database. The control keeps its own receipts, and loses one."""
    stage = Stage(servers, tmp_path, bare=bare, place=database.url)
    for name in ("slow", "patient"):
        (tmp_path / name).touch()
    with stage.service():
        invocation = stage.start([["send", "a"], ["send", "b"]])
        wait_for((tmp_path / "slowed").exists)
        database.restart()
        (tmp_path / "go").touch()
        assert stage.result(invocation) == [{"did": "a"}, {"did": "b"}]
    assert stage.done == (["a", "a", "b"] if bare else ["a", "b"])


@CONTROL
def test_the_leader_of_a_cluster_is_killed_under_many_steps(tmp_path: Path, *, bare: bool) -> None:
    """P289. Another node becomes the leader, and runs again whatever was under way."""
    # Not more than a service of a small machine has threads for at the same time.
    numbers = [f"{n}" for n in range(5)]
    with running(tmp_path / "cluster", size=3) as cluster:
        stage = Stage(cluster, tmp_path, bare=bare)
        for name in ("all-slow", "patient"):
            (tmp_path / name).touch()
        with stage.service():
            invocations = [stage.start([["send", n]]) for n in numbers]
            wait_for(lambda: len(stage.done) == 5)
            leader = _leader(cluster, stage.port)
            seen = len(stage.attempts)
            leader.process.kill()
            leader.process.wait()
            wait_for(lambda: len(stage.attempts) >= seen + 5)
            (tmp_path / "go").touch()
            assert [stage.result(one) for one in invocations] == [[{"did": n}] for n in numbers]
    assert len(stage.done) == len(stage.attempts) if bare else stage.done == numbers


def _leader(cluster: Servers, port: int) -> Any:
    """The node that runs the only partition: it is the one that calls the service."""
    (found,) = [node for node in cluster.nodes if is_connected(node.process.pid, port)]
    return found
