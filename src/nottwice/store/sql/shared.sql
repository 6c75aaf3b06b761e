-- The statements that read a SQL ledger and that a commit executes, each written once, by name.
--
-- Both databases understand these. sqlite.sql and postgres.sql have the statements that differ.
-- Tables are named as in PostgreSQL, and parameters are written as :name. Names in braces are
-- replaced when nottwice starts (statements.py): {runs} by all columns of a table, {r.runs} by the
-- same with an alias, {:runs} by a parameter for each column, {?runs} by the same in the order of a
-- row (faster, for what every step writes), {?runs[]} by an array for each column, {::runs} by the
-- columns with their types, {excluded.runs} by the assignments of an upsert, {=w.receipt} by those from
-- the rows w, {_name} by a named part of a statement, and {where} by the conditions that a query may
-- have. {intent} and {receipt} are the columns that the two commits of a call write (effects.py).

-- Calls

-- :call
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id AND node_id = :node_id AND checkpoint_id = :checkpoint_id
   AND tool_name = :tool_name AND input_hash = :input_hash

-- :calls
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id ORDER BY created_at, {_arrival} LIMIT :limit

-- :_place_of_call
SELECT created_at, {_arrival} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id AND node_id = :node_id AND checkpoint_id = :checkpoint_id
   AND tool_name = :tool_name AND input_hash = :input_hash

-- :calls_after
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id AND (created_at, {_arrival}) > ({_place_of_call})
 ORDER BY created_at, {_arrival} LIMIT :limit

-- :last_calls
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id ORDER BY created_at DESC, {_arrival} DESC LIMIT :limit

-- :calls_before
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id AND (created_at, {_arrival}) < ({_place_of_call})
 ORDER BY created_at DESC, {_arrival} DESC LIMIT :limit

-- :count_calls
SELECT count(*) FROM nottwice.tool_call_results WHERE workflow_id = :workflow_id

-- :calls_in_doubt
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id AND status IN ('PENDING', 'UNKNOWN')
   AND created_at >= (SELECT in_doubt_from FROM nottwice.runs WHERE workflow_id = :workflow_id)
 ORDER BY created_at, {_arrival}

-- Completed and removed runs have no call in doubt, and most runs of a ledger are completed. Queued
-- runs have no call at all. SQLite keeps the order of a CROSS JOIN.
-- :all_calls_in_doubt
SELECT {t.tool_call_results} FROM nottwice.runs AS r CROSS JOIN nottwice.tool_call_results AS t
 WHERE t.workflow_id = r.workflow_id AND t.created_at >= r.in_doubt_from
   AND r.status IN ('running', 'waiting', 'idle', 'failed', 'aborted') AND r.epoch > 0
   AND t.status IN ('PENDING', 'UNKNOWN')
 ORDER BY t.created_at, t.{_arrival}

-- :calls_under
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id AND node_id >= :node_id AND node_id < :beyond
 ORDER BY created_at, {_arrival}

-- :calls_of_visit
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id AND node_id >= :node_id AND node_id < :beyond
   AND (checkpoint_id = :checkpoint_id
        OR checkpoint_id >= :inside_from AND checkpoint_id < :inside_to)
 ORDER BY created_at, {_arrival}

-- :last_use_of_key
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE tool_name = :tool_name AND idempotency_key = :idempotency_key
 ORDER BY created_at DESC, {_arrival} DESC LIMIT 1

-- What exists, by the same conditions as in the statements that read it.
-- :standing
SELECT EXISTS (
         SELECT 1 FROM nottwice.tool_call_results
          WHERE workflow_id = :workflow_id AND status IN ('PENDING', 'UNKNOWN')
            AND created_at >= (
              SELECT in_doubt_from FROM nottwice.runs WHERE workflow_id = :workflow_id)),
       EXISTS (
         SELECT 1 FROM nottwice.reviews
          WHERE workflow_id = :workflow_id AND status IN ('open', 'decided')),
       EXISTS (SELECT 1 FROM nottwice.events WHERE workflow_id = :workflow_id),
       EXISTS (SELECT 1 FROM nottwice.audit WHERE workflow_id = :ledger),
       (SELECT coalesce(max(ordinal), 0) FROM nottwice.steps WHERE workflow_id = :workflow_id)

-- Steps

-- :step
SELECT {steps} FROM nottwice.steps
 WHERE workflow_id = :workflow_id AND node_id = :node_id AND checkpoint_id = :checkpoint_id

-- :steps
SELECT {steps} FROM nottwice.steps
 WHERE workflow_id = :workflow_id AND ordinal > :ordinal ORDER BY ordinal

-- :steps_in_progress
SELECT {steps} FROM nottwice.steps
 WHERE workflow_id = :workflow_id AND +ordinal > :ordinal AND node_id = :node_id
   AND status = 'in_progress' ORDER BY ordinal

-- Reviews, evidence, audit

-- :review
SELECT {reviews} FROM nottwice.reviews WHERE review_id = :review_id

-- :reviews
SELECT {reviews} FROM nottwice.reviews
 WHERE workflow_id = :workflow_id ORDER BY opened_at, review_id

-- :all_reviews
SELECT {reviews} FROM nottwice.reviews ORDER BY opened_at, review_id

-- :open_reviews
SELECT {reviews} FROM nottwice.reviews
 WHERE workflow_id = :workflow_id AND status IN ('open', 'decided') ORDER BY opened_at, review_id

-- :all_open_reviews
SELECT {reviews} FROM nottwice.reviews
 WHERE status IN ('open', 'decided') ORDER BY opened_at, review_id

-- :find_reviews
SELECT {reviews} FROM nottwice.reviews
 WHERE substr(review_id, 1, length(CAST(:prefix AS text))) = CAST(:prefix AS text)
 ORDER BY review_id

-- The same conditions as in the index reviews_of_group.
-- :group_reviews
SELECT {reviews} FROM nottwice.reviews
 WHERE group_id = :group_id AND status = 'open' AND kind NOT IN ('question', 'approval', 'budget')
 ORDER BY opened_at, review_id

-- :notices
SELECT {outbox} FROM nottwice.outbox WHERE created_at >= :since
 ORDER BY created_at, notice_id LIMIT :limit

-- :notices_of_run
SELECT {outbox} FROM nottwice.outbox WHERE workflow_id = :workflow_id AND created_at >= :since
 ORDER BY created_at, notice_id LIMIT :limit

-- :add_notice
INSERT INTO nottwice.outbox ({outbox}) VALUES ({:outbox}) ON CONFLICT DO NOTHING

-- :notice
SELECT {outbox} FROM nottwice.outbox WHERE notice_id = :notice_id

-- :put_notice
INSERT INTO nottwice.outbox ({outbox}) VALUES ({:outbox})
ON CONFLICT ({_notice_key}) DO UPDATE SET leased_by = excluded.leased_by,
  leased_until = excluded.leased_until, sent_at = excluded.sent_at, tries = excluded.tries,
  problem = excluded.problem

-- :forget_notice
DELETE FROM nottwice.outbox WHERE notice_id = :notice_id

-- :_is_free
(leased_until IS NULL OR leased_until <= {_now})

-- The same conditions as in NoticeRecord.may_be_taken.
-- :due_notices
SELECT {outbox} FROM nottwice.outbox WHERE sent_at IS NULL AND {_is_wanted_kind} AND {_is_free}
 ORDER BY created_at, notice_id LIMIT :limit

-- :may_be_taken
SELECT {outbox} FROM nottwice.outbox
 WHERE sent_at IS NULL AND {_is_wanted_kind} AND ({_is_free} OR leased_by = :leased_by) {where}
 ORDER BY created_at, notice_id LIMIT :limit {_skipping_locked}

-- :_only_these
 AND {_is_wanted_notice}

-- :lease_notice
UPDATE nottwice.outbox SET leased_by = :leased_by, leased_until = {_now} + :lease_micros, tries = :tries
 WHERE notice_id = :notice_id RETURNING leased_until

-- :taken_by
SELECT notice_id FROM nottwice.outbox WHERE leased_by = :leased_by AND {_is_wanted_notice}

-- :settle_notice
UPDATE nottwice.outbox SET sent_at = :sent_at, leased_until = NULL, problem = :problem
 WHERE notice_id = :notice_id AND leased_by = :leased_by AND sent_at IS NULL

-- :return_notice
UPDATE nottwice.outbox SET leased_until = {_now} + :lease_micros, problem = :problem
 WHERE notice_id = :notice_id AND leased_by = :leased_by AND sent_at IS NULL

-- :settled_notices
SELECT {outbox} FROM nottwice.outbox WHERE sent_at >= :since AND {_is_wanted_kind}
 ORDER BY sent_at, notice_id

-- :given_up
SELECT {outbox} FROM nottwice.outbox
 WHERE sent_at >= :since AND problem IS NOT NULL AND {_is_wanted_kind} ORDER BY sent_at, notice_id

-- :_is_old
(sent_at < :settled_before OR created_at < :created_before)

-- :old_notices
SELECT notice_id FROM nottwice.outbox WHERE {_is_old} LIMIT :limit

-- :count_old_notices
SELECT count(*) FROM nottwice.outbox WHERE {_is_old}

-- Workers. They are seen by the clock of the server, where there is one.
-- :announce
INSERT INTO nottwice.workers ({workers})
VALUES (:presence_id, :holder_id, :graphs_json, :concurrency, :started_at, {_now})
ON CONFLICT (presence_id) DO UPDATE SET seen_at = excluded.seen_at

-- :workers
SELECT {workers}, {_now} FROM nottwice.workers ORDER BY started_at, presence_id

-- :forget_worker
DELETE FROM nottwice.workers WHERE presence_id = :presence_id

-- :count_open_reviews
SELECT status, count(*) FROM nottwice.reviews
 WHERE status IN ('open', 'decided') GROUP BY status

-- :pressing_reviews
-- In the order of DANGER in model/review.py. Ledgers up to schema 5 say 'unknown' for 'in doubt'.
SELECT {reviews} FROM nottwice.reviews
 WHERE status = 'open'
 ORDER BY CASE kind
          WHEN 'corrupt' THEN 0 WHEN 'in doubt' THEN 1 WHEN 'unknown' THEN 1
          WHEN 'restored' THEN 2 WHEN 'drift' THEN 3 WHEN 'result' THEN 4
          WHEN 'undeployable' THEN 5 WHEN 'approval' THEN 6 WHEN 'budget' THEN 7 ELSE 8 END,
          opened_at, review_id
 LIMIT :limit

-- :evidence
SELECT {evidence} FROM nottwice.evidence
 WHERE workflow_id = :workflow_id AND (CAST(:call_id AS text) IS NULL OR call_id = :call_id)
 ORDER BY at, {_arrival}

-- :audit
SELECT {audit} FROM nottwice.audit WHERE workflow_id = :workflow_id ORDER BY at, {_arrival}

-- :whole_audit
SELECT {audit} FROM nottwice.audit ORDER BY at, {_arrival}

-- Everything, table by table, to answer questions that have no statement.
-- :whole_runs
SELECT {runs} FROM nottwice.runs
-- :whole_tool_call_results
SELECT {tool_call_results} FROM nottwice.tool_call_results ORDER BY {_arrival}
-- :whole_steps
SELECT {steps} FROM nottwice.steps
-- :whole_reviews
SELECT {reviews} FROM nottwice.reviews
-- :whole_evidence
SELECT {evidence} FROM nottwice.evidence ORDER BY {_arrival}
-- :whole_charges
SELECT {charges} FROM nottwice.charges
-- :whole_checkpoints
SELECT {checkpoints} FROM nottwice.checkpoints
-- :whole_events
SELECT {events} FROM nottwice.events ORDER BY {_arrival}
-- :whole_graphs
SELECT {graphs} FROM nottwice.graphs
-- :whole_openings
SELECT {openings} FROM nottwice.openings
-- :whole_tools
SELECT {tools} FROM nottwice.tools
-- :whole_outbox
SELECT {outbox} FROM nottwice.outbox

-- Charges. If a call failed permanently, its charge counts only if it says so (rules.charged).

-- :_counts
(c.if_failed <> 0 OR NOT EXISTS (
   SELECT 1 FROM nottwice.tool_call_results AS t
    WHERE t.workflow_id = c.workflow_id AND t.node_id = c.node_id
      AND t.checkpoint_id = c.checkpoint_id AND t.tool_name = c.tool_name
      AND t.input_hash = c.input_hash AND t.status = 'FAILED' AND t.retry_at IS NULL))

-- :charged
SELECT CAST(coalesce(sum(amount), 0) AS bigint) FROM nottwice.charges AS c
 WHERE meter = :meter AND at > :since AND call_id <> :besides AND {_counts}

-- Checkpoints, events, graphs

-- A turned version depends on a later one, and that one on earlier versions that are not turned.
-- :chain
SELECT {c.checkpoints} FROM nottwice.checkpoints AS w
  LEFT JOIN nottwice.checkpoints AS later ON later.workflow_id = w.workflow_id
   AND later.version = w.snapshot AND w.snapshot > w.version
  JOIN nottwice.checkpoints AS c ON c.workflow_id = w.workflow_id
 WHERE w.workflow_id = :workflow_id AND w.version = :version
   AND c.version >= coalesce(
         later.snapshot, CASE WHEN w.snapshot < w.version THEN w.snapshot ELSE w.version END)
   AND c.version <= CASE WHEN w.snapshot > w.version THEN w.snapshot ELSE w.version END
   AND (c.snapshot <= c.version OR c.version >= w.version)
 ORDER BY c.version

-- :newest_chain
SELECT {checkpoints} FROM nottwice.checkpoints
 WHERE workflow_id = :workflow_id AND snapshot <= version
   AND version >= (SELECT snapshot FROM nottwice.checkpoints
                    WHERE workflow_id = :workflow_id ORDER BY version DESC LIMIT 1)
 ORDER BY version

-- The checkpoints without their texts.
-- :versions
SELECT workflow_id, version, snapshot, node_id, created_at, '', NULL FROM nottwice.checkpoints
 WHERE workflow_id = :workflow_id ORDER BY version

-- :events
SELECT {events} FROM nottwice.events
 WHERE workflow_id = :workflow_id AND (CAST(:name AS text) IS NULL OR name = :name)
 ORDER BY sent_at, {_arrival}

-- :event
SELECT {events} FROM nottwice.events WHERE workflow_id = :workflow_id AND event_id = :event_id

-- :graph
SELECT {graphs} FROM nottwice.graphs WHERE graph_id = :graph_id

-- :graphs
SELECT {graphs} FROM nottwice.graphs ORDER BY graph_id

-- Openings, tools

-- :openings
SELECT {openings} FROM nottwice.openings WHERE workflow_id = :workflow_id ORDER BY epoch

-- :tool
SELECT {tools} FROM nottwice.tools WHERE tool_name = :tool_name

-- :tools
SELECT {tools} FROM nottwice.tools ORDER BY tool_name

-- Runs

-- :run
SELECT {runs} FROM nottwice.runs WHERE workflow_id = :workflow_id

-- :children
SELECT {runs} FROM nottwice.runs WHERE parent_id = :parent_id ORDER BY created_at, workflow_id

-- :runs_held_by
SELECT {runs} FROM nottwice.runs
 WHERE holder_id = :holder_id AND graph_id IS NOT NULL ORDER BY claimed_at, workflow_id

-- :expired_runs
SELECT {runs} FROM nottwice.runs
 WHERE root_id IS NULL AND workflow_id > :after
   AND ((status IN ('idle', 'completed', 'failed', 'aborted') AND updated_at < :ended_before)
        OR (status = 'removed' AND wake_at <= :due_before))
 ORDER BY workflow_id LIMIT :limit

-- Conditions for a list of runs.
-- :_with_prefix
 AND substr(workflow_id, 1, length(CAST(:prefix AS text))) = CAST(:prefix AS text)
-- :_of_graph
 AND (graph_id = :graph OR rtrim(graph_id, '0123456789.') = CAST(:graph AS text) || '@')
-- :_of_status
 AND status = :status
-- :_only_queued
 AND epoch = 0
-- :_not_queued
 AND epoch > 0
-- :_with_tags
 AND workflow_id IN (SELECT workflow_id FROM nottwice.run_tags WHERE {_is_given_tag}
                      GROUP BY workflow_id HAVING count(*) = :number_of_tags)
-- :_before
 AND (updated_at, workflow_id) < (:before_at, :before_id)

-- Only runs that were begun have a holder. All others are counted in an index alone.
-- :count_runs
SELECT status, NULL, count(*), sum(CASE WHEN epoch = 0 THEN 1 ELSE 0 END) FROM nottwice.runs
 WHERE status <> 'running' {where} GROUP BY status
 UNION ALL
SELECT status, NULL, count(*), count(*) FROM nottwice.runs
 WHERE status = 'running' AND epoch = 0 {where} GROUP BY status
 UNION ALL
SELECT status, holder_id, count(*), CAST(0 AS bigint) FROM nottwice.runs
 WHERE status = 'running' AND epoch > 0 {where} GROUP BY status, holder_id

-- The state of runs, by version. Most runs are over. Those of graphs are counted in an index alone.
-- For the others the input is read when they are grouped, because it contains their version.
-- :_plain_input
CASE WHEN graph_id IS NULL THEN input_json END

-- :_groups_over
SELECT graph_id, NULL AS plain_input, status, false, '' AS kinds, false, count(*), CAST(0 AS bigint)
  FROM nottwice.runs
 WHERE status IN ('completed', 'aborted', 'removed') AND graph_id IS NOT NULL {where}
 GROUP BY graph_id, status
 UNION ALL
SELECT NULL, input_json, status, false, '', false, count(*), CAST(0 AS bigint) FROM nottwice.runs
 WHERE graph_id IS NULL AND status IN ('completed', 'aborted', 'removed') {where}
 GROUP BY input_json, status
 UNION ALL

-- In Python this is rules.has_arrived; the tests of stores compare the two.
-- :_has_come
EXISTS (
      SELECT 1 FROM {_waits}
       WHERE CASE {_wait_kind}
        WHEN 'review' THEN NOT EXISTS (
          SELECT 1 FROM nottwice.reviews AS v
           WHERE v.review_id = {_wait_subject} AND v.status = 'open')
        WHEN 'event' THEN EXISTS (
          SELECT 1 FROM nottwice.events AS e
           WHERE e.workflow_id = r.workflow_id
             AND e.name = {_wait_subject} AND e.received_by IS NULL)
        WHEN 'child' THEN NOT EXISTS (
          SELECT 1 FROM nottwice.runs AS child
           WHERE child.workflow_id = {_wait_subject}
             AND child.status IN ('running', 'waiting'))
        ELSE false END)

-- :_is_told
(coalesce(wake_at <= :now, false) OR {_has_come})

-- :waiting_groups
SELECT graph_id, plain_input, 'waiting', false, kinds, told, count(*), min(created_at) FROM (
  SELECT graph_id, created_at, {_plain_input} AS plain_input, {_kinds} AS kinds, {_is_told} AS told
    FROM nottwice.runs AS r WHERE status = 'waiting' {where}) AS waiting
 GROUP BY graph_id, plain_input, kinds, told

-- :groups
{_groups_over}
SELECT graph_id, {_plain_input}, status, epoch = 0, '', false, count(*), min(created_at)
  FROM nottwice.runs
 WHERE status IN ('running', 'idle', 'failed') {where}
 GROUP BY 1, 2, 3, 4
 UNION ALL
{waiting_groups}

-- :told_runs
SELECT {runs} FROM nottwice.runs AS r WHERE status = 'waiting' AND {_is_told} {where}
 ORDER BY updated_at DESC, workflow_id DESC LIMIT :limit

-- What a commit writes

-- :add_call
INSERT INTO nottwice.tool_call_results ({tool_call_results}) VALUES ({?tool_call_results})

-- The identity of a call, its key, class and arguments are never updated (P9).
-- :change_call
UPDATE nottwice.tool_call_results
   SET {changing}, writes = :writes, seal = :seal
 WHERE workflow_id = :workflow_id AND node_id = :node_id AND checkpoint_id = :checkpoint_id
   AND tool_name = :tool_name AND input_hash = :input_hash

-- :put_run
INSERT INTO nottwice.runs ({runs}) VALUES ({:runs})
ON CONFLICT (workflow_id) DO UPDATE SET {excluded.runs}

-- A run that is held or over is not ready, so ready_since need not be executed.
-- :put_held_run
INSERT INTO nottwice.runs ({runs}) VALUES ({:runs})
ON CONFLICT (workflow_id) DO UPDATE SET {excluded.runs}, ready_at = NULL

-- :add_tag
INSERT INTO nottwice.run_tags (tag, workflow_id) VALUES (:tag, :workflow_id) ON CONFLICT DO NOTHING

-- :remove_tags
DELETE FROM nottwice.run_tags WHERE workflow_id = :workflow_id

-- :add_opening
INSERT INTO nottwice.openings ({openings}) VALUES ({:openings}) ON CONFLICT DO NOTHING

-- :end_opening
UPDATE nottwice.openings
   SET ended_at = :ended_at, ended = :ended, receipts = :receipts, duplicates = :duplicates,
       tokens = :tokens, usd = :usd
 WHERE workflow_id = :workflow_id AND epoch = :epoch AND ended IS NULL

-- :trace_opening
UPDATE nottwice.openings SET traceparent = :traceparent
 WHERE workflow_id = :workflow_id AND epoch = :epoch

-- :trace_run
UPDATE nottwice.runs SET traceparent = :traceparent WHERE workflow_id = :workflow_id

-- :put_tool
INSERT INTO nottwice.tools ({tools}) VALUES ({:tools})
ON CONFLICT (tool_name) DO UPDATE SET {excluded.tools}

-- :update_run
UPDATE nottwice.runs
   SET status = :status, updated_at = :updated_at, failure_json = :failure_json,
       waits_json = :waits_json, wake_at = :wake_at
 WHERE workflow_id = :workflow_id

-- :release_run
UPDATE nottwice.runs
   SET status = :status, updated_at = :updated_at, failure_json = :failure_json,
       waits_json = :waits_json, wake_at = :wake_at, holder_id = NULL
 WHERE workflow_id = :workflow_id

-- :end_run
UPDATE nottwice.runs
   SET status = :status, updated_at = :updated_at, failure_json = :failure_json,
       waits_json = :waits_json, wake_at = :wake_at, holder_id = NULL, ready_at = NULL
 WHERE workflow_id = :workflow_id

-- :bind_run
UPDATE nottwice.runs SET graph_id = :graph_id, seal = :seal WHERE workflow_id = :workflow_id

-- :put_head
UPDATE nottwice.runs SET head = :head WHERE workflow_id = :workflow_id

-- Since when a run without a holder can continue: the same as rules.ready_since, except that it
-- equals wake_at only if the run waits for nothing but time.
-- :ready_since
UPDATE nottwice.runs AS r SET ready_at = CASE
    WHEN graph_id IS NULL OR origin IS NOT NULL OR holder_id IS NOT NULL THEN NULL
    WHEN status = 'running' THEN updated_at
    WHEN status <> 'waiting' THEN NULL
    WHEN {_has_come}
    THEN CASE WHEN wake_at = updated_at THEN updated_at - 1 ELSE updated_at END
    ELSE wake_at END
 WHERE workflow_id = :workflow_id

-- While a run has a holder, an event or a decision does not make it ready.
-- :ready_unless_held
{ready_since} AND holder_id IS NULL

-- :doubt_again
UPDATE nottwice.runs SET in_doubt_from = :in_doubt_from WHERE workflow_id = :workflow_id

-- :doubt_begins
UPDATE nottwice.runs AS r SET in_doubt_from = coalesce(
    (SELECT min(created_at) FROM nottwice.tool_call_results
      WHERE workflow_id = r.workflow_id AND created_at >= r.in_doubt_from
        AND status IN ('PENDING', 'UNKNOWN')),
    (SELECT max(created_at) FROM nottwice.tool_call_results WHERE workflow_id = r.workflow_id),
    in_doubt_from)
 WHERE workflow_id = :workflow_id

-- A delayed commit may still carry an earlier mark of a step, so a step that is done stays done.
-- :_step_known
ON CONFLICT (workflow_id, node_id, checkpoint_id) DO UPDATE
   SET status = excluded.status, finished_at = excluded.finished_at,
       failure_json = excluded.failure_json, output_file = excluded.output_file,
       seal = excluded.seal
 WHERE {_steps_status} <> 'done'

-- :put_step
INSERT INTO nottwice.steps ({steps}) VALUES ({?steps}) {_step_known}

-- :add_review
INSERT INTO nottwice.reviews ({reviews}) VALUES ({:reviews})

-- Only the columns of a decision, its use and its end: an operator may write no others.
-- :change_review
UPDATE nottwice.reviews
   SET status = :status, version = :version, decision_json = :decision_json,
       closed_by = :closed_by, closed_at = :closed_at, seal = :seal
 WHERE workflow_id = :workflow_id AND review_id = :review_id

-- :_checkpoint_known
ON CONFLICT (workflow_id, version) DO UPDATE
   SET snapshot = excluded.snapshot, node_id = excluded.node_id,
       created_at = excluded.created_at, state_json = excluded.state_json, seal = excluded.seal

-- :put_checkpoint
INSERT INTO nottwice.checkpoints ({checkpoints}) VALUES ({?checkpoints}) {_checkpoint_known}

-- :drop_checkpoint
DELETE FROM nottwice.checkpoints WHERE workflow_id = :workflow_id AND version = :version

-- :add_event
INSERT INTO nottwice.events ({events}) VALUES ({:events}) ON CONFLICT DO NOTHING

-- :take_event
UPDATE nottwice.events SET received_by = :received_by, received_at = :received_at, seal = :seal
 WHERE workflow_id = :workflow_id AND event_id = :event_id

-- :add_graph
INSERT INTO nottwice.graphs ({graphs}) VALUES ({:graphs}) ON CONFLICT DO NOTHING

-- :put_charge
INSERT INTO nottwice.charges ({charges}) VALUES ({:charges})
ON CONFLICT ({_charge_key}) DO UPDATE
   SET at = excluded.at, amount = excluded.amount, if_failed = excluded.if_failed,
       seal = excluded.seal

-- What retention removes. Audit entries are never removed.

-- :remove_step
DELETE FROM nottwice.steps
 WHERE workflow_id = :workflow_id AND node_id = :node_id AND checkpoint_id = :checkpoint_id

-- :remove_steps
DELETE FROM nottwice.steps WHERE workflow_id = :workflow_id
-- :remove_checkpoints
DELETE FROM nottwice.checkpoints WHERE workflow_id = :workflow_id
-- :remove_openings
DELETE FROM nottwice.openings WHERE workflow_id = :workflow_id
-- :remove_outbox
DELETE FROM nottwice.outbox WHERE workflow_id = :workflow_id
-- :remove_events
DELETE FROM nottwice.events WHERE workflow_id = :workflow_id
-- :remove_reviews
DELETE FROM nottwice.reviews WHERE workflow_id = :workflow_id
-- :remove_evidence
DELETE FROM nottwice.evidence WHERE workflow_id = :workflow_id

-- Finding what does not fit in a sealed ledger, and sealing existing rows (seal_walk.py)

-- :head
SELECT head FROM nottwice.runs WHERE workflow_id = :workflow_id

-- :run_and_head
SELECT {runs}, head FROM nottwice.runs WHERE workflow_id = :workflow_id

-- :totals
SELECT count(*), coalesce(sum(writes), 0) FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id

-- :newest_version
SELECT max(version) FROM nottwice.checkpoints WHERE workflow_id = :workflow_id

-- An event may be sent to a run before the run exists, but only an existing run receives one.
-- :strays
SELECT workflow_id FROM nottwice.tool_call_results
  WHERE workflow_id NOT IN (SELECT workflow_id FROM nottwice.runs)
 UNION SELECT workflow_id FROM nottwice.steps
  WHERE workflow_id NOT IN (SELECT workflow_id FROM nottwice.runs)
 UNION SELECT workflow_id FROM nottwice.reviews
  WHERE workflow_id NOT IN (SELECT workflow_id FROM nottwice.runs)
 UNION SELECT workflow_id FROM nottwice.evidence
  WHERE workflow_id NOT IN (SELECT workflow_id FROM nottwice.runs)
 UNION SELECT workflow_id FROM nottwice.charges
  WHERE workflow_id NOT IN (SELECT workflow_id FROM nottwice.runs)
 UNION SELECT workflow_id FROM nottwice.checkpoints
  WHERE workflow_id NOT IN (SELECT workflow_id FROM nottwice.runs)
 UNION SELECT workflow_id FROM nottwice.events
  WHERE received_by IS NOT NULL AND workflow_id NOT IN (SELECT workflow_id FROM nottwice.runs)

-- :early_events
SELECT {events} FROM nottwice.events
 WHERE workflow_id NOT IN (SELECT workflow_id FROM nottwice.runs)

-- All rows of a run in one table, in insertion order if that matters.
-- :all_tool_call_results_of_run
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id ORDER BY {_arrival}
-- :all_steps_of_run
SELECT {steps} FROM nottwice.steps WHERE workflow_id = :workflow_id
-- :all_reviews_of_run
SELECT {reviews} FROM nottwice.reviews WHERE workflow_id = :workflow_id
-- :all_evidence_of_run
SELECT {evidence} FROM nottwice.evidence WHERE workflow_id = :workflow_id ORDER BY {_arrival}
-- :all_audit_of_run
SELECT {audit} FROM nottwice.audit WHERE workflow_id = :workflow_id ORDER BY {_arrival}
-- :all_charges_of_run
SELECT {charges} FROM nottwice.charges WHERE workflow_id = :workflow_id
-- :all_checkpoints_of_run
SELECT {checkpoints} FROM nottwice.checkpoints WHERE workflow_id = :workflow_id
-- :all_openings_of_run
SELECT {openings} FROM nottwice.openings WHERE workflow_id = :workflow_id
-- :all_outbox_of_run
SELECT {outbox} FROM nottwice.outbox WHERE workflow_id = :workflow_id
-- :all_events_of_run
SELECT {events} FROM nottwice.events WHERE workflow_id = :workflow_id ORDER BY {_arrival}

-- :mark_tool_call_results
UPDATE nottwice.tool_call_results SET nth = :nth, seal = :seal
 WHERE workflow_id = :workflow_id AND node_id = :node_id AND checkpoint_id = :checkpoint_id
   AND tool_name = :tool_name AND input_hash = :input_hash
-- :mark_runs
UPDATE nottwice.runs SET seal = :seal WHERE workflow_id = :workflow_id
-- :mark_tools
UPDATE nottwice.tools SET seal = :seal WHERE tool_name = :tool_name
-- :mark_graphs
UPDATE nottwice.graphs SET seal = :seal WHERE graph_id = :graph_id
-- :mark_steps
UPDATE nottwice.steps SET seal = :seal
 WHERE workflow_id = :workflow_id AND node_id = :node_id AND checkpoint_id = :checkpoint_id
-- :mark_reviews
UPDATE nottwice.reviews SET seal = :seal
 WHERE workflow_id = :workflow_id AND review_id = :review_id
-- :mark_evidence
UPDATE nottwice.evidence SET seal = :seal
 WHERE workflow_id = :workflow_id AND call_id = :call_id AND attempt_id = :attempt_id AND at = :at
   AND source = :source AND text = :text
-- :mark_audit
UPDATE nottwice.audit SET seal = :seal
 WHERE workflow_id = :workflow_id AND at = :at AND who = :who AND action = :action
   AND subject = :subject AND why = :why
-- :mark_charges
UPDATE nottwice.charges SET seal = :seal
 WHERE workflow_id = :workflow_id AND meter = :meter AND call_id = :call_id
-- :mark_checkpoints
UPDATE nottwice.checkpoints SET seal = :seal
 WHERE workflow_id = :workflow_id AND version = :version
-- :mark_events
UPDATE nottwice.events SET seal = :seal
 WHERE workflow_id = :workflow_id AND event_id = :event_id

-- Limits (limits.py). What is in progress, or began not long ago, by the name of its meter.

-- :count_held
SELECT count(*) FROM nottwice.limit_uses
 WHERE meter = :meter AND held = 1 AND use_id <> :use_id

-- :nth_newest
SELECT at FROM nottwice.limit_uses
 WHERE meter = :meter AND at > :since AND begins = 1 AND use_id <> :use_id
 ORDER BY at DESC LIMIT 1 OFFSET :skipped

-- :add_use
INSERT INTO nottwice.limit_uses (meter, use_id, holder_id, at, begins, held)
VALUES (:meter, :use_id, :holder_id, :at, :begins, 1)
ON CONFLICT (meter, use_id) DO UPDATE SET holder_id = excluded.holder_id, held = 1

-- :end_use
UPDATE nottwice.limit_uses SET held = 0 WHERE meter = :meter AND use_id = :use_id

-- :end_uses_of
UPDATE nottwice.limit_uses SET held = 0 WHERE meter = :meter AND holder_id = :holder_id

-- :forget_uses
DELETE FROM nottwice.limit_uses WHERE meter = :meter AND held = 0 AND at <= :since

-- :holders_of_uses
SELECT DISTINCT holder_id FROM nottwice.limit_uses WHERE meter = :meter AND held = 1
