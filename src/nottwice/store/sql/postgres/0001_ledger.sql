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
-- run_tags            an index of the tags and the group of runs, as NAME=VALUE and =GROUP
-- openings            one row per claim: who held the run, how it ended, what was saved
-- steps               one row per step visit, written at its start and at its end
-- reviews             what a person must decide, and the decision
-- evidence            facts about a call in doubt; rows are only added
-- audit               who did what and why; rows are only added
-- charges             what was charged to a meter for a call, if a policy counts
-- checkpoints         one row per saved version of a run: complete (version = snapshot) or a delta
-- events              what was sent to a run by name; received once
-- graphs              every graph that ran here, as it was first recorded
-- holders             the processes that held runs, with what proves their death, and their lease
-- tools               one row per tool that this ledger has seen, as it was last declared
-- outbox              one row per fact that other processes should know
-- workers             one row per worker, until it stops
-- limit_uses          what is in progress under a limit, or began not long ago
-- lineage             one row for each database that the ledger has been in, newest last
-- schema_version      one row per script, with the oldest schema whose code may use the ledger
--
-- One index is unique over all runs (docs/internals/beyond-one-database.md): reviews_id, because people
-- type the id of a review.
--
-- If the times of rows are equal, the column arrival tells their insertion order. In all tables:
-- seal          the id of a key, and a MAC over the content of the row; NULL: no key was given
-- traceparent   a trace context, as W3C writes it; NULL: not traced. Of an opening: the span about it. Of an
--               event: what its sender did. Of a run: the newest of its openings, or what enqueued it

-- A receipt changes no indexed column, so it needs no new index entries as long as its page has room.
-- That is why calls in doubt have no index (see runs.in_doubt_from), and why pages are not filled
-- completely.
--
-- parent_call_id   the call whose body made this one; NULL: the code of the run did
-- nth              the number of a call among the calls of its run, in the order they were written
-- writes           how often the row of a call was written
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
  nth              bigint NOT NULL DEFAULT 0,
  writes           bigint NOT NULL DEFAULT 1,
  seal             text COLLATE "C",
  parent_call_id   text COLLATE "C",
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
--
-- head: what the calls and checkpoints of a run add up to, with a separate MAC
-- tags_json: what callers search a run by, as one JSON object; NULL: nothing
-- group_id: the group of runs that it belongs to; NULL: none
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
  ready_at       bigint,
  seal           text COLLATE "C",
  head           text COLLATE "C",
  tags_json      text COLLATE "C",
  group_id       text COLLATE "C",
  traceparent    text COLLATE "C"
) WITH (fillfactor = 70);
CREATE INDEX runs_updated ON nottwice.runs (updated_at DESC, workflow_id DESC);
CREATE INDEX runs_children ON nottwice.runs (parent_id, created_at) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_early ON nottwice.runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND ready_at IS DISTINCT FROM wake_at;
CREATE INDEX runs_held ON nottwice.runs (holder_id)
  WHERE holder_id IS NOT NULL AND graph_id IS NOT NULL;
-- Finds and counts the runs of a status, last changed first, and filters them (by a part of the id,
-- by graph, only enqueued) without reading a run.
CREATE INDEX runs_by_status ON nottwice.runs (status, updated_at DESC, workflow_id DESC)
  INCLUDE (epoch, graph_id);
-- The runs of each graph that are only enqueued, and those that were begun and can continue or wait for
-- a time. A worker reads only the runs of its own graphs, in their order, however many runs of other
-- graphs are before them.
CREATE INDEX runs_queued ON nottwice.runs (graph_id, ready_at, workflow_id)
  WHERE ready_at IS NOT NULL AND epoch = 0;
CREATE INDEX runs_ready ON nottwice.runs (graph_id, ready_at, workflow_id)
  WHERE ready_at IS NOT NULL AND epoch > 0;

-- Written with the run.
CREATE TABLE nottwice.run_tags (
  tag          text COLLATE "C" NOT NULL,
  workflow_id  text COLLATE "C" NOT NULL,
  PRIMARY KEY (workflow_id, tag)
);
CREATE INDEX run_tags_tag ON nottwice.run_tags (tag, workflow_id);

-- ended        completed, failed, waiting, aborted, released, killed or taken over; NULL: not yet
-- receipts     how many calls returned their recorded result, with the tokens and dollars of model
--              replies among them; NULL: the holder was killed and could not say
-- duplicates   how many effects were asked for again and not made again; NULL: as for receipts
CREATE TABLE nottwice.openings (
  workflow_id  text COLLATE "C" NOT NULL,
  epoch        bigint NOT NULL,
  holder_id    text COLLATE "C" NOT NULL,
  began_at     bigint NOT NULL,
  ended_at     bigint,
  ended        text COLLATE "C",
  receipts     bigint,
  tokens       bigint,
  usd          double precision,
  traceparent  text COLLATE "C",
  duplicates   bigint,
  PRIMARY KEY (workflow_id, epoch)
) WITH (fillfactor = 80);

-- output_file   the file that the step named as its output; NULL: it named none
CREATE TABLE nottwice.steps (
  workflow_id    text COLLATE "C" NOT NULL,
  node_id        text COLLATE "C" NOT NULL,
  checkpoint_id  text COLLATE "C" NOT NULL,
  status         text COLLATE "C" NOT NULL,
  ordinal        bigint NOT NULL,
  started_at     bigint NOT NULL,
  finished_at    bigint,
  failure_json   text COLLATE "C",
  seal           text COLLATE "C",
  output_file    text COLLATE "C",
  PRIMARY KEY (workflow_id, node_id, checkpoint_id)
) WITH (fillfactor = 80);

-- about_json   what is shown to a person: the question and its options, or the call to approve
-- group_id     the group in which nothing new is sent while the review is open; NULL: none
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
  seal            text COLLATE "C",
  group_id        text COLLATE "C",
  PRIMARY KEY (workflow_id, review_id)
);
CREATE UNIQUE INDEX reviews_id ON nottwice.reviews (review_id);
CREATE INDEX reviews_open ON nottwice.reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided');
-- The reviews that block a new effect. Questions of other branches do not, unless they were decided
-- with an abort. No other index has this expression, so no plan can use another index.
CREATE INDEX reviews_blocking ON nottwice.reviews ((
  CASE WHEN status IN ('open', 'decided')
        AND (kind NOT IN ('question', 'approval') OR strpos(decision_json, '"abort"') > 0)
       THEN workflow_id END))
  WHERE CASE WHEN status IN ('open', 'decided')
        AND (kind NOT IN ('question', 'approval') OR strpos(decision_json, '"abort"') > 0)
       THEN workflow_id END IS NOT NULL;
CREATE INDEX reviews_of_group ON nottwice.reviews (group_id, opened_at)
  WHERE group_id IS NOT NULL AND status = 'open' AND kind NOT IN ('question', 'approval', 'budget');

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
  seal         text COLLATE "C",
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
  seal         text COLLATE "C",
  PRIMARY KEY (workflow_id, once)
);

-- A meter counts calls of all runs, and a call is charged once per meter. The key comes last, because the
-- planner takes the newest of the indexes that look equally good, as all do on a new ledger.
CREATE TABLE nottwice.charges (
  workflow_id    text COLLATE "C" NOT NULL,
  node_id        text COLLATE "C" NOT NULL,
  checkpoint_id  text COLLATE "C" NOT NULL,
  tool_name      text COLLATE "C" NOT NULL,
  input_hash     text COLLATE "C" NOT NULL,
  meter          text COLLATE "C" NOT NULL,
  call_id        text COLLATE "C" NOT NULL,
  at             bigint NOT NULL,
  amount         bigint NOT NULL,
  if_failed      smallint NOT NULL DEFAULT 0,
  seal           text COLLATE "C"
);
CREATE INDEX charges_at ON nottwice.charges (meter, at);
ALTER TABLE nottwice.charges ADD PRIMARY KEY (workflow_id, meter, call_id);

CREATE TABLE nottwice.checkpoints (
  workflow_id    text COLLATE "C" NOT NULL,
  version        bigint NOT NULL,
  snapshot       bigint NOT NULL,
  node_id        text COLLATE "C" NOT NULL,
  created_at     bigint NOT NULL,
  state_json     text COLLATE "C" NOT NULL,
  seal           text COLLATE "C",
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
  seal         text COLLATE "C",
  traceparent  text COLLATE "C",
  PRIMARY KEY (workflow_id, event_id)
);
CREATE INDEX events_waiting ON nottwice.events (workflow_id, name, sent_at)
  WHERE received_by IS NULL;

CREATE TABLE nottwice.graphs (
  graph_id         text COLLATE "C" NOT NULL PRIMARY KEY,
  definition_json  text COLLATE "C" NOT NULL,
  recorded_at      bigint NOT NULL,
  seal             text COLLATE "C"
);

-- asked   the mark of a copy (an audit entry) for which this holder has not vouched yet
CREATE TABLE nottwice.holders (
  holder_id      text COLLATE "C" NOT NULL PRIMARY KEY,
  host           text COLLATE "C" NOT NULL,
  machine_id     text COLLATE "C" NOT NULL,
  boot_id        text COLLATE "C" NOT NULL,
  pid_namespace  text COLLATE "C" NOT NULL,
  pid            bigint NOT NULL,
  pid_started    text COLLATE "C" NOT NULL,
  since          bigint NOT NULL,
  lease_until    timestamptz NOT NULL,
  asked          text COLLATE "C"
);

CREATE TABLE nottwice.tools (
  tool_name           text COLLATE "C" NOT NULL PRIMARY KEY,
  replay_class        text COLLATE "C" NOT NULL,
  recorded_at         bigint NOT NULL,
  summary             text COLLATE "C",
  place               text COLLATE "C",
  title               text COLLATE "C",
  look                text COLLATE "C",
  seal                text COLLATE "C",
  result_schema_json  text COLLATE "C"
);

-- Written by the commit that makes the fact true. Readers get each notice at least once. Removed with
-- its run.
--
-- kind        review_opened, review_decided, review_old, run_ready, run_failed or run_over
-- leased_by   the sender that is passing it on, until leased_until; sent_at: it was passed on
-- tries       how often a notice was taken; NULL: never
-- problem     why the last try failed. With sent_at: why the notice was given up
CREATE TABLE nottwice.outbox (
  notice_id     text COLLATE "C" NOT NULL,
  kind          text COLLATE "C" NOT NULL,
  workflow_id   text COLLATE "C" NOT NULL,
  created_at    bigint NOT NULL,
  payload_json  text COLLATE "C" NOT NULL,
  leased_by     text COLLATE "C",
  leased_until  bigint,
  sent_at       bigint,
  tries         bigint,
  problem       text COLLATE "C",
  PRIMARY KEY (workflow_id, notice_id)
);
CREATE INDEX outbox_time ON nottwice.outbox (created_at, notice_id);
CREATE INDEX outbox_notice ON nottwice.outbox (notice_id);
CREATE INDEX outbox_due ON nottwice.outbox (kind, created_at) WHERE sent_at IS NULL;
CREATE INDEX outbox_settled ON nottwice.outbox (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX outbox_given_up ON nottwice.outbox (sent_at) WHERE problem IS NOT NULL;

-- It only informs: nottwice decides nothing by it.
--
-- graphs_json   the ids of the graphs that the worker has the code for
-- seen_at       when the worker was last heard from, by the clock of the server
CREATE TABLE nottwice.workers (
  presence_id  text COLLATE "C" NOT NULL PRIMARY KEY,
  holder_id    text COLLATE "C" NOT NULL,
  graphs_json  text COLLATE "C" NOT NULL,
  concurrency  bigint NOT NULL,
  started_at   bigint NOT NULL,
  seen_at      bigint NOT NULL
);

-- No part of the record (limits.py): at is by the clock of the database.
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

-- The history of the ledger. After a failover or a restore, a database may lack commits that were
-- reported as durable. postgres/failover.py uses this table and holders.asked to notice that.
--
-- origin   the system identifier and the timeline of the server
CREATE TABLE nottwice.lineage (
  arrival  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  origin   text COLLATE "C" NOT NULL,
  seen_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
DO $$
BEGIN
  INSERT INTO nottwice.lineage (origin)
    SELECT system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
      FROM pg_control_system();
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
  -- Some hosted databases do not say. Then only living processes can notice.
  NULL;
END
$$;

-- needs   NULL: only its own schema
CREATE TABLE nottwice.schema_version (
  version     integer NOT NULL PRIMARY KEY,
  applied_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  needs       integer
);
