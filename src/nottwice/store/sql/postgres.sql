-- The statements that are different on PostgreSQL; see shared.sql. Lists are passed as arrays.

-- The insertion order of the rows of a table.
-- :_arrival
arrival

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

-- :_is_wanted_kind
kind = ANY(:kinds::text[])

-- :_is_wanted_notice
notice_id = ANY(:notices::text[])

-- The clocks of takers on several machines differ, so leases are by the clock of the server.
-- :_now
CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)

-- :_skipping_locked
FOR UPDATE SKIP LOCKED

-- :_steps_status
steps.status

-- :some_runs
SELECT {runs} FROM nottwice.runs WHERE workflow_id = ANY(:run_ids::text[])

-- :runs
SELECT {runs} FROM nottwice.runs WHERE true {where}
 ORDER BY updated_at DESC, workflow_id DESC LIMIT :limit

-- :last_visits
SELECT * FROM (
  SELECT DISTINCT ON (node_id) {steps}, count(*) OVER (PARTITION BY node_id), ordinal AS last_ordinal
    FROM nottwice.steps WHERE workflow_id = :workflow_id ORDER BY node_id, ordinal DESC) AS last
 ORDER BY last_ordinal

-- The graphs of which a run is ready or waits for a time, each found by one step in an index.
-- :_queued_graphs
WITH RECURSIVE graphs AS (
  (SELECT graph_id FROM nottwice.runs WHERE ready_at IS NOT NULL AND epoch = 0
    ORDER BY graph_id LIMIT 1)
   UNION ALL
  SELECT (SELECT r.graph_id FROM nottwice.runs AS r
           WHERE r.ready_at IS NOT NULL AND r.epoch = 0 AND r.graph_id > graphs.graph_id
           ORDER BY r.graph_id LIMIT 1)
    FROM graphs WHERE graphs.graph_id IS NOT NULL)

-- :_ready_graphs
WITH RECURSIVE graphs AS (
  (SELECT graph_id FROM nottwice.runs WHERE ready_at IS NOT NULL AND epoch > 0
    ORDER BY graph_id LIMIT 1)
   UNION ALL
  SELECT (SELECT r.graph_id FROM nottwice.runs AS r
           WHERE r.ready_at IS NOT NULL AND r.epoch > 0 AND r.graph_id > graphs.graph_id
           ORDER BY r.graph_id LIMIT 1)
    FROM graphs WHERE graphs.graph_id IS NOT NULL)

-- Runs that are due by the clock of the caller, graph by graph.
-- :_due
SELECT ready.* FROM graphs CROSS JOIN LATERAL (SELECT {runs}, ready_at FROM nottwice.runs AS r

-- Runs that can continue although the clock of their writer was ahead of the caller's. Only the index
-- runs_early fits the other conditions, so runs that sleep are not read. The epoch is not compared by
-- "equals", which a server without statistics takes for so rare that it reads the whole table.
-- :_early
SELECT {runs}, ready_at FROM nottwice.runs
 WHERE graph_id <> ALL(:without::text[]) AND ready_at > :now AND ready_at IS DISTINCT FROM wake_at

-- :queued_runs
{_queued_graphs}
SELECT * FROM (
  ({_due} WHERE r.graph_id = graphs.graph_id AND r.ready_at <= :now AND r.epoch = 0
           ORDER BY r.ready_at, r.workflow_id LIMIT :limit)
     AS ready WHERE graphs.graph_id <> ALL(:without::text[]))
   UNION ALL
  ({_early} AND epoch + 0 <= 0 ORDER BY ready_at, workflow_id LIMIT :limit)) AS ready
 ORDER BY ready_at, workflow_id LIMIT :limit

-- Here the range is a range of pairs, in the order of the index. By "equals", a server without
-- statistics takes the runs of a graph for few, reads all of them, and sorts them.
-- :ready_runs
{_ready_graphs}
SELECT * FROM (
  ({_due} WHERE (r.graph_id, r.ready_at) >= (graphs.graph_id, 0)
             AND (r.graph_id, r.ready_at) <= (graphs.graph_id, :now)
             AND r.ready_at IS NOT NULL AND r.epoch > 0
           ORDER BY r.graph_id, r.ready_at, r.workflow_id LIMIT :limit)
     AS ready WHERE graphs.graph_id <> ALL(:without::text[]))
   UNION ALL
  ({_early} AND epoch + 0 > 0 ORDER BY ready_at, workflow_id LIMIT :limit)) AS ready
 ORDER BY ready_at, workflow_id LIMIT :limit

-- How many runs of each graph are ready, counted up to a limit, and since when the first one is.
-- :count_ready
WITH RECURSIVE queued AS (
  (SELECT graph_id FROM nottwice.runs WHERE ready_at IS NOT NULL AND epoch = 0
    ORDER BY graph_id LIMIT 1)
   UNION ALL
  SELECT (SELECT r.graph_id FROM nottwice.runs AS r
           WHERE r.ready_at IS NOT NULL AND r.epoch = 0 AND r.graph_id > queued.graph_id
           ORDER BY r.graph_id LIMIT 1)
    FROM queued WHERE queued.graph_id IS NOT NULL),
begun AS (
  (SELECT graph_id FROM nottwice.runs WHERE ready_at IS NOT NULL AND epoch > 0
    ORDER BY graph_id LIMIT 1)
   UNION ALL
  SELECT (SELECT r.graph_id FROM nottwice.runs AS r
           WHERE r.ready_at IS NOT NULL AND r.epoch > 0 AND r.graph_id > begun.graph_id
           ORDER BY r.graph_id LIMIT 1)
    FROM begun WHERE begun.graph_id IS NOT NULL)
SELECT graph_id, count(*), min(ready_at) FROM (
  SELECT found.* FROM queued CROSS JOIN LATERAL (
    SELECT graph_id, ready_at FROM nottwice.runs AS r
     WHERE r.graph_id = queued.graph_id AND r.ready_at <= :now AND r.epoch = 0
     ORDER BY r.ready_at, r.workflow_id LIMIT :limit) AS found
   UNION ALL
  SELECT found.* FROM begun CROSS JOIN LATERAL (
    SELECT graph_id, ready_at FROM nottwice.runs AS r
     WHERE r.graph_id = begun.graph_id AND r.ready_at <= :now AND r.epoch > 0
     ORDER BY r.ready_at, r.workflow_id LIMIT :limit) AS found
   UNION ALL
  (SELECT graph_id, ready_at FROM nottwice.runs
    WHERE ready_at > :now AND ready_at IS DISTINCT FROM wake_at
    ORDER BY ready_at, workflow_id LIMIT :limit)) AS ready
 GROUP BY graph_id ORDER BY graph_id

-- The holders of runs, each found by one step in an index. With DISTINCT, the whole table is read until
-- the server has analyzed it, at every look of every worker.
-- :_held
WITH RECURSIVE held AS (
  (SELECT holder_id FROM nottwice.runs WHERE holder_id IS NOT NULL AND graph_id IS NOT NULL
    ORDER BY holder_id LIMIT 1)
   UNION ALL
  SELECT (SELECT r.holder_id FROM nottwice.runs AS r
           WHERE r.graph_id IS NOT NULL AND r.holder_id > held.holder_id
           ORDER BY r.holder_id LIMIT 1)
    FROM held WHERE held.holder_id IS NOT NULL)

-- :holders_of_runs
{_held}
SELECT holder_id FROM held WHERE holder_id IS NOT NULL ORDER BY holder_id

-- Whether each holder of runs has a valid lease, and what proves its death.
-- :holders_and_leases
{_held}
SELECT {_h_holder_columns}, coalesce(h.lease_until > clock_timestamp(), false), held.holder_id
  FROM held LEFT JOIN nottwice.holders AS h ON h.holder_id = held.holder_id
 WHERE held.holder_id IS NOT NULL ORDER BY held.holder_id

-- :holder
SELECT {_holder_columns}, lease_until > clock_timestamp() FROM nottwice.holders
 WHERE holder_id = :holder_id

-- :lease_left
SELECT extract(epoch FROM lease_until - clock_timestamp()) FROM nottwice.holders
 WHERE holder_id = :holder_id

-- :living_holders
SELECT {_holder_columns} FROM nottwice.holders WHERE lease_until > clock_timestamp()

-- :_h_holder_columns
h.holder_id, h.host, h.machine_id, h.boot_id, h.pid_namespace, h.pid, h.pid_started, h.since, NULL

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

-- :known_notices
SELECT {outbox} FROM nottwice.outbox WHERE notice_id = ANY(:notices::text[])
 ORDER BY notice_id FOR UPDATE

-- :_charge_key
workflow_id, meter, call_id

-- :_notice_key
workflow_id, notice_id

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

-- The owner of the ledger has created it.
-- :limits_table
SELECT 1

-- :lock_meter
SELECT pg_advisory_xact_lock(hashtextextended('nottwice.runs' || ' limit ' || :meter, 0))

-- :limits_now
SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) + 0 * CAST(:now AS bigint)

-- Many runs in one statement (postgres/batch.py). The parameters are in order.

-- :_server
WITH server AS (SELECT pg_postmaster_start_time() = %s::timestamptz AS is_here)

-- :_durable
current_setting('synchronous_commit') <> 'off' AND (SELECT is_here FROM server)

-- Locked in one order, so that two processes do not wait for each other. A statement that waited for
-- a claim sees the run as the claim has left it.
-- :_held_run
JOIN (SELECT workflow_id, epoch, holder_id, in_doubt_from FROM nottwice.runs
       WHERE workflow_id = ANY(%s) ORDER BY workflow_id FOR SHARE) AS held
  ON held.workflow_id = w.workflow_id AND held.epoch = w.fence_epoch
 AND held.holder_id = w.fence_holder

-- :write_intents
{_server}
INSERT INTO nottwice.tool_call_results ({intent})
SELECT {w.intent}
  FROM unnest({?intent[]}, ?epoch[], ?holder_id[]) AS w({intent}, fence_epoch, fence_holder)
  {_held_run}
 WHERE held.in_doubt_from <= w.created_at AND {_durable}
   AND NOT EXISTS (SELECT 1 FROM nottwice.reviews WHERE {_blocked_run} = w.workflow_id)
ON CONFLICT DO NOTHING RETURNING call_id, attempt_id

-- :write_receipts
{_server}
UPDATE nottwice.tool_call_results AS t
   SET {=w.receipt}, failure_json = NULL, retry_at = NULL, settled_by = NULL
  FROM unnest({?receipt[]}, ?workflow_id[], ?node_id[], ?checkpoint_id[], ?tool_name[],
              ?input_hash[], ?attempt_id[], ?epoch[], ?holder_id[])
       AS w({receipt}, workflow_id, node_id, checkpoint_id, tool_name, input_hash, attempt_id,
            fence_epoch, fence_holder)
  {_held_run}
 WHERE t.workflow_id = w.workflow_id AND t.node_id = w.node_id
   AND t.checkpoint_id = w.checkpoint_id AND t.tool_name = w.tool_name
   AND t.input_hash = w.input_hash AND t.status = 'PENDING'
   AND t.attempt_id = w.attempt_id AND {_durable}
RETURNING t.call_id, t.attempt_id

-- A run that is only enqueued can be started since it was written, whatever was sent to it before.
-- :enqueue_runs
{_server},
added AS (
  INSERT INTO nottwice.runs ({runs}, ready_at)
  SELECT w.*, w.updated_at FROM unnest({?runs[]}) AS w({runs}) WHERE {_durable}
  ON CONFLICT DO NOTHING RETURNING workflow_id),
told AS (
  INSERT INTO nottwice.outbox ({outbox})
  SELECT o.* FROM unnest({?outbox[]}) AS o({outbox}) JOIN added USING (workflow_id)
  ON CONFLICT DO NOTHING),
tagged AS (
  INSERT INTO nottwice.run_tags (tag, workflow_id)
  SELECT t.* FROM unnest(%s::text[], %s::text[]) AS t(tag, workflow_id) JOIN added USING (workflow_id)
  ON CONFLICT DO NOTHING),
drawn AS (
  INSERT INTO nottwice.graphs ({graphs})
  SELECT g.* FROM unnest({?graphs[]}) AS g({graphs}) WHERE EXISTS (SELECT 1 FROM added)
  ON CONFLICT DO NOTHING)
SELECT workflow_id, '' FROM added

-- What a server and a process remember of each other (postgres/failover.py)

-- :_started_at
to_char(pg_postmaster_start_time() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US"+00"')

-- The system and the timeline of a server.
-- :_origin
CASE WHEN pg_is_in_recovery() THEN NULL
     ELSE (SELECT system_identifier || '/' ||
                  substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
             FROM pg_control_system()) END

-- :server_start
SELECT {_started_at}, NULL

-- :server_and_origin
SELECT {_started_at}, {_origin}

-- :server_and_lineage
SELECT {_started_at}, {_origin}, ({last_origin})

-- :last_origin
SELECT origin FROM nottwice.lineage ORDER BY arrival DESC LIMIT 1

-- :add_origin
INSERT INTO nottwice.lineage (origin) VALUES (:origin)

-- Each statement sees the latest commits, so reads after the lock see what the last holder left.
-- :read_committed
SET TRANSACTION ISOLATION LEVEL READ COMMITTED

-- :lock_lineage
SELECT set_config('lock_timeout', :lock_timeout, true), pg_advisory_xact_lock(:number)

-- :last_mark
SELECT subject, at, action FROM nottwice.audit
 WHERE workflow_id = :workflow_id AND action IN (:copied, :accounted_for)
 ORDER BY at DESC, arrival DESC LIMIT 1

-- At least as late as anything in the ledger, by the clocks of the writers: a run in the ledger was
-- created before, and an entry in it was written before.
-- :last_change
SELECT greatest(0, (SELECT max(updated_at) FROM nottwice.runs),
                (SELECT max(at) FROM nottwice.audit WHERE workflow_id = :workflow_id))

-- The holders with a lease at the end of the copy. The last renewal of any lease was before that.
-- :ask_holders
UPDATE nottwice.holders SET asked = :asked
 WHERE lease_until > least(coalesce(pg_last_xact_replay_timestamp(), '-infinity'),
   (SELECT max(lease_until) FROM nottwice.holders) - :lease_seconds * interval '1 second')

-- :found_as
SELECT 1 FROM nottwice.audit
 WHERE workflow_id = :workflow_id AND action = :action AND subject = :subject AND why = :why

-- :vouch_for_all
UPDATE nottwice.holders SET asked = NULL WHERE holder_id = :holder_id AND asked = :asked RETURNING 1

-- :still_asked
SELECT count(*) FROM nottwice.holders WHERE asked = :asked

-- :lease_is_there
SELECT lease_until = :lease_until::timestamptz, clock_timestamp() < :lease_until::timestamptz
  FROM nottwice.holders WHERE holder_id = :holder_id

-- :holder_of_run
SELECT epoch, holder_id, status FROM nottwice.runs WHERE workflow_id = :workflow_id

-- :lock_holder_of_run
{holder_of_run} FOR UPDATE

-- :take_away
UPDATE nottwice.runs SET epoch = greatest(epoch, :epoch) + 1, holder_id = NULL
 WHERE workflow_id = :workflow_id AND holder_id = :holder_id

-- Whether a commit is there. The parameters are in order.
-- :call_is_there
SELECT 1 FROM nottwice.tool_call_results
 WHERE workflow_id = ?workflow_id AND node_id = ?node_id AND checkpoint_id = ?checkpoint_id
   AND tool_name = ?tool_name AND input_hash = ?input_hash AND attempt_id = ?attempt_id
   AND ?status IN (status, 'PENDING')

-- :checkpoint_is_there
SELECT 1 FROM nottwice.checkpoints
 WHERE workflow_id = ?workflow_id AND version = ?version AND created_at = ?created_at

-- :step_is_there
SELECT 1 FROM nottwice.steps
 WHERE workflow_id = ?workflow_id AND node_id = ?node_id AND checkpoint_id = ?checkpoint_id
   AND status IN (?status, 'done')

-- :review_is_there
SELECT 1 FROM nottwice.reviews WHERE review_id = ?review_id AND version >= ?version

-- :update_is_there
SELECT 1 FROM nottwice.runs WHERE workflow_id = ?workflow_id AND updated_at >= ?updated_at

-- :audit_is_there
SELECT 1 FROM nottwice.audit WHERE workflow_id = ?workflow_id AND once = %s

-- :evidence_is_there
SELECT 1 FROM nottwice.evidence WHERE workflow_id = ?workflow_id AND once = %s

-- :event_is_there
SELECT 1 FROM nottwice.events WHERE workflow_id = ?workflow_id AND event_id = ?event_id

-- The schema, and what the server is set to (postgres/schema.py). The parameters are in order.

-- :limit_lock_wait
SELECT set_config('lock_timeout', %s, true)

-- :lock_schema
SELECT pg_advisory_xact_lock(%s)

-- :count_tables
SELECT count(*), count(*) FILTER (WHERE c.relname = 'schema_version')
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm')

-- :schema_version
SELECT coalesce(max(version), 0), coalesce(max(coalesce(needs, version)), 0)
  FROM nottwice.schema_version

-- :schema_exists
SELECT to_regnamespace(%s) IS NOT NULL

-- :create_schema
CREATE SCHEMA IF NOT EXISTS nottwice

-- :function_exists
SELECT to_regproc(%s) IS NOT NULL

-- :add_version
INSERT INTO nottwice.schema_version (version, needs) VALUES (%s, %s)

-- :synchronous_commit
SELECT current_setting('synchronous_commit')

-- :has_standbys
SELECT current_setting('synchronous_standby_names') <> ''

-- :disk_settings
SELECT current_setting('fsync'), current_setting('full_page_writes')

-- :server_version
SELECT version()

-- :server_encoding
SELECT current_setting('server_encoding')
