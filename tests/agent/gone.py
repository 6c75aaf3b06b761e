"""Shared by the tests in which a deploy removes a tool or a worker of an open run."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import nottwice as nt
from tests.nursery import starting

MAIL = {"mail": {"text": "You are refunded."}}
BEGIN = """
import os, sys
import nottwice as nt
removed = sys.argv[1] == "removed"
scripted = nt.providers.scripted

@nt.tool("unsafe_on_replay")
def refund(order_id: int) -> str:
    "Refund an order."
    with open("bank", "a") as bank:
        bank.write("paid\\n")
    return "refunded"

@nt.tool("pure")
def look(n: int) -> str:
    "Look."
    if not removed:
        os.kill(os.getpid(), 9)
    return "seen"
"""
END = """
outcome = agent.run("r", goal="g", store="ledger.db")
print(outcome.state.transcript[1].tool_results[0].content)
print([(one.tool, one.outcome) for one in outcome.state.asked])
"""


def told_after_a_deploy_without_it(folder: Path, agent: str) -> str:
    """What a model is told of a refund that was paid before a kill, and a deploy removed it.

    ``agent`` is the code of an agent that refunds, and then looks, which kills it.
    """

    def start(how: str) -> tuple[int, str, str]:
        ended = starting.run([sys.executable, "-c", BEGIN + agent + END, how], cwd=folder)
        return ended.returncode, ended.stdout, ended.stderr

    assert start("whole")[0] == -signal.SIGKILL
    returncode, told, complaints = start("removed")
    assert returncode == 0, complaints
    assert "Nothing was done" not in told
    assert (folder / "bank").read_text() == "paid\n"
    return told


class Effects:
    """What was paid and mailed, whichever process did it."""

    def __init__(self, **declared: Any) -> None:
        """``declared``: more about the tool that pays."""
        self.paid: list[int] = []
        self.mails: list[str] = []
        self._declared = declared

    def refund(self) -> Any:
        """The tool that comes and goes."""

        @nt.tool("unsafe_on_replay", name="refund", **self._declared)
        def refund(order_id: int) -> str:
            """Refund an order."""
            if order_id < 0:
                raise nt.Permanent("there is no such order")
            self.paid.append(order_id)
            return f"refunded {order_id}"

        return refund

    def mail(self) -> Any:
        """The tool that stays."""

        def look(call: nt.Call) -> nt.Verification:
            return nt.happened("sent") if call.args["text"] in self.mails else nt.did_not_happen()

        @nt.tool("unsafe_on_replay", name="mail", verify=look, settles="1ms")
        def mail(text: str) -> str:
            """Send a mail."""
            self.mails.append(text)
            return "sent"

        return mail
