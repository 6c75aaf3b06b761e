-- Additive.
-- Schema version 7: which workers are there.
--
-- nottwice_workers              one row per worker, until it stops. It only informs: nottwice decides nothing by it
-- nottwice_workers.graphs_json  the ids of the graphs that the worker has the code for
-- nottwice_workers.seen_at      when the worker was last heard from

CREATE TABLE nottwice_workers (
  presence_id  TEXT    NOT NULL PRIMARY KEY,
  holder_id    TEXT    NOT NULL,
  graphs_json  TEXT    NOT NULL,
  concurrency  INTEGER NOT NULL,
  started_at   INTEGER NOT NULL,
  seen_at      INTEGER NOT NULL
) WITHOUT ROWID;
