"""Mutants of ``testing`` and ``guard``: crash tests are not green for nothing, names are unique."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

TESTING: tuple[Mutant, ...] = (
    Mutant(
        name="a third party's store is used as it is",
        file="testing/crash/inside/third_party.py",
        old="        if isinstance(named, CountedStore):\n",
        new="        if self._make is None or isinstance(named, CountedStore):\n",
        tests=(
            "tests/testing/crash/inside/test_third_party.py"
            "::test_a_store_of_a_third_party_is_refused_and_its_ledger_stays_as_it_was",
        ),
        why="A crash test would write false receipts into the real ledger.",
    ),
    Mutant(
        name="a ledger that was opened before the crash test keeps its store",
        file="guard/ledger.py",
        old="        return host_here(self._host)\n",
        new="        return self._host\n",
        tests=(
            "tests/testing/crash/inside/test_third_party.py"
            "::test_a_store_of_a_third_party_is_refused_and_its_ledger_stays_as_it_was",
        ),
        why="A crash test would write false receipts into the real ledger.",
    ),
    Mutant(
        name="a block that was made before the crash test keeps its store",
        file="guard/run.py",
        old="            self._opening = opened_here(self._named)\n            session = drive(",
        new="            session = drive(",
        tests=(
            "tests/testing/crash/inside/test_third_party.py"
            "::test_a_store_of_a_third_party_is_refused_and_its_ledger_stays_as_it_was",
        ),
        why="A crash test would write false receipts into the real ledger.",
    ),
    Mutant(
        name="work that raises is killed and passes",
        file="testing/crash/baseline.py",
        old="    if ending.error is not None and not ending.expected:\n",
        new="    if ending.error is not None and ending.expected is None:\n",
        tests=(
            "tests/testing/crash/test_baseline.py"
            "::test_work_that_raises_without_a_crash_is_refused_with_the_error_and_the_way_out",
        ),
        why="The crash test would be green for work that never works.",
    ),
    Mutant(
        name="work without an effect is killed and passes",
        file="testing/crash/baseline.py",
        old="    if scenario.effects and not effects:\n",
        new="    if scenario.effects is None and not effects:\n",
        tests=(
            "tests/testing/crash/test_baseline.py"
            "::test_work_whose_tool_is_called_in_a_foreign_thread_is_refused",
        ),
        why="The crash test would be green for work that does nothing.",
    ),
    Mutant(
        name="a crash test that met no point passes",
        file="testing/crash/sweep.py",
        old="    if any(level.examined or level.failures for level in swept):\n",
        new="    if swept:\n",
        tests=(
            "tests/testing/crash/test_baseline.py::test_a_point_that_does_not_exist_is_refused",
        ),
        why="The crash test would be green although nothing was killed.",
    ),
    Mutant(
        name="two tools of one factory are one tool",
        file="guard/definition.py",
        old="        return self._is_like(older)\n",
        new="        return True\n",
        tests=(
            "tests/guard/test_definition.py::test_two_tools_of_one_factory_are_not_one_tool",
            "tests/guard/test_definition.py::test_a_closure_with_another_value_makes_another_tool",
        ),
        why="A call of one would get the receipt of the other.",
    ),
    Mutant(
        name="a tool that two classes inherit answers for both",
        file="guard/request.py",
        old="        if first != kind.__qualname__:\n",
        new="        if not first:\n",
        tests=(
            "tests/guard/test_request.py"
            "::test_two_classes_that_inherit_a_tool_do_not_get_receipts_of_each_other",
        ),
        why="The call of the second class would never be made.",
    ),
    Mutant(
        name="what a module registers with atexit starts runs",
        file="guard/check/importing.py",
        old="    _at_exit = True\n",
        new="    _at_exit = False\n",
        tests=(
            "tests/guard/check/test_importing.py"
            "::test_what_the_module_registers_for_the_end_starts_nothing",
        ),
        why="nottwice check would make effects.",
    ),
)
