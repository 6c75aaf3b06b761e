-- The ledger on PostgreSQL, schema version 1.
--
-- All tables are in one separate schema, which is called nottwice unless the URL names another. Every
-- key begins with workflow_id, so that all rows of a run are stored together, even if a database is
-- distributed over machines. Times are microseconds since the epoch, UTC, by the clock of the writer.
-- Only lease_until is by the clock of the database, and it is compared with nothing else. Payloads
-- are JSON text written by nottwice, with the same characters as on every other store. Nothing in the
-- database names code. Texts compare by their bytes (collation C).
--
-- tool_call_results   one row per call: the intent before the effect, the receipt after it
-- runs                one row per run: its status, its holder and its epoch
-- steps               one row per step visit, written at its start and at its end
-- reviews             what a person must decide, and the decision
-- evidence            facts about a call in doubt; rows are only added
-- audit               who did what and why; rows are only added
-- checkpoints         one row per saved version of a run: complete (version = snapshot) or a delta
-- events              what was sent to a run by name; received once
-- graphs              every graph that ran here, as it was first recorded
-- holders             the processes that held runs, with what proves their death, and their lease
--
-- If the times of rows are equal, the column arrival tells their insertion order.

-- A receipt changes no indexed column, so it needs no new index entries as long as its page has room.
-- That is why calls in doubt have no index (see runs.in_doubt_from), and why pages are not filled
-- completely.
CREATE TABLE nottwice.tool_call_results (
  workflow_id      text COLLATE "C" NOT NULL,
  node_id          text COLLATE "C" NOT NULL,
  checkpoint_id    text COLLATE "C" NOT NULL,
  tool_name        text COLLATE "C" NOT NULL,
  input_hash       text COLLATE "C" NOT NULL,
  created_at       bigint NOT NULL,
  call_id          text COLLATE "C" NOT NULL,
  status           text COLLATE "C" NOT NULL
    CHECK (status IN ('PENDING', 'DONE', 'FAILED', 'UNKNOWN')),
  replay_class     text COLLATE "C" NOT NULL,
  attempt          bigint NOT NULL,
  attempt_id       text COLLATE "C" NOT NULL,
  holder_id        text COLLATE "C" NOT NULL,
  started_at       bigint NOT NULL,
  finished_at      bigint,
  retry_at         bigint,
  ambiguous        smallint NOT NULL DEFAULT 0,
  label            text COLLATE "C",
  idempotency_key  text COLLATE "C",
  key_since        bigint,
  window_seconds   double precision,
  trace_id         text COLLATE "C",
  settled_by       text COLLATE "C",
  result_kind      text COLLATE "C",
  args_json        text COLLATE "C" NOT NULL,
  result_json      text COLLATE "C",
  failure_json     text COLLATE "C",
  past_json        text COLLATE "C",
  arrival          bigint GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (workflow_id, node_id, checkpoint_id, tool_name, input_hash)
) WITH (fillfactor = 80);
CREATE INDEX tcr_workflow ON nottwice.tool_call_results (workflow_id, created_at);
CREATE INDEX tcr_key ON nottwice.tool_call_results (tool_name, idempotency_key, created_at)
  WHERE idempotency_key IS NOT NULL;

-- in_doubt_from: no call of the run that was created before this time is in doubt. It moves forward
-- from time to time, and back when an older call is tried again.
--
-- ready_at: since when a run of a graph without a holder can continue, or when it will be able to.
-- NULL: it has a holder, it is over, or it waits for something that has not arrived. Every commit that
-- changes it writes it, so that a worker queries small indexes, which contain no runs that are over or
-- wait for people, however many there are. It is a time by the clock of the writer. If it is not the
-- end of a wait (wake_at), the run can continue now, whatever the clock of the worker says: runs_early
-- is for runs whose writer's clock was ahead.
CREATE TABLE nottwice.runs (
  workflow_id    text COLLATE "C" NOT NULL PRIMARY KEY,
  status         text COLLATE "C" NOT NULL,
  epoch          bigint NOT NULL,
  holder_id      text COLLATE "C",
  created_at     bigint NOT NULL,
  updated_at     bigint NOT NULL,
  claimed_at     bigint,
  failure_json   text COLLATE "C",
  in_doubt_from  bigint NOT NULL DEFAULT 0,
  graph_id       text COLLATE "C",
  input_json     text COLLATE "C",
  parent_id      text COLLATE "C",
  root_id        text COLLATE "C",
  origin         text COLLATE "C",
  waits_json     text COLLATE "C",
  wake_at        bigint,
  ready_at       bigint
) WITH (fillfactor = 70);
CREATE INDEX runs_updated ON nottwice.runs (updated_at DESC, workflow_id DESC);
CREATE INDEX runs_children ON nottwice.runs (parent_id, created_at) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_queued ON nottwice.runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND epoch = 0;
CREATE INDEX runs_ready ON nottwice.runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND epoch > 0;
CREATE INDEX runs_early ON nottwice.runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND ready_at IS DISTINCT FROM wake_at;
CREATE INDEX runs_held ON nottwice.runs (holder_id)
  WHERE holder_id IS NOT NULL AND graph_id IS NOT NULL;

CREATE TABLE nottwice.steps (
  workflow_id    text COLLATE "C" NOT NULL,
  node_id        text COLLATE "C" NOT NULL,
  checkpoint_id  text COLLATE "C" NOT NULL,
  status         text COLLATE "C" NOT NULL,
  ordinal        bigint NOT NULL,
  started_at     bigint NOT NULL,
  finished_at    bigint,
  failure_json   text COLLATE "C",
  PRIMARY KEY (workflow_id, node_id, checkpoint_id)
) WITH (fillfactor = 80);

CREATE TABLE nottwice.reviews (
  workflow_id     text COLLATE "C" NOT NULL,
  review_id       text COLLATE "C" NOT NULL,
  kind            text COLLATE "C" NOT NULL,
  status          text COLLATE "C" NOT NULL,
  node_id         text COLLATE "C" NOT NULL,
  checkpoint_id   text COLLATE "C" NOT NULL,
  tool_name       text COLLATE "C" NOT NULL,
  input_hash      text COLLATE "C" NOT NULL,
  call_id         text COLLATE "C" NOT NULL,
  attempt_id      text COLLATE "C" NOT NULL,
  summary         text COLLATE "C" NOT NULL,
  opened_at       bigint NOT NULL,
  version         bigint NOT NULL,
  decision_json   text COLLATE "C",
  closed_by       text COLLATE "C",
  closed_at       bigint,
  about_json      text COLLATE "C",
  PRIMARY KEY (workflow_id, review_id)
);
CREATE UNIQUE INDEX reviews_id ON nottwice.reviews (review_id);
CREATE INDEX reviews_open ON nottwice.reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided');
-- The reviews that block a new effect. Questions of other branches do not, unless they were decided
-- with an abort.
CREATE INDEX reviews_blocking ON nottwice.reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided')
    AND (kind NOT IN ('question', 'approval') OR strpos(decision_json, '"abort"') > 0);

-- once: a hash of everything that makes two items the same. The texts may be too long for an index.
CREATE TABLE nottwice.evidence (
  workflow_id  text COLLATE "C" NOT NULL,
  once         text COLLATE "C" NOT NULL,
  call_id      text COLLATE "C" NOT NULL,
  attempt_id   text COLLATE "C" NOT NULL,
  at           bigint NOT NULL,
  source       text COLLATE "C" NOT NULL,
  text         text COLLATE "C" NOT NULL,
  result_kind  text COLLATE "C",
  result_json  text COLLATE "C",
  arrival      bigint GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (workflow_id, once)
);

CREATE TABLE nottwice.audit (
  workflow_id  text COLLATE "C" NOT NULL,
  once         text COLLATE "C" NOT NULL,
  at           bigint NOT NULL,
  who          text COLLATE "C" NOT NULL,
  action       text COLLATE "C" NOT NULL,
  subject      text COLLATE "C" NOT NULL,
  why          text COLLATE "C" NOT NULL,
  arrival      bigint GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (workflow_id, once)
);

CREATE TABLE nottwice.checkpoints (
  workflow_id    text COLLATE "C" NOT NULL,
  version        bigint NOT NULL,
  snapshot       bigint NOT NULL,
  node_id        text COLLATE "C" NOT NULL,
  created_at     bigint NOT NULL,
  state_json     text COLLATE "C" NOT NULL,
  PRIMARY KEY (workflow_id, version)
);

CREATE TABLE nottwice.events (
  workflow_id  text COLLATE "C" NOT NULL,
  event_id     text COLLATE "C" NOT NULL,
  name         text COLLATE "C" NOT NULL,
  event_json   text COLLATE "C" NOT NULL,
  sent_at      bigint NOT NULL,
  sent_by      text COLLATE "C" NOT NULL,
  received_by  text COLLATE "C",
  received_at  bigint,
  arrival      bigint GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (workflow_id, event_id)
);
CREATE INDEX events_waiting ON nottwice.events (workflow_id, name, sent_at)
  WHERE received_by IS NULL;

CREATE TABLE nottwice.graphs (
  graph_id         text COLLATE "C" NOT NULL PRIMARY KEY,
  definition_json  text COLLATE "C" NOT NULL,
  recorded_at      bigint NOT NULL
);

CREATE TABLE nottwice.holders (
  holder_id      text COLLATE "C" NOT NULL PRIMARY KEY,
  host           text COLLATE "C" NOT NULL,
  machine_id     text COLLATE "C" NOT NULL,
  boot_id        text COLLATE "C" NOT NULL,
  pid_namespace  text COLLATE "C" NOT NULL,
  pid            bigint NOT NULL,
  pid_started    text COLLATE "C" NOT NULL,
  since          bigint NOT NULL,
  lease_until    timestamptz NOT NULL
);
