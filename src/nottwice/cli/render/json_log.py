"""How does a log become JSON lines? ``nottwice worker --log-json``, and ``serve``."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import Any

import click

from nottwice.engine.said import Said
from nottwice.engine.traces import trace_id
from nottwice.views.text import iso_text, safe


@contextlib.contextmanager
def json_log() -> Iterator[None]:
    """Write what is logged as JSON, and everything that is decided."""
    logger = logging.getLogger("nottwice")
    before = (logger.level, list(logger.handlers))
    logger.setLevel(min(logger.level or logging.INFO, logging.INFO))
    logger.handlers = [JsonLines()]
    try:
        yield
    finally:
        logger.level, logger.handlers = before


class JsonLines(logging.Handler):
    """Writes log records to stderr, one JSON document a line, in pure ASCII."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            click.echo(json.dumps(self._document(record), ensure_ascii=True), err=True)
        except Exception:
            # The reader may be gone. Logging must never decide what is done.
            self.handleError(record)

    def _document(self, record: logging.LogRecord) -> dict[str, Any]:
        document: dict[str, Any] = {
            "at": iso_text(record.created),
            "level": record.levelname.lower(),
            "message": safe(record.getMessage()),
        }
        traced = trace_id()
        if traced is not None:
            document["trace_id"] = traced
        said = getattr(record, "said", None)
        if isinstance(said, Said):
            document.update(
                run_id=said.run_id,
                decision=said.decision,
                step=said.step,
                tool=said.tool,
                call_id=said.call_id,
                detail=said.detail,
            )
        return document
