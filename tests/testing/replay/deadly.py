"""An agent of everything that can be called, whose tools and hooks kill the process if DEADLY is
set; copied into a folder and named with --app.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

import nottwice as nt


def reach(answer: Any) -> Any:
    if os.environ.get("DEADLY"):
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


@dataclass
class Weather:
    """A result that is not plain."""

    degrees: int


def look(call: nt.Call) -> nt.Verification:
    reach(None)
    return nt.cannot_tell()


def classify(error: BaseException) -> None:
    reach(None)


@nt.tool("pure")
def deadly_weather(city: str) -> Weather:
    return Weather(reach(len(city)))


@nt.tool("pure", volatile=("asked_at",))
async def deadly_forecast(city: str, asked_at: float = 0.0) -> str:
    return str(reach(f"sun in {city}"))


@nt.tool("unsafe_on_replay", verify=look, classify=classify)
def deadly_mail(to: str, body: str, urgent: bool = False) -> str:
    reach(None)
    if to == "broken@example.org":
        raise ConnectionError("it is not known")
    return f"mailed {to}"


@nt.tool("idempotent_with_key", key="pay-{order}", window="24h")
async def deadly_pay(order: str, cents: int) -> str:
    return str(reach(f"paid {order}"))


@nt.tool("unsafe_on_replay")
def deadly_book(order: str) -> str:
    """An effect whose body makes another one."""
    reach(None)
    return deadly_mail(to=order, body="booked")


@nt.tool("unsafe_on_replay", approve=True)
def deadly_wire(cents: int) -> str:
    return str(reach(f"wired {cents}"))


inner: nt.Graph[Any] = nt.Graph("inner", version="1.0.0")


@inner.node
def only(state: dict[str, Any]) -> dict[str, Any]:
    return {"said": deadly_mail(to=state["to"], body="from a child")}


trip: nt.Graph[Any] = nt.Graph("trip", version="1.0.0", append=("told",))


@trip.node
def look_around(state: dict[str, Any]) -> dict[str, Any]:
    found = deadly_weather(city=state["city"])
    return {"degrees": found.degrees, "at": nt.now().isoformat(), "id": str(nt.uuid())}


@trip.node
async def ask_ahead(state: dict[str, Any]) -> dict[str, Any]:
    said = await nt.gather(*[deadly_forecast(city=f"{state['city']} {day}") for day in range(3)])
    return {"forecast": said, "paid": await deadly_pay(order=state["order"], cents=100)}


@trip.node(then=["left", "right"], join="meet")
def fan_out(state: dict[str, Any]) -> dict[str, Any]:
    words = [f"a{each}" for each in range(3)]
    return {"mailed": nt.map(lambda to: deadly_mail(to, f"{state['degrees']} degrees"), words)}


@trip.node(then="meet")
def left(state: dict[str, Any]) -> dict[str, Any]:
    return {"told": [deadly_mail(to="left@example.org", body=state["at"], urgent=True)]}


@trip.node(then="meet")
def right(state: dict[str, Any]) -> dict[str, Any]:
    with nt.step("inside", at=state["order"]):
        said = deadly_mail.again("once more")(to="right@example.org", body=state["id"])
    return {"told": [said, deadly_book(order=state["order"])]}


@trip.node(then={"again": "meet", "on": "decide"})
def meet(state: dict[str, Any]) -> Any:
    turns = state.get("turns", 0) + 1
    deadly_mail(to="loop@example.org", body="the same every time")
    return nt.goto("again" if turns < 3 else "on", {"turns": turns})


@trip.node
def decide(state: dict[str, Any]) -> dict[str, Any]:
    child = nt.spawn(inner, {"to": "child@example.org"})
    answer = nt.ask(f"Go to {state['city']}?", options=["yes", "no"], label="go")
    return {"child": child.state["said"], "answer": answer}


@trip.node
def end(state: dict[str, Any]) -> dict[str, Any]:
    nt.sleep("1s")
    try:
        deadly_mail(to=state.get("last", "last@example.org"), body="the end")
    except nt.ToolFailure:
        return {"wired": "not at all"}
    return {"wired": deadly_wire(cents=5), "news": nt.receive("news")}


app = nt.App(graphs=[trip, inner])
