"""What an adapter of a framework builds on: ``nt.adapters``. It imports no framework itself.

``declare`` makes a tool from data, ``nt.attach`` joins a run, ``handle.call`` makes a call once.
``verdict_of`` says what to do with an exception, ``text_for_model`` what to tell the model, and
``answer`` decides a review with what came back through the framework. The guide "Write an adapter"
shows all of it in forty lines.
"""

from nottwice.adapters.answers import aanswer, abort, answer, approve, reject
from nottwice.adapters.texts import (
    REPEAT,
    text_for_lost_answer,
    text_for_model,
    text_for_repeat,
)
from nottwice.adapters.verdicts import VERDICTS, Verdict, verdict_of
from nottwice.guard.attached.calling import CallResult, CallState
from nottwice.guard.attached.handle import Handle
from nottwice.guard.attached.spec import ToolSpec, declare

__all__ = [
    "REPEAT",
    "VERDICTS",
    "CallResult",
    "CallState",
    "Handle",
    "ToolSpec",
    "Verdict",
    "aanswer",
    "abort",
    "answer",
    "approve",
    "declare",
    "reject",
    "text_for_lost_answer",
    "text_for_model",
    "text_for_repeat",
    "verdict_of",
]
