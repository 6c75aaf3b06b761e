"""Which attributes do spans have? OpenTelemetry's conventions for GenAI, and ours beside them.

The conventions are in development. They have no word for replays, doubts or money, so those are
under ``nottwice.``.
"""

from __future__ import annotations

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
EXECUTE_TOOL: Final = "execute_tool"
CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
AGENT: Final = "gen_ai.agent.name"
WORKFLOW: Final = "gen_ai.workflow.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
ERROR: Final = "error.type"

RUN: Final = "nottwice.run_id"
EPOCH: Final = "nottwice.opening"
GRAPH: Final = "nottwice.graph"
STATUS: Final = "nottwice.run.status"
RECEIPTS: Final = "nottwice.receipts"
TOKENS_SAVED: Final = "nottwice.saved.tokens"
USD_SAVED: Final = "nottwice.saved.usd"
STEP: Final = "nottwice.step"
VISIT: Final = "nottwice.visit"
RESUMED: Final = "nottwice.resumed"
CALL: Final = "nottwice.call_id"
ATTEMPT: Final = "nottwice.attempt"
REPLAY_CLASS: Final = "nottwice.replay_class"
REPLAYED: Final = "nottwice.replayed"
OUTCOME: Final = "nottwice.outcome"
SETTLED_BY: Final = "nottwice.settled_by"
DUPLICATE: Final = "nottwice.duplicate_prevented"
KEY: Final = "nottwice.key"
REVIEW: Final = "nottwice.review_id"
REVIEW_KIND: Final = "nottwice.review.kind"
LINK: Final = "nottwice.link"

RECEIPT_EVENT: Final = "nottwice.receipt"
REVIEW_EVENT: Final = "nottwice.review_opened"
DOUBT_EVENT: Final = "nottwice.doubt_ended"
