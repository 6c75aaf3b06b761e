"""Does the world count every effect once, and lose, delay and lie exactly as it was told?"""

from __future__ import annotations

import copy
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nottwice.testing import Effect, World, WorldClient, WorldRefused

FAR_AWAY_SECONDS = 3600.0


@pytest.fixture
def world() -> Iterator[World]:
    with World.start() as started:
        yield started


@pytest.fixture
def client(world: World) -> WorldClient:
    return world.client()


StartAgent = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start_agent(world: World) -> Iterator[StartAgent]:
    """Start a process that makes one call; it says "answered" if it ever gets an answer."""
    agents: list[subprocess.Popen[str]] = []

    def start(call: str) -> subprocess.Popen[str]:
        code = (
            "import os\n"
            "from nottwice.testing import WorldClient\n"
            f"WorldClient(os.environ['WORLD_URL']).do({call})\n"
            "print('answered')\n"
        )
        agents.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                env={**os.environ, "WORLD_URL": world.url},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return agents[-1]

    yield start
    for agent in agents:
        kill(agent)


def kill(agent: subprocess.Popen[str]) -> str:
    """SIGKILL the agent and return what it had said by then."""
    agent.kill()
    agent.wait()
    if agent.stdout is None or agent.stdout.closed:
        return ""
    with agent.stdout:
        return agent.stdout.read()


# Effects and keys


def test_each_request_without_a_key_is_one_more_effect(world: World, client: WorldClient) -> None:
    for _ in range(3):
        client.do("refund", order_id=7)
    assert [effect.seq for effect in world.effects()] == [1, 2, 3]


def test_an_effect_is_logged_with_everything_that_was_said(
    world: World, client: WorldClient
) -> None:
    before = time.time()
    result = client.do("refund", key="k", call_id="c", result={"ok": [1]}, order_id=7, name="Zoë")
    (effect,) = world.effects()
    assert result == {"ok": [1]}
    assert before <= effect.at <= time.time()
    assert effect == Effect(
        seq=1,
        tool="refund",
        args={"order_id": 7, "name": "Zoë"},
        key="k",
        call_id="c",
        at=effect.at,
        result={"ok": [1]},
    )


def test_a_known_key_returns_the_first_result_and_adds_no_effect(
    world: World, client: WorldClient
) -> None:
    assert client.do("refund", key="refund-7", result="first", order_id=7) == "first"
    assert client.do("refund", key="refund-7", result="second", order_id=7) == "first"
    assert world.count() == 1
    assert client.stats()["answered_from_key"] == 1


def test_a_known_key_with_other_arguments_is_refused_and_adds_no_effect(
    world: World, client: WorldClient
) -> None:
    client.do("refund", key="k", order_id=7)
    with pytest.raises(WorldRefused, match="other arguments") as refused:
        client.do("refund", key="k", order_id=8)
    assert refused.value.status == 409
    assert world.count() == 1


def test_equal_keys_of_two_tools_do_not_meet(world: World, client: WorldClient) -> None:
    client.do("refund", key="order-7", order_id=7)
    client.do("send_mail", key="order-7", order_id=7)
    assert world.count() == 2


def test_a_tool_is_counted_apart_from_the_others(world: World, client: WorldClient) -> None:
    client.do("refund")
    client.do("send_mail")
    client.do("send_mail")
    assert (world.count("refund"), world.count("send_mail"), world.count()) == (1, 2, 3)


def test_fifty_clients_at_once_make_fifty_effects_each_logged_before_its_answer(
    world: World,
) -> None:
    crowd = threading.Barrier(50)

    def call(number: int) -> bool:
        crowd.wait()
        WorldClient(world.url).do("refund", number=number)
        return any(effect.args == {"number": number} for effect in world.effects())

    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(call, range(50)))
    assert [effect.seq for effect in world.effects()] == list(range(1, 51))
    assert not world.duplicates()


def test_fifty_clients_with_one_key_make_one_effect_and_share_its_result(world: World) -> None:
    crowd = threading.Barrier(50)

    def call(number: int) -> Any:
        crowd.wait()
        return WorldClient(world.url).do("refund", key="k", result=number, order_id=7)

    with ThreadPoolExecutor(50) as pool:
        results = set(pool.map(call, range(50)))
    (effect,) = world.effects()
    assert results == {effect.result}


def test_duplicates_are_equal_values_however_they_are_spelt(
    world: World, client: WorldClient
) -> None:
    client.do("refund", order_id=7, amount={"cents": 10, "parts": [1, 2]})
    client.do("refund", amount={"parts": [1, 2], "cents": 10.0}, order_id=7)
    client.do("refund", order_id=7, amount={"cents": 10, "parts": [2, 1]})
    client.do("send_mail", order_id=7, amount={"cents": 10, "parts": [1, 2]})
    client.do("check", dry=True)
    client.do("check", dry=1)
    (group,) = world.duplicates()
    assert [effect.seq for effect in group] == [1, 2]
    assert world.duplicates("send_mail") == []


# Faults


def test_a_lost_response_is_one_effect_and_a_dropped_connection_and_no_retry(
    world: World, client: WorldClient
) -> None:
    with pytest.raises(ConnectionError):
        client.do("refund", lose_response=True, order_id=7)
    assert world.count() == 1
    assert client.stats()["requests"] == 1
    assert client.stats()["lost_responses"] == 1


def test_apply_after_answers_before_there_is_an_effect(world: World, client: WorldClient) -> None:
    assert client.do("refund", apply_after=FAR_AWAY_SECONDS, result="accepted") == "accepted"
    assert world.count() == 0
    assert client.stats()["pending"] == 1


def test_apply_after_makes_the_effect_later(world: World, client: WorldClient) -> None:
    with pytest.raises(ConnectionError):
        client.do("refund", apply_after=0.05, lose_response=True, order_id=7)
    world.wait_until_count(1, "refund")
    assert world.effects()[0].args == {"order_id": 7}
    assert client.stats()["pending"] == 0


def test_a_key_that_is_pending_is_known_already(world: World, client: WorldClient) -> None:
    client.do("refund", key="k", apply_after=FAR_AWAY_SECONDS, result="first", order_id=7)
    assert client.do("refund", key="k", result="second", order_id=7) == "first"
    assert world.count() == 0
    assert client.stats()["pending"] == 1


def test_waiting_for_an_effect_that_never_comes_ends(world: World) -> None:
    with pytest.raises(TimeoutError, match="0 of 1 effects"):
        world.wait_until_count(1, timeout_seconds=0.01)


def test_fail_with_answers_that_status_and_adds_no_effect(
    world: World, client: WorldClient
) -> None:
    with pytest.raises(WorldRefused) as refused:
        client.do("refund", fail_with=503, retry_after=1.5)
    assert (refused.value.status, refused.value.retry_after) == (503, 1.5)
    with pytest.raises(WorldRefused) as refused:
        client.do("refund", fail_with=422)
    assert (refused.value.status, refused.value.retry_after) == (422, None)
    assert world.count() == 0
    assert client.stats()["refused"] == 2


def test_delays_are_kept(client: WorldClient) -> None:
    started = time.monotonic()
    client.do("refund", delay_before=0.05, delay_after=0.05)
    assert time.monotonic() - started >= 0.1


def test_an_agent_killed_in_the_delay_before_has_had_no_effect(
    world: World, client: WorldClient, start_agent: StartAgent
) -> None:
    agent = start_agent(f"'refund', delay_before={FAR_AWAY_SECONDS}")
    while client.stats()["requests"] == 0:
        assert agent.poll() is None
    assert kill(agent) == ""
    assert world.count() == 0


def test_an_agent_killed_in_the_delay_after_has_had_its_effect_and_no_answer(
    world: World, start_agent: StartAgent
) -> None:
    agent = start_agent(f"'refund', delay_after={FAR_AWAY_SECONDS}")
    world.wait_until_count(1)
    assert kill(agent) == ""
    assert world.count() == 1


# Gates


def test_an_agent_killed_while_held_has_had_its_effect_and_no_answer(
    world: World, client: WorldClient, start_agent: StartAgent
) -> None:
    agent = start_agent("'refund', hold='after', order_id=7")
    client.wait_until_held("after")
    assert world.count() == 1
    assert kill(agent) == ""
    assert world.count() == 1
    client.release("after")
    client.do("send_mail", hold="after")
    assert [effect.tool for effect in world.effects()] == ["refund", "send_mail"]
    # A client that is gone before the answer is no trouble to the world.
    assert (world.folder / "world-errors.txt").read_text() == ""


def test_an_agent_killed_while_held_before_has_its_effect_only_once_released(
    world: World, client: WorldClient, start_agent: StartAgent
) -> None:
    agent = start_agent("'refund', hold_before='before', order_id=7")
    client.wait_until_held("before")
    assert world.count() == 0
    assert kill(agent) == ""
    assert world.count() == 0
    # The agent is dead, but its request is not: it was received, and is carried out.
    client.release("before")
    world.wait_until_count(1)


def test_a_late_effect_is_applied_though_its_agent_was_killed(
    world: World, client: WorldClient, start_agent: StartAgent
) -> None:
    agent = start_agent("'refund', apply_after=0.2, hold='accepted', order_id=7")
    client.wait_until_held("accepted")
    assert kill(agent) == ""
    world.wait_until_count(1)


def test_an_agent_that_is_released_gets_its_answer(
    world: World, client: WorldClient, start_agent: StartAgent
) -> None:
    agent = start_agent("'refund', hold_before='one', hold='two', order_id=7")
    client.wait_until_held("one")
    client.release("one")
    client.wait_until_held("two")
    client.release("two")
    said, _ = agent.communicate(timeout=60)
    assert said == "answered\n"
    assert world.count() == 1


def test_waiting_until_held_counts_the_requests_at_the_gate(client: WorldClient) -> None:
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.do, "refund", hold="gate")
        client.wait_until_held("gate", count=1)
        with pytest.raises(TimeoutError, match="1 of 2"):
            client.wait_until_held("gate", count=2, timeout_seconds=0.01)
        second = pool.submit(client.do, "refund", hold="gate")
        client.wait_until_held("gate", count=2)
        assert client.stats()["held"] == {"gate": 2}
        client.release("gate")
        first.result()
        second.result()
    assert client.stats()["held"] == {}


def test_waiting_at_a_gate_that_was_released_is_refused_instead_of_hanging(
    client: WorldClient,
) -> None:
    client.release("gate")
    with pytest.raises(WorldRefused, match="was released") as refused:
        client.wait_until_held("gate")
    assert refused.value.status == 409


@pytest.mark.parametrize(
    ("faults", "count"), [({"hold": "forgotten"}, 1), ({"hold_before": "forgotten"}, 0)]
)
def test_a_gate_that_is_not_opened_answers_504(faults: dict[str, Any], count: int) -> None:
    with World.start(hold_limit_seconds=0.05) as world:
        with pytest.raises(WorldRefused, match="never released") as refused:
            world.client().do("refund", **faults)
        assert refused.value.status == 504
        assert ("It was applied" in refused.value.text) == bool(count)
        assert world.count() == count


# Verifying


def test_find_matches_all_that_is_given(client: WorldClient) -> None:
    client.do("refund", key="k1", call_id="c1", order_id=7, cents=10)
    client.do("refund", key="k2", call_id="c2", order_id=8, cents=10)

    def seq(found: Effect | None) -> int | None:
        return None if found is None else found.seq

    assert seq(client.find("refund", call_id="c2")) == 2
    assert seq(client.find("refund", key="k2")) == 2
    assert seq(client.find("refund", order_id=8)) == 2
    assert seq(client.find("refund", cents=10)) == 1
    assert seq(client.find("refund", key="k1", order_id=8)) is None
    assert seq(client.find("refund", call_id="c3")) is None
    assert seq(client.find("refund", note=None)) is None
    assert seq(client.find("send_mail", call_id="c1")) is None


def test_a_late_effect_is_not_found_until_it_is_applied(world: World, client: WorldClient) -> None:
    client.do("refund", call_id="c", apply_after=FAR_AWAY_SECONDS)
    assert client.find("refund", call_id="c") is None


def test_every_verification_is_on_record_and_is_no_effect(
    world: World, client: WorldClient
) -> None:
    client.do("refund", call_id="c", order_id=7)
    client.find("refund", call_id="c")
    client.find("send_mail", key="k", to="x")
    first, second = world.verifications()
    assert (first.tool, first.call_id, first.answer) == ("refund", "c", "found")
    assert (second.key, second.args, second.answer) == ("k", {"to": "x"}, "not found")
    assert not first.scripted
    assert [asked.seq for asked in world.verifications("send_mail")] == [2]
    assert world.count() == 1
    assert client.stats()["verifications"] == 2


def test_a_scripted_verify_lies_in_order_and_then_tells_the_truth(
    world: World, client: WorldClient
) -> None:
    client.do("refund", call_id="c", result="real")
    client.script_verify("refund", answers=["not found", "found", "lost", 503])
    assert client.find("refund", call_id="c") is None
    found = client.find("refund", call_id="c")
    assert found is not None
    assert found.result == "real"
    with pytest.raises(ConnectionError):
        client.find("refund", call_id="c")
    with pytest.raises(WorldRefused) as refused:
        client.find("refund", call_id="c")
    assert refused.value.status == 503
    assert client.find("refund", call_id="c") == found
    assert [asked.scripted for asked in world.verifications()] == [True] * 4 + [False]
    assert [asked.answer for asked in world.verifications()][2:4] == ["lost", 503]


def test_a_scripted_found_without_an_effect_is_recognisably_invented(
    world: World, client: WorldClient
) -> None:
    client.script_verify("refund", answers=["found"])
    invented = client.find("refund", call_id="c", order_id=7)
    assert invented is not None
    assert (invented.seq, invented.call_id, invented.args) == (0, "c", {"order_id": 7})
    assert world.count() == 0


def test_a_script_concerns_only_its_tool_and_replaces_the_one_before(client: WorldClient) -> None:
    client.script_verify("refund", answers=[503])
    assert client.find("send_mail") is None
    client.script_verify("refund", answers=[])
    assert client.find("refund") is None


@pytest.mark.parametrize("answer", ["maybe", 200, None])
def test_an_answer_that_means_nothing_is_refused(client: WorldClient, answer: Any) -> None:
    with pytest.raises(WorldRefused, match="Nothing was scripted"):
        client.script_verify("refund", answers=["found", answer])
    assert client.find("refund") is None


# The client and the log


def test_what_json_cannot_carry_is_refused_before_anything_is_sent(client: WorldClient) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        client.do("refund", cents=float("nan"))
    with pytest.raises(TypeError):
        client.do("refund", cents=object())
    assert client.stats()["requests"] == 0


@pytest.mark.parametrize(
    "faults", [{"fail_with": 200}, {"apply_after": -1}, {"hold": 7}, {"delay_before": "long"}]
)
def test_a_fault_that_means_nothing_is_refused(
    world: World, client: WorldClient, faults: dict[str, Any]
) -> None:
    with pytest.raises(WorldRefused) as refused:
        client.do("refund", **faults)
    assert refused.value.status == 400
    assert world.count() == 0


def test_the_environment_cannot_send_the_client_through_a_proxy(
    client: WorldClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    client.do("refund")


def test_silence_is_a_time_out(world: World) -> None:
    with pytest.raises(TimeoutError):
        world.client(timeout_seconds=0.05).do("refund", hold="never")


def test_a_response_that_breaks_off_is_a_dropped_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_by_half() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{")

        thread = threading.Thread(target=answer_by_half)
        thread.start()
        try:
            with pytest.raises(ConnectionError):
                WorldClient(f"http://127.0.0.1:{listener.getsockname()[1]}").stats()
        finally:
            thread.join()


def test_a_refusal_keeps_its_facts_when_it_is_copied() -> None:
    # Processes that hand exceptions to each other rebuild them in the same way.
    refused = copy.copy(WorldRefused(503, "Busy.", 1.5))
    assert (refused.status, refused.text, refused.retry_after) == (503, "Busy.", 1.5)
    assert str(refused) == "The world answered 503: Busy."


def test_the_log_is_readable_when_the_world_is_gone(world: World, client: WorldClient) -> None:
    client.do("refund")
    client.find("refund")
    world.stop()
    assert world.count() == 1
    assert len(world.verifications()) == 1
    with pytest.raises(ConnectionRefusedError):
        client.do("refund")


def test_a_line_that_is_still_being_written_is_not_an_effect_yet(
    world: World, client: WorldClient
) -> None:
    client.do("refund")
    with world.log_path.open("ab") as log:
        log.write(b'{"seq": 2, "tool":')
    assert world.count() == 1


def test_a_world_started_on_a_log_carries_it_on(tmp_path: Path) -> None:
    with World.start(tmp_path / "new" / "folder") as earlier:
        earlier.client().do("refund", key="k", result="first", order_id=7)
        folder = earlier.log_path.parent
    with World.start(folder) as later:
        assert later.client().do("refund", key="k", result="second", order_id=7) == "first"
        later.client().do("send_mail")
        assert [effect.seq for effect in later.effects()] == [1, 2]
