"""Small agents that give a broken engine the chance to do its worst."""

from __future__ import annotations

import contextlib
from typing import Any

import nottwice as nt
from nottwice.engine.session import current_scope
from nottwice.testing.crash.scenario import Late
from tests.crash.scenarios import Agent, mail, note, refund, wire


@nt.tool("unsafe_on_replay", name="crash_letter")
def letter(to: str) -> str:
    raise AssertionError("a tool of the crash test ran for real")


def _one_mail(store: str) -> str:
    with nt.run("mail", store=store):
        return mail(to="ann")


def _mails(store: str) -> list[str]:
    with nt.run("mails", store=store), nt.step("tell"):
        return [mail(to="ann"), mail(to="bob")]


def _two_steps(store: str) -> list[Any]:
    with nt.run("steps", store=store):
        with nt.step("pay"):
            paid = refund(order=7, cents=100)
        with nt.step("tell"):
            return [paid, mail(to="ann")]


def _same_everywhere(store: str) -> list[str]:
    """The same words in two runs, two steps, two visits, and by two tools: eight effects."""
    sent = []
    for run_id in ("one", "two"):
        with nt.run(run_id, store=store):
            with nt.step("first"):
                sent.append(mail(to="ann"))
            with nt.step("second"):
                sent += [mail(to="ann"), letter(to="ann")]
            with nt.step("second", at=2):
                sent.append(mail(to="ann"))
    return sent


def _noting(store: str) -> str:
    with nt.run("noting", store=store):
        return note(text="closed")


def _drifting(store: str) -> str:
    """The process that resumes it makes other calls."""
    with nt.run("drifting", store=store), nt.step("tell"):
        scope = current_scope.get()
        assert scope is not None
        first = mail(to=f"reader {scope.session.run.epoch}")
        return first + note(text="closed")


def _asked_in_vain(store: str) -> str:
    """Code that takes a wait for an answer of its own."""
    with nt.run("asked", store=store):
        size = "unknown"
        with contextlib.suppress(nt.RunBlocked):
            size = nt.ask("Which size?", options=["small", "large"])
        return mail(to=size)


def _long_branches(store: str) -> list[str]:
    """Eight commits in parallel, each of more pages than a new ledger has.

    A fault hits the n-th write of any thread. The main thread creates the ledger, so only a branch
    that writes more than that can meet a fault of its own.
    """
    with nt.run("branches", store=store):
        return nt.map(lambda one: mail(to=f"{one}" * 200_000), list("abcdefgh"))


def _two_wires(store: str) -> list[str]:
    with nt.run("wires", store=store):
        return [wire(cents=100), wire(cents=100_000)]


ONE_MAIL = Agent(_one_mail)
MAILS = Agent(_mails)
TWO_STEPS = Agent(_two_steps)
SAME_EVERYWHERE = Agent(_same_everywhere, {"crash_letter": "posted"})
NOTING = Agent(_noting)
NOTING_LATE = Agent(_noting, {"crash_note": Late("noted", seconds=3)})
DRIFTING = Agent(_drifting)
ASKED_IN_VAIN = Agent(_asked_in_vain)
LONG_BRANCHES = Agent(_long_branches, {"crash_mail": "mailed"})
TWO_WIRES = Agent(_two_wires)
