-- The statements that are different on PostgreSQL; see shared.sql. Lists are passed as arrays.

-- :_waits
json_array_elements(waits_json::json) AS wait

-- :_wait_kind
wait ->> 'kind'

-- :_wait_subject
wait ->> 'subject'

-- :_kinds
(SELECT string_agg(DISTINCT CASE WHEN EXISTS (
      SELECT 1 FROM nottwice.reviews AS v WHERE {_wait_kind} = 'review'
         AND v.review_id = {_wait_subject} AND v.status = 'decided')
    THEN 'decided' ELSE {_wait_kind} END, ',')
    FROM {_waits})

-- :_is_given_tag
tag = ANY(:tags::text[])

-- :_steps_status
steps.status

-- :runs
SELECT {runs} FROM nottwice.runs WHERE true {where}
 ORDER BY updated_at DESC, workflow_id DESC LIMIT :limit

-- :last_visits
SELECT * FROM (
  SELECT DISTINCT ON (node_id) {steps}, count(*) OVER (PARTITION BY node_id), ordinal AS last_ordinal
    FROM nottwice.steps WHERE workflow_id = :workflow_id ORDER BY node_id, ordinal DESC) AS last
 ORDER BY last_ordinal

-- Runs that are due by the clock of the caller, and runs that can continue although the clock of
-- their writer was ahead of it.
-- :_can_continue
SELECT {runs}, ready_at FROM nottwice.runs WHERE graph_id <> ALL(:without::text[])

-- :queued_runs
SELECT * FROM (
  ({_can_continue} AND ready_at <= :now AND epoch = 0 ORDER BY ready_at, workflow_id LIMIT :limit)
   UNION ALL
  ({_can_continue} AND ready_at > :now AND ready_at IS DISTINCT FROM wake_at AND epoch = 0
    ORDER BY ready_at, workflow_id LIMIT :limit)) AS ready
 ORDER BY ready_at, workflow_id LIMIT :limit

-- :ready_runs
SELECT * FROM (
  ({_can_continue} AND ready_at <= :now AND epoch > 0 ORDER BY ready_at, workflow_id LIMIT :limit)
   UNION ALL
  ({_can_continue} AND ready_at > :now AND ready_at IS DISTINCT FROM wake_at AND epoch > 0
    ORDER BY ready_at, workflow_id LIMIT :limit)) AS ready
 ORDER BY ready_at, workflow_id LIMIT :limit

-- :holder
SELECT {_holder_columns}, lease_until > clock_timestamp() FROM nottwice.holders
 WHERE holder_id = :holder_id

-- :lease_left
SELECT extract(epoch FROM lease_until - clock_timestamp()) FROM nottwice.holders
 WHERE holder_id = :holder_id

-- :living_holders
SELECT {_holder_columns} FROM nottwice.holders WHERE lease_until > clock_timestamp()

-- Here a lease proves that a holder is alive, and not a lock on a file.
-- :_holder_columns
holder_id, host, machine_id, boot_id, pid_namespace, pid, pid_started, since, NULL

-- Only on the server that this process knows: on another one, the old lease shows what was lost.
-- :renew_lease
INSERT INTO nottwice.holders AS h (
    holder_id, host, machine_id, boot_id, pid_namespace, pid, pid_started, since, lease_until)
SELECT :holder_id, :host, :machine_id, :boot_id, :pid_namespace, :pid, :pid_started, :since,
       clock_timestamp() + :lease_seconds * interval '1 second'
 WHERE {_here}
ON CONFLICT (holder_id) DO UPDATE SET lease_until = excluded.lease_until
RETURNING to_char(h.lease_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US"+00"'),
          coalesce(:lease_until::timestamptz < clock_timestamp(), false)

-- Records a holder that is asked about a copy and never vouches for it (postgres/failover.py).
-- :object_to_copy
INSERT INTO nottwice.holders (
    holder_id, host, machine_id, boot_id, pid_namespace, pid, pid_started, since, lease_until, asked)
VALUES (:holder_id, :host, :machine_id, :boot_id, :pid_namespace, :pid, :pid_started, :since,
        clock_timestamp(), :asked)
ON CONFLICT (holder_id) DO UPDATE SET asked = excluded.asked

-- Whether this is the server that a commit is meant for, by its start time (postgres/failover.py).
-- :_here
pg_postmaster_start_time() = :server::timestamptz

-- What a commit locks and reads before it is decided

-- The limits below keep a connection that is stuck in a transaction from blocking others forever.
-- :begin
BEGIN ISOLATION LEVEL READ COMMITTED

-- :limits
SELECT set_config('lock_timeout', :lock_timeout, true),
       set_config('idle_in_transaction_session_timeout', '20s', true),
       current_setting('synchronous_commit'), {_here}

-- :take_turns
SELECT pg_advisory_xact_lock(number) FROM unnest(:numbers::bigint[]) AS number

-- :runs_for_commit
SELECT {runs}, head, in_doubt_from FROM nottwice.runs
 WHERE workflow_id = ANY(:runs) ORDER BY workflow_id FOR UPDATE

-- :heads
SELECT workflow_id, head FROM nottwice.runs WHERE workflow_id = ANY(:runs)

-- The newest checkpoint of each run, without those that are about to be dropped.
-- :newest_but
SELECT c.workflow_id, max(c.version) FROM nottwice.checkpoints AS c
 WHERE c.workflow_id = ANY(:runs)
   AND NOT EXISTS (SELECT 1 FROM unnest(:dropped_of::text[], :dropped::bigint[]) AS w(run, version)
                    WHERE w.run = c.workflow_id AND w.version = c.version)
 GROUP BY c.workflow_id

-- :known_calls
SELECT {t.tool_call_results} FROM nottwice.tool_call_results AS t
  JOIN unnest(:runs::text[], :nodes::text[], :checkpoints::text[], :tools::text[], :hashes::text[])
       AS w(workflow_id, node_id, checkpoint_id, tool_name, input_hash)
 USING (workflow_id, node_id, checkpoint_id, tool_name, input_hash)

-- :key_conflicts
SELECT t.* FROM unnest(:tools::text[], :keys::text[], :hashes::text[]) AS w(tool_name, key, input_hash)
 CROSS JOIN LATERAL (
   SELECT {tool_call_results} FROM nottwice.tool_call_results
    WHERE tool_name = w.tool_name AND idempotency_key = w.key AND input_hash <> w.input_hash
    LIMIT 1) AS t

-- The run that a review blocks, if any. A question or an approval blocks only the branch that asked,
-- so that a thousand branches can ask at the same time. But one of them may be decided with an abort.
-- The same expression as in the index reviews_blocking.
-- :_blocked_run
CASE WHEN status IN ('open', 'decided')
 AND (kind NOT IN ('question', 'approval') OR strpos(decision_json, '"abort"') > 0)
 THEN workflow_id END

-- :blocking_reviews
SELECT {reviews} FROM nottwice.reviews WHERE {_blocked_run} = ANY(:runs)

-- :reviews_of_groups
SELECT {reviews} FROM nottwice.reviews
 WHERE group_id = ANY(:groups) AND status = 'open'
   AND kind NOT IN ('question', 'approval', 'budget')

-- :known_reviews
SELECT {reviews} FROM nottwice.reviews WHERE review_id = ANY(:reviews)

-- :known_events
SELECT {e.events} FROM nottwice.events AS e
  JOIN unnest(:runs::text[], :events::text[]) AS w(workflow_id, event_id)
 USING (workflow_id, event_id)

-- :known_charges
SELECT {c.charges} FROM nottwice.charges AS c
  JOIN unnest(:meters::text[], :since::bigint[]) AS w(meter, since)
    ON c.meter = w.meter AND c.at > w.since
 WHERE {_counts}

-- :remove_calls
DELETE FROM nottwice.tool_call_results AS t
 USING unnest(:runs::text[], :nodes::text[], :checkpoints::text[], :tools::text[], :hashes::text[])
       AS w(workflow_id, node_id, checkpoint_id, tool_name, input_hash)
 WHERE (t.workflow_id, t.node_id, t.checkpoint_id, t.tool_name, t.input_hash)
     = (w.workflow_id, w.node_id, w.checkpoint_id, w.tool_name, w.input_hash)

-- once: a hash of everything that makes two items the same. The texts may be too long for an index.
-- :add_evidence
INSERT INTO nottwice.evidence ({evidence}, once) VALUES ({:evidence}, :once) ON CONFLICT DO NOTHING

-- :add_audit
INSERT INTO nottwice.audit ({audit}, once) VALUES ({:audit}, :once) ON CONFLICT DO NOTHING

-- :known_audit
SELECT count(*) FROM nottwice.audit WHERE workflow_id = :workflow_id AND once = ANY(:onces)
