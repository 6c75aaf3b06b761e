-- The ledger on SQLite, schema version 1.
--
-- Every key begins with workflow_id, so that everything about a run lies together. Times are
-- microseconds since the epoch, UTC. Payloads are JSON text written by nottwice; nothing in the
-- database names code.
--
-- tool_call_results   one row a call: the intent before the effect, the receipt after it
-- runs                one row a run: status, and who holds it since which epoch
-- steps               one row a step visit, marked at both ends
-- reviews             what a person must decide, and what was decided
-- evidence            what bears on a call in doubt; only ever added to
-- audit               who did what and why; only ever added to
-- holders             the processes that held runs, with what proves their life or death

-- Long texts come last: whoever looks for a status does not walk through them. The check is not an
-- IN with a list, for which SQLite builds a temporary table at every write.
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

-- in_doubt_from: no call of the run that was created before is in doubt. It is what makes calls in
-- doubt quick to find in a long run without an index of them, which every intent and every result
-- would have to change. It moves forward now and then, and back when an older call is tried again.
CREATE TABLE runs (
  workflow_id    TEXT    NOT NULL PRIMARY KEY,
  status         TEXT    NOT NULL,
  epoch          INTEGER NOT NULL,
  holder_id      TEXT,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  claimed_at     INTEGER,
  failure_json   TEXT,
  in_doubt_from  INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX runs_updated ON runs (updated_at);

CREATE TABLE steps (
  workflow_id    TEXT    NOT NULL,
  node_id        TEXT    NOT NULL,
  checkpoint_id  TEXT    NOT NULL,
  status         TEXT    NOT NULL,
  ordinal        INTEGER NOT NULL,
  started_at     INTEGER NOT NULL,
  finished_at    INTEGER,
  failure_json   TEXT,
  PRIMARY KEY (workflow_id, node_id, checkpoint_id)
) WITHOUT ROWID;

CREATE TABLE reviews (
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
  PRIMARY KEY (workflow_id, review_id)
) WITHOUT ROWID;
CREATE INDEX reviews_open ON reviews (workflow_id, opened_at) WHERE status IN ('open', 'decided');
CREATE UNIQUE INDEX reviews_id ON reviews (review_id);

CREATE TABLE evidence (
  workflow_id  TEXT    NOT NULL,
  call_id      TEXT    NOT NULL,
  attempt_id   TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  source       TEXT    NOT NULL,
  text         TEXT    NOT NULL,
  result_kind  TEXT,
  result_json  TEXT
);
CREATE UNIQUE INDEX evidence_once ON evidence (workflow_id, call_id, attempt_id, at, source, text);

CREATE TABLE audit (
  workflow_id  TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  who          TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  subject      TEXT    NOT NULL,
  why          TEXT    NOT NULL
);
CREATE UNIQUE INDEX audit_once ON audit (workflow_id, at, who, action, subject, why);

CREATE TABLE holders (
  holder_id      TEXT    NOT NULL PRIMARY KEY,
  host           TEXT    NOT NULL,
  machine_id     TEXT    NOT NULL,
  boot_id        TEXT    NOT NULL,
  pid_namespace  TEXT    NOT NULL,
  pid            INTEGER NOT NULL,
  pid_started    TEXT    NOT NULL,
  since          INTEGER NOT NULL
) WITHOUT ROWID;
