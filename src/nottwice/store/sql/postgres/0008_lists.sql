-- Schema version 8: lists of runs.
--
-- runs_by_status   finds and counts the runs of a status, last changed first, and filters them (by a
--                  part of the id, by graph, only enqueued) without reading a run

CREATE INDEX runs_by_status ON nottwice.runs (status, updated_at DESC, workflow_id DESC)
  INCLUDE (epoch, graph_id);
