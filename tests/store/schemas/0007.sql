BEGIN TRANSACTION;
CREATE TABLE audit (
  workflow_id  TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  who          TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  subject      TEXT    NOT NULL,
  why          TEXT    NOT NULL
, seal   TEXT);
CREATE TABLE charges (
  workflow_id    TEXT    NOT NULL,
  node_id        TEXT    NOT NULL,
  checkpoint_id  TEXT    NOT NULL,
  tool_name      TEXT    NOT NULL,
  input_hash     TEXT    NOT NULL,
  meter          TEXT    NOT NULL,
  call_id        TEXT    NOT NULL,
  at             INTEGER NOT NULL,
  amount         INTEGER NOT NULL,
  if_failed      INTEGER NOT NULL DEFAULT 0, seal   TEXT,
  PRIMARY KEY (meter, call_id)
) WITHOUT ROWID;
CREATE TABLE checkpoints (
  workflow_id    TEXT    NOT NULL,
  version        INTEGER NOT NULL,
  snapshot       INTEGER NOT NULL,
  node_id        TEXT    NOT NULL,
  created_at     INTEGER NOT NULL,
  state_json     TEXT    NOT NULL, seal   TEXT,
  PRIMARY KEY (workflow_id, version)
);
INSERT INTO "checkpoints" VALUES('graph',0,0,'/',1794819639919660,'{"state":{},"position":{"node":"pay_first","visits":{"pay_first":1}}}',NULL);
INSERT INTO "checkpoints" VALUES('graph',1,1,'pay_first',1794819639951833,'{"state":{"paid":{"order":9}},"position":{"node":"ask_then","visits":{"pay_first":1,"ask_then":1}}}',NULL);
CREATE TABLE events (
  workflow_id  TEXT    NOT NULL,
  event_id     TEXT    NOT NULL,
  name         TEXT    NOT NULL,
  event_json   TEXT    NOT NULL,
  sent_at      INTEGER NOT NULL,
  sent_by      TEXT    NOT NULL,
  received_by  TEXT,
  received_at  INTEGER, seal   TEXT,
  PRIMARY KEY (workflow_id, event_id)
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
, seal   TEXT);
INSERT INTO "evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','ae872c73d4ef262bba0d480900000001',1794819639844923,'ownership','holder 7c5d958a is proven dead',NULL,NULL,NULL);
INSERT INTO "evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','ae872c73d4ef262bba0d480900000001',1794819639847632,'engine','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',NULL,NULL,NULL);
CREATE TABLE graphs (
  graph_id         TEXT    NOT NULL PRIMARY KEY,
  definition_json  TEXT    NOT NULL,
  recorded_at      INTEGER NOT NULL
, seal   TEXT) WITHOUT ROWID;
INSERT INTO "graphs" VALUES('kept-graph@1.0.0','{"name":"kept-graph","version":"1.0.0","nodes":[{"name":"pay_first","then":"ask_then","most":1000},{"name":"ask_then","then":"mail_last","most":1000},{"name":"mail_last","then":"$end","most":1000}],"append":[],"state":null,"tools":{"kept_mail":{"class":"unsafe_on_replay","arguments":{"properties":{"to":{"type":"string"}},"required":["to"]},"result":{"type":"string"}},"kept_pay":{"class":"idempotent_with_key","key":"pay-{order}","window_seconds":3153600000.0,"arguments":{"properties":{"order":{"type":"integer"}},"required":["order"]},"result":{"additionalProperties":{"type":"integer"},"type":"object"}}},"bodies":{"ask_then":"source:ace8de36a17c4178","mail_last":"source:3fc3026e3b4a6f04","pay_first":"source:3fc308bef7162303"}}',1794819639877540,NULL);
CREATE TABLE holders (
  holder_id      TEXT    NOT NULL PRIMARY KEY,
  host           TEXT    NOT NULL,
  machine_id     TEXT    NOT NULL,
  boot_id        TEXT    NOT NULL,
  pid_namespace  TEXT    NOT NULL,
  pid            INTEGER NOT NULL,
  pid_started    TEXT    NOT NULL,
  since          INTEGER NOT NULL
, lock_file TEXT) WITHOUT ROWID;
INSERT INTO "holders" VALUES('5f04ec5b30dd4122ac3b47889b7eab1a','long-ago','long-ago','long-ago','long-ago',1,'1',1794819639258633,'65024:2525534');
INSERT INTO "holders" VALUES('7c5d958a71984f439def737c0fa69e21','long-ago','long-ago','long-ago','long-ago',1,'1',1794819639258633,'65024:2525534');
INSERT INTO "holders" VALUES('bcbfad2a23d54e8ba3291c91518df1d2','long-ago','long-ago','long-ago','long-ago',1,'1',1794819639258633,'65024:2525534');
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
  closed_at       INTEGER, about_json TEXT, seal   TEXT,
  PRIMARY KEY (workflow_id, review_id)
) WITHOUT ROWID;
INSERT INTO "reviews" VALUES('graph','bb117cc4','question','open','ask_then','kept-graph@1.0.0/1','nottwice.ask','9b770c9cb3682d4f2d85fd1a0ae1b30d4be85d771580112a1969e3553ce4c7a8','f1dc2635ac2462f14bd5f27e0d4f3fd7','','Which size?',1794819639952282,1,NULL,NULL,NULL,'{"question":"Which size?","options":["small","large"],"about":null,"answer_type":"str","schema":null}',NULL);
INSERT INTO "reviews" VALUES('waiting','dae03407','unknown','open','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96','0b3146851abf2b3b18c01dfff7085cc7','ae872c73d4ef262bba0d480900000001','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',1794819639847632,1,NULL,NULL,NULL,NULL,NULL);
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
, graph_id   TEXT, input_json TEXT, parent_id  TEXT, root_id    TEXT, origin     TEXT, waits_json TEXT, wake_at    INTEGER, ready_at INTEGER, seal   TEXT, head   TEXT) WITHOUT ROWID;
INSERT INTO "runs" VALUES('done','completed',1,NULL,1794819639452317,1794819639563982,1794819639452317,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('graph','waiting',1,NULL,1794819639903277,1794819639976144,1794819639903277,NULL,0,'kept-graph@1.0.0','{}',NULL,NULL,NULL,'[{"kind":"review","subject":"bb117cc4","step":"ask_then","until":null}]',NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('in doubt','running',1,'5f04ec5b30dd4122ac3b47889b7eab1a',1794819639749630,1794819639749630,1794819639749630,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('waiting','waiting',2,NULL,1794819639648971,1794819639867973,1794819639824652,NULL,0,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"dae03407","step":"tell","until":null}]',NULL,NULL,NULL,NULL);
CREATE TABLE steps (
  workflow_id    TEXT    NOT NULL,
  node_id        TEXT    NOT NULL,
  checkpoint_id  TEXT    NOT NULL,
  status         TEXT    NOT NULL,
  ordinal        INTEGER NOT NULL,
  started_at     INTEGER NOT NULL,
  finished_at    INTEGER,
  failure_json   TEXT, seal   TEXT,
  PRIMARY KEY (workflow_id, node_id, checkpoint_id)
) WITHOUT ROWID;
INSERT INTO "steps" VALUES('done','pay','start/','done',1,1794819639466813,1794819639542127,NULL,NULL);
INSERT INTO "steps" VALUES('done','tell','start/','done',2,1794819639542245,1794819639563881,NULL,NULL);
INSERT INTO "steps" VALUES('graph','ask_then','kept-graph@1.0.0/1','in_progress',2,1794819639951956,NULL,NULL,NULL);
INSERT INTO "steps" VALUES('graph','pay_first','kept-graph@1.0.0/1','done',1,1794819639923771,1794819639951733,NULL,NULL);
INSERT INTO "steps" VALUES('in doubt','pay','start/','done',1,1794819639772047,1794819639807627,NULL,NULL);
INSERT INTO "steps" VALUES('in doubt','tell','start/','in_progress',2,1794819639807722,NULL,NULL,NULL);
INSERT INTO "steps" VALUES('waiting','pay','start/','done',1,1794819639672922,1794819639695616,NULL,NULL);
INSERT INTO "steps" VALUES('waiting','tell','start/','in_progress',2,1794819639695715,NULL,NULL,NULL);
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
  past_json        TEXT, nth    INTEGER NOT NULL DEFAULT 0, writes INTEGER NOT NULL DEFAULT 1, seal   TEXT, parent_call_id TEXT,
  PRIMARY KEY (workflow_id, node_id, checkpoint_id, tool_name, input_hash)
);
INSERT INTO "tool_call_results" VALUES('done','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794819639518172,'956bdcbe96d0e3c3c395273d708bdbb9','DONE','idempotent_with_key',1,'a14c0f6d49d5b95c4f9f292800000000','bcbfad2a23d54e8ba3291c91518df1d2',1794819639518172,1794819639531600,NULL,0,NULL,'pay-3',1794819639518172,3153600000.0,NULL,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('done','tell','start/','kept_mail','cde2c6fc07f7380c47e27c6f917486034f932ed371607356d319827ad14a3a82',1794819639547755,'eb416ca338ba62214b4ef8ba5656598f','DONE','unsafe_on_replay',1,'a14c0f6d49d5b95c4f9f292800000001','bcbfad2a23d54e8ba3291c91518df1d2',1794819639547755,1794819639553572,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,'plain','{"to":"ann"}','"mailed ann"',NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794819639673951,'b113980941743e9cd30889499795bae9','DONE','idempotent_with_key',1,'ae872c73d4ef262bba0d480900000000','7c5d958a71984f439def737c0fa69e21',1794819639673951,1794819639683623,NULL,0,NULL,'pay-3',1794819639518172,3153600000.0,NULL,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96',1794819639695926,'0b3146851abf2b3b18c01dfff7085cc7','PENDING','unsafe_on_replay',1,'ae872c73d4ef262bba0d480900000001','7c5d958a71984f439def737c0fa69e21',1794819639695926,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"to":"bob"}',NULL,NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','pay','start/','kept_pay','cfffdf09bccf4a6136b4232ccf442edd05372b454ff140d206a460124c9d4fe2',1794819639774097,'ee1d8e37b5e06fb5899d280643c479a1','DONE','idempotent_with_key',1,'c2c547f7a090e1147d35c7e200000000','5f04ec5b30dd4122ac3b47889b7eab1a',1794819639774097,1794819639791574,NULL,0,NULL,'pay-2',1794819639774097,3153600000.0,NULL,NULL,'plain','{"order":2}','{"order":2}',NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','tell','start/','kept_mail','645a526478e8ef9881496bb795fd3a753f12a84689a3d4d81e860400983b40b7',1794819639807921,'7af50dfe803a8f4b4aa21d2b4537d78f','PENDING','unsafe_on_replay',1,'c2c547f7a090e1147d35c7e200000001','5f04ec5b30dd4122ac3b47889b7eab1a',1794819639807921,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"to":"cy"}',NULL,NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('graph','pay_first','kept-graph@1.0.0/1','kept_pay','5f1bbb266dc182ff7c37390595d8d5875c9003674cddc7679182166449d70bf5',1794819639924359,'531d1bfcfedb3bf5aca05352006a74be','DONE','idempotent_with_key',1,'6f23b5a44ca34eeea1f8c4d500000000','bcbfad2a23d54e8ba3291c91518df1d2',1794819639924359,1794819639938234,NULL,0,NULL,'pay-9',1794819639924359,3153600000.0,NULL,NULL,'plain','{"order":9}','{"order":9}',NULL,NULL,0,1,NULL,NULL);
CREATE INDEX tcr_workflow ON tool_call_results (workflow_id, created_at);
CREATE INDEX tcr_key ON tool_call_results (tool_name, idempotency_key, created_at)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_updated ON runs (updated_at);
CREATE INDEX reviews_open ON reviews (workflow_id, opened_at) WHERE status IN ('open', 'decided');
CREATE UNIQUE INDEX reviews_id ON reviews (review_id);
CREATE UNIQUE INDEX evidence_once ON evidence (workflow_id, call_id, attempt_id, at, source, text);
CREATE UNIQUE INDEX audit_once ON audit (workflow_id, at, who, action, subject, why);
CREATE INDEX runs_children ON runs (parent_id, created_at) WHERE parent_id IS NOT NULL;
CREATE INDEX reviews_blocking ON reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided')
    AND (kind NOT IN ('question', 'approval') OR instr(decision_json, '"abort"') > 0);
CREATE INDEX events_waiting ON events (workflow_id, name, sent_at) WHERE received_by IS NULL;
CREATE INDEX runs_queued ON runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND epoch = 0;
CREATE INDEX runs_ready ON runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND epoch > 0 AND ready_at IS NOT wake_at;
CREATE INDEX runs_timed ON runs (ready_at, workflow_id, graph_id)
  WHERE ready_at IS NOT NULL AND ready_at = wake_at;
CREATE INDEX runs_held ON runs (holder_id) WHERE holder_id IS NOT NULL AND graph_id IS NOT NULL;
CREATE INDEX charges_at ON charges (meter, at);
CREATE TRIGGER audit_keeps_all_of_it BEFORE DELETE ON audit
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is only ever added to');
END;
CREATE TRIGGER audit_keeps_what_it_says
BEFORE UPDATE OF workflow_id, at, who, action, subject, why ON audit
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is only ever added to');
END;
COMMIT;
PRAGMA application_id = 1852798002;
PRAGMA user_version = 7;
