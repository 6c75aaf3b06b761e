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
INSERT INTO "nottwice_checkpoints" VALUES('graph',0,0,'/',1794993959022665,NULL,'{"state":{},"position":{"node":"pay_first","visits":{"pay_first":1}}}');
INSERT INTO "nottwice_checkpoints" VALUES('graph',1,1,'pay_first',1794993959036270,NULL,'{"state":{"paid":{"order":9}},"position":{"node":"ask_then","visits":{"pay_first":1,"ask_then":1}}}');
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
INSERT INTO "nottwice_evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','0b132f00c698cdb35626436900000001',1794993958988997,'ownership','holder 9ee1fd5c is proven dead',NULL,NULL,NULL);
INSERT INTO "nottwice_evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','0b132f00c698cdb35626436900000001',1794993958989303,'engine','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',NULL,NULL,NULL);
CREATE TABLE nottwice_graphs (
  graph_id         TEXT    NOT NULL PRIMARY KEY,
  definition_json  TEXT    NOT NULL,
  recorded_at      INTEGER NOT NULL,
  seal             TEXT
) WITHOUT ROWID;
INSERT INTO "nottwice_graphs" VALUES('kept-graph@1.0.0','{"name":"kept-graph","version":"1.0.0","nodes":[{"name":"pay_first","then":"ask_then","most":1000},{"name":"ask_then","then":"mail_last","most":1000},{"name":"mail_last","then":"$end","most":1000}],"append":[],"state":null,"tools":{"kept_mail":{"class":"unsafe_on_replay","arguments":{"properties":{"to":{"type":"string"}},"required":["to"]},"result":{"type":"string"}},"kept_pay":{"class":"idempotent_with_key","key":"pay-{order}","window_seconds":3153600000.0,"arguments":{"properties":{"order":{"type":"integer"}},"required":["order"]},"result":{"additionalProperties":{"type":"integer"},"type":"object"}}},"bodies":{"ask_then":"source:ace8de36a17c4178","mail_last":"source:3fc3026e3b4a6f04","pay_first":"source:3fc308bef7162303"}}',1794993958997458,NULL);
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
INSERT INTO "nottwice_holders" VALUES('5292ff92032547ad8c52b85039774933','long-ago','long-ago','long-ago','long-ago',1,'1',1794993958829966,'65024:2197791');
INSERT INTO "nottwice_holders" VALUES('5d74cdccbf3f4c8e968d86a3b6bcd522','long-ago','long-ago','long-ago','long-ago',1,'1',1794993958829966,'65024:2197791');
INSERT INTO "nottwice_holders" VALUES('9ee1fd5c9b374c1284eef0c485aacf98','long-ago','long-ago','long-ago','long-ago',1,'1',1794993958829966,'65024:2197791');
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
INSERT INTO "nottwice_openings" VALUES('done',1,'5292ff92032547ad8c52b85039774933',1794993958873891,1794993958886790,'completed',0,0,0.0,NULL,0);
INSERT INTO "nottwice_openings" VALUES('graph',1,'5292ff92032547ad8c52b85039774933',1794993959019755,1794993959047198,'waiting',0,0,0.0,NULL,0);
INSERT INTO "nottwice_openings" VALUES('in doubt',1,'5d74cdccbf3f4c8e968d86a3b6bcd522',1794993958938452,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_openings" VALUES('waiting',1,'9ee1fd5c9b374c1284eef0c485aacf98',1794993958909086,1794993958976169,'killed',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_openings" VALUES('waiting',2,'5292ff92032547ad8c52b85039774933',1794993958976169,1794993958994889,'waiting',0,0,0.0,NULL,0);
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
INSERT INTO "nottwice_outbox" VALUES('29d2c69cff363a870696a4b689088517','review_opened','graph',1794993959037135,'{"review":"86bb2aa3","review_kind":"question","tool":"nottwice.ask"}',NULL,NULL,NULL,0,NULL);
INSERT INTO "nottwice_outbox" VALUES('3ceaf8c39cca9c0471c8700b96264d5d','review_opened','waiting',1794993958989303,'{"review":"6ea71428","review_kind":"in doubt","tool":"kept_mail"}',NULL,NULL,NULL,0,NULL);
INSERT INTO "nottwice_outbox" VALUES('734189167cfaa1710a2b1622991732c9','run_over','done',1794993958886768,'{"status":"completed"}',NULL,NULL,NULL,0,NULL);
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
INSERT INTO "nottwice_reviews" VALUES('graph','86bb2aa3','question','open','ask_then','kept-graph@1.0.0/1','nottwice.ask','9b770c9cb3682d4f2d85fd1a0ae1b30d4be85d771580112a1969e3553ce4c7a8','f1dc2635ac2462f14bd5f27e0d4f3fd7','','Which size?',1794993959037135,1,NULL,NULL,NULL,'{"question":"Which size?","options":["small","large"],"about":null,"answer_type":"str","schema":null}',NULL,NULL);
INSERT INTO "nottwice_reviews" VALUES('waiting','6ea71428','in doubt','open','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96','0b3146851abf2b3b18c01dfff7085cc7','0b132f00c698cdb35626436900000001','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',1794993958989303,1,NULL,NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "nottwice_runs" VALUES('done','completed',1,NULL,1794993958873891,1794993958886768,1794993958873891,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('waiting','waiting',2,NULL,1794993958909086,1794993958994866,1794993958976169,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"6ea71428","step":"tell","until":null}]',NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('in doubt','running',1,'5d74cdccbf3f4c8e968d86a3b6bcd522',1794993958938452,1794993958938452,1794993958938452,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('graph','waiting',1,NULL,1794993959019755,1794993959047181,1794993959019755,0,'kept-graph@1.0.0',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"86bb2aa3","step":"ask_then","until":null}]','{}',NULL,NULL,NULL);
CREATE TABLE nottwice_schema_version (
  version  INTEGER NOT NULL PRIMARY KEY,
  needs    INTEGER NOT NULL
);
INSERT INTO "nottwice_schema_version" VALUES(2,2);
INSERT INTO "nottwice_schema_version" VALUES(3,3);
INSERT INTO "nottwice_schema_version" VALUES(4,3);
INSERT INTO "nottwice_schema_version" VALUES(5,3);
INSERT INTO "nottwice_schema_version" VALUES(6,3);
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
INSERT INTO "nottwice_steps" VALUES('done','pay','start/','done',1,1794993958879997,1794993958884926,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('done','tell','start/','done',2,1794993958885015,1794993958886646,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('graph','ask_then','kept-graph@1.0.0/1','in_progress',2,1794993959036455,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('graph','pay_first','kept-graph@1.0.0/1','done',1,1794993959022882,1794993959036111,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('in doubt','pay','start/','done',1,1794993958946802,1794993958960542,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('in doubt','tell','start/','in_progress',2,1794993958960663,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('waiting','pay','start/','done',1,1794993958912380,1794993958917932,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('waiting','tell','start/','in_progress',2,1794993958918034,NULL,NULL,NULL,NULL);
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
INSERT INTO "nottwice_tools" VALUES('kept_mail','unsafe_on_replay',1794993958885378,NULL,'tests/store/kept_ledgers.py:49',NULL,NULL,NULL,'{"type":"string"}');
INSERT INTO "nottwice_tools" VALUES('kept_pay','idempotent_with_key',1794993958882416,NULL,'tests/store/kept_ledgers.py:57',NULL,NULL,NULL,'{"additionalProperties":{"type":"integer"},"type":"object"}');
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
INSERT INTO "tool_call_results" VALUES('done','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794993958882416,'956bdcbe96d0e3c3c395273d708bdbb9','DONE','idempotent_with_key',1,'e39da2e299307bb2abbc6cf500000000','5292ff92032547ad8c52b85039774933',1794993958882416,1794993958884237,NULL,0,NULL,'pay-3',1794993958882416,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('done','tell','start/','kept_mail','cde2c6fc07f7380c47e27c6f917486034f932ed371607356d319827ad14a3a82',1794993958885378,'eb416ca338ba62214b4ef8ba5656598f','DONE','unsafe_on_replay',1,'e39da2e299307bb2abbc6cf500000001','5292ff92032547ad8c52b85039774933',1794993958885378,1794993958886237,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,'plain','{"to":"ann"}','"mailed ann"',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794993958914548,'b113980941743e9cd30889499795bae9','DONE','idempotent_with_key',1,'0b132f00c698cdb35626436900000000','9ee1fd5c9b374c1284eef0c485aacf98',1794993958914548,1794993958916986,NULL,0,NULL,'pay-3',1794993958882416,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96',1794993958918232,'0b3146851abf2b3b18c01dfff7085cc7','PENDING','unsafe_on_replay',1,'0b132f00c698cdb35626436900000001','9ee1fd5c9b374c1284eef0c485aacf98',1794993958918232,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,NULL,'{"to":"bob"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','pay','start/','kept_pay','cfffdf09bccf4a6136b4232ccf442edd05372b454ff140d206a460124c9d4fe2',1794993958949813,'ee1d8e37b5e06fb5899d280643c479a1','DONE','idempotent_with_key',1,'7be2c0a6f4e6a43e5f08f9a000000000','5d74cdccbf3f4c8e968d86a3b6bcd522',1794993958949813,1794993958954193,NULL,0,NULL,'pay-2',1794993958949813,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":2}','{"order":2}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','tell','start/','kept_mail','645a526478e8ef9881496bb795fd3a753f12a84689a3d4d81e860400983b40b7',1794993958960948,'7af50dfe803a8f4b4aa21d2b4537d78f','PENDING','unsafe_on_replay',1,'7be2c0a6f4e6a43e5f08f9a000000001','5d74cdccbf3f4c8e968d86a3b6bcd522',1794993958960948,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,NULL,'{"to":"cy"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('graph','pay_first','kept-graph@1.0.0/1','kept_pay','5f1bbb266dc182ff7c37390595d8d5875c9003674cddc7679182166449d70bf5',1794993959023370,'531d1bfcfedb3bf5aca05352006a74be','DONE','idempotent_with_key',1,'d91d81bd8d6d1d350a60b5e600000000','5292ff92032547ad8c52b85039774933',1794993959023370,1794993959029212,NULL,0,NULL,'pay-9',1794993959023370,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":9}','{"order":9}',NULL,NULL);
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
PRAGMA user_version = 6;
