-- Additive.
-- Schema version 16: which workers are there.
--
-- workers              one row per worker, until it stops. It only informs: nottwice decides nothing by it
-- workers.graphs_json  the ids of the graphs that the worker has the code for
-- workers.seen_at      when the worker was last heard from, by the clock of the server

CREATE TABLE nottwice.workers (
  presence_id  text COLLATE "C" NOT NULL PRIMARY KEY,
  holder_id    text COLLATE "C" NOT NULL,
  graphs_json  text COLLATE "C" NOT NULL,
  concurrency  bigint NOT NULL,
  started_at   bigint NOT NULL,
  seen_at      bigint NOT NULL
);
