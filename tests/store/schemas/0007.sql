BEGIN TRANSACTION;
CREATE TABLE nottwice_audit (
  workflow_id  TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  who          TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  subject      TEXT    NOT NULL,
  why          TEXT    NOT NULL,
  seal         TEXT
);
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
INSERT INTO "nottwice_checkpoints" VALUES('graph',0,0,'/',1795002141867575,NULL,'{"state":{},"position":{"node":"pay_first","visits":{"pay_first":1}}}');
INSERT INTO "nottwice_checkpoints" VALUES('graph',1,1,'pay_first',1795002141875779,NULL,'{"state":{"paid":{"order":9}},"position":{"node":"ask_then","visits":{"pay_first":1,"ask_then":1}}}');
CREATE TABLE nottwice_events (
  workflow_id  TEXT    NOT NULL,
  event_id     TEXT    NOT NULL,
  name         TEXT    NOT NULL,
  event_json   TEXT    NOT NULL,
  sent_at      INTEGER NOT NULL,
  sent_by      TEXT    NOT NULL,
  received_by  TEXT,
  received_at  INTEGER,
  seal         TEXT, traceparent TEXT,
  PRIMARY KEY (workflow_id, event_id)
);
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
INSERT INTO "nottwice_evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','4c594521496b4b7bf3df584000000001',1795002141829295,'ownership','holder 600a0fe8 is proven dead',NULL,NULL,NULL);
INSERT INTO "nottwice_evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','4c594521496b4b7bf3df584000000001',1795002141829579,'engine','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',NULL,NULL,NULL);
CREATE TABLE nottwice_graphs (
  graph_id         TEXT    NOT NULL PRIMARY KEY,
  definition_json  TEXT    NOT NULL,
  recorded_at      INTEGER NOT NULL,
  seal             TEXT
) WITHOUT ROWID;
INSERT INTO "nottwice_graphs" VALUES('kept-graph@1.0.0','{"name":"kept-graph","version":"1.0.0","nodes":[{"name":"pay_first","then":"ask_then","most":1000},{"name":"ask_then","then":"mail_last","most":1000},{"name":"mail_last","then":"$end","most":1000}],"append":[],"state":null,"tools":{"kept_mail":{"class":"unsafe_on_replay","arguments":{"properties":{"to":{"type":"string"}},"required":["to"]},"result":{"type":"string"}},"kept_pay":{"class":"idempotent_with_key","key":"pay-{order}","window_seconds":3153600000.0,"arguments":{"properties":{"order":{"type":"integer"}},"required":["order"]},"result":{"additionalProperties":{"type":"integer"},"type":"object"}}},"bodies":{"ask_then":"source:ace8de36a17c4178","mail_last":"source:3fc3026e3b4a6f04","pay_first":"source:3fc308bef7162303"}}',1795002141844070,NULL);
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
INSERT INTO "nottwice_holders" VALUES('600a0fe8d28c43fc8b2bad66d157a366','long-ago','long-ago','long-ago','long-ago',1,'1',1795002141650048,'65024:2514989');
INSERT INTO "nottwice_holders" VALUES('99fe7ae8b2a14623bb0ce5fc216ec41a','long-ago','long-ago','long-ago','long-ago',1,'1',1795002141650048,'65024:2514989');
INSERT INTO "nottwice_holders" VALUES('f8153598c66140cd99f18ac15dec2245','long-ago','long-ago','long-ago','long-ago',1,'1',1795002141650048,'65024:2514989');
CREATE TABLE nottwice_openings (
  workflow_id  TEXT    NOT NULL,
  epoch        INTEGER NOT NULL,
  holder_id    TEXT    NOT NULL,
  began_at     INTEGER NOT NULL,
  ended_at     INTEGER,
  ended        TEXT,
  receipts     INTEGER,
  tokens       INTEGER,
  usd          REAL, traceparent TEXT, duplicates INTEGER,
  PRIMARY KEY (workflow_id, epoch)
) WITHOUT ROWID;
INSERT INTO "nottwice_openings" VALUES('done',1,'f8153598c66140cd99f18ac15dec2245',1795002141694298,1795002141723498,'completed',0,0,0.0,NULL,0);
INSERT INTO "nottwice_openings" VALUES('graph',1,'f8153598c66140cd99f18ac15dec2245',1795002141863306,1795002141880320,'waiting',0,0,0.0,NULL,0);
INSERT INTO "nottwice_openings" VALUES('in doubt',1,'99fe7ae8b2a14623bb0ce5fc216ec41a',1795002141790366,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_openings" VALUES('waiting',1,'600a0fe8d28c43fc8b2bad66d157a366',1795002141742084,1795002141820766,'killed',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_openings" VALUES('waiting',2,'f8153598c66140cd99f18ac15dec2245',1795002141820766,1795002141836402,'waiting',0,0,0.0,NULL,0);
CREATE TABLE nottwice_outbox (
  notice_id     TEXT    NOT NULL PRIMARY KEY,
  kind          TEXT    NOT NULL,
  workflow_id   TEXT    NOT NULL,
  created_at    INTEGER NOT NULL,
  payload_json  TEXT    NOT NULL,
  leased_by     TEXT,
  leased_until  INTEGER,
  sent_at       INTEGER
, tries INTEGER, problem TEXT) WITHOUT ROWID;
INSERT INTO "nottwice_outbox" VALUES('028504e7bb0a7ad9a6aa16b3fa44b818','review_opened','graph',1795002141876441,'{"review":"2d1136c6","review_kind":"question","tool":"nottwice.ask"}',NULL,NULL,NULL,0,NULL);
INSERT INTO "nottwice_outbox" VALUES('734189167cfaa1710a2b1622991732c9','run_over','done',1795002141723472,'{"status":"completed"}',NULL,NULL,NULL,0,NULL);
INSERT INTO "nottwice_outbox" VALUES('fafa97a37023e8460e922357a6995ea7','review_opened','waiting',1795002141829579,'{"review":"c54255d1","review_kind":"in doubt","tool":"kept_mail"}',NULL,NULL,NULL,0,NULL);
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
  seal            TEXT, group_id TEXT,
  PRIMARY KEY (workflow_id, review_id)
) WITHOUT ROWID;
INSERT INTO "nottwice_reviews" VALUES('graph','2d1136c6','question','open','ask_then','kept-graph@1.0.0/1','nottwice.ask','9b770c9cb3682d4f2d85fd1a0ae1b30d4be85d771580112a1969e3553ce4c7a8','f1dc2635ac2462f14bd5f27e0d4f3fd7','','Which size?',1795002141876441,1,NULL,NULL,NULL,'{"question":"Which size?","options":["small","large"],"about":null,"answer_type":"str","schema":null}',NULL,NULL);
INSERT INTO "nottwice_reviews" VALUES('waiting','c54255d1','in doubt','open','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96','0b3146851abf2b3b18c01dfff7085cc7','4c594521496b4b7bf3df584000000001','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',1795002141829579,1,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE nottwice_run_tags (
  tag          TEXT NOT NULL,
  workflow_id  TEXT NOT NULL,
  PRIMARY KEY (tag, workflow_id)
) WITHOUT ROWID;
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
, tags_json TEXT, group_id TEXT, traceparent TEXT);
INSERT INTO "nottwice_runs" VALUES('done','completed',1,NULL,1795002141694298,1795002141723472,1795002141694298,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('waiting','waiting',2,NULL,1795002141742084,1795002141836379,1795002141820766,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"c54255d1","step":"tell","until":null}]',NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('in doubt','running',1,'99fe7ae8b2a14623bb0ce5fc216ec41a',1795002141790366,1795002141790366,1795002141790366,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('graph','waiting',1,NULL,1795002141863306,1795002141880298,1795002141863306,0,'kept-graph@1.0.0',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"2d1136c6","step":"ask_then","until":null}]','{}',NULL,NULL,NULL);
CREATE TABLE nottwice_schema_version (
  version  INTEGER NOT NULL PRIMARY KEY,
  needs    INTEGER NOT NULL
);
INSERT INTO "nottwice_schema_version" VALUES(2,2);
INSERT INTO "nottwice_schema_version" VALUES(3,3);
INSERT INTO "nottwice_schema_version" VALUES(4,3);
INSERT INTO "nottwice_schema_version" VALUES(5,3);
INSERT INTO "nottwice_schema_version" VALUES(6,3);
INSERT INTO "nottwice_schema_version" VALUES(7,3);
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
INSERT INTO "nottwice_steps" VALUES('done','pay','start/','done',1,1795002141709492,1795002141719431,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('done','tell','start/','done',2,1795002141719547,1795002141723361,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('graph','ask_then','kept-graph@1.0.0/1','in_progress',2,1795002141875966,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('graph','pay_first','kept-graph@1.0.0/1','done',1,1795002141867737,1795002141875625,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('in doubt','pay','start/','done',1,1795002141797450,1795002141807592,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('in doubt','tell','start/','in_progress',2,1795002141807696,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('waiting','pay','start/','done',1,1795002141751908,1795002141767792,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('waiting','tell','start/','in_progress',2,1795002141767918,NULL,NULL,NULL,NULL);
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
INSERT INTO "nottwice_tools" VALUES('kept_mail','unsafe_on_replay',1795002141719990,NULL,'tests/store/kept_ledgers.py:49',NULL,NULL,NULL,'{"type":"string"}');
INSERT INTO "nottwice_tools" VALUES('kept_pay','idempotent_with_key',1795002141712416,NULL,'tests/store/kept_ledgers.py:57',NULL,NULL,NULL,'{"additionalProperties":{"type":"integer"},"type":"object"}');
CREATE TABLE nottwice_workers (
  presence_id  TEXT    NOT NULL PRIMARY KEY,
  holder_id    TEXT    NOT NULL,
  graphs_json  TEXT    NOT NULL,
  concurrency  INTEGER NOT NULL,
  started_at   INTEGER NOT NULL,
  seen_at      INTEGER NOT NULL
) WITHOUT ROWID;
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
INSERT INTO "tool_call_results" VALUES('done','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1795002141712416,'956bdcbe96d0e3c3c395273d708bdbb9','DONE','idempotent_with_key',1,'e47273252de4c9b77907544200000000','f8153598c66140cd99f18ac15dec2245',1795002141712416,1795002141714176,NULL,0,NULL,'pay-3',1795002141712416,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('done','tell','start/','kept_mail','cde2c6fc07f7380c47e27c6f917486034f932ed371607356d319827ad14a3a82',1795002141719990,'eb416ca338ba62214b4ef8ba5656598f','DONE','unsafe_on_replay',1,'e47273252de4c9b77907544200000001','f8153598c66140cd99f18ac15dec2245',1795002141719990,1795002141721060,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,'plain','{"to":"ann"}','"mailed ann"',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1795002141756806,'b113980941743e9cd30889499795bae9','DONE','idempotent_with_key',1,'4c594521496b4b7bf3df584000000000','600a0fe8d28c43fc8b2bad66d157a366',1795002141756806,1795002141762965,NULL,0,NULL,'pay-3',1795002141712416,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96',1795002141768186,'0b3146851abf2b3b18c01dfff7085cc7','PENDING','unsafe_on_replay',1,'4c594521496b4b7bf3df584000000001','600a0fe8d28c43fc8b2bad66d157a366',1795002141768186,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,NULL,'{"to":"bob"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','pay','start/','kept_pay','cfffdf09bccf4a6136b4232ccf442edd05372b454ff140d206a460124c9d4fe2',1795002141803320,'ee1d8e37b5e06fb5899d280643c479a1','DONE','idempotent_with_key',1,'cee228de962b85401f80664f00000000','99fe7ae8b2a14623bb0ce5fc216ec41a',1795002141803320,1795002141805690,NULL,0,NULL,'pay-2',1795002141803320,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":2}','{"order":2}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','tell','start/','kept_mail','645a526478e8ef9881496bb795fd3a753f12a84689a3d4d81e860400983b40b7',1795002141807919,'7af50dfe803a8f4b4aa21d2b4537d78f','PENDING','unsafe_on_replay',1,'cee228de962b85401f80664f00000001','99fe7ae8b2a14623bb0ce5fc216ec41a',1795002141807919,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,NULL,'{"to":"cy"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('graph','pay_first','kept-graph@1.0.0/1','kept_pay','5f1bbb266dc182ff7c37390595d8d5875c9003674cddc7679182166449d70bf5',1795002141868174,'531d1bfcfedb3bf5aca05352006a74be','DONE','idempotent_with_key',1,'2d2cc9b375f84db2c5e946ad00000000','f8153598c66140cd99f18ac15dec2245',1795002141868174,1795002141871453,NULL,0,NULL,'pay-9',1795002141868174,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":9}','{"order":9}',NULL,NULL);
CREATE INDEX tcr_workflow ON tool_call_results (workflow_id, created_at);
CREATE INDEX tcr_key ON tool_call_results (tool_name, idempotency_key, created_at)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX nottwice_runs_updated ON nottwice_runs (updated_at, workflow_id);
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
CREATE INDEX nottwice_reviews_open ON nottwice_reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided');
CREATE UNIQUE INDEX nottwice_reviews_id ON nottwice_reviews (review_id);
CREATE INDEX nottwice_reviews_blocking ON nottwice_reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided')
    AND (kind NOT IN ('question', 'approval') OR instr(decision_json, '"abort"') > 0);
CREATE UNIQUE INDEX nottwice_evidence_once
  ON nottwice_evidence (workflow_id, call_id, attempt_id, at, source, text);
CREATE UNIQUE INDEX nottwice_audit_once
  ON nottwice_audit (workflow_id, at, who, action, subject, why);
CREATE TRIGGER nottwice_audit_keeps_what_it_says
BEFORE UPDATE OF workflow_id, at, who, action, subject, why ON nottwice_audit
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is only ever added to');
END;
CREATE TRIGGER nottwice_audit_keeps_all_of_it BEFORE DELETE ON nottwice_audit
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is only ever added to');
END;
CREATE INDEX nottwice_charges_at ON nottwice_charges (meter, at);
CREATE INDEX nottwice_events_waiting ON nottwice_events (workflow_id, name, sent_at)
  WHERE received_by IS NULL;
CREATE INDEX nottwice_run_tags_run ON nottwice_run_tags (workflow_id);
CREATE INDEX nottwice_reviews_of_group ON nottwice_reviews (group_id, opened_at)
  WHERE group_id IS NOT NULL AND status = 'open' AND kind NOT IN ('question', 'approval', 'budget');
CREATE INDEX nottwice_outbox_time ON nottwice_outbox (created_at, notice_id);
CREATE INDEX nottwice_outbox_run ON nottwice_outbox (workflow_id);
CREATE INDEX nottwice_outbox_due ON nottwice_outbox (kind, created_at) WHERE sent_at IS NULL;
CREATE INDEX nottwice_outbox_settled ON nottwice_outbox (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX nottwice_outbox_given_up ON nottwice_outbox (sent_at) WHERE problem IS NOT NULL;
COMMIT;
PRAGMA application_id = 1852798002;
PRAGMA user_version = 7;
