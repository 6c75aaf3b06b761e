"""The agents that are killed everywhere. They are small and together use all of nottwice.

``GUARD`` are plain runs, ``GRAPHS`` are graphs with everything that they can wait for. Every one
works on a ledger whose place ``store`` says, so that the same agents sweep every kind of store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import nottwice as nt
from nottwice.testing.crash.scenario import FailsFirst, Late, Lost, Scenario


def _never_for_real() -> Any:
    raise AssertionError("a tool of the crash test ran for real")


@nt.tool("pure", name="crash_look_up")
def look_up(order: int) -> int:
    return order * 100


@nt.tool("idempotent_with_key", key="refund-{order}", window="24h", name="crash_refund")
def refund(order: int, cents: int) -> dict[str, Any]:
    return dict(_never_for_real())


@nt.tool("unsafe_on_replay", name="crash_mail", repeat="free")
def mail(to: str) -> str:
    return str(_never_for_real())


@nt.tool("unsafe_on_replay", verify=lambda call: nt.cannot_tell(), settles="5s", name="crash_note")
def note(text: str) -> str:
    return str(_never_for_real())


@nt.tool("unsafe_on_replay", approve=True, name="crash_wire")
def wire(cents: int) -> str:
    return str(_never_for_real())


@nt.tool("idempotent_with_key", key=nt.key_per_call, window="24h", name="crash_async_refund")
async def refund_async(order: int) -> str:
    return str(_never_for_real())


@nt.tool("unsafe_on_replay", name="crash_async_mail")
async def mail_async(to: str) -> str:
    return str(_never_for_real())


async def _look_for_it(call: nt.Call) -> nt.Verification:
    return nt.cannot_tell()


@nt.tool("unsafe_on_replay", verify=_look_for_it, settles="5s", name="crash_async_note")
async def note_async(text: str) -> str:
    return str(_never_for_real())


@nt.tool("unsafe_on_replay", retry=nt.RetryPolicy(attempts=3), name="crash_flaky", time_limit="30s")
def flaky(what: str) -> str:
    return str(_never_for_real())


CANNED: dict[str, Any] = {
    "crash_refund": {"ok": True},
    "crash_mail": lambda args: f"mailed {args['to']}",
    "crash_note": "noted",
    "crash_wire": "wired",
    "crash_async_refund": "refunded",
    "crash_async_mail": "mailed",
    "crash_async_note": "noted",
    "crash_flaky": FailsFirst(nt.Retryable("busy"), "done", times=1),
}


@dataclass(frozen=True)
class Agent:
    """Work on a ledger, and what the world answers it."""

    work: Callable[[str], Any]
    tools: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)
    raises: type[Exception] | tuple[type[Exception], ...] = ()

    def scenario(self, name: str, store: str) -> Scenario:
        return Scenario(
            work=lambda: self.work(store),
            tools={**CANNED, **self.tools},
            answers=self.answers,
            name=name,
            raises=self.raises,
        )


# Plain runs


def all_classes(store: str) -> list[Any]:
    with nt.run("classes", store=store):
        with nt.step("pay"):
            paid = refund(order=7, cents=look_up(order=7))
        with nt.step("tell"):
            return [paid, mail(to="ann"), note(text="closed")]


def retries(store: str) -> str:
    with nt.run("retries", store=store):
        return flaky(what="door") + flaky.again("twice")(what="door")


def lost_and_late(store: str) -> list[Any]:
    with nt.run("lost", store=store):
        return [refund(order=1, cents=5), note(text="lost")]


def branches(store: str) -> list[str]:
    with nt.run("branches", store=store):
        return nt.map(lambda name: mail(to=name), ["ann", "bob", "cy"])


async def loop_of_events(store: str) -> list[str]:
    async with nt.run("async", store=store):
        async with nt.step("pay"):
            paid = await refund_async(order=7)
        return [paid, *await nt.gather(mail_async("ann"), note_async("closed"))]


def waits(store: str) -> list[Any]:
    with nt.run("waits", store=store):
        with nt.step("ask"):
            size = nt.ask("Which size?", options=["small", "large"])
        with nt.step("wait"):
            nt.sleep("3d")
            parcel = nt.receive("parcel")
        with nt.step("pay"):
            return [size, parcel, str(nt.uuid()), wire(cents=100)]


def two_runs(store: str) -> list[Any]:
    """One process, two runs, the second inside the first."""
    done = []
    with nt.run("outer", store=store):
        done.append(mail(to="ann"))
        with nt.run("inner", store=store):
            done.append(mail(to="bob"))
    return done


GUARD: dict[str, Agent] = {
    "all classes": Agent(all_classes),
    "retries": Agent(retries),
    "lost": Agent(lost_and_late, {"crash_refund": Lost({"ok": 1}), "crash_note": Lost("noted")}),
    "late": Agent(lost_and_late, {"crash_note": Late("noted", seconds=3)}),
    "branches": Agent(branches),
    "async": Agent(loop_of_events),
    "waits": Agent(waits, answers={"parcel": {"weight": 3}}),
    "two runs": Agent(two_runs),
}


# Graphs

line: nt.Graph[Any] = nt.Graph("crash-line", version="1.0.0")


@line.node
def pay(state: dict[str, Any]) -> dict[str, Any]:
    return {"paid": refund(order=state["order"], cents=look_up(order=state["order"]))}


@line.node
def tell(state: dict[str, Any]) -> dict[str, Any]:
    return {"told": mail(to="ann"), "noted": note(text="closed")}


loop: nt.Graph[Any] = nt.Graph("crash-loop", version="1.0.0", append=["sent"])


@loop.node(then={"again": "turn", "done": nt.END})
def turn(state: dict[str, Any]) -> Any:
    count = state.get("count", 0) + 1
    update = {"count": count, "sent": [mail(to=f"reader {count}")]}
    return nt.goto("again" if count < 3 else "done", update)


fan: nt.Graph[Any] = nt.Graph("crash-fan", version="1.0.0")


@fan.node(then=["left", "right"], join="meet")
def start(state: dict[str, Any]) -> dict[str, Any]:
    return {"looked": look_up(order=3)}


@fan.node
def left(state: dict[str, Any]) -> dict[str, Any]:
    return {"left": mail(to="left")}


@fan.node
def right(state: dict[str, Any]) -> dict[str, Any]:
    return {"right": note(text="right")}


@fan.node
def meet(state: dict[str, Any]) -> dict[str, Any]:
    return {"met": [state["left"], state["right"]], "paid": refund(order=3, cents=1)}


family: nt.Graph[Any] = nt.Graph("crash-family", version="1.0.0")


@family.node
def send_children(state: dict[str, Any]) -> dict[str, Any]:
    ends = [nt.spawn(line, {"order": number}, label=str(number)) for number in (8, 9)]
    return {"children": [end.state["paid"] for end in ends]}


@family.node
def finish(state: dict[str, Any]) -> dict[str, Any]:
    return {"finished": mail(to="parent")}


patient: nt.Graph[Any] = nt.Graph("crash-patient", version="1.0.0", checkpoints="every_step")


@patient.node
def question(state: dict[str, Any]) -> dict[str, Any]:
    return {"size": nt.ask("Which size?", options=["small", "large"])}


@patient.node
def pause(state: dict[str, Any]) -> dict[str, Any]:
    nt.sleep("3d")
    return {"told": mail(to="ann")}


@patient.node
def parcel(state: dict[str, Any]) -> dict[str, Any]:
    with contextlib.suppress(nt.errors.EventTimeout):
        return {"came": nt.receive("parcel", within="2d")}
    return {"came": None}


@patient.node
def transfer(state: dict[str, Any]) -> dict[str, Any]:
    return {"wired": wire(cents=5)}


class Broken(Exception):
    """A node of an old version that cannot be fixed."""


old_claim: nt.Graph[Any] = nt.Graph("crash-claim", version="1.0.0", checkpoints="every_step")
new_claim: nt.Graph[Any] = nt.Graph("crash-claim", version="2.0.0")


@old_claim.node
def pay_claim(state: dict[str, Any]) -> dict[str, Any]:
    return {"paid": refund(order=5, cents=5)}


@old_claim.node
def wait_for_form(state: dict[str, Any]) -> dict[str, Any]:
    nt.uuid()
    raise Broken("the form does not exist any more")


@new_claim.node
def ask_for_form(state: dict[str, Any]) -> dict[str, Any]:
    return {"form": nt.ask("Which form?", options=["a", "b"]), "by": state["channel"]}


@new_claim.node
def tell_claimant(state: dict[str, Any]) -> dict[str, Any]:
    return {"told": mail(to="claimant")}


def migrated(store: str) -> Any:
    """A run of the old version fails, is migrated, and ends on the new one."""
    with contextlib.suppress(Broken, nt.errors.WorkflowVersionMismatch):
        old_claim.run("run", {"channel": "fax"}, store=store)
    nt.versions.migrate(
        nt.App(graphs=[new_claim], store=store, admins=["ann"]),
        "run",
        to=new_claim.id,
        mapping={"wait_for_form": "ask_for_form"},
        by="ann",
        why="no form",
        upgrade=lambda state: {**state, "channel": "mail"},
    )
    return new_claim.run("run", {"channel": "fax"}, store=store)


def _graph(graph: nt.Graph[Any], given: Any = None) -> Callable[[str], Any]:
    return lambda store: graph.run("run", given, store=store)


def _graph_async(graph: nt.Graph[Any], given: Any = None) -> Callable[[str], Any]:
    return lambda store: graph.arun("run", given, store=store)


GRAPHS: dict[str, Agent] = {
    "line": Agent(_graph(line, {"order": 7})),
    "line async": Agent(_graph_async(line, {"order": 7})),
    "loop": Agent(_graph(loop)),
    "fan-out": Agent(_graph(fan)),
    "spawn": Agent(_graph(family)),
    "patient": Agent(_graph(patient), answers={"parcel": {"weight": 3}}),
    "patient, in vain": Agent(_graph(patient), answers={"Which size?": "large"}),
    "rejected": Agent(
        _graph(patient), answers={"crash_wire": "reject"}, raises=nt.errors.RejectedByReviewer
    ),
    "migrated": Agent(migrated),
}
