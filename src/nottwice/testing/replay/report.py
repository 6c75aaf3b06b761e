"""The outcome of a gate, for people, for scripts, and for CI servers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from nottwice.engine.doubts.blocking import written_call
from nottwice.model import values
from nottwice.model.graphs.position import Position
from nottwice.testing.replay.fixture import Fixture
from nottwice.testing.replay.gate import Result

_MOST_STATE_LINES = 40
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def failure_lines(result: Result) -> list[str]:
    """Return what people need to know about a failed checkpoint: which, why, and its contents."""
    lines = [f"FAILED {result.path}"]
    if result.fixture is not None:
        lines.append(f"  {_about(result.fixture)}")
    for problem in result.problems:
        lines += [f"  {line}" for line in problem.lines()]
    if result.fixture is not None:
        lines += [f"    {line}" for line in _dump(result.fixture)]
    return lines


def summary(results: Sequence[Result]) -> str:
    """Summarise all results in one line."""
    failed = sum(not result.passed for result in results)
    skipped = sum(result.skipped is not None for result in results)
    words = [f"{_checkpoints(len(results) - failed - skipped)} resumed as recorded"]
    if failed:
        words.append(f"{failed} failed")
    if skipped:
        words.append(f"{skipped} skipped")
    return ", ".join(words)


def results_document(folder: str, results: Sequence[Result], *, left_out: int) -> dict[str, Any]:
    """Return everything as one document, with the full contents of failed checkpoints."""
    return {
        "folder": folder,
        "checkpoints": len(results),
        "failed": sum(not result.passed for result in results),
        "skipped": sum(result.skipped is not None for result in results),
        "left_out": left_out,
        "results": [_result_document(result) for result in results],
    }


def junit(results: Sequence[Result]) -> str:
    """Return the results as JUnit XML for a CI server."""
    suite = ElementTree.Element(
        "testsuite",
        name="nottwice replay",
        tests=str(len(results)),
        failures=str(sum(not result.passed for result in results)),
        errors="0",
        skipped=str(sum(result.skipped is not None for result in results)),
    )
    for result in results:
        fixture = result.fixture
        graph = "checkpoint" if fixture is None else fixture.graph_id or fixture.work
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(f"nottwice.replay.{graph}"), name=_xml(result.path)
        )
        if result.skipped is not None:
            ElementTree.SubElement(case, "skipped", message=_xml(result.skipped))
        elif result.problems:
            first = result.problems[0]
            failure = ElementTree.SubElement(
                case, "failure", type=first.cause.value, message=_xml(first.lines()[0])
            )
            failure.text = _xml("\n".join(failure_lines(result)))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _about(fixture: Fixture) -> str:
    if fixture.is_plain:
        last = "no step" if fixture.after == "/" else f"step {fixture.after}"
        return (
            f"run {fixture.run_id!r} ({fixture.status.value}) without a graph, up to {last}, "
            f"resumed by {fixture.work or 'no function'}"
        )
    position = Position.from_plain(fixture.position)
    due = [branch.node for branch in position.branches] or [position.node]
    at = ", ".join(node for node in due if node is not None) or "its end"
    after = "its input" if fixture.after == "/" else fixture.after
    return (
        f"{fixture.graph_id}, run {fixture.run_id!r} ({fixture.status.value}), checkpoint "
        f"{fixture.version} after {after}, resumed at {at}"
    )


def _dump(fixture: Fixture) -> list[str]:
    """Show the contents of a checkpoint, as far as they fit on a screen. The file has it all."""
    state = json.dumps(fixture.state, indent=2, ensure_ascii=False).splitlines()
    lines = ["state:", *(f"  {line}" for line in state[:_MOST_STATE_LINES])]
    if len(state) > _MOST_STATE_LINES:
        lines.append(f"  and {len(state) - _MOST_STATE_LINES} lines more")
    lines.append(
        "recorded from there on:" if fixture.calls else "nothing is recorded from there on"
    )
    for row in fixture.calls:
        call = written_call(row.identity.tool_name, values.decode_object(row.args_json))
        lines.append(f"  {row.status.value:<7} {row.identity.node_id}: {call}")
    return lines


def _result_document(result: Result) -> dict[str, Any]:
    fixture, failed = result.fixture, not result.passed
    return {
        "path": result.path,
        "outcome": "failed" if failed else "skipped" if result.skipped else "passed",
        "graph": None if fixture is None else fixture.graph_id or None,
        "run_id": None if fixture is None else fixture.run_id,
        "after": None if fixture is None else fixture.after,
        "cause": None if result.cause is None else result.cause.value,
        "problems": [problem.to_plain() for problem in result.problems],
        "skipped": result.skipped,
        "checkpoint": fixture.to_plain() if fixture is not None and failed else None,
    }


def _checkpoints(number: int) -> str:
    return f"{number} checkpoint{'' if number == 1 else 's'}"


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
