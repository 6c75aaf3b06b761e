-- The calls of the functions of this nottwice (postgres_functions.sql). The parameters are in order.
-- Each of the first ten returns one row if everything was written, and none if not. On another server
-- than the intended one, they call nothing (postgres/failover.py).

-- :_here
pg_postmaster_start_time() = %s::timestamptz

-- :_holds_run
nottwice.holds_run_{digest}(?epoch, ?holder_id, ?workflow_id)

-- :_write_intent
nottwice.write_intent_{digest}(?epoch, ?holder_id, {?intent})

-- :_write_call
nottwice.write_call_{digest}(?epoch, ?holder_id, {?tool_call_results})

-- :_write_receipt
nottwice.write_receipt_{digest}(?epoch, ?holder_id, ?workflow_id, ?node_id, ?checkpoint_id, ?tool_name,
    ?input_hash, ?attempt_id, {?receipt})

-- :_end_run
nottwice.end_run_{digest}(?epoch, ?holder_id, ?workflow_id, %s::boolean, ?status, ?updated_at,
    ?failure_json, ?ended_at, ?ended, ?receipts, ?duplicates, ?tokens, ?usd, ?notice_id, ?kind,
    ?created_at, ?payload_json)

-- :holds_run
SELECT 1 WHERE CASE WHEN {_here} THEN {_holds_run} ELSE false END

-- :write_intent
SELECT 1 WHERE CASE WHEN {_here} THEN {_write_intent} ELSE false END

-- :write_call
SELECT 1 WHERE CASE WHEN {_here} THEN {_write_call} ELSE false END

-- :write_receipt
SELECT 1 WHERE CASE WHEN {_here} THEN {_write_receipt} ELSE false END

-- :end_run
SELECT 1 WHERE CASE WHEN {_here} THEN {_end_run} ELSE false END

-- The same, each together with its pending writes.

-- :_pending
{?steps[]}, {?checkpoints[]}

-- :holds_run_pending
SELECT 1 WHERE CASE WHEN {_here}
  THEN nottwice.write_pending_{digest}({_holds_run}, {_pending}) ELSE false END

-- :write_intent_pending
SELECT 1 WHERE CASE WHEN {_here}
  THEN nottwice.write_pending_{digest}({_write_intent}, {_pending}) ELSE false END

-- :write_call_pending
SELECT 1 WHERE CASE WHEN {_here}
  THEN nottwice.write_pending_{digest}({_write_call}, {_pending}) ELSE false END

-- :write_receipt_pending
SELECT 1 WHERE CASE WHEN {_here}
  THEN nottwice.write_pending_{digest}({_write_receipt}, {_pending}) ELSE false END

-- :end_run_pending
SELECT 1 WHERE CASE WHEN {_here}
  THEN nottwice.write_pending_{digest}({_end_run}, {_pending}) ELSE false END

-- Claims runs for a worker (postgres/claims.py). After the run: what there is to reconcile.
-- :claim_ready
SELECT * FROM nottwice.claim_ready_{digest}(
    %s::timestamptz, %s, %s, %s, %s, %s::text[], %s::text[], %s)
  AS found({::runs}, in_doubt boolean, reviews boolean, events boolean, ledger_audit boolean,
           last_ordinal bigint, is_claimed boolean, place bigint)
