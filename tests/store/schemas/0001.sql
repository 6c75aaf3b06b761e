BEGIN TRANSACTION;
CREATE TABLE audit (
  workflow_id  TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  who          TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  subject      TEXT    NOT NULL,
  why          TEXT    NOT NULL
);
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
INSERT INTO "evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','65145c1f0817c05d9170598ead40211a',1794749969822849,'ownership','holder 9e023baa is proven dead',NULL,NULL);
INSERT INTO "evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','65145c1f0817c05d9170598ead40211a',1794749969822981,'engine','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',NULL,NULL);
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
INSERT INTO "holders" VALUES('16a3ffe713504fd1ae99fe9e4ab05a8f','long-ago','long-ago','long-ago','long-ago',1,'1',1794749969316660);
INSERT INTO "holders" VALUES('62037ed44ab049be99b4f46f7353ccbc','long-ago','long-ago','long-ago','long-ago',1,'1',1794749969316660);
INSERT INTO "holders" VALUES('9e023baa39f6403c8d54106ddf1759a4','long-ago','long-ago','long-ago','long-ago',1,'1',1794749969316660);
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
INSERT INTO "reviews" VALUES('waiting','c9bd1c0c','unknown','open','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96','0b3146851abf2b3b18c01dfff7085cc7','65145c1f0817c05d9170598ead40211a','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',1794749969822981,1,NULL,NULL,NULL);
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
INSERT INTO "runs" VALUES('done','completed',1,NULL,1794749969414342,1794749969509792,1794749969414342,NULL,0);
INSERT INTO "runs" VALUES('in doubt','running',1,'62037ed44ab049be99b4f46f7353ccbc',1794749969753956,1794749969753956,1794749969753956,NULL,0);
INSERT INTO "runs" VALUES('waiting','waiting',2,NULL,1794749969633390,1794749969831830,1794749969804321,NULL,0);
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
INSERT INTO "steps" VALUES('done','pay','start/','done',1,1794749969422332,1794749969506878,NULL);
INSERT INTO "steps" VALUES('done','tell','start/','done',2,1794749969507038,1794749969509654,NULL);
INSERT INTO "steps" VALUES('in doubt','pay','start/','done',1,1794749969770746,1794749969789766,NULL);
INSERT INTO "steps" VALUES('in doubt','tell','start/','in_progress',2,1794749969790028,NULL,NULL);
INSERT INTO "steps" VALUES('waiting','pay','start/','done',1,1794749969648580,1794749969674950,NULL);
INSERT INTO "steps" VALUES('waiting','tell','start/','in_progress',2,1794749969675156,NULL,NULL);
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
INSERT INTO "tool_call_results" VALUES('done','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794749969484856,'956bdcbe96d0e3c3c395273d708bdbb9','DONE','idempotent_with_key',1,'183e5cef5a1e3b0feb8b4ac6a04b2a49','16a3ffe713504fd1ae99fe9e4ab05a8f',1794749969484856,1794749969505942,NULL,0,NULL,'pay-3',1794749969484856,3153600000.0,NULL,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('done','tell','start/','kept_mail','cde2c6fc07f7380c47e27c6f917486034f932ed371607356d319827ad14a3a82',1794749969508232,'eb416ca338ba62214b4ef8ba5656598f','DONE','unsafe_on_replay',1,'f3716cd628ff341d1ae1b2921fc3d720','16a3ffe713504fd1ae99fe9e4ab05a8f',1794749969508232,1794749969509099,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,'plain','{"to":"ann"}','"mailed ann"',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794749969657109,'b113980941743e9cd30889499795bae9','DONE','idempotent_with_key',1,'f5e685203e7894da3aa06fc84f9eea1a','9e023baa39f6403c8d54106ddf1759a4',1794749969657109,1794749969673988,NULL,0,NULL,'pay-3',1794749969484856,3153600000.0,NULL,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96',1794749969675401,'0b3146851abf2b3b18c01dfff7085cc7','PENDING','unsafe_on_replay',1,'65145c1f0817c05d9170598ead40211a','9e023baa39f6403c8d54106ddf1759a4',1794749969675401,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"to":"bob"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','pay','start/','kept_pay','cfffdf09bccf4a6136b4232ccf442edd05372b454ff140d206a460124c9d4fe2',1794749969771625,'ee1d8e37b5e06fb5899d280643c479a1','DONE','idempotent_with_key',1,'19cc6f559c963dcc788b63a504727882','62037ed44ab049be99b4f46f7353ccbc',1794749969771625,1794749969777897,NULL,0,NULL,'pay-2',1794749969771625,3153600000.0,NULL,NULL,'plain','{"order":2}','{"order":2}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','tell','start/','kept_mail','645a526478e8ef9881496bb795fd3a753f12a84689a3d4d81e860400983b40b7',1794749969790254,'7af50dfe803a8f4b4aa21d2b4537d78f','PENDING','unsafe_on_replay',1,'153d835033e97c7413561d8011cfded9','62037ed44ab049be99b4f46f7353ccbc',1794749969790254,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"to":"cy"}',NULL,NULL,NULL);
CREATE INDEX tcr_workflow ON tool_call_results (workflow_id, created_at);
CREATE INDEX tcr_key ON tool_call_results (tool_name, idempotency_key, created_at)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_updated ON runs (updated_at);
CREATE INDEX reviews_open ON reviews (workflow_id, opened_at) WHERE status IN ('open', 'decided');
CREATE UNIQUE INDEX reviews_id ON reviews (review_id);
CREATE UNIQUE INDEX evidence_once ON evidence (workflow_id, call_id, attempt_id, at, source, text);
CREATE UNIQUE INDEX audit_once ON audit (workflow_id, at, who, action, subject, why);
COMMIT;
PRAGMA application_id = 1852798002;
PRAGMA user_version = 1;
