"""Programs that are attached to a run and really killed, for every store.

Each is started with the store, a file that stands for the world outside, and when to die.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHARGE = """
import os, signal, sys, threading
import nottwice as nt
from nottwice.adapters import declare

store, world, dies, how = sys.argv[1:5]
OPTIONS = {{"key": "order-{{order.id}}", "window": "24h"}} if how == "idempotent_with_key" else {{}}

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def charge(arguments):
    key = nt.current_call().key if how != "bare" else None
    with open(world, "a") as outside:
        outside.write(f"{{arguments['order']['id']}} {{key}}\\n")
        outside.flush()
        os.fsync(outside.fileno())
    if dies == "after the effect" and arguments["order"]["id"] == 7:
        die()
    return {{"charged": arguments["order"]["id"]}}
{work}
"""

ONE = CHARGE.format(
    work="""
if how == "bare":
    charge({"order": {"id": 7}})
    sys.exit()
spec = declare("pay/charge", replay=how, **OPTIONS)
with nt.attach("ticket-7", store=store) as handle:
    try:
        made = handle.call(spec, {"order": {"id": 7}}, charge)
    except nt.RunBlocked as error:
        print("review", error.review_id)
    else:
        if dies == "after the receipt":
            die()
        print("replayed" if made.replayed else "made", made.value)
"""
)

THREE = CHARGE.format(
    work="""
spec = declare("pay/charge", replay=how, **OPTIONS)
said = {}

def work(number):
    with nt.attach("ticket-7", store=store) as handle:
        try:
            made = handle.call(spec, {"order": {"id": number}}, charge)
            said[number] = "replayed" if made.replayed else "made"
        except nt.RunBlocked as error:
            said[number] = "review"
    if number != 7:
        others.release()

others = threading.Semaphore(0)
threads = [threading.Thread(target=work, args=(number,)) for number in (5, 6)]
for thread in threads:
    thread.start()
for thread in threads:
    others.acquire()
last = threading.Thread(target=work, args=(7,))
last.start()
last.join()
print(said[5], said[6], said[7])
"""
)


ASKS = CHARGE.format(
    work="""
def ask():
    charge({"order": {"id": "asked"}})
    return "reply"

how = "bare"
with nt.attach("ticket-7", store=store) as handle:
    print(handle.recorded("model", ask, replies=0))
    if dies == "after the reply":
        die()
"""
)


APPROVED = CHARGE.format(
    work="""
from nottwice import adapters

spec = declare("pay/charge", replay=how, approve=True)
with nt.attach("ticket-7", store=store) as handle:
    asked = 0
    while True:
        try:
            made = handle.call(spec, {"order": {"id": 7}}, charge)
        except nt.errors.ApprovalNeeded as error:
            asked += 1
            assert adapters.answer(handle, error.review_id, True) == "approve"
            if dies == "after the approval":
                die()
        except nt.RunBlocked as error:
            print("asked", asked, "review", error.review_id)
            break
        else:
            print("asked", asked, "replayed" if made.replayed else "made")
            break
"""
)


class Program:
    """One of these programs with a store and a world of its own."""

    def __init__(self, folder: Path, store: str, text: str, how: str = "unsafe_on_replay") -> None:
        self.store = store
        self.world = folder / "world.txt"
        self.world.touch()
        self._script = folder / "program.py"
        self._script.write_text(text, encoding="utf-8")
        self._how = how

    def run(self, dies: str = "never") -> str:
        """Run it to its end, whichever that is, and return what it printed."""
        words = [sys.executable, str(self._script), self.store, str(self.world), dies, self._how]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, -9), done.stderr
        assert (done.returncode == -9) == (dies != "never"), done.stderr
        return done.stdout.strip()

    @property
    def effects(self) -> list[str]:
        return self.world.read_text(encoding="utf-8").split("\n")[:-1]
