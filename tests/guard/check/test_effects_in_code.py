"""Is every effect outside of a tool found by reading, and nothing else taken for one? (P165, P166)

Each sample is a module with a function ``node``. Lines that must be named end with ``# !``.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from nottwice.guard import registry
from nottwice.guard.check import effects_in_code
from nottwice.guard.check.code_meaning import read_source
from nottwice.guard.check.effects_in_code import CodeReport, Start, blocks_of, find_effects

HEAD = """
import asyncio, functools, io, json, logging, os, pathlib, shutil, smtplib, socket, sqlite3
import subprocess, urllib.request
from dataclasses import dataclass
from pathlib import Path
from subprocess import run as launch
import httpx, requests, psycopg
import nottwice as nt

log = logging.getLogger("agent")
client = httpx.Client()
session = requests.Session()
db = sqlite3.connect(":memory:")
db.close()

@nt.tool("unsafe_on_replay")
def refund(order_id: int) -> None:
    httpx.post("https://bank.example", json={"order": order_id})
    Path("x").write_text("x")
"""

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    monkeypatch.setattr(registry, "_tools", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[str] = []

    def module(source: str, name: str = "sample_module") -> ModuleType:
        file = tmp_path / f"{name}.py"
        file.write_text(HEAD + source)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules[name] = found
        made.append(name)
        registry._tools.clear()
        spec.loader.exec_module(found)
        return found

    yield module
    for name in made:
        sys.modules.pop(name, None)
    read_source.cache_clear()


def report(module: ModuleType) -> CodeReport:
    starts = [Start("node", function=module.node)] if hasattr(module, "node") else []
    return find_effects([*starts, *blocks_of(module)])


def marked(module: ModuleType) -> list[int]:
    lines = Path(str(module.__file__)).read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# !")]


EFFECTS = {
    "properties": """
class Bank:
    @property
    def balance(self):
        return httpx.post("https://bank.example")  # !
    @functools.cached_property
    def token(self):
        return requests.post("https://bank.example")  # !
    @property
    def name(self): return "bank"
    @name.setter
    def name(self, value): self.rename(value)
    def rename(self, value): client.put("https://bank.example")  # !
bank = Bank()
def node(state):
    found = Bank().balance
    bank.name = bank.token.text
""",
    "clients": """
def node(state):
    httpx.post("https://bank.example")  # !
    httpx.request("POST", "https://bank.example")  # !
    client.put("https://bank.example")  # !
    requests.delete("https://bank.example")  # !
    session.post("https://bank.example")  # !
    urllib.request.urlopen("https://bank.example", b"data")  # !
    urllib.request.urlopen(urllib.request.Request("https://x", method="POST"))  # !
    socket.create_connection(("bank.example", 25))  # !
    socket.socket().sendto(b"x", ("bank.example", 53))  # !
""",
    "clients that are made inside": """
import httpx as web
async def node(state):
    with httpx.Client() as one:
        one.post("https://bank.example")  # !
    async with web.AsyncClient() as two:
        await two.post("https://bank.example")  # !
    three = session if state else requests.Session()
    three.post("https://bank.example")  # !
    (four := httpx.Client()).delete("https://bank.example")  # !
    import stripe, boto3
    stripe.Refund.create(charge="ch_1")  # !
    stripe.Refund.retrieve("re_1")
    boto3.client("ses").send_email(Source="a@b.c")  # !
    boto3.client("s3").get_object(Bucket="b", Key="k")
    queue = boto3.resource("sqs").Queue("q")
    queue.send_message(MessageBody="x")  # !
    from slack_sdk import WebClient
    WebClient("t").chat_postMessage(channel="c", text="t")  # !
""",
    "programs": """
def node(state):
    subprocess.run(["git", "push"])  # !
    launch("make deploy", shell=True)  # !
    os.system("make deploy")  # !
    os.execv("/bin/true", ["true"])  # !
    subprocess.Popen(state["command"])  # !
    subprocess.run("git status; make deploy", shell=True)  # !
    subprocess.run(["git", "status", "--short"])
    subprocess.check_output("git log -1", shell=True)
""",
    "mail": """
def node(state):
    with smtplib.SMTP("localhost") as server:
        server.send_message(state["mail"])  # !
    state["mailer"].sendmail("a", "b", "c")  # !
""",
    "files": """
FOLDER = Path("out")
def node(state, folder: Path, other: "pathlib.Path | None"):
    Path("a").write_text("a")  # !
    (FOLDER / state["name"]).write_bytes(b"")  # !
    folder.joinpath("a").unlink()  # !
    other.rename("b")  # !
    state["path"].write_text("a")  # !
    open("a", "w")  # !
    open("a", mode="ab")  # !
    open("a", state["mode"])  # !
    Path("a").open("x")  # !
    io.open("a", "r+")  # !
    with open("a", "w") as file:  # !
        json.dump({}, file)
    os.remove("a")  # !
    shutil.rmtree("a")  # !
""",
    "databases": """
UPDATE = "UPDATE t SET a = 1"
SELECT = "SELECT a FROM t"
def node(state, connection: psycopg.Connection):
    db.execute("INSERT INTO t VALUES (1)")  # !
    db.execute(UPDATE)  # !
    db.execute(SELECT)
    db.execute("SELECT a FROM t WHERE b = ?", (1,))
    db.execute(f"DELETE FROM {state['table']}")  # !
    db.execute("WITH x AS (SELECT 1) SELECT * FROM x")
    db.execute("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x")  # !
    connection.cursor().execute("DELETE FROM t")  # !
    connection.execute("SELECT 1").fetchone()
    state["pool"].execute("INSERT INTO t VALUES (1)")  # !
    state["pool"].execute("SELECT 1")
    db.execute(state["sql"])  # !
""",
    "handed on": """
def charge(order_id):
    httpx.post("https://bank.example")  # !
async def node(state):
    nt.map(charge, [1, 2])
    await asyncio.to_thread(requests.post, "https://bank.example")  # !
    later = functools.partial(os.system, "make deploy")  # !
    nt.map(lambda item: client.post("https://bank.example", json=item), [1])  # !
""",
    "the bare body of a tool": """
def node(state):
    refund(order_id=1)
    refund.fn(order_id=1)  # !
""",
    "objects of the user": """
@dataclass
class Bank:
    web: httpx.Client
    def charge(self):
        self._send()
    def _send(self):
        self.web.post("https://bank.example")  # !
class Shop:
    def __init__(self):
        self.http = requests.Session()
        self.start = subprocess.run(["make", "start"])  # !
    def order(self):
        self.http.post("https://shop.example")  # !
    def __call__(self):
        os.system("make")  # !
    @property
    def disk(self) -> Path:
        return Path("a")
bank = Bank(client)
def make_shop() -> Shop:
    return Shop()
def node(state):
    bank.charge()
    shop = make_shop()
    shop.order()
    shop()
    shop.disk.write_text("a")  # !
""",
    "functions inside of functions": """
def node(state):
    def send(url):
        httpx.post(url)  # !
    def unused():
        return 1
    @nt.tool("unsafe_on_replay", name="inner")
    def inner(x: int) -> None:
        httpx.post("https://bank.example")
    send("https://bank.example")
    inner(1)
""",
    "conditions, loops and handlers": """
async def node(state):
    for each in state["all"]:
        try:
            if each:
                [client.post(url) for url in each]  # !
        finally:
            client.delete("https://bank.example")  # !
    await asyncio.create_subprocess_exec("make")  # !
""",
}

# Ways in which an effect gets out of sight without anybody meaning it.
EFFECTS |= {
    "decorators": """
def traced(function):
    @functools.wraps(function)
    def inner(*args):
        httpx.post("https://trace.example")  # !
        return function(*args)
    return inner
@functools.cache
def rate(currency):
    return client.post("https://bank.example")  # !
@traced
@functools.lru_cache
def charge(order_id):
    requests.post("https://bank.example")  # !
@traced
def node(state):
    rate("EUR"); charge(1)
    os.system("make")  # !
""",
    "context managers": """
import contextlib
class Session:
    def __enter__(self):
        self.open()
        return self
    def open(self): httpx.post("https://bank.example")  # !
    def __exit__(self, *raised): httpx.delete("https://bank.example")  # !
@contextlib.contextmanager
def connected():
    with httpx.Client() as one:
        yield one
async def node(state):
    with Session(): pass
    with connected() as two:
        two.post("https://bank.example")  # !
    with contextlib.ExitStack() as stack:
        three = stack.enter_context(httpx.Client())
        three.post("https://bank.example")  # !
    async with contextlib.AsyncExitStack() as stack:
        four = await stack.enter_async_context(httpx.AsyncClient())
        await four.post("https://bank.example")  # !
    with contextlib.closing(requests.Session()) as five:
        five.post("https://bank.example")  # !
""",
    "what a function returns": """
def make():
    return httpx.Client(timeout=3)
class Bank:
    @functools.cached_property
    def web(self): return make()
    @property
    def session(self): return requests.Session()
    def client(self): return self.web
    def charge(self):
        self.web.post("https://bank.example")  # !
        self.session.post("https://bank.example")  # !
        self.client().put("https://bank.example")  # !
def sender():
    def send(url): httpx.post(url)  # !
    return send
def node(state):
    make().post("https://bank.example")  # !
    Bank().charge()
    sender()("https://bank.example")
    open_one = lambda: httpx.Client()
    open_one().patch("https://bank.example")  # !
""",
    "functions in other hands": """
def one(order_id): httpx.post("https://bank.example")  # !
def two(order_id): httpx.put("https://bank.example")  # !
def three(order_id): httpx.patch("https://bank.example")  # !
def four(order_id): httpx.delete("https://bank.example")  # !
def five(order_id): requests.post("https://bank.example")  # !
ACTIONS = {"one": one, "more": functools.partial(two)}
CLIENTS = {"bank": client}
def node(state, charge=three):
    ACTIONS[state["kind"]](1)
    charge(1)
    for each in (four, print):
        each(1)
    first, second = five, 1
    first(second)
    CLIENTS["bank"].post("https://bank.example")  # !
    getattr(httpx, "post")("https://bank.example")  # !
""",
    "objects that are called": """
class Bank:
    def __init__(self): self.web = httpx.Client()
    def __call__(self, order_id): self.charge(order_id)
    def charge(self, order_id): self.web.post("https://bank.example")  # !
class Savings(Bank):
    def charge(self, order_id): super().charge(order_id)
class Pay:
    def __call__(self, state): self.pay()
    def pay(self):
        bank(1); charge(1)
        Path("a").write_text("a")  # !
bank, charge = Bank(), Savings().charge
node = Pay()
""",
    "descriptors of the system": """
def node(state):
    os.close(os.open("a", os.O_RDONLY))
    os.open("a", os.O_WRONLY | os.O_CREAT)  # !
""",
}

HARMLESS = {
    "reads": """
def node(state, path: Path):
    open("a").read(); open("a", "rb").read(); Path("a").open().read()
    Path("a").read_text(); path.read_bytes(); path.exists(); list(path.glob("*"))
    os.listdir("."); os.environ.get("A"); os.path.join("a", "b"); os.getpid()
    httpx.get("https://bank.example").json(); client.get("https://bank.example")
    httpx.request("GET", "https://bank.example"); requests.head("https://bank.example")
    urllib.request.urlopen("https://bank.example").read()
    urllib.request.Request("https://bank.example")
    Path("a").mkdir(exist_ok=True); os.makedirs("a", exist_ok=True)
""",
    "logging and computing": """
def node(state):
    log.info("%s", state); logging.warning("a"); print(state)
    text = "a".replace("a", "b"); found = sorted({1: 2}.items(), key=lambda item: item[1])
    state["list"].append(1); set().add(1); {}.update(a=1); json.dumps(state)
    return {"text": text, "json": json.loads("{}"), "ratio": 4 / 2}
""",
    "tools and what is theirs": """
def helper():
    httpx.post("https://bank.example")
@nt.tool("unsafe_on_replay")
def send(to: str) -> None:
    helper()
wrapped = nt.tool("unsafe_on_replay", name="wrapped")(helper)
def node(state):
    send("a"); refund(order_id=1); refund.receipt(order_id=1); wrapped()
    nt.map(refund, [1])
    nt.tool("unsafe_on_replay", name="late")(helper)()
""",
    "a local name that hides a module": """
def node(state, requests, httpx=None):
    requests.post("a"); httpx.post("a")
    def open(name, mode): return name
    return open("a", "w")
""",
    "methods of the user that sound like effects": """
class Client:
    def post(self, url): return url
    def create(self): return 1
def run(command): return command
def node(state):
    Client().post("a"); Client().create(); run(["git", "push"])
""",
    "properties that are not used, or are waived": """
class Bank:
    @property
    def name(self): return "bank"
    @property
    def balance(self): return httpx.post("https://bank.example")
    @name.setter
    def name(self, value): httpx.post("https://bank.example")
def node(state):
    bank = Bank()
    bank.balance  # nottwice: no effect, the bank only answers
    return bank.name
""",
    "functions that are named, waived or declared": """
def charge(order_id): httpx.post("https://bank.example")
class Session:
    def __enter__(self): httpx.post("https://bank.example")
    def __exit__(self, *raised): pass
TOOLS = {"refund": refund}
def node(state):
    each = charge  # nottwice: no effect, it is only named
    with Session():  # nottwice: no effect, a login
        pass
    TOOLS["refund"](1); getattr(refund, "again")("a")(1)
""",
    "functions that return one another": """
def one(n): return two(n) if n else three(n)
def two(n):
    if n: return one(n)
    if n > 1: return three(n)
    return two(n - 1)
def three(n): return one(n) or two(n) or three(n)
def node(state):
    one(1).post("a"); two(1).post("a"); three(1).post("a")
""",
    "recursion": """
def one(n): return two(n)
def two(n): return one(n - 1)
def node(state): return one(3)
""",
}


@pytest.mark.parametrize("what", EFFECTS)
def test_every_effect_outside_of_a_tool_is_named_by_its_line(what: str, load: Load) -> None:
    module = load(EFFECTS[what])
    assert marked(module), "the sample marks nothing"
    assert [each.line for each in report(module).effects] == marked(module)


@pytest.mark.parametrize("what", HARMLESS)
def test_what_has_no_effect_or_is_a_tool_is_not_named(what: str, load: Load) -> None:
    found = report(load(HARMLESS[what]))
    assert found.effects == []
    assert found.unread == []


def test_the_way_to_an_effect_is_told_call_by_call(load: Load) -> None:
    load("def post_it(url):\n    httpx.post(url)\n", "sample_bank")
    module = load(
        "import sample_bank\n"
        "def pay(order): return sample_bank.post_it(order)\n"
        "def node(state):\n    pay(1)\n"
    )
    (effect,) = report(module).effects
    assert Path(effect.file).name == "sample_bank.py"
    assert effect.call == "httpx.post"
    assert [(link.name, Path(link.file).name) for link in effect.chain] == [
        ("pay", "sample_module.py"),
        ("sample_bank.post_it", "sample_module.py"),
    ]


def test_blocks_of_runs_are_read_wherever_they_stand_and_nothing_around_them(load: Load) -> None:
    module = load("""
ledger = nt.Ledger(":memory:") if False else None
def main(passed):
    httpx.post("https://before.example")
    mine = nt.Ledger("x.db")
    def send(): httpx.post("https://inside.example")  # !
    with mine.run("a"):
        send()
    with passed.run("a"):
        client.post("https://inside.example")  # !
async def other():
    async with nt.run("b"):
        os.system("make")  # !
    os.system("make")
class Job:
    def go(self):
        with nt.run("c"):
            self.send()
    def send(self):
        requests.post("https://inside.example")  # !
if __name__ == "__main__":
    here = nt.Ledger("x.db")
    with here.run("d"), open("a") as file:
        Path("a").write_text("a")  # !
    subprocess.run(["make"])
""")
    assert [each.line for each in report(module).effects] == marked(module)


def test_a_waiver_with_a_reason_covers_its_line_and_the_calls_behind_it(load: Load) -> None:
    module = load("""
def search(query):
    return httpx.post("https://search.example", json=query)
def node(state):
    client.post("https://a.example")  # nottwice: no effect, a search with a body
    search(1)  # nottwice: no effect, the index only reads
    client.post(
        "https://a.example",
    )  # nottwice: no effect, the sandbox forgets it
    text = "# nottwice: no effect"
    client.post("https://a.example")  # !
""")
    found = report(module)
    assert [each.line for each in found.effects] == marked(module)
    assert found.refused == []


def test_a_waiver_without_a_reason_does_not_count_and_is_told(load: Load) -> None:
    module = load("""
def node(state):
    client.post("https://a.example")  # nottwice: no effect
    client.put("https://a.example")  # nottwice: no effect, <why>
    client.put("https://a.example")  # nottwice: ignore
""")
    found = report(module)
    assert len(found.effects) == 3
    assert [text for _, _, text in found.refused] == [
        "# nottwice: no effect",
        "# nottwice: no effect, <why>",
        "# nottwice: ignore",
    ]


def test_one_line_that_several_starts_reach_is_told_once_with_all_of_them(load: Load) -> None:
    module = load(
        """
def send(): httpx.post("x")
def pack(): send()
def node(state): send()
def second(state): [pack() for _ in state]
def third(state): return state
def fourth(state): pack()
"""
    )
    names = ["node", "second", "third", "fourth"]
    starts = [Start(name, function=getattr(module, name)) for name in names]
    (effect,) = find_effects(starts).effects
    assert effect.start == "node"
    assert effect.others == ("second", "fourth")


def test_code_without_source_is_told_and_not_passed_over(load: Load) -> None:
    module = load("exec('def node(state): httpx.post(1)')\n")
    found = report(module)
    assert found.unread == ["node"]


def test_more_code_than_is_read_is_told(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("def a(): b()\ndef b(): c()\ndef c(): os.system('x')\ndef node(s): a()\n")
    assert not report(module).cut_off
    monkeypatch.setattr(effects_in_code, "MOST_FUNCTIONS", 2)
    assert report(module).cut_off
