"""Runs are moved to another version from the command line: `nottwice migrate`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.workplace import HOSTILE, Ended, Workplace, make_workplace

AGENT = """
import nottwice as nt

@nt.tool("unsafe_on_replay")
def cli_pay(order: int) -> str:
    return "paid"

def pay(state):
    return {"paid": cli_pay(state["order"])}

def notify(state):
    raise RuntimeError("notify is broken")

def tell(state):
    return {"told": True}

blue = nt.Graph("refund", version="1.0.0")
blue.node(pay)
blue.node(notify)

green = nt.Graph("refund", version="2.0.0")
green.node(pay)
green.node(tell)

def upgrade(state):
    return {**state, "channel": "mail"}

old = nt.App(graphs=[blue])
new = nt.App(graphs=[green], admins=["ann"])
loose = nt.App(graphs=[green])
"""
ORDER = "--to refund@2.0.0 --by ann --why 'notify is broken' --app deployed:new --store agent.db"


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    place = make_workplace(tmp_path / "place")
    (place.folder / "deployed.py").write_text(AGENT)
    return place


def type_in(place: Workplace, runs: int, *lines: str) -> list[Ended]:
    """Start runs of the old version, each of which fails in ``notify``; then type these lines."""
    start = "run refund --app deployed:old --store agent.db"
    given = shlex.quote(json.dumps({"order": 7}))
    starts = [f"{start} --id run-{number} --input {given}" for number in range(runs)]
    ended = place.lines(*starts, *lines)
    assert [one.exit_code for one in ended[:runs]] == [1] * runs
    return ended[runs:]


def test_a_run_goes_over_and_is_resumed_by_the_new_version(place: Workplace) -> None:
    told, done, again, ran, history, shown = type_in(
        place,
        1,
        f"migrate run-0 {ORDER} --map notify=tell --upgrade deployed:upgrade --dry-run",
        f"migrate run-0 {ORDER} --map notify=tell --upgrade deployed:upgrade",
        f"migrate run-0 {ORDER} --map notify=tell",
        "run --id run-0 --app deployed:new --store agent.db --json",
        "history run-0 --store agent.db",
        "show run-0 --store agent.db",
    )
    assert told.stdout.splitlines() == [
        "would migrate: run-0: refund@1.0.0 → refund@2.0.0, notify → tell",
        '  + state.channel: "mail"',
        "1 would migrate",
    ]
    assert done.stdout.splitlines()[0].startswith("migrated: run-0: refund@1.0.0 → refund@2.0.0")
    assert (done.exit_code, again.exit_code) == (0, 0)
    assert again.stdout.splitlines()[-1] == "1 already there"
    document = json.loads(ran.stdout)
    assert document["state"] == {"order": 7, "paid": "paid", "channel": "mail", "told": True}
    assert document["run"]["graph"] == "refund@2.0.0"
    assert "the migration to refund@2.0.0" in history.stdout
    said = "refund@1.0.0 to refund@2.0.0, notify=tell, state by upgrade, by ann: notify is broken"
    assert said in shown.stdout


@pytest.mark.parametrize(
    ("begins", "ends", "says"),
    [
        ("nottwice migrate", ", where NODE", "1 migrated"),
        ("nottwice run", "; effects that", "run-0-2"),
        ("nottwice cancel", "", "Run run-0 is aborted."),
    ],
)
def test_the_ways_out_for_a_run_whose_version_is_gone_work_as_printed(
    place: Workplace, begins: str, ends: str, says: str
) -> None:
    (stranded,) = type_in(place, 1, "run --id run-0 --app deployed:new --store agent.db")
    printed = stranded.stderr[stranded.stderr.index(begins) :].partition(ends or "\n")[0]
    typed = {"NODE": "tell", "MODULE": "deployed:new", "TEXT": "'notify is broken'"}
    for word, text in typed.items():
        printed = printed.replace(word, text)
    by = " --by ann" if "migrate" in begins else ""
    (done,) = place.lines(printed.removeprefix("nottwice ") + by)
    assert done.exit_code == 0, done
    assert says in done.stdout


def test_all_open_runs_of_a_version_and_what_was_refused(place: Workplace) -> None:
    source = "--from refund@1.0.0 --map notify=tell"
    first, refused, none = type_in(
        place,
        3,
        f"migrate {source} {ORDER} --json",
        f"migrate run-1 nobody {ORDER} --map notify=tell",
        f"migrate {source} {ORDER}",
    )
    document = json.loads(first.stdout)
    assert [one["outcome"] for one in document["migrations"]] == ["migrated"] * 3
    assert (document["to"], document["dry_run"], document["refused"]) == ("refund@2.0.0", False, 0)
    assert "[2/3] migrated: run-1" in first.stderr
    assert refused.exit_code == 3
    assert "[1/2] already there: run-1" in refused.stdout
    assert "[2/2] refused: nobody: There is no run 'nobody'" in refused.stdout
    assert refused.stdout.splitlines()[-1] == "1 already there, 1 refused"
    assert (none.exit_code, none.stdout) == (0, "No open run of refund@1.0.0.\n")


def test_what_is_refused_says_why_and_what_to_type(place: Workplace) -> None:
    unmapped, policy, other, plain = type_in(
        place,
        1,
        f"migrate run-0 {ORDER} --json",
        f"migrate run-0 {ORDER} --map notify=tell --app deployed:loose",
        f"migrate run-0 {ORDER} --map notify=tell --by bob",
        f"migrate run-0 {ORDER} --map notify=tel",
    )
    assert [one.exit_code for one in (unmapped, policy, other, plain)] == [3, 1, 1, 3]
    (run,) = json.loads(unmapped.stdout)["migrations"]
    assert run["error"]["type"] == "UnmappedNode"
    assert "--map notify=NODE" in run["error"]["message"]
    assert run["from"] == "refund@1.0.0"
    assert "the app defines none" in policy.stderr
    assert "'bob' is not an admin" in other.stderr
    assert "did you mean 'tell'?" in plain.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--to a@1.0.0 --why x", "Which runs?"),
        ("run-0 --from a@1.0.0 --to a@2.0.0 --why x", "Which runs?"),
        ("run-0 --to a@1.0.0", "Missing option '--why'"),
        ("run-0 --why x", "Missing option '--to'"),
        ("run-0 --to a@1.0.0 --why x --map notify", "write OLD=NEW"),
        ("run-0 --to a@1.0.0 --why x --map =tell", "write OLD=NEW"),
        ("run-0 --to a@1.0.0 --why x --map a=b --map a=c", "two things about a"),
    ],
)
def test_a_line_that_says_too_little_is_refused(place: Workplace, words: str, text: str) -> None:
    result = place.cli("migrate", *shlex.split(words))
    assert result.exit_code == 2
    assert text in result.stderr


def test_nothing_that_a_run_is_called_steers_the_terminal(place: Workplace) -> None:
    (ended,) = type_in(place, 1, f"migrate {shlex.quote(HOSTILE)} {ORDER} --map notify=tell")
    assert "\x1b" not in ended.stdout + ended.stderr
    assert ended.exit_code == 3


def test_an_upgrade_that_is_no_function_is_refused(place: Workplace) -> None:
    (ended,) = type_in(
        place, 1, f"migrate run-0 {ORDER} --map notify=tell --upgrade deployed:green"
    )
    assert ended.exit_code == 1
    assert "names no function" in ended.stderr


def test_a_map_that_points_back_is_refused_until_the_repeat_is_said(place: Workplace) -> None:
    told, refused, done = type_in(
        place,
        1,
        f"migrate run-0 {ORDER} --map notify=pay --dry-run",
        f"migrate run-0 {ORDER} --map notify=pay",
        f"migrate run-0 {ORDER} --map notify=pay --repeats cli_pay",
    )
    for one in (told, refused):
        assert one.exit_code == 3
        assert "cli_pay(order=7) in step 'pay'" in one.stdout
        assert "--repeats cli_pay" in one.stdout
    assert done.stdout.splitlines()[-1] == "1 migrated"
