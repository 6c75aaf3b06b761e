-- Graphs, schema version 2: what a run needs to go on from where it was.
--
-- checkpoints   one row a saved version of a run: whole (version = snapshot), or what changed
-- events        what was told to a run by name; taken once
-- graphs        every graph that ran here, as it was when it was first seen

ALTER TABLE runs ADD COLUMN graph_id   TEXT;
ALTER TABLE runs ADD COLUMN input_json TEXT;
ALTER TABLE runs ADD COLUMN parent_id  TEXT;
ALTER TABLE runs ADD COLUMN root_id    TEXT;
ALTER TABLE runs ADD COLUMN origin     TEXT;
ALTER TABLE runs ADD COLUMN waits_json TEXT;
ALTER TABLE runs ADD COLUMN wake_at    INTEGER;
CREATE INDEX runs_children ON runs (parent_id, created_at) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;

-- What a person is shown: the question and its options, or the call to approve.
ALTER TABLE reviews ADD COLUMN about_json TEXT;
-- What keeps a new effect from happening: not the questions of other branches.
CREATE INDEX reviews_blocking ON reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided')
    AND (kind NOT IN ('question', 'approval') OR instr(decision_json, '"abort"') > 0);

-- With rowids: a version is one row at the end of the table, however long its text is.
CREATE TABLE checkpoints (
  workflow_id    TEXT    NOT NULL,
  version        INTEGER NOT NULL,
  snapshot       INTEGER NOT NULL,
  node_id        TEXT    NOT NULL,
  created_at     INTEGER NOT NULL,
  state_json     TEXT    NOT NULL,
  PRIMARY KEY (workflow_id, version)
);

CREATE TABLE events (
  workflow_id  TEXT    NOT NULL,
  event_id     TEXT    NOT NULL,
  name         TEXT    NOT NULL,
  event_json   TEXT    NOT NULL,
  sent_at      INTEGER NOT NULL,
  sent_by      TEXT    NOT NULL,
  received_by  TEXT,
  received_at  INTEGER,
  PRIMARY KEY (workflow_id, event_id)
);
CREATE INDEX events_waiting ON events (workflow_id, name, sent_at) WHERE received_by IS NULL;

CREATE TABLE graphs (
  graph_id         TEXT    NOT NULL PRIMARY KEY,
  definition_json  TEXT    NOT NULL,
  recorded_at      INTEGER NOT NULL
) WITHOUT ROWID;
