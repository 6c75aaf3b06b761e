-- Lists of runs, schema version 9.
--
-- runs_by_status   finds the runs of a status, last changed first, counts them, and answers what a
--                  list is asked for (part of an id, a graph, only enqueued) without reading a run

CREATE INDEX runs_by_status ON runs (status, updated_at, workflow_id, epoch, graph_id);
