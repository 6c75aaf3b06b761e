-- Schema version 2: how runs are found again, who held them, and what is known about tools.
--
-- nottwice_runs.tags_json     what callers search a run by, as one JSON object; NULL: nothing
-- nottwice_runs.group_id      the group of runs that it belongs to; NULL: none
-- nottwice_run_tags           an index of both, as NAME=VALUE and =GROUP; written with the run. An index of
--                             nottwice_runs itself would read the long input at every change of a run
-- nottwice_openings           one row per claim: who held the run, how it ended, what was saved
-- nottwice_tools              one row per tool that this ledger has seen, as it was last declared
-- nottwice_schema_version     one row per script, with the oldest schema whose code may use the ledger

ALTER TABLE nottwice_runs ADD COLUMN tags_json TEXT;
ALTER TABLE nottwice_runs ADD COLUMN group_id TEXT;

CREATE TABLE nottwice_run_tags (
  tag          TEXT NOT NULL,
  workflow_id  TEXT NOT NULL,
  PRIMARY KEY (tag, workflow_id)
) WITHOUT ROWID;
CREATE INDEX nottwice_run_tags_run ON nottwice_run_tags (workflow_id);

-- ended      completed, failed, waiting, aborted, released, killed or taken over; NULL: not yet
-- receipts   how many calls returned their recorded result, with the tokens and dollars of model
--            replies among them; NULL: the holder was killed and could not say
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
  PRIMARY KEY (workflow_id, epoch)
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

CREATE TABLE nottwice_schema_version (
  version  INTEGER NOT NULL PRIMARY KEY,
  needs    INTEGER NOT NULL
);
