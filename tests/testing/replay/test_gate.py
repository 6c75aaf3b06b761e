"""Does the gate catch what breaks a resume, name it, and let through what does not?"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nottwice.errors import UsageError
from nottwice.testing.replay.gate import Terms, replay_folder
from nottwice.testing.replay.problems import Cause
from tests.testing.replay.deployment import Deployment, approvals, causes

PATCH = ('version="1.0.0"', 'version="1.0.1"')
MINOR = ('version="1.0.0"', 'version="1.1.0"')
MAIL = 'example_email(to=state.customer, body=f"We look into your refund of {state.cents} cents.")'
PLAN = 'return {"cents": example_order(order_id=state.order_id)["cents"]}'
PAY = 'return {"refund": example_refund(order_id=state.order_id, cents=state.cents)}'
ROUTES = 'then={"approve": "pay", "reject": nt.END}'
QUESTION = 'f"Refund {state.cents} cents to {state.customer}?"'
PAY_TOOL = """@nt.tool("unsafe_on_replay", verify=in_the_world, settles="1s")
def example_refund("""
ORDER_TOOL = """@nt.tool("pure")
def example_order(order_id: int)"""
NEW_TOOL = """@nt.tool("pure")
def get_discount() -> int:
    raise SystemExit("for real")

"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of every node and status, recorded by the code that made them."""
    place = approvals(tmp_path_factory.mktemp("recorded"))
    recorded = place.record(number=14)
    assert recorded.left_out == ()
    assert len(recorded.kept) == 14
    return place.checkpoints


@pytest.fixture
def deployed(recorded: Path, tmp_path: Path) -> Deployment:
    """Where the code is deployed that is to resume them."""
    place = Deployment(tmp_path)
    shutil.copytree(recorded, place.checkpoints)
    return place


REGRESSIONS: dict[str, tuple[Cause, str, list[tuple[str, str]]]] = {
    "a body is worded otherwise": (
        Cause.ARGUMENTS_CHANGED,
        "~ arguments.body: ",
        [PATCH, ("We look into", "We check")],
    ),
    "an amount is computed otherwise in a helper": (
        Cause.ARGUMENTS_CHANGED,
        "→ 40.0",
        [
            PATCH,
            ("cents=state.cents)}", "cents=in_euros(state.cents))}"),
            ("flow = nt.Graph", "def in_euros(cents):\n    return cents / 100\n\nflow = nt.Graph"),
            ("order_id: int, cents: int)", "order_id: int, cents: float)"),
        ],
    ),
    "a tool's argument is renamed": (
        Cause.ARGUMENTS_CHANGED,
        "+ arguments.text: ",
        [PATCH, ("to: str, body: str", "to: str, text: str"), ("body=f", "text=f")],
    ),
    "a pure tool is asked something else": (
        Cause.ARGUMENTS_CHANGED,
        "~ arguments.order_id: ",
        [PATCH, (PLAN, PLAN.replace("state.order_id", "state.order_id + 1"))],
    ),
    "a node is renamed": (
        Cause.NODE_RENAMED,
        'node "notify" renamed to "tell"',
        [PATCH, ("def notify", "def tell")],
    ),
    "a node is removed": (
        Cause.NODE_REMOVED,
        'node "plan" removed',
        [PATCH, ("@flow.node\ndef plan", "def plan")],
    ),
    "the state has another type": (
        Cause.STATE,
        "state.order_id: Input should be a valid string",
        [PATCH, ("    order_id: int\n", "    order_id: str\n")],
    ),
    "a tool is renamed": (
        Cause.TOOL_MISSING,
        'tool "example_email" removed',
        [PATCH, ("example_email", "send_letter")],
    ),
    "a tool is declared harmless": (
        Cause.TOOL_RECLASSIFIED,
        "example_refund",
        [PATCH, (PAY_TOOL, '@nt.tool("pure")\ndef example_refund(')],
    ),
    "only a later major version is deployed": (
        Cause.VERSION_MISSING,
        "bound to approval@1.0.0, and this code has approval@2.0.0",
        [('version="1.0.0"', 'version="2.0.0"')],
    ),
    "a choice leads elsewhere": (
        Cause.ROUTE_CHANGED,
        'option "approve" of node "wait_for_approval" leads to the end',
        [PATCH, (ROUTES, 'then={"approve": nt.END, "reject": "pay"}')],
    ),
    "a node chooses otherwise": (
        Cause.ROUTE_CHANGED,
        "the record goes to pay, the code ends",
        [PATCH, ("    return answer", '    return "reject" if answer else answer')],
    ),
    "an effect is new in a node": (
        Cause.NEW_EFFECT,
        "ReplayUnsafeError: no receipt of example_refund",
        [PATCH, (PLAN, f"example_refund(order_id=1, cents=1)\n    {PLAN}")],
    ),
    "one more mail is sent": (
        Cause.NEW_EFFECT,
        "body='once more'",
        [PATCH, (MAIL, f'example_email(to=state.customer, body="once more")\n    {MAIL}')],
    ),
    "an effect is only made sometimes": (
        Cause.EFFECT_GONE,
        "the record contains example_email(to=",
        [PATCH, (MAIL, f"if state.cents > 9999:\n        {MAIL}")],
    ),
    "a question is worded otherwise": (
        Cause.QUESTION_CHANGED,
        "~ question.question: ",
        [PATCH, (QUESTION, QUESTION.replace("Refund", "Really refund"))],
    ),
    "a question is not asked any more": (
        Cause.QUESTION_CHANGED,
        "a question is no longer asked",
        [
            PATCH,
            ("answer: str = nt.ask(", 'answer = "approve" if state.order_id == 3 else nt.ask('),
        ],
    ),
    "a node asks a tool that the record does not know": (
        Cause.NEW_PURE_CALL,
        """what it returns: --tools '{"get_discount": ...}'""",
        [
            PATCH,
            (PLAN, f"get_discount()\n    {PLAN}"),
            (ORDER_TOOL, f"{NEW_TOOL}\n{ORDER_TOOL}"),
        ],
    ),
    "a node waits": (
        Cause.NEW_WAIT,
        "where the record continued",
        [PATCH, (PLAN, f'nt.sleep("1d")\n    {PLAN}')],
    ),
    "a node raises": (
        Cause.NODE_RAISES,
        "ZeroDivisionError: ",
        [PATCH, (PLAN, f"1 // 0\n    {PLAN}")],
    ),
    "a node uses the network": (
        Cause.REACHES_OUT,
        "make it a tool",
        [
            PATCH,
            (PLAN, f'socket.create_connection(("127.0.0.1", 9))\n    {PLAN}'),
            ("import os\n", "import os\nimport socket\n"),
        ],
    ),
    "a graph is edited in place": (
        Cause.CHANGED_IN_PLACE,
        'the body of node "plan" changed → needs 1.0.1, found 1.0.0',
        [(PLAN, f"assert state\n    {PLAN}")],
    ),
}


IN_PLACE = {Cause.CHANGED_IN_PLACE.value}


@pytest.mark.sampled(part="sweeps", keep=12)
@pytest.mark.parametrize("change", REGRESSIONS)
def test_a_regression_is_caught_and_named(deployed: Deployment, change: str) -> None:
    cause, words, changes = REGRESSIONS[change]
    deployed.deploy(*changes)
    results = deployed.replay()
    # Where a call is not made, all that remains is that the version does not say what changed.
    assert causes(results) - IN_PLACE == {cause.value} - IN_PLACE
    assert any(one.cause is cause for one in results)
    lines = [line for one in results for problem in one.problems for line in problem.lines()]
    assert any(words in line for line in lines), lines
    # None of it was done.
    assert not (deployed.folder / "world.txt").exists()


HARMLESS: dict[str, list[tuple[str, str]]] = {
    "nothing": [("Five nodes", "Five nodes")],
    "a local variable is renamed": [
        ("answer: str = nt.ask(", "said: str = nt.ask("),
        ("return answer", "return said"),
    ],
    "the code is laid out otherwise": [
        (PAY, PAY.replace("(order", "(\n        order").replace("cents)}", "cents\n    )}")),
    ],
    "comments and docstrings are written": [
        (PLAN, f"# This is why.\n    {PLAN}"),
        ('"""Pay, once."""', '"""Pay exactly once."""'),
    ],
    "annotations of a node are gone": [("(state: Ticket) -> None", "(state)")],
    "keyword arguments change places": [
        PATCH,
        (PAY, PAY.replace("order_id=state.order_id, cents=state.cents", "cents=state.cents, "
                          "order_id=state.order_id")),
    ],
    "what a node returns is made in another order": [
        PATCH,
        (PLAN, 'found = {"z": 1, **example_order(order_id=state.order_id)}\n'
               '    return {"cents": found["cents"]}'),
    ],
    "only the patch is bumped": [PATCH],
    "a tool is written again": [
        ('return happen(f"refund:{order_id}:{cents}")', 'raise SystemExit("for real")'),
    ],
    "work moves into a helper": [
        PATCH,
        (MAIL, MAIL.replace('f"We look into your refund of {state.cents} cents."', "words(state)")),
        ("flow = nt.Graph", "def words(state):\n    return f'We look into your refund of "
                            "{state.cents} cents.'\n\nflow = nt.Graph"),
    ],
    "an argument is given by its place": [PATCH, (PAY, PAY.replace("order_id=state", "state"))],
    "the same is asked once more": [
        PATCH,
        (PLAN, f"example_order(order_id=state.order_id)\n    {PLAN}"),
    ],
    "a time is taken": [PATCH, (PLAN, f"nt.now()\n    {PLAN}")],
    "the node's function has another name": [
        ("@flow.node\ndef plan", '@flow.node(name="plan")\ndef propose'),
    ],
}  # fmt: skip


@pytest.mark.parametrize("change", HARMLESS)
def test_a_harmless_change_is_no_alarm(deployed: Deployment, change: str) -> None:
    deployed.deploy(*HARMLESS[change])
    results = deployed.replay()
    lines = [line for one in results for problem in one.problems for line in problem.lines()]
    assert lines == []
    assert len(results) == 14


ADDITIONS = {
    "an optional field": ('    refund: str = ""\n', '    refund: str = ""\n    note: str = ""\n'),
    "an optional parameter": ("to: str, body: str)", "to: str, body: str, urgent: bool = False)"),
}


@pytest.mark.parametrize("change", ADDITIONS)
def test_what_only_adds_resumes_runs_that_drain_elsewhere(
    deployed: Deployment, change: str
) -> None:
    deployed.deploy(MINOR, ADDITIONS[change])
    assert causes(deployed.replay()) == {Cause.VERSION_MISSING.value}
    results = deployed.replay(Terms(drains_elsewhere=True))
    assert causes(results) == set()
    assert [one for one in results if one.skipped is not None] == []


@pytest.mark.parametrize("change", ADDITIONS)
@pytest.mark.parametrize("version", ["1.0.0", "1.0.1"])
def test_what_only_adds_to_what_versions_share_resumes_runs_of_the_same_line(
    deployed: Deployment, change: str, version: str
) -> None:
    """A shared tool changes under all versions together, and no version of this line could say."""
    deployed.deploy(ADDITIONS[change], ('version="1.0.0"', f'version="{version}"'))
    results = deployed.replay()
    assert causes(results) == set()
    assert [one for one in results if one.skipped is not None] == []


def test_a_later_minor_version_that_does_more_than_add_is_caught_too(
    deployed: Deployment,
) -> None:
    deployed.deploy(MINOR, ("We look into", "We check"))
    found = causes(deployed.replay(Terms(drains_elsewhere=True)))
    assert found == {Cause.ARGUMENTS_CHANGED.value}


def test_runs_of_another_major_version_that_drain_elsewhere_are_skipped(
    deployed: Deployment,
) -> None:
    deployed.deploy(('version="1.0.0"', 'version="2.0.0"'), ("def notify", "def tell"))
    results = deployed.replay(Terms(drains_elsewhere=True))
    assert {one.skipped for one in results} == {"approval@1.0.0 drains elsewhere"}


def test_a_new_version_beside_the_old_one_is_no_alarm(deployed: Deployment) -> None:
    new = (
        "app = nt.App(graphs=[flow]",
        'new = nt.Graph("approval", version="2.0.0", state=Ticket)\nnew.node(pay)\n'
        "app = nt.App(graphs=[new, flow]",
    )
    deployed.deploy(new)
    assert causes(deployed.replay()) == set()


def test_an_answer_for_a_new_pure_tool_lets_the_replay_continue(deployed: Deployment) -> None:
    _, _, changes = REGRESSIONS["a node asks a tool that the record does not know"]
    deployed.deploy(MINOR, *changes[1:])
    terms = Terms(answers={"get_discount": 5}, drains_elsewhere=True)
    assert causes(deployed.replay(terms)) == set()


def test_one_file_can_be_replayed_alone(deployed: Deployment) -> None:
    (path, *_) = sorted(deployed.checkpoints.glob("approval-plan-*.json"))
    (result,) = replay_folder(deployed.app, path)
    assert result.passed
    assert result.path == str(path)


def test_a_folder_without_checkpoints_is_not_a_pass(deployed: Deployment, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing was replayed"):
        replay_folder(deployed.app, tmp_path / "nowhere")


def test_a_file_that_cannot_be_read_fails_and_hides_no_other(deployed: Deployment) -> None:
    (deployed.checkpoints / "zz.json").write_text('{"nottwice_checkpoint": 1, "graph": 7}')
    (deployed.checkpoints / "yy.json").write_bytes(b"\xff")
    results = deployed.replay()
    assert [one.passed for one in results].count(False) == 2
    assert causes(results) == {Cause.UNREADABLE.value}
