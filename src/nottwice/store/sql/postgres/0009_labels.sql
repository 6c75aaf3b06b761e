-- Schema version 9: how runs are found again, who held them, and what is known about tools.
--
-- runs.tags_json         what callers search a run by, as one JSON object; NULL: nothing
-- runs.group_id          the group of runs that it belongs to; NULL: none
-- run_tags               an index of both, as NAME=VALUE and =GROUP; written with the run
-- openings               one row per claim: who held the run, how it ended, what was saved
-- tools                  one row per tool that this ledger has seen, as it was last declared
-- schema_version.needs   the oldest schema whose code may use a ledger with this script; NULL: only its
--                        own

ALTER TABLE nottwice.runs ADD COLUMN tags_json text COLLATE "C";
ALTER TABLE nottwice.runs ADD COLUMN group_id text COLLATE "C";

CREATE TABLE nottwice.run_tags (
  tag          text COLLATE "C" NOT NULL,
  workflow_id  text COLLATE "C" NOT NULL,
  PRIMARY KEY (tag, workflow_id)
);
CREATE INDEX run_tags_run ON nottwice.run_tags (workflow_id);

-- ended      completed, failed, waiting, aborted, released, killed or taken over; NULL: not yet
-- receipts   how many calls returned their recorded result, with the tokens and dollars of model
--            replies among them; NULL: the holder was killed and could not say
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
  PRIMARY KEY (workflow_id, epoch)
) WITH (fillfactor = 80);

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

ALTER TABLE nottwice.schema_version ADD COLUMN needs integer;
