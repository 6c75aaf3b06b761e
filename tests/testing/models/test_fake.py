"""Can a user test an agent with it: script, faults, kills, counts?"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.testing import FakeModels, Fault, Turn
from tests.nursery import starting

APIS = ("anthropic", "openai")
both = pytest.mark.parametrize("api", APIS)
QUICK = nt.RetryPolicy(attempts=3, first_seconds=0.001, most_seconds=0.001)


@nt.tool("unsafe_on_replay", name="fake_refund")
def refund(order_id: int) -> str:
    """Refund an order."""
    return f"refunded {order_id}"


def agent(provider: Any, **options: Any) -> nt.Agent:
    return nt.Agent(
        "faked", version="1.0.0", provider=provider, tools=[refund], retry=QUICK, **options
    )


@both
def test_an_agent_talks_to_it_through_the_real_sdk(fake_models: FakeModels, api: str) -> None:
    fake_models.will_say({"fake_refund": {"order_id": 7}}, ["Done.", "Bye."])
    asked = agent(getattr(fake_models, api)())
    outcome = asked.run("t", goal="refund 7", store=nt.Ledger(":memory:"))
    assert outcome.state.answer == "Done.\nBye."
    assert outcome.state.transcript[1].tool_results[0].content == "refunded 7"
    assert [request.turn for request in fake_models.requests] == [1, 2]
    assert fake_models.rejected == []
    assert outcome.state.spent.tokens == fake_models.usage.tokens


@both
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.rate_limited(0), nt.Retryable),
        (Fault.overloaded(), nt.Retryable),
        (Fault.server_error(), nt.Ambiguous),
        (Fault.dropped(), nt.Ambiguous),
        (Fault.cut_off(), nt.Ambiguous),
        (Fault.slow(30.0), nt.Ambiguous),
        (Fault.prompt_too_long(), nt.errors.ContextTooLong),
        (Fault.answer("no JSON"), nt.Ambiguous),
        (Fault(status=403, message="not yours"), nt.Permanent),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_a_fault_comes_once_and_then_the_script(
    fake_models: FakeModels, api: str, fault: Fault, expected: type[Exception]
) -> None:
    fake_models.will_say("Fine.")
    fake_models.will_fail(fault)
    provider = getattr(fake_models, api)(time_limit="300ms")
    hello = nt.providers.ModelRequest(messages=(nt.agent.messages.said("Hello"),))
    with pytest.raises(expected):
        provider.complete(hello)
    patient = getattr(fake_models, api)()
    assert patient.complete(hello).message.text == "Fine."
    assert len(fake_models.requests) == 2


@both
def test_an_agent_lives_through_faults(fake_models: FakeModels, api: str) -> None:
    fake_models.will_say("Fine.")
    fake_models.will_fail(Fault.overloaded(), Fault.dropped())
    asked = agent(getattr(fake_models, api)())
    assert asked.run("t", goal="x", store=nt.Ledger(":memory:")).state.answer == "Fine."
    assert [request.status for request in fake_models.requests] == [529, 200, 200]


@both
def test_each_model_has_its_own_script(fake_models: FakeModels, api: str) -> None:
    fake_models.will_say("I am anybody.")
    fake_models.will_say("I am small.", model="small")
    fake_models.will_fail(Fault(status=404, message="gone"), model="old")
    make = getattr(fake_models, api)
    hello = nt.providers.ModelRequest(messages=(nt.agent.messages.said("Hello"),))
    assert make("small").complete(hello).message.text == "I am small."
    assert make("large").complete(hello).message.text == "I am anybody."
    with pytest.raises(nt.Permanent, match="gone"):
        make("old").complete(hello)


@both
def test_a_script_that_ends_says_so(fake_models: FakeModels, api: str) -> None:
    fake_models.will_say({"fake_refund": {"order_id": 7}})
    asked = agent(getattr(fake_models, api)())
    with pytest.raises(nt.Permanent, match="has 1 replies, and is asked for reply 2"):
        asked.run("t", goal="x", store=nt.Ledger(":memory:"))


@both
def test_a_script_by_order_serves_a_conversation_whose_beginning_is_gone(
    fake_models: FakeModels, api: str
) -> None:
    calls = [{"fake_refund": {"order_id": number}} for number in range(30)]
    fake_models.will_say(*calls, "Done.", by="order")
    asked = agent(getattr(fake_models, api)(), context_tokens=600)
    outcome = asked.run("t", goal="refund all", store=nt.Ledger(":memory:"))
    assert outcome.state.answer == "Done."
    assert fake_models.rejected == []
    assert max(request.turn for request in fake_models.requests) < 20


@pytest.mark.parametrize(
    "empty",
    [
        "",
        " ",
        [],
        Turn(),
        Turn(thinking="Hm."),
        Turn("", stop="max_tokens"),
        Turn(body={"content": []}),
    ],
)
def test_a_reply_that_says_nothing_is_not_scripted_by_turn(
    fake_models: FakeModels, empty: Any
) -> None:
    """No agent sends it back, so the conversation would lack it forever."""
    with pytest.raises(nt.errors.UsageError, match=r"Reply 2 of the script .*by='order'"):
        fake_models.will_say("Hello.", empty, "Done.")
    fake_models.will_say("Hello.", Turn(stop="refusal"), Turn(body={"content": [{"type": "text"}]}))


@both
def test_a_reply_that_says_nothing_can_be_scripted_by_order(
    fake_models: FakeModels, api: str
) -> None:
    fake_models.will_say(Turn(), "Done.", by="order")
    outcome = agent(getattr(fake_models, api)()).run("t", goal="g", store=nt.Ledger(":memory:"))
    assert outcome.state.answer == "Done."
    assert fake_models.rejected == []


@both
def test_a_refusal_is_told_as_each_api_tells_it(fake_models: FakeModels, api: str) -> None:
    fake_models.will_say(Turn("I will not.", stop="refusal"))
    provider = getattr(fake_models, api)()
    hello = nt.providers.ModelRequest(messages=(nt.agent.messages.said("Hello"),))
    assert provider.complete(hello).stop.value == "refused"


@both
def test_a_killed_agent_is_told_the_same_words_and_refunds_once(
    fake_models: FakeModels, api: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_models.will_say({"killed_refund": {"order_id": 7}}, "Done.")
    fake_models.will_fail(Fault(), Fault.slow(60.0))
    url = fake_models.url if api == "anthropic" else f"{fake_models.url}/v1"
    program = f"""
import nottwice as nt
@nt.tool("unsafe_on_replay", name="killed_refund")
def refund(order_id: int) -> str:
    "Refund."
    open({str(tmp_path / "refunds")!r}, "a").write("x")
    return "refunded"
provider = nt.providers.{api}("some-model", api_key="key", base_url={url!r})
agent = nt.Agent("killed", version="1.0.0", provider=provider, tools=[refund])
print(agent.run("t", goal="x", store={str(tmp_path / "a.db")!r}).state.answer)
"""
    with starting.start([sys.executable, "-c", program]) as process:
        give_up_at = time.monotonic() + 60
        while len(fake_models.requests) < 2:
            assert process.poll() is None
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
    # This process has imported the SDK, which takes longer than all else here.
    exec(program, {"__name__": "resumed"})
    assert capsys.readouterr().out == "Done.\n"
    assert (tmp_path / "refunds").read_text() == "x"
    assert [request.turn for request in fake_models.requests] == [1, 2, 2]
    assert fake_models.rejected == []


def test_it_ends_with_its_block_and_survives_a_fork_of_its_starter() -> None:
    with FakeModels.start() as fake:
        pid = os.fork()
        if pid == 0:
            fake.stop()
            os._exit(0)
        os.waitpid(pid, 0)
        fake.will_say("still here")
    with pytest.raises(OSError, match="refused"):
        fake.will_say("gone")


def test_a_limit_that_does_not_exist_is_refused(fake_models: FakeModels) -> None:
    with pytest.raises(nt.errors.UsageError, match="no limit 'patience'"):
        fake_models.reset(patience=3)


def test_limits_can_be_small(fake_models: FakeModels) -> None:
    fake_models.reset(context_tokens=5_000, strict=True)
    fake_models.will_say("Fine.")
    long = nt.providers.ModelRequest(messages=(nt.agent.messages.said("x" * 30_000),))
    with pytest.raises(nt.errors.ContextTooLong):
        fake_models.anthropic().complete(long)
