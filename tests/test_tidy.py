"""Does the tree keep the house rules? Each rule is applied to it, and to samples that break it.

The rules themselves are in `tests/tidy/`; CONTRIBUTING.md says why each of them is there. A rule
that finds nothing in its own bad sample fails here, so none of them can pass by looking away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.tidy import asking, banned, direction, owners, replay, rings, rooms, shape, words
from tests.tidy.source import ROOT, Finding, Tree, read_tree

# The suite for stores is tested as a whole: by stores that keep its claims and stores that do not.
_SUITE = "tests/store/test_conformance.py: sound stores pass it and broken ones do not"
# The inside of the crash test shows in what a sweep finds, and in what it does not.
_KIT = "tests/testing/crash/test_sweep.py: sound code passes every level, broken engines do not"
# What needs a server is tested in one folder, which starts one.
_COPIES = "tests/guard/upkeep/test_backup.py: a copy and what it forgot are seen"
_DOUBTS = "tests/engine/doubts/test_reconcile.py: wherever a person aborts a run"
_STOPS = "tests/engine/waits/test_stops.py: what is asked stops a run"
_POSTGRES = "tests/postgres/test_conformance.py: on a real server, like all beside it"
# What the gate finds is found by its parts together.
_GATE = "tests/testing/replay/test_gate.py: regressions are named and harmless changes are not"
_RECORDING = "tests/testing/replay/test_recording.py: no secret is left, and all still matches"
# The parts of one call are tested by calls.
_CALLS = "tests/engine/calls/test_dispatch.py: as a part of every call"
# Modules whose test does not mirror their path: which test covers them, and why it is there.
_SEALS = "tests/guard/upkeep/test_seals.py: by attacks on whole ledgers"
_LANGCHAIN = "tests/langchain/test_middleware.py: it needs LangChain"
TESTED_ELSEWHERE: dict[str, str] = {
    "src/nottwice/engine/doubts/tampered.py": _SEALS,
    "src/nottwice/store/seal_walk.py": _SEALS,
    "src/nottwice/store/sealing.py": _SEALS,
    "src/nottwice/engine/doubts/restored.py": _COPIES,
    "src/nottwice/store/files/copy.py": _COPIES,
    "src/nottwice/store/sqlite/copy.py": _COPIES,
    "src/nottwice/model/runs/tally.py": "tests/store/test_tally.py: stores count it",
    "src/nottwice/store/postgres/store.py": _POSTGRES,
    "src/nottwice/store/postgres/visits.py": "tests/postgres/test_visits.py: it needs a server",
    "src/nottwice/mcp/proxy/forwarding.py": "tests/mcp/test_with_sdk.py: it needs an HTTP client",
    "src/nottwice/mcp/proxy/upstream.py": "tests/mcp/proxy/test_relay.py: as a part of it",
    "src/nottwice/mcp/sdk.py": "tests/mcp/test_extension.py: with the SDK that it is about",
    "src/nottwice/dbos/steps.py": "tests/hosts/test_dbos.py: in the environment of the hosts",
    "src/nottwice/dbos/waiting.py": "tests/hosts/test_dbos.py: in the environment of the hosts",
    "src/nottwice/celery/tasks.py": "tests/hosts/test_celery.py: in the environment of the hosts",
    "src/nottwice/restate/steps.py": "tests/hosts/test_restate.py: in that environment, too",
    "src/nottwice/temporal/plugin.py": "tests/hosts/test_temporal.py: in that environment, too",
    "src/nottwice/engine/calls/single.py": "tests/guard/test_once.py: through ledger.once",
    "src/nottwice/store/notices.py": "tests/store/test_conformance.py: on every store",
    "src/nottwice/store/outbox.py": "tests/store/test_conformance.py: on every store",
    "src/nottwice/store/workers.py": "tests/store/test_conformance.py: on every store",
    "src/nottwice/store/takers.py": "tests/store/test_conformance.py: on every store",
    "src/nottwice/store/sql_outbox.py": "tests/postgres/test_outbox.py: where takers can meet",
    "src/nottwice/guard/settings/notifying.py": "tests/notify/test_attending.py: what it starts",
    "src/nottwice/cli/inputs/notifying.py": "tests/cli/commands/test_notify.py: by commands",
    "src/nottwice/langchain/statements.py": "tests/langchain/test_rows.py: rows executes them",
    "src/nottwice/langchain/asking.py": _LANGCHAIN,
    "src/nottwice/langchain/offered.py": _LANGCHAIN,
    "src/nottwice/langchain/tools.py": _LANGCHAIN,
    "src/nottwice/langchain/uses.py": _LANGCHAIN,
    "src/nottwice/store/postgres/batch.py": "tests/postgres/test_batch.py: it needs a server",
    "src/nottwice/store/postgres/claims.py": "tests/postgres/test_claims.py: it needs a server",
    "src/nottwice/store/postgres/statements.py": "tests/postgres/test_statements.py: beside others",
    "src/nottwice/store/postgres/commits.py": _POSTGRES,
    "src/nottwice/store/postgres/connections.py": _POSTGRES,
    "src/nottwice/store/postgres/failover.py": "tests/postgres/test_failover.py: it needs servers",
    "src/nottwice/store/postgres/functions.py": "tests/postgres/test_functions.py: on a server",
    "src/nottwice/store/postgres/lease.py": _POSTGRES,
    "src/nottwice/store/postgres/quick.py": "tests/postgres/test_quick.py: on a real server",
    "src/nottwice/store/postgres/plan.py": "tests/postgres/test_commits.py: on a server",
    "src/nottwice/store/postgres/schema.py": _POSTGRES,
    "src/nottwice/testing/crash/inside/child.py": _KIT,
    "src/nottwice/testing/crash/course.py": _KIT,
    "src/nottwice/testing/crash/entry.py": _KIT,
    "src/nottwice/testing/crash/levels.py": _KIT,
    "src/nottwice/testing/crash/inside/link.py": _KIT,
    "src/nottwice/testing/crash/inside/points.py": _KIT,
    "src/nottwice/testing/crash/progress.py": _KIT,
    "src/nottwice/testing/crash/inside/scratch.py": (
        "tests/postgres/test_sweep.py: it needs a server"
    ),
    "src/nottwice/testing/crash/stage.py": _KIT,
    "src/nottwice/testing/crash/inside/stubs.py": _KIT,
    "src/nottwice/testing/crash/faults/takeover.py": _KIT,
    "src/nottwice/testing/crash/view.py": _KIT,
    "src/nottwice/testing/loopback_server.py": "tests/testing/test_loopback.py: its process",
    "src/nottwice/testing/models/server.py": "tests/testing/models/test_fake.py: its process",
    "src/nottwice/testing/proxy_server.py": "tests/testing/test_proxy.py: it is its process",
    "src/nottwice/store/effects.py": "tests/store/sqlite/test_quick.py: by what becomes of them",
    "src/nottwice/store/sql_plan.py": "tests/store/sqlite/test_plan.py: on a database",
    "src/nottwice/store/sql_store.py": "tests/store/test_conformance.py: what goes in comes out",
    "src/nottwice/store/rules.py": "tests/store/test_conformance.py: two stores are made of them",
    "src/nottwice/testing/conformance/bench.py": _SUITE,
    "src/nottwice/testing/conformance/calls.py": _SUITE,
    "src/nottwice/testing/conformance/child.py": _SUITE,
    "src/nottwice/testing/conformance/commits.py": _SUITE,
    "src/nottwice/testing/conformance/endurance.py": _SUITE,
    "src/nottwice/testing/conformance/graphs.py": _SUITE,
    "src/nottwice/testing/conformance/groups.py": _SUITE,
    "src/nottwice/testing/conformance/takers.py": _SUITE,
    "src/nottwice/testing/conformance/workers.py": _SUITE,
    "src/nottwice/testing/conformance/labels.py": _SUITE,
    "src/nottwice/testing/conformance/holders.py": _SUITE,
    "src/nottwice/testing/conformance/others.py": _SUITE,
    "src/nottwice/testing/conformance/charges.py": _SUITE,
    "src/nottwice/cli/smoke/child.py": "tests/cli/smoke/test_trials.py: as the process it is",
    "src/nottwice/testing/conformance/people.py": _SUITE,
    "src/nottwice/testing/conformance/reads.py": _SUITE,
    "src/nottwice/testing/conformance/ready.py": _SUITE,
    "src/nottwice/testing/conformance/removals.py": _SUITE,
    "src/nottwice/testing/conformance/samples.py": _SUITE,
    "src/nottwice/testing/conformance/suite.py": _SUITE,
    "src/nottwice/worker/crew.py": "tests/worker/test_worker.py: who does a worker's work",
    "src/nottwice/testing/replay/disguise.py": _RECORDING,
    "src/nottwice/testing/replay/learning.py": _RECORDING,
    "src/nottwice/testing/replay/sources.py": _RECORDING,
    "src/nottwice/testing/replay/judging.py": _GATE,
    "src/nottwice/testing/replay/problems.py": "tests/testing/replay/test_report.py: how they read",
    "src/nottwice/engine/doubts/aborting.py": _DOUBTS,
    "src/nottwice/engine/calls/failures.py": _CALLS,
    "src/nottwice/engine/calls/invocation.py": _CALLS,
    "src/nottwice/engine/calls/pure.py": _CALLS,
    "src/nottwice/engine/calls/requests.py": _CALLS,
    "src/nottwice/engine/waits/questions.py": _STOPS,
    "src/nottwice/web/app.py": "tests/web/test_safety.py: every page is reached through it",
    "src/nottwice/web/deciding.py": "tests/web/test_review.py: by forms, as browsers send them",
    "src/nottwice/engine/calls/telling.py": "tests/engine/test_events.py: by what listeners hear",
    "src/nottwice/otel/names.py": "tests/otel/test_spans.py: they are what spans show",
    "src/nottwice/engine/asks.py": "tests/engine/test_drivers.py: it only names what drivers do",
}

SOURCE = read_tree("src")
TESTS = read_tree("tests")
CODE = {**SOURCE, **TESTS, **read_tree("bench", "examples", "tools")}
TEXTS = {
    **CODE,
    **read_tree("docs", "src", suffixes=(".md", ".sql", ".txt", ".html")),
    **{
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(ROOT.iterdir())
        if path.suffix in (".md", ".toml") or path.name in ("Makefile", ".gitignore")
    },
}

Rule = Callable[[Tree], Iterator[Finding]]


def assert_clean(findings: Iterable[Finding]) -> None:
    report = [str(finding) for finding in findings]
    assert not report, "\n" + "\n".join(report)


def assert_found(findings: Iterable[Finding], *places: str) -> None:
    """Exactly these places are reported, in any order, each with a problem and a fix."""
    found = list(findings)
    assert sorted({f"{each.path}:{each.line}" for each in found}) == sorted(places)
    assert all(each.problem and each.fix for each in found)


def test_the_rules_read_the_real_tree() -> None:
    assert "src/nottwice/errors.py" in SOURCE
    assert "tests/test_tidy.py" in TESTS
    assert {"pyproject.toml", "Makefile", "CONTRIBUTING.md"} <= TEXTS.keys()


# Size and shape


def test_no_file_is_too_long() -> None:
    assert_clean(shape.oversized_files(CODE))


def test_a_file_that_is_too_long_is_found() -> None:
    sample = {
        "src/nottwice/model/full.py": "x = 1\n" * 600,
        "src/nottwice/model/overfull.py": "x = 1\n" * 601,
        "tests/model/test_full.py": "x = 1\n" * 800,
        "tests/model/test_overfull.py": "x = 1\n" * 801,
    }
    assert_found(
        shape.oversized_files(sample),
        "src/nottwice/model/overfull.py:601",
        "tests/model/test_overfull.py:801",
    )


def test_no_function_is_longer_than_a_screen() -> None:
    assert_clean(shape.oversized_functions(CODE))


def test_a_function_longer_than_a_screen_is_found() -> None:
    body = "    x = 1\n"
    sample = {
        "fits.py": "def fits():\n" + body * 69,
        "long.py": "y = 2\ndef long():\n" + body * 70,
        "late.py": "class A:\n    async def late(self):\n" + ("    " + body) * 70,
    }
    assert_found(shape.oversized_functions(sample), "long.py:2", "late.py:2")


def test_every_module_says_which_question_it_answers() -> None:
    assert_clean(shape.modules_without_introduction(CODE))


def test_a_module_without_a_docstring_is_found() -> None:
    sample = {"good.py": '"""Why?"""\n', "empty.py": "", "comment.py": "# Why?\nx = 1\n"}
    assert_found(shape.modules_without_introduction(sample), "empty.py:1", "comment.py:1")


def test_every_module_is_tested_by_the_file_that_mirrors_it() -> None:
    assert_clean(
        shape.modules_without_tests(SOURCE, TESTS.keys(), tested_elsewhere=TESTED_ELSEWHERE)
    )


def test_every_exception_from_mirroring_is_still_needed() -> None:
    assert_clean(shape.idle_exceptions(SOURCE, TESTS.keys(), TESTED_ELSEWHERE))


def test_a_module_without_its_test_is_found() -> None:
    body = "x = 1\n" * 40
    source = {
        "src/nottwice/errors.py": body,
        "src/nottwice/store/__init__.py": body,
        "src/nottwice/store/small.py": "x = 1\n" * 39,
        "src/nottwice/store/covered.py": body,
        "src/nottwice/store/_private.py": body,
        "src/nottwice/store/excepted.py": body,
        "src/nottwice/store/forgotten.py": body,
        "src/nottwice/agent/providers/deep.py": body,
    }
    tests = {"tests/store/test_covered.py", "tests/store/test_private.py", "tests/test_deep.py"}
    assert_found(
        shape.modules_without_tests(
            source, tests, tested_elsewhere={"src/nottwice/store/excepted.py"}
        ),
        "src/nottwice/store/forgotten.py:1",
        "src/nottwice/agent/providers/deep.py:1",
    )


def test_an_exception_from_mirroring_that_went_stale_is_found() -> None:
    source = {"src/nottwice/a/kept.py": "", "src/nottwice/a/untested.py": ""}
    exceptions = {
        "src/nottwice/a/kept.py": "tests/test_kept.py: it needs two rooms",
        "src/nottwice/a/untested.py": "tests/test_gone.py: it was here once",
        "src/nottwice/a/gone.py": "tests/test_kept.py: it needs two rooms",
    }
    assert_found(
        shape.idle_exceptions(source, {"tests/test_kept.py"}, exceptions),
        "src/nottwice/a/untested.py:1",
        "src/nottwice/a/gone.py:1",
    )


# Direction


def test_imports_point_from_outer_rooms_to_inner_ones() -> None:
    assert_clean(direction.imports_against_the_direction(SOURCE))


def test_an_import_against_the_direction_is_found() -> None:
    sample = {
        "src/nottwice/__init__.py": "from nottwice.cli.main import main\n",
        "src/nottwice/model/call.py": "from nottwice.errors import A\nimport nottwice.model.b\n",
        "src/nottwice/model/upward.py": "x = 1\nfrom nottwice.store import sqlite\n",
        "src/nottwice/engine/hidden.py": "def f():\n    import nottwice.guard.tool\n",
        "src/nottwice/store/__init__.py": "from .memory import x\n",
        "src/nottwice/store/sly.py": "from ..engine import clock\n",
        "src/nottwice/store/sly_name.py": "from .. import engine\n",
        "src/nottwice/guard/door.py": "import nottwice as nt\n",
        "src/nottwice/guard/door_name.py": "from nottwice import tool\n",
        "src/nottwice/reviews/sideways.py": "from nottwice.agent.loop import run\n",
        "src/nottwice/web/sideways.py": "from nottwice.cli import main\n",
        "src/nottwice/web/page.py": "from nottwice.views import runs\n",
        "src/nottwice/views/outward.py": "from nottwice.cli.render import output\n",
        "src/nottwice/cli/main.py": "from nottwice.testing import world\nimport nottwice as nt\n",
        "src/nottwice/testing/mcp.py": "from nottwice import tool\nfrom nottwice.guard import x\n",
        "src/nottwice/helpers.py": "",
    }
    assert_found(
        direction.imports_against_the_direction(sample),
        "src/nottwice/model/upward.py:2",
        "src/nottwice/engine/hidden.py:2",
        "src/nottwice/store/sly.py:1",
        "src/nottwice/store/sly_name.py:1",
        "src/nottwice/guard/door.py:1",
        "src/nottwice/guard/door_name.py:1",
        "src/nottwice/reviews/sideways.py:1",
        "src/nottwice/web/sideways.py:1",
        "src/nottwice/views/outward.py:1",
        "src/nottwice/helpers.py:1",
    )


def test_views_import_nothing_that_shows_them() -> None:
    assert_clean(direction.terminals_in_views(SOURCE))


def test_a_view_that_imports_a_terminal_is_found() -> None:
    sample = {
        "src/nottwice/views/runs.py": "import json\nfrom rich.table import Table\n",
        "src/nottwice/views/run/waits.py": "def f():\n    import click\n",
        "src/nottwice/cli/main.py": "import click\n",
    }
    assert_found(
        direction.terminals_in_views(sample),
        "src/nottwice/views/runs.py:2",
        "src/nottwice/views/run/waits.py:2",
    )


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert_clean(direction.import_cycles(SOURCE))


@pytest.mark.parametrize(
    "sample",
    [
        {
            "src/nottwice/model/a.py": "from nottwice.model.b import x\n",
            "src/nottwice/model/b.py": "def f():\n    from nottwice.model import a\n",
        },
        {
            "src/nottwice/model/__init__.py": "from nottwice.model.a import X\n",
            "src/nottwice/model/a.py": "from nottwice.model import Y\n",
        },
    ],
    ids=["directly", "through the package"],
)
def test_a_circle_of_imports_is_found(sample: dict[str, str]) -> None:
    found = list(direction.import_cycles(sample))
    assert len(found) == 1
    assert "nottwice.model.a" in found[0].problem


def test_modules_that_share_a_third_are_no_circle() -> None:
    sample = {
        "src/nottwice/model/__init__.py": "from nottwice.model.a import X\n",
        "src/nottwice/model/a.py": "from nottwice.model import b, c\n",
        "src/nottwice/model/b.py": "from nottwice.model.c import x\n",
        "src/nottwice/model/c.py": "",
    }
    assert_clean(direction.import_cycles(sample))


def test_the_inner_rooms_import_the_standard_library_only() -> None:
    assert_clean(direction.foreign_imports(SOURCE))


def test_a_foreign_import_in_an_inner_room_is_found() -> None:
    sample = {
        "src/nottwice/model/tool.py": "import json\nfrom pydantic import BaseModel\n",
        "src/nottwice/engine/drivers.py": "import asyncio\ndef f():\n    import anyio.abc\n",
        "src/nottwice/store/sqlite/store.py": "import sqlite3\nimport orjson\n",
        "src/nottwice/store/postgres/store.py": "import psycopg\n",
        "src/nottwice/guard/schema.py": "import pydantic\n",
    }
    assert_found(
        direction.foreign_imports(sample),
        "src/nottwice/model/tool.py:2",
        "src/nottwice/engine/drivers.py:3",
        "src/nottwice/store/sqlite/store.py:2",
    )


# The rings of tests, and the map


def test_every_deep_test_belongs_to_a_part_and_every_part_has_tests() -> None:
    known = rings.parts(TEXTS["Makefile"])
    assert known
    assert_clean(rings.marks_without_a_part(TESTS, known))
    assert_clean(rings.parts_without_a_test(TESTS, known))


def test_every_promise_has_a_proof_in_make_test() -> None:
    page = "docs/promises.md"
    assert_clean(rings.promises_left_to_deep(page, TEXTS[page], {**TESTS, **SOURCE}))


def test_a_deep_test_without_a_part_and_a_part_without_tests_are_found() -> None:
    sample = {
        "tests/test_a.py": "import pytest\n"
        '@pytest.mark.deep(part="soak")\ndef test_a(): ...\n'
        "@pytest.mark.deep\ndef test_b(): ...\n"
        '@pytest.mark.sampled(part="gone", keep=3)\ndef test_c(): ...\n'
        '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.deep())])\n'
        "def test_d(x): ...\n",
    }
    known = rings.parts("A := 1\nDEEP := soak sweeps\n")
    assert_found(
        rings.marks_without_a_part(sample, known),
        *("tests/test_a.py:4", "tests/test_a.py:6", "tests/test_a.py:8"),
    )
    assert [each.problem for each in rings.parts_without_a_test(sample, known)] == [
        "deep-sweeps has no test"
    ]


def test_a_promise_whose_proofs_are_all_deep_or_skipped_is_found() -> None:
    page = """
### P1. Kept by a whole module that is deep
Proof: tests/test_deep.py::test_a
### P2. Kept by one deep test and one that is not
Proof: tests/test_mixed.py::test_deep, tests/test_mixed.py::test_usual
### P3. Kept by a deep test
Proof: tests/test_mixed.py::test_deep
### P4. Kept by a matrix of which some cases are deep
Proof: tests/test_mixed.py::test_sampled, tests/test_mixed.py::test_parameters
### P5. Kept by a deep class
Proof: tests/test_mixed.py::TestAll::test_inside
### P6. Kept by a test that is always skipped
Proof: tests/test_skipped.py::test_never
### P7. Kept by a test that may fail
Proof: tests/test_skipped.py::test_failing
### P8. Kept by a test that is skipped on some machines
Proof: tests/test_skipped.py::test_somewhere
### P9. Kept by a whole module that is skipped
Proof: tests/test_gone.py::test_a
"""
    deep = 'pytest.mark.deep(part="soak")'
    tests = {
        "tests/test_deep.py": f"import pytest\npytestmark = {deep}\ndef test_a(): ...\n",
        "tests/test_mixed.py": f"import pytest\n@{deep}\ndef test_deep(): ...\n"
        "def test_usual(): ...\n"
        '@pytest.mark.sampled(part="soak", keep=2)\ndef test_sampled(): ...\n'
        f'@pytest.mark.parametrize("x", [1, pytest.param(2, marks={deep})])\n'
        "def test_parameters(x): ...\n"
        f"@{deep}\nclass TestAll:\n    def test_inside(self): ...\n",
        "tests/test_skipped.py": "import pytest\n@pytest.mark.skip\ndef test_never(): ...\n"
        '@pytest.mark.xfail(reason="?")\ndef test_failing(): ...\n'
        '@pytest.mark.skipif(MACOS, reason="no /proc")\ndef test_somewhere(): ...\n',
        "tests/test_gone.py": 'import pytest\npytestmark = [pytest.mark.skip("?")]\n'
        "def test_a(): ...\n",
    }
    found = rings.promises_left_to_deep("p.md", page, tests)
    assert_found(found, "p.md:2", "p.md:6", "p.md:10", "p.md:12", "p.md:14", "p.md:18")


def test_the_map_shows_every_room() -> None:
    assert_clean(rooms.rooms_off_the_map(TEXTS["CONTRIBUTING.md"], SOURCE))


def test_a_room_off_the_map_and_a_row_without_a_room_are_found() -> None:
    source = {
        "src/nottwice/model/a.py": "",
        "src/nottwice/errors.py": "",
        "src/nottwice/web/b.py": "",
    }
    page = "| room | question |\n|---|---|\n| `errors.py` | ? |\n| `model/`, `gone/` | ? |\n"
    assert_found(rooms.rooms_off_the_map(page, source), "CONTRIBUTING.md:1", "CONTRIBUTING.md:4")


# What is banned, and the words


RULES_FOR_SOURCE: dict[str, Rule] = {
    "no stored bytes name code": banned.formats_that_carry_code,
    "no text becomes code": banned.code_run_from_text,
    "no SQL is built from values": banned.sql_built_from_values,
    "no except is bare": banned.bare_excepts,
    "no clock but engine/clock.py": banned.clock_reads,
    "no die but engine/clock.py and a worker's": banned.dice,
    "no generator or coroutine reads the ledger itself": asking.reads_of_its_own,
    "no module patches another": banned.patches,
    "no module branches on a replay class": replay.comparisons,
    "no module writes what a session holds": owners.writes_to_a_session,
    "no library module prints": banned.prints,
    "nothing is left unfinished": banned.unfinished_work,
    "names use the word table": words.synonyms,
    "names are not abbreviated": words.abbreviations,
}


@pytest.mark.parametrize("rule", RULES_FOR_SOURCE.values(), ids=RULES_FOR_SOURCE.keys())
def test_the_package_keeps(rule: Rule) -> None:
    assert_clean(rule(SOURCE))


def test_no_two_public_classes_have_the_same_name() -> None:
    assert_clean(words.shared_class_names(SOURCE))


def test_a_class_name_that_has_two_meanings_is_found() -> None:
    sample = {
        "src/nottwice/engine/a.py": "class Plan: ...\nclass _Own: ...\n",
        "src/nottwice/guard/b.py": "x = 1\nclass Plan: ...\nclass _Own: ...\n",
        "src/nottwice/guard/c.py": "def f():\n    class Plan: ...\n",
    }
    assert_found(words.shared_class_names(sample), "src/nottwice/guard/b.py:2")


def test_code_pages_and_names_of_tests_use_the_usual_words() -> None:
    assert_clean(words.unusual_words(TEXTS))


def test_an_unusual_word_is_found_where_it_is() -> None:
    texts = {
        "docs/a.md": "nobody@example.com\nNobody knows.\nIt goes once.\nIt goes on.\n",
        "src/nottwice/a.py": "x = 'nobody'\n# Whoever comes.\n",
        "tests/test_a.py": "# nobody\ndef test_nobody_waits(): ...\ndef test_a_body(): ...\n",
    }
    found = words.unusual_words(texts)
    assert_found(found, "docs/a.md:2", "docs/a.md:4", "src/nottwice/a.py:2", "tests/test_a.py:2")


def test_no_file_names_a_folder_of_a_developers_machine() -> None:
    assert_clean(banned.machine_paths(TEXTS))


def test_no_statement_numbers_its_parameters() -> None:
    statements = {**CODE, **read_tree("src", suffixes=(".sql",))}
    statements.pop("tests/test_tidy.py")  # Its own violations are below.
    statements.pop("tests/tidy/banned.py")
    assert_clean(banned.numbered_parameters(statements))


VIOLATIONS: list[tuple[Rule, str]] = [
    (banned.formats_that_carry_code, "import pickle"),
    (banned.formats_that_carry_code, "import marshal"),
    (banned.formats_that_carry_code, "from dill.source import x"),
    (banned.formats_that_carry_code, "# Pickled below."),
    (banned.code_run_from_text, "x = eval('1')"),
    (banned.code_run_from_text, "exec(text)"),
    (banned.code_run_from_text, "compile(text, '', 'exec')"),
    (banned.sql_built_from_values, "x = f'SELECT a FROM {table}'"),
    (banned.sql_built_from_values, "x = f'\\n  PRAGMA user_version = {n}'"),
    (banned.sql_built_from_values, "x = f'insert into t values ({n})'"),
    (banned.sql_built_from_values, "x = 'DELETE FROM t WHERE a = %s' % a"),
    (banned.sql_built_from_values, "x = 'UPDATE {} SET a = 1'.format(table)"),
    (banned.sql_built_from_values, "x = 'CREATE TABLE ' + table + ' (a)'"),
    (banned.sql_built_from_values, "x = 'SELECT ' + COLUMNS + ' FROM t WHERE a = ' + a"),
    (banned.sql_built_from_values, "x = f'{first} SELECT a FROM t'"),
    (banned.sql_built_from_values, "x = ''.join(('SELECT a FROM t WHERE b = ', b))"),
    (banned.sql_built_from_values, "x = ' '.join((FIRST, *(' INSERT INTO t', columns)))"),
    (banned.sql_built_from_values, "x = 'SELECT a FROM t'.replace('t', table)"),
    (banned.sql_built_from_values, "x = sql.replace('a', 'b')"),
    (banned.numbered_parameters, "x = 'SELECT a FROM t WHERE b = ?1'"),
    (banned.numbered_parameters, "x = 'INSERT INTO t VALUES (?2,?1)'"),
    (banned.bare_excepts, "try: f()\nexcept: pass"),
    (banned.clock_reads, "import time\nx = time.time()"),
    (banned.clock_reads, "import time as t\nx = t.monotonic"),
    (banned.clock_reads, "from time import sleep as nap\nnap(1)"),
    (banned.clock_reads, "import asyncio\nx = asyncio.sleep(1)"),
    (banned.clock_reads, "import datetime\nx = datetime.datetime.now()"),
    (banned.clock_reads, "from datetime import datetime, UTC\nx = datetime.now(UTC)"),
    (banned.dice, "import random"),
    (banned.dice, "from random import choice"),
    (asking.reads_of_its_own, "def f(host) -> Doing[None]:\n    yield host.store.load_run('r')"),
    (asking.reads_of_its_own, "def f(store) -> Doing[None]:\n    return g(store)"),
    (asking.reads_of_its_own, "def f(store) -> Doing[None]:\n    yield 1\n    check(store)"),
    (asking.reads_of_its_own, "def f(session) -> int:\n    return session.store.charged('m')"),
    (asking.reads_of_its_own, "def f(host) -> int:\n    return host.store.charged('m')"),
    (asking.reads_of_its_own, "async def f(ledger):\n    return ledger.store.runs()"),
    (
        asking.reads_of_its_own,
        "class A:\n    def f(self) -> Doing[None]:\n        yield self._store.runs()",
    ),
    (
        asking.reads_of_its_own,
        "def f(a) -> Generator[Ask, Any, None]:\n    yield a.store.runs()",
    ),
    (asking.reads_of_its_own, "def f(a) -> 'Doing[None]':\n    yield a.store.runs()"),
    (banned.patches, "from nottwice.engine import drivers\ndrivers.drive = x"),
    (banned.patches, "import nottwice.engine.events as ev\nev.listeners = ()"),
    (banned.patches, "import nottwice.engine.events\nnottwice.engine.events.listeners = ()"),
    (banned.patches, "import time\ntime.time = x"),
    (banned.patches, "import time\ndel time.time"),
    (banned.patches, "from nottwice import events\nevents.Event.run_id = 1"),
    (banned.patches, "from nottwice import events\nsetattr(events.Event, 'run_id', 1)"),
    (banned.patches, "from nottwice.store.memory import MemoryStore as S\na, S.commit = 1, x"),
    (banned.patches, "from nottwice.guard import ledger\nsetattr(ledger, 'x', 1)"),
    (owners.writes_to_a_session, "session.closed = True"),
    (owners.writes_to_a_session, "self.session.depth += 1"),
    (owners.writes_to_a_session, "del scope.session.unrecorded[identity]"),
    (owners.writes_to_a_session, "a, session.stops.ended = 1, 2"),
    (owners.writes_to_a_session, "session.stops.asked.pop(identity, None)"),
    (replay.comparisons, "if tool.replay_class is not ReplayClass.PURE: pass"),
    (replay.comparisons, "x = kind in (None, ReplayClass.UNSAFE_ON_REPLAY)"),
    (replay.comparisons, "match kind:\n    case ReplayClass.PURE: pass"),
    (replay.comparisons, "x = {ReplayClass.PURE: 1}"),
    (replay.comparisons, "x = row.replay_class.value == other"),
    (replay.comparisons, "x = row.replay_class.value == 'pure'"),
    (replay.comparisons, "if tool.replay_class == 'pure': pass"),
    (replay.comparisons, "x = kind not in ('pure', 'unsafe_on_replay')"),
    (banned.prints, "print('hello')"),
    (banned.unfinished_work, "# TODO: finish"),
    (banned.unfinished_work, "raise NotImplementedError"),
    (words.synonyms, "def record_side_effects(): ..."),
    (words.synonyms, "class LastToolCall: ..."),
    (words.synonyms, "def f(retry_count): ..."),
    (words.synonyms, "self.worker_id = 1"),
    (words.abbreviations, "conn = connect()"),
    (words.abbreviations, "def last_msg(): ..."),
    (banned.machine_paths, "x = '/" + "root/file'"),
    (banned.machine_paths, "# See /" + "work/file."),
    (banned.machine_paths, "x = '/" + "home/alice/file'"),
]


@pytest.mark.parametrize(("rule", "source"), VIOLATIONS)
def test_a_violation_is_found_where_it_is(rule: Rule, source: str) -> None:
    path = "src/nottwice/model/sample.py"
    last = 1 + source.count("\n")
    # The innocent first line proves that the reported line is the right one.
    assert_found(rule({path: f"a = 1\n{source}\n"}), f"{path}:{last + 1}")


INNOCENT: list[tuple[Rule, str, str]] = [
    (banned.code_run_from_text, "model/a.py", "import re\nx = re.compile('a')"),
    (banned.sql_built_from_values, "store/a.py", "x = 'SELECT a FROM t WHERE b = ?'"),
    (banned.sql_built_from_values, "store/a.py", "x = 'SELECT a ' + 'FROM t'"),
    (banned.sql_built_from_values, "store/a.py", "x = 'SELECT ' + rows.COLUMNS + ' FROM t'"),
    (banned.sql_built_from_values, "store/a.py", "x = 'PRAGMA user_version = ' + str(n)"),
    (banned.sql_built_from_values, "store/a.py", "x = f'Create {path} first, then select one.'"),
    (banned.sql_built_from_values, "store/a.py", "x = ', '.join(('selected', 'updated'))"),
    (banned.sql_built_from_values, "store/a.py", "x = text.replace('a', 'b')"),
    (banned.sql_built_from_values, "store/statements.py", "x = sql.replace('a', 'b')"),
    (banned.patches, "testing/a.py", "import sys\nsys.stdout = sys.stderr"),
    (banned.patches, "model/a.py", "import time\nself.time = time.time\nx.time = 1"),
    (banned.numbered_parameters, "store/a.py", "x = 'SELECT a FROM t WHERE b = ? AND c = :c'"),
    (banned.numbered_parameters, "store/a.py", "x = 'https://shop.example/orders?1'"),
    (banned.bare_excepts, "model/a.py", "try: f()\nexcept OSError: pass"),
    (banned.clock_reads, "engine/clock.py", "import time\nx = time.time()"),
    (banned.clock_reads, "testing/world.py", "import time\ntime.sleep(1)"),
    (banned.clock_reads, "cli/demo/story.py", "import time\ntime.sleep(1)"),
    (banned.clock_reads, "model/a.py", "from datetime import timedelta\nx = clock.now()"),
    (banned.dice, "engine/clock.py", "import random"),
    (banned.dice, "guard/a.py", "import secrets\nx = secrets.token_hex(4)"),
    (
        asking.reads_of_its_own,
        "engine/a.py",
        "def f(host) -> Doing[None]:\n    yield Read(lambda store: store.runs())",
    ),
    (
        asking.reads_of_its_own,
        "graphs/a.py",
        "def f(host) -> Doing[None]:\n    yield from take(Opening(store=host.store))",
    ),
    (asking.reads_of_its_own, "graphs/a.py", "def f(ledger):\n    return ledger.store.runs()"),
    (owners.writes_to_a_session, "engine/session.py", "session.closed = True"),
    (owners.writes_to_a_session, "engine/a.py", "self.session = session.pending.add_call(x)"),
    (replay.comparisons, "model/replay_class.py", "x = kind is ReplayClass.PURE"),
    (replay.comparisons, "guard/a.py", "x = Tool(ReplayClass.PURE).replay_class.keyed"),
    (banned.prints, "cli/main.py", "print('hello')"),
    (words.synonyms, "model/a.py", "tool_call_results = x.tool_calls"),
    (words.synonyms, "adapters/a.py", "tool_calls = 1"),
    (words.abbreviations, "model/a.py", "contextual = request = values = run_id = 1"),
    (banned.machine_paths, "model/a.py", "x = 'https://example.com/work/7' + '~/work/7'"),
]


@pytest.mark.parametrize(("rule", "path", "source"), INNOCENT)
def test_what_only_looks_like_a_violation_is_let_through(
    rule: Rule, path: str, source: str
) -> None:
    assert_clean(rule({f"src/nottwice/{path}": source}))


def test_every_rule_for_the_package_has_a_sample_that_breaks_it() -> None:
    assert set(RULES_FOR_SOURCE.values()) <= {rule for rule, _ in VIOLATIONS}
