"""Does a type checker help where it can, and stay silent where the program is right? (T1, T2, E1)

Small programs are checked by mypy, strictly, all together: the first time takes a few seconds, and
after that its cache is used. A line that must be an error says so in a comment, with words of it;
every other line must be clean.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.source import ROOT

HEAD = """
from __future__ import annotations
from collections.abc import Callable, Coroutine
from typing import Any
import nottwice as nt

def look(call: nt.Call) -> nt.Verification:
    return nt.happened({"id": call.id}) if call.attempt else nt.cannot_tell()

async def look_async(call: nt.Call) -> nt.Verification:
    return nt.did_not_happen()
"""

PROGRAMS = {
    "a_right_program_is_clean": """
@nt.tool("pure")
def get_order(order_id: int) -> dict[str, int]:
    return {"cents": 1}

@nt.tool("idempotent_with_key", key="refund-{order_id}", window="24h", verify=look)
def refund(order_id: int, cents: int, *, note: str = "") -> dict[str, str]:
    return {"key": nt.current_call().key or ""}

@nt.tool("idempotent_with_key", key=nt.key_per_call, window="1h", retry=nt.RetryPolicy(attempts=2))
def charge(cents: int) -> None: ...

@nt.tool("idempotent_with_key", key=lambda cents: f"k{cents}", window="7d")
def credit(cents: int) -> None: ...

@nt.tool("unsafe_on_replay", verify=look_async, settles="30s", classify=nt.single_request)
async def send_email(to: str, body: str) -> list[str]:
    return [to, body]

@nt.tool("pure", volatile="*")
def ask_model(prompt: str) -> str:
    return prompt

with nt.run("ticket-7", store="agent.db", acquire_timeout="5s", settle_timeout="1m"):
    order = get_order(order_id=7)
    refund(7, cents=order["cents"], note="x")
    refund.again("second parcel")(7, 1)
    with nt.step("notify", at=3):
        names: list[str] = nt.map(ask_model, ["a", "b"])

async def main() -> None:
    ledger = nt.Ledger(":memory:")
    async with ledger.run("r"), nt.step("notify"):
        both: list[list[str]] = await nt.gather(send_email("a", "b"), send_email("c", "d"))
        await send_email.retry("a", body="b")
""",
    "types_come_through": """
@nt.tool("idempotent_with_key", key="refund-{order_id}", window="24h")
def refund(order_id: int, cents: int) -> dict[str, str]:
    return {}

@nt.tool("unsafe_on_replay")
async def send_email(to: str) -> list[int]:
    return []

reveal_type(refund(order_id=7, cents=1))  # note: dict[str, str]
reveal_type(refund.receipt(order_id=7, cents=1).value)  # note: dict[str, str]
reveal_type(refund.receipt(7, 1).replayed)  # note: bool
reveal_type(refund.again("x")(7, 1))  # note: dict[str, str]
reveal_type(refund.retry(7, 1))  # note: dict[str, str]
reveal_type(refund.fn(7, 1))  # note: dict[str, str]

async def main() -> None:
    waiting: Coroutine[Any, Any, list[int]] = send_email("a")
    await waiting
    send_email("a")  # error: must be used
    reveal_type(await send_email("a"))  # note: list[int]
    reveal_type((await send_email.receipt(to="a")).value)  # note: list[int]
    reveal_type(await send_email.again("x")("a"))  # note: list[int]
    reveal_type(await send_email.fn("a"))  # note: list[int]
    reveal_type(await nt.gather(send_email("a")))  # note: list[list[int]]
    send_email("a").value  # error: has no attribute "value"
""",
    "a_protected_function_passes_for_a_function": """
@nt.tool("pure")
def double(x: int) -> int:
    return 2 * x

@nt.tool("pure")
async def triple(x: int) -> int:
    return 3 * x

plain: Callable[[int], int] = double
reveal_type(nt.map(double, [1, 2]))  # note: list[int]
coroutine: Callable[[int], Coroutine[Any, Any, int]] = triple
name: str = double.__name__
other: Callable[[str], int] = double  # error: Incompatible types in assignment
""",
    "calls_are_checked": """
@nt.tool("unsafe_on_replay")
def send(to: str, copies: int = 1) -> None: ...

send("a", copies=2)
send(7)  # error: incompatible type "int"
send()  # error: Missing positional argument
send("a", copy=2)  # error: Unexpected keyword argument "copy"
send.receipt("a", "b")  # error: incompatible type "str"
send.again("x")("a", copy=2)  # error: Unexpected keyword argument
send.again(7)  # error: incompatible type "int"
send.retry()  # error: Missing positional argument
""",
    "a_declaration_is_checked": """
@nt.tool("idempotent_with_key", window="24h")  # error: No overload variant
def without_key(x: int) -> None: ...

@nt.tool("idempotent_with_key", key="k-{x}")  # error: No overload variant
def without_window(x: int) -> None: ...

@nt.tool("idempotent_with_key")  # error: No overload variant
def without_both(x: int) -> None: ...

@nt.tool("pure", key="k-{x}")  # error: No overload variant
def pure_with_key(x: int) -> None: ...

@nt.tool("pure", verify=look)  # error: No overload variant
def pure_with_verify(x: int) -> None: ...

@nt.tool("unsafe_on_replay", window="24h")  # error: No overload variant
def unsafe_with_window(x: int) -> None: ...

@nt.tool("unsafe")  # error: No overload variant
def unknown_class(x: int) -> None: ...

@nt.tool()  # error: overload variant
def without_class(x: int) -> None: ...

@nt.tool  # error: No overload variant
def bare(x: int) -> None: ...

@nt.tool("unsafe_on_replay", verify=lambda call: True)  # error:
def verify_that_says_yes(x: int) -> None: ...

@nt.tool("unsafe_on_replay", retry=3)  # error: No overload variant
def retries_as_a_number(x: int) -> None: ...
""",
    "a_graph_knows_the_type_of_its_state": """
from dataclasses import dataclass

@dataclass
class Order:
    order_id: int

flow = nt.Graph("order", version="1.0.0", state=Order)
plain = nt.Graph("plain", version="1.0.0")

@flow.node
def read(state: Order) -> dict[str, int]:
    return {"order_id": state.order_id}

@flow.node(then={"again": "read", "out": nt.END}, most=3)
async def choose(state: Order) -> str:
    child: nt.Outcome[Order] = await nt.aspawn(flow, {"order_id": 1})
    return "out"

reveal_type(flow.run("r", {"order_id": 1}, store="agent.db").state)  # note: Order
reveal_type(flow.outcome("r").status)  # note: Literal['queued']
if flow.outcome("r").status == "complete":  # error: Non-overlapping equality check
    pass
reveal_type(read)  # note: Order) -> dict[str, int]
flow.run("r").state.order_ids  # error: has no attribute "order_ids"
plain.run("r").state["anything"]
app = nt.App(graphs=[flow, plain], store="agent.db")
app.run("order", "r", {"order_id": 1}).waits[0].until

async def main() -> None:
    reveal_type((await flow.arun("r")).state.order_id)  # note: int

@flow.node
def without_state() -> None: ...

@flow.node(most=2)
def later(state: Order) -> None: ...

reveal_type(choose)  # note: Order) -> Coroutine[Any, Any, str]

@flow.node  # error: has incompatible type "Callable[[str], None]"
def of_another_state(state: str) -> None: ...

@flow.node(most=2)  # error: has incompatible type "Callable[[str], None]"
def later_of_another_state(state: str) -> None: ...

nt.Grph  # error: has no attribute "Grph"
nt.Graph("order")  # error: Missing named argument "version"
nt.App(graphs=[7])  # error: has incompatible type "int"
""",
    "methods_are_tools": """
class Account:
    account = "a"

    @nt.tool("unsafe_on_replay", bound_by=("account",))
    def pay(self, cents: int) -> str:
        return ""

    @nt.tool("pure", bound_by=())
    async def balance(self) -> int:
        return 0

    @classmethod
    @nt.tool("pure", bound_by=("__name__",))
    def kind(cls, x: int) -> str:
        return ""

    @staticmethod
    @nt.tool("pure")
    def double(x: int) -> int:
        return 2 * x

async def main(account: Account) -> None:
    reveal_type(account.pay(5))  # note: str
    account.pay("5")  # error: incompatible type "str"
    account.pay()  # error: Too few arguments
    account.pay.receipt(5)  # error: has no attribute "receipt"
    account.pay(5, 6)  # error: Too many arguments
    reveal_type(Account.pay(account, 5))  # note: str
    await account.balance(7)  # error: Too many arguments
    reveal_type(Account.pay.receipt(account, 5).value)  # note: str
    reveal_type(await account.balance())  # note: int
    reveal_type(account.kind(2))  # note: str
    reveal_type(Account.kind(2))  # note: str
    account.kind("2")  # error: incompatible type "str"
    reveal_type(Account.double(2))  # note: int
""",
}


def test_a_type_checker_says_what_it_should_and_nothing_else(tmp_path: Path) -> None:
    """One test, because one run of the checker is enough for all programs."""
    said = ask_checker(tmp_path)
    wrong: list[str] = []
    for name, program in PROGRAMS.items():
        wanted = dict(expectations(HEAD + program))
        for line in sorted(wanted.keys() | said[name].keys()):
            kind, _, words = wanted.get(line, "nothing: ").partition(":")
            heard = said[name].get(line, "nothing:")
            if not heard.startswith(f"{kind}:") or words.strip() not in heard:
                wrong.append(f"{name}:{line}: {heard!r} instead of {wanted.get(line)!r}")
    assert not wrong, "\n" + "\n".join(wrong)


def ask_checker(folder: Path) -> dict[str, dict[int, str]]:
    """What mypy says about every program, by line."""
    for name, program in PROGRAMS.items():
        (folder / f"{name}.py").write_text(HEAD + program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty"]
    # A cache of its own: the settings differ from those of the project.
    options = ["--config-file=", f"--cache-dir={ROOT / '.mypy_cache' / 'programs'}"]
    ran = subprocess.run(
        [*command, *options, "--disable-error-code=empty-body", str(folder)],
        cwd=ROOT / "src",
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.stderr == ""
    found: dict[str, dict[int, str]] = {name: {} for name in PROGRAMS}
    for line in ran.stdout.splitlines():
        match = re.fullmatch(r"(.*?)\.py:(\d+): (error|note): (.*)", line)
        assert match is not None, line
        path, number, kind, text = match.groups()
        # A note after an error explains it; what matters is the first word on a line.
        text = text.replace("builtins.", "").replace("typing.", "")
        found[Path(path).name].setdefault(int(number), f"{kind}: {text}")
    return found


def expectations(program: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(program.splitlines(), start=1):
        match = re.search(r"# ((?:error|note):.*)", line)
        if match is not None:
            yield number, match[1]


def test_the_programs_expect_something() -> None:
    """A program without expectations would pass by looking away; one of them is meant to."""
    silent = [name for name in PROGRAMS if not list(expectations(PROGRAMS[name]))]
    assert silent == ["a_right_program_is_clean"]
