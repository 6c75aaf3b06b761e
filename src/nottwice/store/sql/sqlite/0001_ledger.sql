-- The ledger on SQLite, schema version 1.
--
-- Every key begins with workflow_id, so that all rows of a run are stored together. Times are
-- microseconds since the epoch, UTC. Payloads are JSON text written by nottwice; nothing in the
-- database names code. All tables except tool_call_results begin with nottwice_, so that the file can
-- also hold tables of other programs, such as the checkpoints of LangGraph's SqliteSaver.
--
-- tool_call_results         one row per call: the intent before the effect, the receipt after it
-- nottwice_runs             one row per run: its status, its holder and its epoch
-- nottwice_steps            one row per step visit, written at its start and at its end
-- nottwice_reviews          what a person must decide, and the decision
-- nottwice_evidence         facts about a call in doubt; rows are only added
-- nottwice_audit            who did what and why; rows are only added
-- nottwice_charges          what was charged to a meter for a call, if a policy counts
-- nottwice_checkpoints      one row per saved version of a run: complete (version = snapshot) or a delta
-- nottwice_events           what was sent to a run by name; received once
-- nottwice_graphs           every graph that ran here, as it was first recorded
-- nottwice_holders          the processes that held runs, with what proves them alive or dead
-- nottwice_run_tags         an index of the tags and the group of runs, as NAME=VALUE and =GROUP
-- nottwice_openings         one row per claim: who held the run, how it ended, what was saved
-- nottwice_tools            one row per tool that this ledger has seen, as it was last declared
-- nottwice_outbox           one row per fact that other processes should know
-- nottwice_workers          one row per worker, until it stops
-- nottwice_schema_version   one row per script, with the oldest schema whose code may use the ledger
--
-- If the times of rows are equal, the rowid tells their insertion order. In all tables:
-- seal          the id of a key, and a MAC over the content of the row; NULL: no key was given
-- traceparent   a trace context, as W3C writes it; NULL: not traced. Of an opening: the span about it. Of an
--               event: what its sender did. Of a run: the newest of its openings, or what enqueued it

-- Long texts come last, so that reading a status does not have to skip them. The check is not an IN
-- with a list, for which SQLite builds a temporary table at every write.
--
-- parent_call_id   the call whose body made this one; NULL: the code of the run made it
-- nth              the number of a call among the calls of its run, in the order they were written
-- writes           how often the row of a call was written
CREATE TABLE tool_call_results (
  workflow_id      TEXT    NOT NULL,
  node_id          TEXT    NOT NULL,
  checkpoint_id    TEXT    NOT NULL,
  tool_name        TEXT    NOT NULL,
  input_hash       TEXT    NOT NULL,
  created_at       INTEGER NOT NULL,
  call_id          TEXT    NOT NULL,
  status           TEXT    NOT NULL
    CHECK (status = 'PENDING' OR status = 'DONE' OR status = 'FAILED' OR status = 'UNKNOWN'),
  replay_class     TEXT    NOT NULL,
  attempt          INTEGER NOT NULL,
  attempt_id       TEXT    NOT NULL,
  holder_id        TEXT    NOT NULL,
  started_at       INTEGER NOT NULL,
  finished_at      INTEGER,
  retry_at         INTEGER,
  ambiguous        INTEGER NOT NULL DEFAULT 0,
  label            TEXT,
  idempotency_key  TEXT,
  key_since        INTEGER,
  window_seconds   REAL,
  trace_id         TEXT,
  settled_by       TEXT,
  parent_call_id   TEXT,
  nth              INTEGER NOT NULL DEFAULT 0,
  writes           INTEGER NOT NULL DEFAULT 1,
  seal             TEXT,
  result_kind      TEXT,
  args_json        TEXT    NOT NULL,
  result_json      TEXT,
  failure_json     TEXT,
  past_json        TEXT,
  PRIMARY KEY (workflow_id, node_id, checkpoint_id, tool_name, input_hash)
);
CREATE INDEX tcr_workflow ON tool_call_results (workflow_id, created_at);
CREATE INDEX tcr_key ON tool_call_results (tool_name, idempotency_key, created_at)
  WHERE idempotency_key IS NOT NULL;

-- in_doubt_from   no call of the run that was created before this time is in doubt. So calls in doubt
--                 are found quickly in a long run, without an index that every intent and every
--                 result would have to change. It moves forward from time to time, and back when an
--                 older call is tried again.
-- ready_at        since when a run of a graph without a holder can continue, or when it will be able
--                 to. NULL: it has a holder, it is over, or it waits for something that has not
--                 arrived. It equals wake_at exactly if the run waits for nothing but time. Every
--                 commit that changes it writes it, so that a worker queries small indexes, which
--                 contain no runs that are over or wait for people, however many there are.
-- head            what the calls and checkpoints of a run add up to, with a separate MAC
-- tags_json       what callers search a run by, as one JSON object; NULL: nothing
-- group_id        the group of runs that it belongs to; NULL: none
--
-- Long texts come late here, too: every commit reads the head, and an input may be megabytes. The
-- table has rowids for the same reason: a search in a table without them reads long rows completely.
-- Runs are searched by tags and groups in nottwice_run_tags.
CREATE TABLE nottwice_runs (
  workflow_id    TEXT    NOT NULL PRIMARY KEY,
  status         TEXT    NOT NULL,
  epoch          INTEGER NOT NULL,
  holder_id      TEXT,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  claimed_at     INTEGER,
  in_doubt_from  INTEGER NOT NULL DEFAULT 0,
  graph_id       TEXT,
  parent_id      TEXT,
  root_id        TEXT,
  origin         TEXT,
  wake_at        INTEGER,
  ready_at       INTEGER,
  seal           TEXT,
  head           TEXT,
  failure_json   TEXT,
  waits_json     TEXT,
  input_json     TEXT,
  tags_json      TEXT,
  group_id       TEXT,
  traceparent    TEXT
);
CREATE INDEX nottwice_runs_updated ON nottwice_runs (updated_at, workflow_id);
-- Finds and counts the runs of a status, last changed first, and filters them (by a part of the id,
-- by graph, only enqueued) without reading a run.
CREATE INDEX nottwice_runs_by_status
  ON nottwice_runs (status, updated_at, workflow_id, epoch, graph_id);
CREATE INDEX nottwice_runs_children ON nottwice_runs (parent_id, created_at)
  WHERE parent_id IS NOT NULL;
CREATE INDEX nottwice_runs_queued ON nottwice_runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND epoch = 0;
CREATE INDEX nottwice_runs_ready ON nottwice_runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND epoch > 0 AND ready_at IS NOT wake_at;
CREATE INDEX nottwice_runs_timed ON nottwice_runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND ready_at = wake_at;
CREATE INDEX nottwice_runs_held ON nottwice_runs (holder_id)
  WHERE holder_id IS NOT NULL AND graph_id IS NOT NULL;

-- Written with the run. An index of nottwice_runs itself would read the long input at every change of
-- a run.
CREATE TABLE nottwice_run_tags (
  tag          TEXT NOT NULL,
  workflow_id  TEXT NOT NULL,
  PRIMARY KEY (tag, workflow_id)
) WITHOUT ROWID;
CREATE INDEX nottwice_run_tags_run ON nottwice_run_tags (workflow_id);

-- ended        completed, failed, waiting, aborted, released, killed or taken over; NULL: not yet
-- receipts     how many calls returned their recorded result, with the tokens and dollars of model
--              replies among them; NULL: the holder was killed and could not say
-- duplicates   how many effects were asked for again and not made again; NULL: as for receipts
CREATE TABLE nottwice_openings (
  workflow_id  TEXT    NOT NULL,
  epoch        INTEGER NOT NULL,
  holder_id    TEXT    NOT NULL,
  began_at     INTEGER NOT NULL,
  ended_at     INTEGER,
  ended        TEXT,
  receipts     INTEGER,
  tokens       INTEGER,
  usd          REAL,
  traceparent  TEXT,
  duplicates   INTEGER,
  PRIMARY KEY (workflow_id, epoch)
) WITHOUT ROWID;

-- output_file   the file that the step named as its output; NULL: it named none
CREATE TABLE nottwice_steps (
  workflow_id    TEXT    NOT NULL,
  node_id        TEXT    NOT NULL,
  checkpoint_id  TEXT    NOT NULL,
  status         TEXT    NOT NULL,
  ordinal        INTEGER NOT NULL,
  started_at     INTEGER NOT NULL,
  finished_at    INTEGER,
  failure_json   TEXT,
  output_file    TEXT,
  seal           TEXT,
  PRIMARY KEY (workflow_id, node_id, checkpoint_id)
) WITHOUT ROWID;

-- about_json   what is shown to a person: the question and its options, or the call to approve
-- group_id     the group in which nothing new is sent while the review is open; NULL: none
CREATE TABLE nottwice_reviews (
  workflow_id     TEXT    NOT NULL,
  review_id       TEXT    NOT NULL,
  kind            TEXT    NOT NULL,
  status          TEXT    NOT NULL,
  node_id         TEXT    NOT NULL,
  checkpoint_id   TEXT    NOT NULL,
  tool_name       TEXT    NOT NULL,
  input_hash      TEXT    NOT NULL,
  call_id         TEXT    NOT NULL,
  attempt_id      TEXT    NOT NULL,
  summary         TEXT    NOT NULL,
  opened_at       INTEGER NOT NULL,
  version         INTEGER NOT NULL,
  decision_json   TEXT,
  closed_by       TEXT,
  closed_at       INTEGER,
  about_json      TEXT,
  seal            TEXT,
  group_id        TEXT,
  PRIMARY KEY (workflow_id, review_id)
) WITHOUT ROWID;
CREATE INDEX nottwice_reviews_open ON nottwice_reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided');
CREATE UNIQUE INDEX nottwice_reviews_id ON nottwice_reviews (review_id);
-- The reviews that block a new effect. Questions of other branches do not, unless decided to abort.
CREATE INDEX nottwice_reviews_blocking ON nottwice_reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided')
    AND (kind NOT IN ('question', 'approval') OR instr(decision_json, '"abort"') > 0);
CREATE INDEX nottwice_reviews_of_group ON nottwice_reviews (group_id, opened_at)
  WHERE group_id IS NOT NULL AND status = 'open' AND kind NOT IN ('question', 'approval', 'budget');

CREATE TABLE nottwice_evidence (
  workflow_id  TEXT    NOT NULL,
  call_id      TEXT    NOT NULL,
  attempt_id   TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  source       TEXT    NOT NULL,
  text         TEXT    NOT NULL,
  result_kind  TEXT,
  result_json  TEXT,
  seal         TEXT
);
CREATE UNIQUE INDEX nottwice_evidence_once
  ON nottwice_evidence (workflow_id, call_id, attempt_id, at, source, text);

CREATE TABLE nottwice_audit (
  workflow_id  TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  who          TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  subject      TEXT    NOT NULL,
  why          TEXT    NOT NULL,
  seal         TEXT
);
CREATE UNIQUE INDEX nottwice_audit_once
  ON nottwice_audit (workflow_id, at, who, action, subject, why);
-- The triggers prevent mistakes. They do not stop the owner of the file, who can drop them. They allow
-- writing seals, so that a ledger can be sealed later.
CREATE TRIGGER nottwice_audit_keeps_what_it_says
BEFORE UPDATE OF workflow_id, at, who, action, subject, why ON nottwice_audit
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is only ever added to');
END;
CREATE TRIGGER nottwice_audit_keeps_all_of_it BEFORE DELETE ON nottwice_audit
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is only ever added to');
END;

-- The key does not begin with the run: a meter counts calls of all runs.
CREATE TABLE nottwice_charges (
  workflow_id    TEXT    NOT NULL,
  node_id        TEXT    NOT NULL,
  checkpoint_id  TEXT    NOT NULL,
  tool_name      TEXT    NOT NULL,
  input_hash     TEXT    NOT NULL,
  meter          TEXT    NOT NULL,
  call_id        TEXT    NOT NULL,
  at             INTEGER NOT NULL,
  amount         INTEGER NOT NULL,
  if_failed      INTEGER NOT NULL DEFAULT 0,
  seal           TEXT,
  PRIMARY KEY (meter, call_id)
) WITHOUT ROWID;
CREATE INDEX nottwice_charges_at ON nottwice_charges (meter, at);

-- This table has rowids: a version is one row at the end of the table, however long its text is.
CREATE TABLE nottwice_checkpoints (
  workflow_id    TEXT    NOT NULL,
  version        INTEGER NOT NULL,
  snapshot       INTEGER NOT NULL,
  node_id        TEXT    NOT NULL,
  created_at     INTEGER NOT NULL,
  seal           TEXT,
  state_json     TEXT    NOT NULL,
  PRIMARY KEY (workflow_id, version)
);

CREATE TABLE nottwice_events (
  workflow_id  TEXT    NOT NULL,
  event_id     TEXT    NOT NULL,
  name         TEXT    NOT NULL,
  event_json   TEXT    NOT NULL,
  sent_at      INTEGER NOT NULL,
  sent_by      TEXT    NOT NULL,
  received_by  TEXT,
  received_at  INTEGER,
  seal         TEXT,
  traceparent  TEXT,
  PRIMARY KEY (workflow_id, event_id)
);
CREATE INDEX nottwice_events_waiting ON nottwice_events (workflow_id, name, sent_at)
  WHERE received_by IS NULL;

CREATE TABLE nottwice_graphs (
  graph_id         TEXT    NOT NULL PRIMARY KEY,
  definition_json  TEXT    NOT NULL,
  recorded_at      INTEGER NOT NULL,
  seal             TEXT
) WITHOUT ROWID;

-- lock_file   device and inode; a free byte of another file does not prove that a holder is dead
CREATE TABLE nottwice_holders (
  holder_id      TEXT    NOT NULL PRIMARY KEY,
  host           TEXT    NOT NULL,
  machine_id     TEXT    NOT NULL,
  boot_id        TEXT    NOT NULL,
  pid_namespace  TEXT    NOT NULL,
  pid            INTEGER NOT NULL,
  pid_started    TEXT    NOT NULL,
  since          INTEGER NOT NULL,
  lock_file      TEXT
) WITHOUT ROWID;

CREATE TABLE nottwice_tools (
  tool_name           TEXT    NOT NULL PRIMARY KEY,
  replay_class        TEXT    NOT NULL,
  recorded_at         INTEGER NOT NULL,
  summary             TEXT,
  place               TEXT,
  title               TEXT,
  look                TEXT,
  seal                TEXT,
  result_schema_json  TEXT
) WITHOUT ROWID;

-- Written by the commit that makes the fact true. Readers get each notice at least once. Removed with
-- its run.
--
-- kind        review_opened, review_decided, review_old, run_ready, run_failed or run_over
-- leased_by   the sender that is passing it on, until leased_until; sent_at: it was passed on
-- tries       how often a notice was taken; NULL: never
-- problem     why the last try failed. With sent_at: why the notice was given up
CREATE TABLE nottwice_outbox (
  notice_id     TEXT    NOT NULL PRIMARY KEY,
  kind          TEXT    NOT NULL,
  workflow_id   TEXT    NOT NULL,
  created_at    INTEGER NOT NULL,
  payload_json  TEXT    NOT NULL,
  leased_by     TEXT,
  leased_until  INTEGER,
  sent_at       INTEGER,
  tries         INTEGER,
  problem       TEXT
) WITHOUT ROWID;
CREATE INDEX nottwice_outbox_time ON nottwice_outbox (created_at, notice_id);
CREATE INDEX nottwice_outbox_run ON nottwice_outbox (workflow_id);
CREATE INDEX nottwice_outbox_due ON nottwice_outbox (kind, created_at) WHERE sent_at IS NULL;
CREATE INDEX nottwice_outbox_settled ON nottwice_outbox (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX nottwice_outbox_given_up ON nottwice_outbox (sent_at) WHERE problem IS NOT NULL;

-- It only informs: nottwice decides nothing by it.
--
-- graphs_json   the ids of the graphs that the worker has the code for
-- seen_at       when the worker was last heard from
CREATE TABLE nottwice_workers (
  presence_id  TEXT    NOT NULL PRIMARY KEY,
  holder_id    TEXT    NOT NULL,
  graphs_json  TEXT    NOT NULL,
  concurrency  INTEGER NOT NULL,
  started_at   INTEGER NOT NULL,
  seen_at      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE nottwice_schema_version (
  version  INTEGER NOT NULL PRIMARY KEY,
  needs    INTEGER NOT NULL
);
