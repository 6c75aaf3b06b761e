-- The ledger on SQLite, schema version 1.
--
-- Every key begins with workflow_id, so that all rows of a run are stored together. Times are
-- microseconds since the epoch, UTC. Payloads are JSON text written by nottwice; nothing in the
-- database names code. All tables except tool_call_results begin with nottwice_, so that the file can
-- also hold tables of other programs, such as the checkpoints of LangGraph's SqliteSaver.
--
-- tool_call_results      one row per call: the intent before the effect, the receipt after it
-- nottwice_runs          one row per run: its status, its holder and its epoch
-- nottwice_steps         one row per step visit, written at its start and at its end
-- nottwice_reviews       what a person must decide, and the decision
-- nottwice_evidence      facts about a call in doubt; rows are only added
-- nottwice_audit         who did what and why; rows are only added
-- nottwice_charges       what was charged to a meter for a call, if a policy counts
-- nottwice_checkpoints   one row per saved version of a run: complete (version = snapshot) or a delta
-- nottwice_events        what was sent to a run by name; received once
-- nottwice_graphs        every graph that ran here, as it was first recorded
-- nottwice_holders       the processes that held runs, with what proves them alive or dead
--
-- If the times of rows are equal, the rowid tells their insertion order. In all tables:
-- seal      the id of a key, and a MAC over the content of the row; NULL: no key was given

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
--
-- Long texts come last here, too: every commit reads the head, and an input may be megabytes. The
-- table has rowids for the same reason: a search in a table without them reads long rows completely.
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
  input_json     TEXT
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
  PRIMARY KEY (workflow_id, review_id)
) WITHOUT ROWID;
CREATE INDEX nottwice_reviews_open ON nottwice_reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided');
CREATE UNIQUE INDEX nottwice_reviews_id ON nottwice_reviews (review_id);
-- The reviews that block a new effect. Questions of other branches do not, unless decided to abort.
CREATE INDEX nottwice_reviews_blocking ON nottwice_reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided')
    AND (kind NOT IN ('question', 'approval') OR instr(decision_json, '"abort"') > 0);

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

-- Unlike all other tables, the key does not begin with the run: a meter counts calls of all runs.
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
