-- What workers look for, schema version 3: the runs that can go on.
--
-- ready_at   since when a run of a graph can go on that nobody holds, or when it will be able to;
--            NULL: somebody holds it, it is over, or it waits for something that has not come.
--            It equals wake_at exactly if nothing but time has to pass.
--
-- It is written by every commit that changes it, so that a worker asks one small index, in which
-- runs that are over or wait for people do not stand, however many there are.

ALTER TABLE runs ADD COLUMN ready_at INTEGER;
-- A run that has come to wait may have been told already; a look too many changes nothing.
UPDATE runs SET ready_at = CASE
    WHEN status = 'waiting'
     AND NOT EXISTS (SELECT 1 FROM reviews
                      WHERE reviews.workflow_id = runs.workflow_id AND status = 'decided')
     AND NOT EXISTS (SELECT 1 FROM events
                      WHERE events.workflow_id = runs.workflow_id AND received_by IS NULL)
     AND NOT EXISTS (SELECT 1 FROM runs AS child WHERE child.parent_id = runs.workflow_id)
    THEN wake_at
    WHEN wake_at = updated_at THEN updated_at - 1
    ELSE updated_at END
 WHERE graph_id IS NOT NULL AND origin IS NULL AND holder_id IS NULL
   AND status IN ('running', 'waiting');
DROP INDEX runs_wake;
CREATE INDEX runs_queued ON runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND epoch = 0;
CREATE INDEX runs_ready ON runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND epoch > 0 AND ready_at IS NOT wake_at;
CREATE INDEX runs_timed ON runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND ready_at = wake_at;
CREATE INDEX runs_held ON runs (holder_id) WHERE holder_id IS NOT NULL AND graph_id IS NOT NULL;
