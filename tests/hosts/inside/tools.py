"""The functions that every host is tested with: protected or, as the control, bare."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

import nottwice as nt
from tests.hosts.inside.effects import die_if_planned, lines, take_effect, wait_for


def functions(folder: Path, *, bare: bool) -> dict[str, Any]:
    """What the tasks of a test call, by name. Their effect is a line in a file of the folder."""

    def look(call: nt.Call) -> nt.Verification:
        line = str(call.args["line"])
        return nt.happened({"did": line}) if line in lines(folder) else nt.did_not_happen()

    def send(line: str) -> dict[str, str]:
        """Send a line. Whether it was sent can be found out."""
        return take_effect(folder, line)

    def post(line: str) -> dict[str, str]:
        """Send a line. Whether it was sent can only be seen by a person."""
        return take_effect(folder, line)

    async def asend(line: str) -> dict[str, str]:
        return take_effect(folder, line)

    async def apost(line: str) -> dict[str, str]:
        return await asyncio.to_thread(take_effect, folder, line)

    def look_in_vain(call: nt.Call) -> nt.Verification:
        with (folder / "looks").open("a") as file:
            file.write("looked\n")
        return nt.still_running()

    def ponder(line: str) -> dict[str, str]:
        """Send a line. Whether it was sent cannot be found out for a long time."""
        return take_effect(folder, line)

    def look_for_long(call: nt.Call) -> nt.Verification:
        look_in_vain(call)
        wait_for((folder / "answer").exists, seconds=600)
        return look(call)

    def brood(line: str) -> dict[str, str]:
        """Send a line. Finding out whether it was sent takes until the file ``answer`` is there."""
        return take_effect(folder, line)

    def refuse(line: str) -> None:
        raise nt.Permanent(f"{line} is not accepted")

    if bare:
        url = store_of(folder)
        act = _with_own_receipts(url, send) if (folder / "place").exists() else send
        others = {each.__name__: each for each in (post, asend, apost, ponder, brood, refuse)}
        return {"send": act, **others}
    found = nt.tool("unsafe_on_replay", verify=look, settles="100ms")
    asked = nt.tool("unsafe_on_replay")
    slowly = nt.tool("unsafe_on_replay", verify=look_for_long, settles="100ms", verify_limit="9m")
    return {
        "send": found(send),
        "post": asked(post),
        "asend": found(asend),
        "apost": asked(apost),
        "ponder": nt.tool("unsafe_on_replay", verify=look_in_vain, settles="100ms")(ponder),
        "brood": slowly(brood),
        "refuse": asked(refuse),
    }


def _with_own_receipts(url: str, function: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the function with receipts as a program without nottwice keeps them: it looks for a
    receipt, acts, and writes one. Its connection does not outlive the server."""

    @functools.wraps(function)
    def act(line: str) -> Any:
        with psycopg.connect(url, autocommit=True) as database:
            database.execute("CREATE TABLE IF NOT EXISTS own_receipts (line text)")
            found = database.execute("SELECT 1 FROM own_receipts WHERE line = %s", [line])
            if found.fetchone() is None:
                function(line)
                database.execute("INSERT INTO own_receipts VALUES (%s)", [line])
        return {"did": line}

    return act


def die_after_a_receipt(folder: Path) -> None:
    """Die as planned when a call has its receipt and its host has not yet heard of it."""

    def hear(event: nt.events.Event) -> None:
        if isinstance(event, nt.events.RunOver):
            die_if_planned(folder, "acknowledge")

    nt.events.listen(hear)


def dying_after_its_return(folder: Path, function: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same for the control, which has no receipts: die when the function has returned."""

    @functools.wraps(function)
    def act(line: str) -> Any:
        result = function(line)
        die_if_planned(folder, "acknowledge")
        return result

    return act


def store_of(folder: Path) -> str:
    """The ledger of a test: of the server that the test names, or a file."""
    place = folder / "place"
    return place.read_text() if place.exists() else str(folder / "ledger.db")


def place_ledger(folder: Path, url: str = "") -> None:
    """Use the server that a test or the caller of the tests has named, if any. The control keeps
    receipts of its own there."""
    named = url or os.environ.get("NOTTWICE_PLACE")
    if named:
        (folder / "place").write_text(named)


def apart() -> list[str]:
    """What to put before a command, so that it runs in a pid namespace of its own."""
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"]).returncode:
        # Imported here: the programs of the tests use this module, too, and no pytest.
        from tests.hosts.required import missing

        missing("unshare may not make a pid namespace here (that needs root).")
    return words
