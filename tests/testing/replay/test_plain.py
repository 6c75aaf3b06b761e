"""Are runs that ``nt.run`` opens recorded by their steps, and resumed as recorded? (P187)"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.testing.replay.fixture import read_fixture
from nottwice.testing.replay.gate import Result, Terms, replay_folder
from nottwice.testing.replay.plain import BLOCK, PlainVisits, programs
from nottwice.testing.replay.recording import Recorded, record
from tests.testing.replay.deployment import MODULE, Deployment, causes

PROGRAM = """
import os
import signal

import nottwice as nt

KILL_AT = ""

def reach(where):
    if where == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)

@nt.tool("pure", name="program_look")
def look(order: str) -> dict:
    reach(f"look {order}")
    return {"customer": "ann", "cents": 4000}

@nt.tool("unsafe_on_replay", name="program_mail")
def mail(to: str, body: str) -> str:
    reach(f"mail {body}")
    return "sent"

@nt.tool("unsafe_on_replay", name="program_refund")
def refund(order: str, cents: int) -> str:
    reach("refund")
    return "paid"

STORE = "agent.db"

def handle(run_id):
    order = run_id.removeprefix("ticket-")
    with nt.run(run_id, store=STORE, version="1.2.0"):
        with nt.step("read"):
            found = look(order=order)
        for turn in range(2):
            with nt.step("tell", at=turn):
                mail(to=found["customer"], body=f"news {turn}")
        if order == "3":
            nt.ask("Refund?", options=["yes", "no"])
        if order == "4":
            raise LookupError("no such order")
        nt.map(lambda part: mail(to="staff", body=part), ["a", "b"])
        refund(order=order, cents=found["cents"])

def unrelated(run_id):
    with nt.run("something else", store=STORE):
        pass

async def later():
    async with nt.run("later-1", store=STORE):
        mail(to="ann", body="later")

app = nt.App(graphs=[])
"""


class Plain(Deployment):
    """A program without graphs, and its ledger on SQLite."""

    def __init__(self, folder: Path, source: str = PROGRAM) -> None:
        super().__init__(folder, source)
        self.store = str(folder / "agent.db")

    def deploy(self, *changes: tuple[str, str]) -> Any:
        module = super().deploy(*changes)
        vars(module)["STORE"] = str(self.folder / "agent.db")
        return module

    @property
    def terms(self) -> Terms:
        return Terms(works=(self.module.unrelated, self.module.handle))

    def handle(self, *numbers: int) -> None:
        for number in numbers:
            try:
                self.module.handle(f"ticket-{number}")
            except (nt.errors.QuestionOpen, LookupError):
                assert number in (3, 4)

    def keep(self, **options: Any) -> Recorded:
        with nt.Ledger(self.store, create=False) as ledger:
            terms = options.pop("terms", self.terms)
            return record(self.app, ledger.store, self.checkpoints, terms=terms, **options)

    def check(self, terms: Terms | None = None) -> list[Result]:
        return replay_folder(self.app, self.checkpoints, terms=terms or self.terms)


@pytest.fixture
def plain(tmp_path: Path) -> Plain:
    place = Plain(tmp_path)
    place.handle(1, 2, 3, 4)
    return place


def lines(results: list[Result]) -> list[str]:
    return [line for one in results for problem in one.problems for line in problem.lines()]


def test_completed_waiting_and_failed_runs_are_recorded_and_resumed_as_recorded(
    plain: Plain,
) -> None:
    recorded = plain.keep()
    assert (len(recorded.kept), recorded.left_out) == (4, ())
    assert lines(plain.check()) == []
    texts = [file.read_text() for file in sorted(plain.checkpoints.glob("handle-*.json"))]
    found = [read_fixture(text, where="") for text in texts]
    assert {one.status.value for one in found} == {"completed", "waiting", "failed"}
    assert [one.to_text() for one in found] == texts
    assert {step.node_id for step in found[0].steps} >= {"/", "read", "tell"}


def test_a_replay_runs_no_tool_and_opens_no_ledger(
    plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.keep()
    store = plain.folder / "elsewhere.db"
    vars(plain.module)["STORE"] = str(store)
    for where in ("look 1", "mail news 0", "mail a", "refund"):
        monkeypatch.setattr(plain.module, "KILL_AT", where)
        assert lines(plain.check()) == []
    assert not store.exists()
    monkeypatch.undo()
    # Afterwards the program opens its own ledger again.
    plain.module.handle("ticket-9")
    assert store.exists()


def test_a_program_that_has_opened_its_ledger_before_is_replayed_all_the_same(
    plain: Plain,
) -> None:
    plain.keep()
    with nt.Ledger(plain.store) as ledger:
        vars(plain.module)["STORE"] = ledger
        before = [(run.id, run.updated_at) for run in ledger.runs()]
        assert lines(plain.check()) == []
        assert [(run.id, run.updated_at) for run in ledger.runs()] == before


CHANGES: dict[str, tuple[str, tuple[str, str]]] = {
    "a mail is worded otherwise": ("arguments changed", ('f"news {turn}"', 'f"News {turn}"')),
    "a mail of a branch is": ("arguments changed", ('["a", "b"]', '["a", "c"]')),
    "a mail is gone": (
        "effect no longer asked for",
        ("                mail(to=found", "                turn or mail(to=found"),
    ),
    "an effect of the block is gone": (
        "effect no longer asked for",
        ("        refund(order=order", "        order or refund(order=order"),
    ),
    "an effect is new": (
        "new effect",
        ("        refund(order=order",
         '        mail(to="boss", body="x")\n        refund(order=order'),
    ),
    "a step comes first": (
        "route changed",
        ('        with nt.step("read")',
         '        with nt.step("early"): pass\n        with nt.step("read")'),
    ),
    "a question is new": (
        "new wait",
        ("        refund(order=order", '        nt.ask("Sure?")\n        refund(order=order'),
    ),
    "the block raises": (
        "node raises",
        ("        refund(order=order", "        int(order + 'x')\n        refund(order=order"),
    ),
    "it reaches out": (
        "network outside of a tool",
        ('        with nt.step("read")',
         '        import socket; socket.create_connection(("127.0.0.1", 9))\n'
         '        with nt.step("read")'),
    ),
    "it opens another run": (
        "run not opened",
        ('    with nt.run(run_id, store=STORE, version="1.2.0")',
         '    with nt.run(run_id + "x", store=STORE, version="1.2.0")'),
    ),
    "it has another version": ("node raises", ('version="1.2.0"', 'version="2.0.0"')),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_regression_is_caught_and_named(plain: Plain, change: str) -> None:
    plain.keep()
    cause, edit = CHANGES[change]
    plain.deploy(edit)
    results = plain.check()
    assert cause in causes(results), lines(results)


HARMLESS = {
    "a patch": ('version="1.2.0"', 'version="1.2.7"'),
    "a local name": ("found", "known"),
    "the same is looked up once more": (
        "        for turn in",
        "        look(order=order)\n        for turn in",
    ),
    "a tool is written again": ('    return "sent"', '    raise SystemExit("for real")'),
}


@pytest.mark.parametrize("change", HARMLESS)
def test_a_harmless_change_is_no_alarm(plain: Plain, change: str) -> None:
    plain.keep()
    plain.deploy(HARMLESS[change])
    assert lines(plain.check()) == []


def test_without_its_function_a_recording_fails_and_names_the_option(plain: Plain) -> None:
    plain.keep()
    results = plain.check(Terms(works=(plain.module.unrelated,)))
    assert causes(results) == {"graph version missing"}
    assert "--work MODULE:FUNCTION" in lines(results)[0]


def test_without_a_function_plain_runs_are_not_recorded(plain: Plain) -> None:
    with pytest.raises(UsageError, match="--work MODULE:FUNCTION"):
        plain.keep(terms=Terms())


def test_a_run_that_no_function_resumes_as_recorded_is_left_out(plain: Plain) -> None:
    with nt.run("stranger", store=plain.store):
        pass
    (left_out,) = plain.keep().left_out
    assert (left_out.why, left_out.graph) == ("route changed", "")
    only = Terms(works=(plain.module.unrelated,))
    with pytest.raises(UsageError, match="None of 5 checkpoints can be kept"):
        plain.keep(terms=only)


def test_an_async_function_without_parameters_resumes_its_run(plain: Plain) -> None:
    (program,) = programs([plain.module.later])
    program.resume("later-1")
    recorded = plain.keep(terms=Terms(works=(plain.module.handle, plain.module.later)))
    assert any(name.startswith("later-") for name in recorded.kept)
    assert lines(plain.check(Terms(works=(plain.module.handle, plain.module.later)))) == []


def test_secrets_of_a_plain_run_have_pseudonyms_and_all_still_matches(tmp_path: Path) -> None:
    place = Plain(tmp_path)
    place.deploy(('"customer": "ann"', '"customer": "ann" + order + "@example.net"'))
    place.handle(1)
    recorded = place.keep()
    assert (len(recorded.kept), recorded.left_out) == (1, ())
    text = (place.checkpoints / recorded.kept[0]).read_text()
    assert "ann1@example.net" not in text
    assert lines(place.check()) == []


KILLED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location({name!r}, sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules[{name!r}] = module
spec.loader.exec_module(module)
module.STORE, module.KILL_AT = sys.argv[2:4]
module.handle("ticket-7")
"""


@pytest.mark.parametrize("where", ["look 7", "mail news 0", "mail news 1", "mail b", "refund"])
def test_wherever_a_run_was_killed_the_code_that_made_it_resumes_it(
    tmp_path: Path, where: str
) -> None:
    place = Plain(tmp_path)
    file = str(place.module.__file__)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED.format(name=MODULE), file, place.store, where],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL
    recorded = place.keep()
    assert (len(recorded.kept), recorded.left_out) == (1, ())
    assert lines(place.check()) == []
    if where == "mail news 1":
        place.deploy(('f"news {turn}"', 'f"News {turn}"'))
        assert causes(place.check()) == {"arguments changed"}


def test_a_call_belongs_to_its_step_and_else_to_the_block() -> None:
    visits = PlainVisits([("tell", "start/0"), ("tell/deep", "start/0/")])
    assert visits.around("tell", "start/0") == ("tell", "start/0")
    assert visits.around("tell[3]", "start/0") == ("tell", "start/0")
    assert visits.around("tell/deep", "start/0/") == ("tell/deep", "start/0/")
    assert visits.around("tell", "start/1") == BLOCK
    assert visits.around("/", "start") == BLOCK


def test_two_functions_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="its own name"):
        programs([print, print])


def test_a_program_that_works_in_a_pool_makes_no_effect_while_it_is_recorded_or_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads do not inherit the context that says what is only a replay."""
    monkeypatch.chdir(tmp_path)
    done, broken = list[str](), [True]
    pool = ThreadPoolExecutor(1)

    @nt.tool("unsafe_on_replay")
    def pooled_refund(order: int) -> str:
        done.append("refund")
        return "paid"

    @nt.tool("unsafe_on_replay")
    def pooled_mail(order: int) -> str:
        done.append("mail")
        return "sent"

    def handle(run_id: str) -> None:
        with nt.run(run_id, store="agent.db"):
            pooled_refund(7)
            if broken[0]:
                raise RuntimeError("outage")
            pooled_mail(7)

    def work(run_id: str) -> None:
        pool.submit(handle, run_id).result()

    with pytest.raises(RuntimeError):
        work("ticket-1")
    broken[0] = False
    terms = Terms(works=(work,))
    with nt.Ledger("agent.db") as ledger:
        record(nt.App(graphs=[]), ledger.store, tmp_path / "fixtures", number=5, terms=terms)
        replay_folder(nt.App(graphs=[]), tmp_path / "fixtures", terms=terms)
        assert [(run.id, run.status) for run in ledger.runs()] == [("ticket-1", "failed")]
    assert done == ["refund"]
    work("ticket-1")
    assert done == ["refund", "mail"]
    pool.shutdown()
