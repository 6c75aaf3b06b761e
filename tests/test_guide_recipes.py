"""Do the recipes of docs/guides/inside-your-framework.md do what the page says, also when killed?

Each is cut out of the page and run unchanged; only its placeholder (`...`, or the result of a
tool) is replaced by a call that an upstream counts. The frameworks are real, the SIGKILL is real.
tenacity is one of the development tools; the others are in an environment of their own.
Celery's broker is a folder (kombu's filesystem transport), so no server is needed. Temporal needs
one, so of its recipe only the policy is looked at.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.testing import World
from tests.test_frameworks import python
from tests.tidy.source import ROOT

__all__ = ["python"]
PAGE = ROOT / "docs" / "guides" / "inside-your-framework.md"
LIMIT_SECONDS = 120

# What replaces the placeholder: it is applied, and then its answer is held back.
UPSTREAM = """
import os
from nottwice.testing import WorldClient

def upstream(**what):
    return WorldClient(os.environ["WORLD"]).do("effect", hold="gate", result={"id": 1}, **what)
"""
TOOL = """
import nottwice as nt

def find(call: nt.Call) -> nt.Verification:
    effect = WorldClient(os.environ["WORLD"]).find("effect", **call.args)
    return nt.cannot_tell() if effect is None else nt.happened(effect.result)

@nt.tool("unsafe_on_replay", verify=find)
def send_mail(ticket: str) -> dict:
    return upstream(ticket=ticket)
"""


def recipe(heading: str) -> str:
    """The first code block below a heading of the page."""
    found = re.search(
        rf"^#+ {heading}$.*?^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"the page has no recipe for {heading}"
    return found[1]


def fill(text: str, placeholder: str, filling: str) -> str:
    assert text.count(placeholder) == 1, placeholder
    return text.replace(placeholder, filling)


class Place:
    """A folder with one program, and the interpreter of the frameworks to run it with."""

    def __init__(self, folder: Path, python: Path, world: World) -> None:
        self.folder, self.python, self.world = folder, python, world
        self.client = world.client()
        self.log = folder / "log.txt"

    def start(self, *words: str, **facts: str) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            return subprocess.Popen(
                [str(self.python), *words],
                cwd=self.folder,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{self.folder}",
                    "WORLD": self.world.url,
                    **facts,
                },
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def run(self, *words: str) -> str:
        """What a program says that ends well."""
        process = self.start(*words)
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 0, self.log.read_text()[-3000:]
        return said

    def kill_inside(self, *words: str) -> None:
        """Kill a program after the upstream has applied its request, before the answer."""
        process = self.start(*words)
        self.client.wait_until_held("gate", timeout_seconds=LIMIT_SECONDS)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        self.client.release("gate")

    def write(self, *parts: str) -> None:
        (self.folder / "agent.py").write_text("\n".join(parts))


@pytest.fixture
def place(tmp_path: Path, python: Path) -> Iterator[Place]:
    with World.start(tmp_path / "world") as world:
        yield Place(tmp_path, python, world)


@pytest.fixture
def place_here(tmp_path: Path) -> Iterator[Place]:
    with World.start(tmp_path / "world") as world:
        yield Place(tmp_path, Path(sys.executable), world)


# Frameworks

OPENAI = '''
import asyncio, json
from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall

class Scripted(Model):
    """It asks for the tool, and again if it may: a model that sees an error does."""

    async def get_response(self, **asked):
        call = ResponseFunctionToolCall(
            type="function_call",
            call_id="call-1",
            name="send_mail",
            arguments=json.dumps({"to": "ann@example.com", "body": "Hello"}),
        )
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    def stream_response(self, **asked):
        raise AssertionError("this agent does not stream")

set_tracing_disabled(True)
agent.model = Scripted()
try:
    asyncio.run(handle("ticket-7", "Write to Ann.", agent))
except nt.RunBlocked as blocked:
    print("waits for", blocked.review_id)
'''
MCP = """
import asyncio
from mcp import Client

async def main():
    async with Client(server) as client:
        given = {"ticket": "ticket-7", "order_id": 7, "cents": 40}
        answer = await client.call_tool("refund_order", given)
        print(answer.is_error, answer.content[0].text)

asyncio.run(main())
"""
LANGCHAIN = """
except nt.RunBlocked as blocked:
    print("waits for", blocked.review_id)
"""


def langchain() -> str:
    text = fill(recipe("LangChain"), 'return {"id": 1}', "return upstream(to=to)")
    head, block = text.split("if __name__ ==")
    inside = ("if __name__ ==" + block).replace("\n", "\n    ").rstrip()
    return f"{head}try:\n    {inside}{LANGCHAIN}"


def openai() -> str:
    return fill(recipe("OpenAI Agents"), 'return {"id": 1}', "return upstream(to=to)") + OPENAI


def mcp() -> str:
    filled = fill(recipe("MCP"), 'return {"refunded": cents}', "return upstream(order=order_id)")
    return filled + MCP


@pytest.mark.deep(part="adapters")
@pytest.mark.parametrize("program", [langchain, openai, mcp], ids=lambda one: one.__name__)
def test_a_recipe_that_is_killed_inside_its_call_sends_nothing_again_and_asks_a_person(
    place: Place, program: Callable[[], str]
) -> None:
    place.write(UPSTREAM, program())
    place.kill_inside("agent.py")
    said = place.run("agent.py")
    (review,) = nt.Ledger(place.folder / store_of(program)).store.open_reviews()
    assert review.review_id in said
    if program is mcp:
        assert said.startswith("True ")
        assert "Stop here and tell the user. Do not call this again." in said
    assert place.world.count() == 1


def store_of(program: Callable[[], str]) -> str:
    return "shop.db" if program is mcp else "agent.db"


# Queues

CONFIGURED = """
app.conf.update(
    broker_url="filesystem://",
    broker_transport_options={
        "data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control",
    },
    worker_prefetch_multiplier=1,
)
"""
HOLDER = """
import sys
import time
import nottwice as nt

with nt.run("ticket-7", store="agent.db"):
    print("held", flush=True)
    sys.stdin.readline()
"""
SEND = "import agent; agent.handle_ticket.delay('ticket-7')"


@pytest.fixture
def celery(place: Place) -> Iterator[Place]:
    """The recipe, with a folder for a broker and a worker of one pool process."""
    for name in ("queue", "control"):
        (place.folder / name).mkdir()
    filled = fill(recipe("Celery"), "            ...\n", "            send_mail(ticket)\n")
    place.write(UPSTREAM, TOOL, filled, CONFIGURED)
    words = ["worker", "--pool", "prefork", "--concurrency", "1", "--loglevel", "INFO"]
    worker = place.start("-m", "celery", "--app", "agent", *words)
    yield place
    os.killpg(worker.pid, signal.SIGKILL)
    worker.communicate()


def wait_for_log(place: Place, text: str, *, count: int = 1) -> None:
    """Until the worker has logged something so often."""
    for _ in range(LIMIT_SECONDS * 10):
        if place.log.read_text().count(text) >= count:
            return
        time.sleep(0.1)
    raise AssertionError(place.log.read_text()[-3000:])


@pytest.mark.deep(part="adapters")
def test_celery_finishes_a_run_whose_pool_process_was_killed_inside_a_call(celery: Place) -> None:
    celery.run("-c", SEND)
    celery.client.wait_until_held("gate", timeout_seconds=LIMIT_SECONDS)
    os.kill(pool_process(celery), signal.SIGKILL)
    celery.client.release("gate")
    wait_for_log(celery, "succeeded in")
    assert celery.world.count() == 1
    assert len(celery.world.verifications()) == 1


def pool_process(place: Place) -> int:
    """The process that has opened the ledger: its holder."""
    store = nt.Ledger(place.folder / "agent.db").store
    run = store.load_run("ticket-7")
    assert run is not None
    assert run.holder_id is not None
    holder = store.load_holder(run.holder_id)
    assert holder is not None
    return holder.pid


@pytest.mark.deep(part="adapters")
def test_celery_does_not_give_up_a_run_that_is_busy_for_longer_than_its_default_retries(
    celery: Place,
) -> None:
    """Celery grants three retries by default; then the run would be lost."""
    celery.client.release("gate")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        cwd=celery.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    celery.run("-c", SEND)
    wait_for_log(celery, "retry: Retry in", count=4)
    assert celery.world.count() == 0
    holder.communicate("\n")
    wait_for_log(celery, "succeeded in")
    assert celery.world.count() == 1


@pytest.mark.deep(part="adapters")
def test_celery_does_not_retry_a_run_that_waits_for_a_person(place: Place) -> None:
    filled = fill(recipe("Celery"), "            ...\n", '            nt.ask("Shall I?")\n')
    place.write(filled, "handle_ticket.apply(args=['ticket-7']).get()")
    process = place.start("agent.py")
    process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 1
    log = place.log.read_text()
    assert "nottwice.errors.QuestionOpen" in log
    assert "Retry in" not in log


TENACITY = """
from tenacity import wait_none

handle_ticket.retry.wait = wait_none()
tries = []
{work}
handle_ticket("ticket-7")
"""


def test_tenacity_tries_again_while_a_run_is_busy_and_not_when_it_waits_for_a_person(
    place_here: Place,
) -> None:
    place = place_here
    filled = fill(recipe("tenacity"), "        ...\n", "        work(ticket)\n")
    work = """
def work(ticket):
    tries.append(ticket)
    print(len(tries), flush=True)
    if len(tries) == 1:
        raise nt.RunBusy("another run, say")
    nt.ask("Shall I?")
"""
    place.write(filled, TENACITY.format(work=work))
    process = place.start("agent.py")
    said, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert said == "1\n2\n"
    assert "nottwice.errors.QuestionOpen" in place.log.read_text()


@pytest.mark.deep(part="adapters")
def test_the_policy_for_temporal_names_every_error_that_is_not_to_be_tried_again(
    place: Place,
) -> None:
    place.write(recipe("Temporal"), "print(*policy.non_retryable_error_types)")
    named = set(place.run("agent.py").split())
    kinds = [kind for kind in vars(nt.errors).values() if isinstance(kind, type)]
    errors = {kind for kind in kinds if issubclass(kind, nt.NottwiceError)}
    kept = {"Retryable"}  # a run raises it when no attempts are left
    assert named == kept | {kind.__name__ for kind in errors if kind.non_retryable}
    assert {"ReplayUnsafeError", "ApprovalNeeded", "QuestionOpen", "RunAborted"} <= named
    assert not {"RunBusy", "StoreError", "RunWaits"} & named
