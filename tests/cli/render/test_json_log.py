"""Are log lines JSON, with the trace that they belong to?"""

from __future__ import annotations

import json
import logging

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span

from nottwice.cli.render.json_log import json_log

CONTEXT = SpanContext(0x4BF92F35, 0xF067AA, is_remote=False)


def test_every_line_is_a_document_and_names_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("nottwice")
    before = (log.level, list(log.handlers))
    with json_log():
        log.info("outside")
        with use_span(NonRecordingSpan(CONTEXT)):
            log.warning("in a trace\nand a second line")
    assert (log.level, list(log.handlers)) == before
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["message"], "trace_id" in first) == ("info", "outside", False)
    assert second["trace_id"] == "4bf92f35".rjust(32, "0")
