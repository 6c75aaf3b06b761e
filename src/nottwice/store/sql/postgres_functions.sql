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

-- The end of a run, with its opening and its notice. A run that has a parent or a group takes the slower
-- way, because others are told.
CREATE OR REPLACE FUNCTION nottwice.end_run_{digest}(bigint, text, {end_types})
RETURNS boolean LANGUAGE plpgsql {settings} AS $$
BEGIN
  PERFORM 1 FROM nottwice.runs AS r
    WHERE r.workflow_id = $3 AND r.epoch = $1 AND r.holder_id = $2 AND r.parent_id IS NULL
      AND r.group_id IS NULL FOR UPDATE;
  IF NOT FOUND OR current_setting('synchronous_commit') = 'off'
     OR $4 AND EXISTS (SELECT 1 FROM nottwice.reviews WHERE {blocked_run} = $3) THEN
    RETURN false;
  END IF;
  UPDATE nottwice.runs
     SET status = $5, updated_at = $6, failure_json = $7, waits_json = NULL, wake_at = NULL,
         holder_id = NULL, ready_at = NULL
   WHERE workflow_id = $3;
  UPDATE nottwice.openings
     SET ended_at = $8, ended = $9, receipts = $10, duplicates = $11, tokens = $12, usd = $13
   WHERE workflow_id = $3 AND epoch = $1 AND ended IS NULL;
  INSERT INTO nottwice.outbox (notice_id, kind, workflow_id, created_at, payload_json)
  VALUES ($14, $15, $3, $16, $17) ON CONFLICT DO NOTHING;
  RETURN true;
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

-- Claim runs that can continue, for a worker (postgres/claims.py). Rows that another transaction has
-- locked are skipped, so workers that look at the same moment claim different runs.
--
-- $1 the server that the caller knows, $2 the holder, $3 the time, $4 how many, $5 how many runs that
-- were begun come before the first new one (after it, three for each), $6 the graphs without their
-- patch numbers, $7 runs to leave out, $8 whether the caller has a key for sealed runs.
--
-- Each row is a run as it was before, what there is to reconcile (as in :standing), whether it was
-- claimed, and its place. A single row without a run says why nothing was tried.
CREATE OR REPLACE FUNCTION nottwice.claim_ready_{digest}(
  timestamptz, text, bigint, bigint, bigint, text[], text[], boolean)
RETURNS SETOF record LANGUAGE plpgsql {settings} AS $$
BEGIN
  IF pg_postmaster_start_time() <> $1 OR current_setting('synchronous_commit') = 'off' THEN
    RETURN QUERY SELECT {no_run}, false, false, false, false, 0::bigint,
      pg_postmaster_start_time() = $1, 0::bigint;
    RETURN;
  END IF;
  RETURN QUERY
  WITH RECURSIVE begun_graphs AS (
    (SELECT r.graph_id FROM nottwice.runs AS r WHERE r.ready_at IS NOT NULL AND r.epoch > 0
      ORDER BY r.graph_id LIMIT 1)
     UNION ALL
    SELECT (SELECT r.graph_id FROM nottwice.runs AS r
             WHERE r.ready_at IS NOT NULL AND r.epoch > 0 AND r.graph_id > g.graph_id
             ORDER BY r.graph_id LIMIT 1)
      FROM begun_graphs AS g WHERE g.graph_id IS NOT NULL),
  new_graphs AS (
    (SELECT r.graph_id FROM nottwice.runs AS r WHERE r.ready_at IS NOT NULL AND r.epoch = 0
      ORDER BY r.graph_id LIMIT 1)
     UNION ALL
    SELECT (SELECT r.graph_id FROM nottwice.runs AS r
             WHERE r.ready_at IS NOT NULL AND r.epoch = 0 AND r.graph_id > g.graph_id
             ORDER BY r.graph_id LIMIT 1)
      FROM new_graphs AS g WHERE g.graph_id IS NOT NULL),
  begun AS MATERIALIZED (
    SELECT c.* FROM begun_graphs AS g CROSS JOIN LATERAL (
        SELECT r.* FROM nottwice.runs AS r
         WHERE r.graph_id = g.graph_id AND r.ready_at IS NOT NULL AND r.ready_at <= $3
           AND r.epoch > 0 AND r.holder_id IS NULL AND r.workflow_id <> ALL($7)
         ORDER BY r.ready_at, r.workflow_id LIMIT $4 FOR UPDATE SKIP LOCKED) AS c
     WHERE rtrim(g.graph_id, '0123456789') = ANY($6)),
  queued AS MATERIALIZED (
    SELECT c.* FROM new_graphs AS g CROSS JOIN LATERAL (
        SELECT r.* FROM nottwice.runs AS r
         WHERE r.graph_id = g.graph_id AND r.ready_at IS NOT NULL AND r.ready_at <= $3
           AND r.epoch = 0 AND r.holder_id IS NULL AND r.workflow_id <> ALL($7)
         ORDER BY r.ready_at, r.workflow_id LIMIT $4 FOR UPDATE SKIP LOCKED) AS c
     WHERE rtrim(g.graph_id, '0123456789') = ANY($6)),
  early AS MATERIALIZED (
    SELECT r.* FROM nottwice.runs AS r
     WHERE r.ready_at IS NOT NULL AND r.ready_at > $3 AND r.ready_at IS DISTINCT FROM r.wake_at
       AND r.holder_id IS NULL AND rtrim(r.graph_id, '0123456789') = ANY($6)
       AND r.workflow_id <> ALL($7)
     ORDER BY r.ready_at, r.workflow_id LIMIT $4 FOR UPDATE SKIP LOCKED),
  listed AS (
    SELECT f.*, row_number() OVER (
             PARTITION BY f.epoch = 0 ORDER BY f.ready_at, f.workflow_id) - 1 AS nth
      FROM (SELECT * FROM begun UNION ALL SELECT * FROM queued UNION ALL SELECT * FROM early) AS f),
  picked AS MATERIALIZED (
    SELECT l.*, $8 OR l.head IS NULL AS may,
           CASE WHEN l.epoch = 0 THEN $5 + 4 * l.nth
                WHEN l.nth < $5 THEN l.nth
                ELSE l.nth + 1 + (l.nth - $5) / 3 END AS place
      FROM listed AS l ORDER BY place, l.epoch LIMIT $4),
  claimed AS (
    UPDATE nottwice.runs AS r
       SET status = 'running', epoch = p.epoch + 1, holder_id = $2, updated_at = $3,
           claimed_at = $3, failure_json = NULL, waits_json = NULL, wake_at = NULL, ready_at = NULL
      FROM picked AS p WHERE r.workflow_id = p.workflow_id AND p.may
    RETURNING r.workflow_id, r.epoch),
  opened AS (
    INSERT INTO nottwice.openings (workflow_id, epoch, holder_id, began_at)
    SELECT c.workflow_id, c.epoch, $2, $3 FROM claimed AS c ON CONFLICT DO NOTHING)
  SELECT {p_run},
         p.epoch > 0 AND EXISTS (
           SELECT 1 FROM nottwice.tool_call_results AS t
            WHERE t.workflow_id = p.workflow_id AND t.created_at >= p.in_doubt_from
              AND t.status IN ('PENDING', 'UNKNOWN')),
         EXISTS (SELECT 1 FROM nottwice.reviews AS v
                  WHERE v.workflow_id = p.workflow_id AND v.status IN ('open', 'decided')),
         EXISTS (SELECT 1 FROM nottwice.events AS e WHERE e.workflow_id = p.workflow_id),
         EXISTS (SELECT 1 FROM nottwice.audit AS a WHERE a.workflow_id = ''),
         CASE WHEN p.epoch = 0 THEN 0::bigint ELSE coalesce((
           SELECT max(s.ordinal) FROM nottwice.steps AS s
            WHERE s.workflow_id = p.workflow_id), 0) END,
         p.may AND c.workflow_id IS NOT NULL, p.place::bigint
    FROM picked AS p LEFT JOIN claimed AS c ON c.workflow_id = p.workflow_id
   ORDER BY p.place, p.epoch;
END
$$;
