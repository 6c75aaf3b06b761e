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
INSERT INTO "checkpoints" VALUES('graph',0,0,'/',1794822978186439,'{"state":{},"position":{"node":"pay_first","visits":{"pay_first":1}}}',NULL);
INSERT INTO "checkpoints" VALUES('graph',1,1,'pay_first',1794822978192864,'{"state":{"paid":{"order":9}},"position":{"node":"ask_then","visits":{"pay_first":1,"ask_then":1}}}',NULL);
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
INSERT INTO "evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','f87fb4eb2d96dbc61efca0f200000001',1794822978138857,'ownership','holder ebd689f0 is proven dead',NULL,NULL,NULL);
INSERT INTO "evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','f87fb4eb2d96dbc61efca0f200000001',1794822978142218,'engine','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',NULL,NULL,NULL);
CREATE TABLE graphs (
  graph_id         TEXT    NOT NULL PRIMARY KEY,
  definition_json  TEXT    NOT NULL,
  recorded_at      INTEGER NOT NULL
, seal   TEXT) WITHOUT ROWID;
INSERT INTO "graphs" VALUES('kept-graph@1.0.0','{"name":"kept-graph","version":"1.0.0","nodes":[{"name":"pay_first","then":"ask_then","most":1000},{"name":"ask_then","then":"mail_last","most":1000},{"name":"mail_last","then":"$end","most":1000}],"append":[],"state":null,"tools":{"kept_mail":{"class":"unsafe_on_replay","arguments":{"properties":{"to":{"type":"string"}},"required":["to"]},"result":{"type":"string"}},"kept_pay":{"class":"idempotent_with_key","key":"pay-{order}","window_seconds":3153600000.0,"arguments":{"properties":{"order":{"type":"integer"}},"required":["order"]},"result":{"additionalProperties":{"type":"integer"},"type":"object"}}},"bodies":{"ask_then":"source:ace8de36a17c4178","mail_last":"source:3fc3026e3b4a6f04","pay_first":"source:3fc308bef7162303"}}',1794822978165654,NULL);
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
INSERT INTO "holders" VALUES('70bf2bcf1d704caabd9c2e5a7cad47ad','long-ago','long-ago','long-ago','long-ago',1,'1',1794822977283230,'65024:3018003');
INSERT INTO "holders" VALUES('ebd689f0bd2c4823a1bf85be070611ab','long-ago','long-ago','long-ago','long-ago',1,'1',1794822977283230,'65024:3018003');
INSERT INTO "holders" VALUES('f80b6d349cdf4e46b6ea276f253a6757','long-ago','long-ago','long-ago','long-ago',1,'1',1794822977283230,'65024:3018003');
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
INSERT INTO "reviews" VALUES('graph','fc7f8896','question','open','ask_then','kept-graph@1.0.0/1','nottwice.ask','9b770c9cb3682d4f2d85fd1a0ae1b30d4be85d771580112a1969e3553ce4c7a8','f1dc2635ac2462f14bd5f27e0d4f3fd7','','Which size?',1794822978193272,1,NULL,NULL,NULL,'{"question":"Which size?","options":["small","large"],"about":null,"answer_type":"str","schema":null}',NULL);
INSERT INTO "reviews" VALUES('waiting','8c2b6d4c','in doubt','open','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96','0b3146851abf2b3b18c01dfff7085cc7','f87fb4eb2d96dbc61efca0f200000001','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',1794822978142218,1,NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "runs" VALUES('done','completed',1,NULL,1794822977467836,1794822977675772,1794822977467836,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('graph','waiting',1,NULL,1794822978185166,1794822978197944,1794822978185166,NULL,0,'kept-graph@1.0.0','{}',NULL,NULL,NULL,'[{"kind":"review","subject":"fc7f8896","step":"ask_then","until":null}]',NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('in doubt','running',1,'70bf2bcf1d704caabd9c2e5a7cad47ad',1794822978018943,1794822978018943,1794822978018943,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('waiting','waiting',2,NULL,1794822977796212,1794822978154194,1794822978099187,NULL,0,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"8c2b6d4c","step":"tell","until":null}]',NULL,NULL,NULL,NULL);
CREATE TABLE steps (
  workflow_id    TEXT    NOT NULL,
  node_id        TEXT    NOT NULL,
  checkpoint_id  TEXT    NOT NULL,
  status         TEXT    NOT NULL,
  ordinal        INTEGER NOT NULL,
  started_at     INTEGER NOT NULL,
  finished_at    INTEGER,
  failure_json   TEXT, seal   TEXT, output_file TEXT,
  PRIMARY KEY (workflow_id, node_id, checkpoint_id)
) WITHOUT ROWID;
INSERT INTO "steps" VALUES('done','pay','start/','done',1,1794822977471725,1794822977667232,NULL,NULL,NULL);
INSERT INTO "steps" VALUES('done','tell','start/','done',2,1794822977667334,1794822977675693,NULL,NULL,NULL);
INSERT INTO "steps" VALUES('graph','ask_then','kept-graph@1.0.0/1','in_progress',2,1794822978192974,NULL,NULL,NULL,NULL);
INSERT INTO "steps" VALUES('graph','pay_first','kept-graph@1.0.0/1','done',1,1794822978189216,1794822978192784,NULL,NULL,NULL);
INSERT INTO "steps" VALUES('in doubt','pay','start/','done',1,1794822978055894,1794822978071798,NULL,NULL,NULL);
INSERT INTO "steps" VALUES('in doubt','tell','start/','in_progress',2,1794822978071889,NULL,NULL,NULL,NULL);
INSERT INTO "steps" VALUES('waiting','pay','start/','done',1,1794822977851874,1794822977895688,NULL,NULL,NULL);
INSERT INTO "steps" VALUES('waiting','tell','start/','in_progress',2,1794822977895783,NULL,NULL,NULL,NULL);
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
INSERT INTO "tool_call_results" VALUES('done','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794822977583214,'956bdcbe96d0e3c3c395273d708bdbb9','DONE','idempotent_with_key',1,'1627927eeed474a3bd91878b00000000','f80b6d349cdf4e46b6ea276f253a6757',1794822977583214,1794822977663725,NULL,0,NULL,'pay-3',1794822977583214,3153600000.0,NULL,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('done','tell','start/','kept_mail','cde2c6fc07f7380c47e27c6f917486034f932ed371607356d319827ad14a3a82',1794822977668326,'eb416ca338ba62214b4ef8ba5656598f','DONE','unsafe_on_replay',1,'1627927eeed474a3bd91878b00000001','f80b6d349cdf4e46b6ea276f253a6757',1794822977668326,1794822977671736,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,'plain','{"to":"ann"}','"mailed ann"',NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794822977860390,'b113980941743e9cd30889499795bae9','DONE','idempotent_with_key',1,'f87fb4eb2d96dbc61efca0f200000000','ebd689f0bd2c4823a1bf85be070611ab',1794822977860390,1794822977879748,NULL,0,NULL,'pay-3',1794822977583214,3153600000.0,NULL,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96',1794822977895967,'0b3146851abf2b3b18c01dfff7085cc7','PENDING','unsafe_on_replay',1,'f87fb4eb2d96dbc61efca0f200000001','ebd689f0bd2c4823a1bf85be070611ab',1794822977895967,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"to":"bob"}',NULL,NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','pay','start/','kept_pay','cfffdf09bccf4a6136b4232ccf442edd05372b454ff140d206a460124c9d4fe2',1794822978057186,'ee1d8e37b5e06fb5899d280643c479a1','DONE','idempotent_with_key',1,'19c81d70d77b1525231aaf9d00000000','70bf2bcf1d704caabd9c2e5a7cad47ad',1794822978057186,1794822978064916,NULL,0,NULL,'pay-2',1794822978057186,3153600000.0,NULL,NULL,'plain','{"order":2}','{"order":2}',NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','tell','start/','kept_mail','645a526478e8ef9881496bb795fd3a753f12a84689a3d4d81e860400983b40b7',1794822978072079,'7af50dfe803a8f4b4aa21d2b4537d78f','PENDING','unsafe_on_replay',1,'19c81d70d77b1525231aaf9d00000001','70bf2bcf1d704caabd9c2e5a7cad47ad',1794822978072079,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"to":"cy"}',NULL,NULL,NULL,0,1,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('graph','pay_first','kept-graph@1.0.0/1','kept_pay','5f1bbb266dc182ff7c37390595d8d5875c9003674cddc7679182166449d70bf5',1794822978189587,'531d1bfcfedb3bf5aca05352006a74be','DONE','idempotent_with_key',1,'37b22dcd038b63df6da321a200000000','f80b6d349cdf4e46b6ea276f253a6757',1794822978189587,1794822978191187,NULL,0,NULL,'pay-9',1794822978189587,3153600000.0,NULL,NULL,'plain','{"order":9}','{"order":9}',NULL,NULL,0,1,NULL,NULL);
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
CREATE INDEX runs_by_status ON runs (status, updated_at, workflow_id, epoch, graph_id);
COMMIT;
PRAGMA application_id = 1852798002;
PRAGMA user_version = 9;
