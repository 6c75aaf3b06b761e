-- The statements that are different on SQLite; see shared.sql.

-- The insertion order of the rows of a table.
-- :_arrival
rowid

-- :_waits
json_each(waits_json) AS wait

-- :_wait_kind
json_extract(wait.value, '$.kind')

-- :_wait_subject
json_extract(wait.value, '$.subject')

-- :_kinds
(SELECT group_concat(kind) FROM (
    SELECT DISTINCT CASE WHEN EXISTS (
        SELECT 1 FROM nottwice.reviews AS v WHERE {_wait_kind} = 'review'
           AND v.review_id = {_wait_subject} AND v.status = 'decided')
      THEN 'decided' ELSE {_wait_kind} END AS kind FROM {_waits}))

-- :_is_given_tag
tag IN (SELECT value FROM json_each(:tags))

-- :_is_wanted_kind
kind IN (SELECT value FROM json_each(:kinds))

-- :_is_wanted_notice
notice_id IN (SELECT value FROM json_each(:notices))

-- All processes of a ledger are on one machine and share its clock.
-- :_now
:now

-- A writer is alone.
-- :_skipping_locked

-- :_steps_status
nottwice.steps.status

-- :some_runs
SELECT {runs} FROM nottwice.runs WHERE workflow_id IN (SELECT value FROM json_each(:run_ids))

-- The page is found in an index alone, and only its runs are read (P171).
-- :runs
SELECT {runs} FROM nottwice.runs WHERE workflow_id IN (
   SELECT workflow_id FROM nottwice.runs WHERE true {where}
    ORDER BY updated_at DESC, workflow_id DESC LIMIT :limit)
 ORDER BY updated_at DESC, workflow_id DESC

-- SQLite takes the other columns from the row with the greatest ordinal.
-- :last_visits
SELECT {steps}, count(*), max(ordinal) FROM nottwice.steps
 WHERE workflow_id = :workflow_id GROUP BY node_id ORDER BY max(ordinal)

-- :_can_continue
SELECT {runs}, ready_at FROM nottwice.runs
 WHERE ready_at IS NOT NULL AND graph_id NOT IN (SELECT value FROM json_each(:without))

-- The clock matters only for timers: if the clock was set back after a run was recorded, the run must
-- not wait until that time comes again.
-- :queued_runs
{_can_continue} AND epoch = 0 ORDER BY ready_at, workflow_id LIMIT :limit

-- :ready_runs
SELECT * FROM (
  {_can_continue} AND epoch > 0 AND ready_at IS NOT wake_at
   ORDER BY ready_at, workflow_id LIMIT :limit)
 UNION ALL
SELECT * FROM (
  {_can_continue} AND ready_at = wake_at AND ready_at <= :now
   ORDER BY ready_at, workflow_id LIMIT :limit)
 ORDER BY ready_at, workflow_id LIMIT :limit

-- How many runs of each graph are ready, said up to a limit, and since when the first one is. The
-- limit saves nothing here, because these indexes are in the order of workers, not of graphs; but
-- each is short: it takes 0.25 s to count a million runs.
-- :count_ready
SELECT graph_id, sum(counted), min(oldest) FROM (
  SELECT graph_id, min(count(*), :limit) AS counted, min(ready_at) AS oldest
    FROM nottwice.runs WHERE ready_at IS NOT NULL AND epoch = 0 GROUP BY graph_id
   UNION ALL
  SELECT graph_id, min(sum(counted), :limit), min(oldest) FROM (
    SELECT graph_id, count(*) AS counted, min(ready_at) AS oldest FROM nottwice.runs
     WHERE ready_at IS NOT NULL AND epoch > 0 AND ready_at IS NOT wake_at GROUP BY graph_id
     UNION ALL
    SELECT graph_id, count(*), min(ready_at) FROM nottwice.runs
     WHERE ready_at IS NOT NULL AND ready_at = wake_at AND ready_at <= :now GROUP BY graph_id)
   GROUP BY graph_id)
 GROUP BY graph_id ORDER BY graph_id

-- :holders_of_runs
SELECT DISTINCT holder_id FROM nottwice.runs
 WHERE holder_id IS NOT NULL AND graph_id IS NOT NULL ORDER BY holder_id

-- :holder
SELECT {holders} FROM nottwice.holders WHERE holder_id = :holder_id

-- :all_holders
SELECT {holders} FROM nottwice.holders

-- :add_holder
INSERT INTO nottwice.holders ({holders}) VALUES ({:holders}) ON CONFLICT DO NOTHING

-- What a commit reads before it is decided

-- :run_for_commit
SELECT {runs}, head, in_doubt_from FROM nottwice.runs WHERE workflow_id = :workflow_id

-- :fence_of_run
SELECT holder_id, epoch, head, in_doubt_from FROM nottwice.runs WHERE workflow_id = :workflow_id

-- :fence_and_block
SELECT holder_id, epoch, head, in_doubt_from, EXISTS (SELECT 1 {_may_block})
  FROM nottwice.runs WHERE workflow_id = :workflow_id

-- :newest_but
SELECT coalesce(max(version), -1) FROM nottwice.checkpoints
 WHERE workflow_id = :workflow_id AND version NOT IN (SELECT value FROM json_each(:dropped))

-- :key_conflict
SELECT {tool_call_results} FROM nottwice.tool_call_results
 WHERE tool_name = :tool_name AND idempotency_key = :idempotency_key
   AND input_hash <> :input_hash LIMIT 1

-- A question or an approval blocks only the branch that asked, so that a thousand branches can ask at
-- the same time. But one of them may be decided with an abort. Same condition as in the index.
-- :_may_block
FROM nottwice.reviews INDEXED BY nottwice_reviews_blocking
 WHERE workflow_id = :workflow_id AND status IN ('open', 'decided')
   AND (kind NOT IN ('question', 'approval') OR instr(decision_json, '"abort"') > 0)

-- :blocking_reviews
SELECT {reviews} {_may_block} ORDER BY opened_at, review_id

-- :remove_call
DELETE FROM nottwice.tool_call_results
 WHERE workflow_id = :workflow_id AND node_id = :node_id AND checkpoint_id = :checkpoint_id
   AND tool_name = :tool_name AND input_hash = :input_hash

-- Not OR IGNORE, which would silently drop rows that a constraint refuses.
-- :add_evidence
INSERT INTO nottwice.evidence ({evidence}) VALUES ({:evidence}) ON CONFLICT DO NOTHING

-- :add_audit
INSERT INTO nottwice.audit ({audit}) VALUES ({:audit}) ON CONFLICT DO NOTHING

-- The two usual commits of an effect, each as one statement that includes its preconditions: it
-- changes one row if they hold, and none if not (sqlite/quick.py). Every call executes the first two.
-- They name only the columns that matter, and take their parameters in order: passing a dict or None
-- to SQLite takes longer than passing a tuple of numbers and texts. Not by number, which Python
-- 3.12.0 to 3.12.3 warns of.

-- :quick_intent
INSERT INTO nottwice.tool_call_results (
    workflow_id, node_id, checkpoint_id, tool_name, input_hash, created_at, call_id, status,
    replay_class, attempt, attempt_id, holder_id, started_at, args_json)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
 WHERE EXISTS (SELECT 1 FROM nottwice.runs
                WHERE workflow_id = ? AND epoch = ? AND holder_id = ? AND in_doubt_from <= ?)
   AND NOT EXISTS (SELECT 1 FROM nottwice.reviews INDEXED BY nottwice_reviews_blocking
                    WHERE workflow_id = ? AND status IN ('open', 'decided')
                      AND (kind NOT IN ('question', 'approval')
                           OR instr(decision_json, '"abort"') > 0))
ON CONFLICT DO NOTHING

-- :quick_receipt
UPDATE nottwice.tool_call_results
   SET status = ?, finished_at = ?, result_json = ?, result_kind = ?,
       failure_json = NULL, retry_at = NULL, settled_by = NULL
 WHERE workflow_id = ? AND node_id = ? AND checkpoint_id = ? AND tool_name = ?
   AND input_hash = ? AND status = 'PENDING' AND attempt_id = ?
   AND EXISTS (SELECT 1 FROM nottwice.runs
                WHERE workflow_id = ? AND epoch = ? AND holder_id = ?)

-- The same for a row that has more columns than a usual intent.
-- :quick_call
INSERT INTO nottwice.tool_call_results ({tool_call_results})
SELECT {:tool_call_results}
 WHERE EXISTS (SELECT 1 FROM nottwice.runs
                WHERE workflow_id = :workflow_id AND epoch = :fence_epoch
                  AND holder_id = :fence_holder AND in_doubt_from <= :created_at)
   AND NOT EXISTS (SELECT 1 {_may_block})
ON CONFLICT DO NOTHING

-- :quick_change
UPDATE nottwice.tool_call_results
   SET {changing}
 WHERE workflow_id = :workflow_id AND node_id = :node_id AND checkpoint_id = :checkpoint_id
   AND tool_name = :tool_name AND input_hash = :input_hash
   AND status = :seen_status AND attempt_id = :seen_attempt
   AND EXISTS (SELECT 1 FROM nottwice.runs
                WHERE workflow_id = :workflow_id AND epoch = :fence_epoch
                  AND holder_id = :fence_holder AND in_doubt_from <= :created_at)

-- The first two with a seal. The head of the run is written afterwards, in the same transaction.
-- :sealed_intent
INSERT INTO nottwice.tool_call_results (
    nth, writes, seal, workflow_id, node_id, checkpoint_id, tool_name, input_hash, created_at,
    call_id, status, replay_class, attempt, attempt_id, holder_id, started_at, args_json)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
 WHERE EXISTS (SELECT 1 FROM nottwice.runs
                WHERE workflow_id = ? AND epoch = ? AND holder_id = ? AND in_doubt_from <= ?)
   AND NOT EXISTS (SELECT 1 FROM nottwice.reviews INDEXED BY nottwice_reviews_blocking
                    WHERE workflow_id = ? AND status IN ('open', 'decided')
                      AND (kind NOT IN ('question', 'approval')
                           OR instr(decision_json, '"abort"') > 0))
ON CONFLICT DO NOTHING

-- :sealed_receipt
UPDATE nottwice.tool_call_results
   SET nth = ?, writes = ?, seal = ?, status = ?, finished_at = ?, result_json = ?,
       result_kind = ?, failure_json = NULL, retry_at = NULL, settled_by = NULL
 WHERE workflow_id = ? AND node_id = ? AND checkpoint_id = ? AND tool_name = ?
   AND input_hash = ? AND status = 'PENDING' AND attempt_id = ?
   AND EXISTS (SELECT 1 FROM nottwice.runs
                WHERE workflow_id = ? AND epoch = ? AND holder_id = ?)

-- A version that is packed becomes shorter. Replaced, it is appended; updated where it is, it would
-- leave half of its page empty: 1,444 instead of 820 bytes a step of a list that grows.
-- :put_checkpoint
INSERT OR REPLACE INTO nottwice.checkpoints ({checkpoints}) VALUES ({?checkpoints})

-- The workers of a ledger are not those of its copy.
-- :forget_all_workers
DELETE FROM nottwice.workers

-- Created when the first limit is used. Nothing in it is worth keeping.
-- :limits_table
CREATE TABLE IF NOT EXISTS nottwice.limit_uses (
  meter      TEXT    NOT NULL,
  use_id     TEXT    NOT NULL,
  holder_id  TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  begins     INTEGER NOT NULL,
  held       INTEGER NOT NULL,
  PRIMARY KEY (meter, use_id)
) WITHOUT ROWID

-- A transaction that writes is alone here, and all processes have one clock.
-- :lock_meter
SELECT :meter

-- :limits_now
SELECT :now

-- :_notice_key
notice_id

-- :_charge_key
meter, call_id
