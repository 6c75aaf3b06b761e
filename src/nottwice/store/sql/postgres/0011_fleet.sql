-- Schema version 11: how a fleet of workers finds its runs.
--
-- runs_queued   the runs of each graph that are only enqueued, and
-- runs_ready    those that were begun and can continue or wait for a time. A worker reads only the runs of
--               its own graphs, in their order, however many runs of other graphs are before them
-- limit_uses    what is in progress under a limit, or began not long ago (limits.py). No part of the
--               record: at is by the clock of the database

DROP INDEX nottwice.runs_queued;
DROP INDEX nottwice.runs_ready;
CREATE INDEX runs_queued ON nottwice.runs (graph_id, ready_at, workflow_id)
  WHERE ready_at IS NOT NULL AND epoch = 0;
CREATE INDEX runs_ready ON nottwice.runs (graph_id, ready_at, workflow_id)
  WHERE ready_at IS NOT NULL AND epoch > 0;

CREATE TABLE nottwice.limit_uses (
  meter      text COLLATE "C" NOT NULL,
  use_id     text COLLATE "C" NOT NULL,
  holder_id  text COLLATE "C" NOT NULL,
  at         bigint NOT NULL,
  begins     smallint NOT NULL,
  held       smallint NOT NULL,
  PRIMARY KEY (meter, use_id)
);
CREATE INDEX limit_uses_at ON nottwice.limit_uses (meter, at);
