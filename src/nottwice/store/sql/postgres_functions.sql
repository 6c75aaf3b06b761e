-- The commits that every step of every run makes, as functions. postgres/functions.py says why, and
-- replaces the names in braces. Each function returns true if its preconditions held and everything
-- was written, and false if not. They run with the rights of the caller.
--
-- A function that checks a fence locks the row of the run first. What a later statement reads is then
-- current, and cannot change before the transaction ends.

CREATE OR REPLACE FUNCTION nottwice.holds_run_{digest}(epoch bigint, holder text, run text)
RETURNS boolean LANGUAGE plpgsql {settings} AS $$
BEGIN
  PERFORM 1 FROM nottwice.runs AS r
    WHERE r.workflow_id = $3 AND r.epoch = $1 AND r.holder_id = $2 FOR SHARE;
  RETURN FOUND AND current_setting('synchronous_commit') <> 'off';
END
$$;

-- A new call. No call before in_doubt_from may be in doubt, so a call that is older takes the slower
-- way.
CREATE OR REPLACE FUNCTION nottwice.write_intent_{digest}(bigint, text, {intent_types})
RETURNS boolean LANGUAGE plpgsql {settings} AS $$
BEGIN
  PERFORM 1 FROM nottwice.runs AS r
    WHERE r.workflow_id = $3 AND r.epoch = $1 AND r.holder_id = $2 AND r.in_doubt_from <= $8
    FOR SHARE;
  IF NOT FOUND OR current_setting('synchronous_commit') = 'off' THEN
    RETURN false;
  END IF;
  INSERT INTO nottwice.tool_call_results ({intent_columns}) SELECT {intent_values}
    WHERE NOT EXISTS (SELECT 1 FROM nottwice.reviews WHERE {blocked_run} = $3)
    ON CONFLICT DO NOTHING;
  RETURN FOUND;
END
$$;

CREATE OR REPLACE FUNCTION nottwice.write_call_{digest}(bigint, text, {call_types})
RETURNS boolean LANGUAGE plpgsql {settings} AS $$
BEGIN
  PERFORM 1 FROM nottwice.runs AS r
    WHERE r.workflow_id = $3 AND r.epoch = $1 AND r.holder_id = $2 AND r.in_doubt_from <= $8
    FOR SHARE;
  IF NOT FOUND OR current_setting('synchronous_commit') = 'off' THEN
    RETURN false;
  END IF;
  INSERT INTO nottwice.tool_call_results ({call_columns}) SELECT {call_values}
    WHERE NOT EXISTS (SELECT 1 FROM nottwice.reviews WHERE {blocked_run} = $3)
    ON CONFLICT DO NOTHING;
  RETURN FOUND;
END
$$;

-- The result of an attempt. The call is found as the first one from its key on, in the order of the
-- key. In another query the planner might search all calls of the run.
CREATE OR REPLACE FUNCTION nottwice.write_receipt_{digest}(bigint, text, {receipt_types})
RETURNS boolean LANGUAGE plpgsql {settings} AS $$
BEGIN
  PERFORM 1 FROM nottwice.runs AS r
    WHERE r.workflow_id = $3 AND r.epoch = $1 AND r.holder_id = $2 FOR SHARE;
  IF NOT FOUND OR current_setting('synchronous_commit') = 'off' THEN
    RETURN false;
  END IF;
  UPDATE nottwice.tool_call_results AS t
     SET {receipt_changes}, failure_json = NULL, retry_at = NULL, settled_by = NULL
   WHERE t.ctid = (
           SELECT ctid FROM nottwice.tool_call_results
            WHERE (workflow_id, node_id, checkpoint_id, tool_name, input_hash)
                  >= ($3, $4, $5, $6, $7)
            ORDER BY workflow_id, node_id, checkpoint_id, tool_name, input_hash LIMIT 1)
     AND t.workflow_id = $3 AND t.node_id = $4 AND t.checkpoint_id = $5 AND t.tool_name = $6
     AND t.input_hash = $7 AND t.attempt_id = $8 AND t.status = 'PENDING';
  RETURN FOUND;
END
$$;

-- Pending writes are written if, and only if, the commit that they belong to was.
CREATE OR REPLACE FUNCTION nottwice.write_pending_{digest}(boolean, {step_types}, {checkpoint_types})
RETURNS boolean LANGUAGE plpgsql {settings} AS $$
BEGIN
  IF $1 THEN
    INSERT INTO nottwice.steps ({step_columns}) SELECT * FROM unnest({step_values}) {step_known};
    INSERT INTO nottwice.checkpoints ({checkpoint_columns})
      SELECT * FROM unnest({checkpoint_values}) {checkpoint_known};
  END IF;
  RETURN $1;
END
$$;
