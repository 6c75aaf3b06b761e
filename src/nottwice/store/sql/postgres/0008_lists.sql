-- Lists of runs, schema version 8.
--
-- runs_by_status   finds the runs of a status, last changed first, counts them, and answers what a
--                  list is asked for (part of an id, a graph, only enqueued) without reading a run

CREATE INDEX runs_by_status ON nottwice.runs (status, updated_at DESC, workflow_id DESC)
  INCLUDE (epoch, graph_id);
