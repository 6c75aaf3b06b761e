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
INSERT INTO "nottwice_checkpoints" VALUES('graph',0,0,'/',1795112245796948,NULL,'{"state":{},"position":{"node":"pay_first","visits":{"pay_first":1}}}');
INSERT INTO "nottwice_checkpoints" VALUES('graph',1,1,'pay_first',1795112245798560,NULL,'{"state":{"paid":{"order":9}},"position":{"node":"ask_then","visits":{"pay_first":1,"ask_then":1}}}');
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
  traceparent  TEXT,
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
INSERT INTO "nottwice_evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','dfaad0224d7d2aeb2ab37d2300000001',1795112245788683,'ownership','the process of this attempt is proven dead',NULL,NULL,NULL);
INSERT INTO "nottwice_evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','dfaad0224d7d2aeb2ab37d2300000001',1795112245788791,'engine','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',NULL,NULL,NULL);
CREATE TABLE nottwice_graphs (
  graph_id         TEXT    NOT NULL PRIMARY KEY,
  definition_json  TEXT    NOT NULL,
  recorded_at      INTEGER NOT NULL,
  seal             TEXT
) WITHOUT ROWID;
INSERT INTO "nottwice_graphs" VALUES('kept-graph@1.0.0','{"name":"kept-graph","version":"1.0.0","nodes":[{"name":"pay_first","then":"ask_then","most":1000},{"name":"ask_then","then":"mail_last","most":1000},{"name":"mail_last","then":"$end","most":1000}],"append":[],"state":null,"tools":{"kept_mail":{"class":"unsafe_on_replay","arguments":{"properties":{"to":{"type":"string"}},"required":["to"]},"result":{"type":"string"}},"kept_pay":{"class":"idempotent_with_key","key":"pay-{order}","window_seconds":3153600000.0,"arguments":{"properties":{"order":{"type":"integer"}},"required":["order"]},"result":{"additionalProperties":{"type":"integer"},"type":"object"}}},"bodies":{"ask_then":"source:ace8de36a17c4178","mail_last":"source:3fc3026e3b4a6f04","pay_first":"source:3fc308bef7162303"}}',1795112245796118,NULL);
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
INSERT INTO "nottwice_holders" VALUES('2c92591a0a7a4e7a979b3838d9b55830','long-ago','long-ago','long-ago','long-ago',1,'1',1795112245711097,'65024:2171130');
INSERT INTO "nottwice_holders" VALUES('2e70daad3a0d482992722af9cd3da2d3','long-ago','long-ago','long-ago','long-ago',1,'1',1795112245711097,'65024:2171130');
INSERT INTO "nottwice_holders" VALUES('cf12658aa8964280a680215a3f590028','long-ago','long-ago','long-ago','long-ago',1,'1',1795112245711097,'65024:2171130');
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
  traceparent  TEXT,
  duplicates   INTEGER,
  PRIMARY KEY (workflow_id, epoch)
) WITHOUT ROWID;
INSERT INTO "nottwice_openings" VALUES('done',1,'2c92591a0a7a4e7a979b3838d9b55830',1795112245724187,1795112245751083,'completed',0,0,0.0,NULL,0);
INSERT INTO "nottwice_openings" VALUES('graph',1,'2c92591a0a7a4e7a979b3838d9b55830',1795112245796341,1795112245799826,'waiting',0,0,0.0,NULL,0);
INSERT INTO "nottwice_openings" VALUES('in doubt',1,'2e70daad3a0d482992722af9cd3da2d3',1795112245776114,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_openings" VALUES('waiting',1,'cf12658aa8964280a680215a3f590028',1795112245760218,1795112245786066,'killed',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_openings" VALUES('waiting',2,'2c92591a0a7a4e7a979b3838d9b55830',1795112245786066,1795112245790796,'waiting',0,0,0.0,NULL,0);
CREATE TABLE nottwice_outbox (
  notice_id     TEXT    NOT NULL PRIMARY KEY,
  kind          TEXT    NOT NULL,
  workflow_id   TEXT    NOT NULL,
  created_at    INTEGER NOT NULL,
  payload_json  TEXT    NOT NULL,
  leased_by     TEXT,
  leased_until  INTEGER,
  sent_at       INTEGER,
  tries         INTEGER,
  problem       TEXT
) WITHOUT ROWID;
INSERT INTO "nottwice_outbox" VALUES('2d44df52e36a9672f01a35d05fac6c0d','review_opened','waiting',1795112245788791,'{"review":"96b4f503","review_kind":"in doubt","tool":"kept_mail"}',NULL,NULL,NULL,0,NULL);
INSERT INTO "nottwice_outbox" VALUES('734189167cfaa1710a2b1622991732c9','run_over','done',1795112245751074,'{"status":"completed"}',NULL,NULL,NULL,0,NULL);
INSERT INTO "nottwice_outbox" VALUES('83fbbd0b20cc6bfae8436c6f51216496','review_opened','graph',1795112245798816,'{"review":"01f4fe65","review_kind":"question","tool":"nottwice.ask"}',NULL,NULL,NULL,0,NULL);
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
  group_id        TEXT,
  PRIMARY KEY (workflow_id, review_id)
) WITHOUT ROWID;
INSERT INTO "nottwice_reviews" VALUES('graph','01f4fe65','question','open','ask_then','kept-graph@1.0.0/1','nottwice.ask','9b770c9cb3682d4f2d85fd1a0ae1b30d4be85d771580112a1969e3553ce4c7a8','f1dc2635ac2462f14bd5f27e0d4f3fd7','','Which size?',1795112245798816,1,NULL,NULL,NULL,'{"question":"Which size?","options":["small","large"],"about":null,"answer_type":"str","schema":null}',NULL,NULL);
INSERT INTO "nottwice_reviews" VALUES('waiting','96b4f503','in doubt','open','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96','0b3146851abf2b3b18c01dfff7085cc7','dfaad0224d7d2aeb2ab37d2300000001','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',1795112245788791,1,NULL,NULL,NULL,NULL,NULL,NULL);
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
  input_json     TEXT,
  tags_json      TEXT,
  group_id       TEXT,
  traceparent    TEXT
);
INSERT INTO "nottwice_runs" VALUES('done','completed',1,NULL,1795112245724187,1795112245751074,1795112245724187,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('waiting','waiting',2,NULL,1795112245760218,1795112245790789,1795112245786066,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"96b4f503","step":"tell","until":null}]',NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('in doubt','running',1,'2e70daad3a0d482992722af9cd3da2d3',1795112245776114,1795112245776114,1795112245776114,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('graph','waiting',1,NULL,1795112245796341,1795112245799820,1795112245796341,0,'kept-graph@1.0.0',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"01f4fe65","step":"ask_then","until":null}]','{}',NULL,NULL,NULL);
CREATE TABLE nottwice_schema_version (
  version  INTEGER NOT NULL PRIMARY KEY,
  needs    INTEGER NOT NULL
);
INSERT INTO "nottwice_schema_version" VALUES(1,1);
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
INSERT INTO "nottwice_steps" VALUES('done','pay','start/','done',1,1795112245745503,1795112245748619,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('done','tell','start/','done',2,1795112245748663,1795112245751014,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('graph','ask_then','kept-graph@1.0.0/1','in_progress',2,1795112245798635,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('graph','pay_first','kept-graph@1.0.0/1','done',1,1795112245797020,1795112245798490,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('in doubt','pay','start/','done',1,1795112245778577,1795112245782518,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('in doubt','tell','start/','in_progress',2,1795112245782569,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('waiting','pay','start/','done',1,1795112245762972,1795112245767151,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('waiting','tell','start/','in_progress',2,1795112245767206,NULL,NULL,NULL,NULL);
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
INSERT INTO "nottwice_tools" VALUES('kept_mail','unsafe_on_replay',1795112245748852,NULL,'tests/store/kept_ledgers.py:49',NULL,NULL,NULL,'{"type":"string"}');
INSERT INTO "nottwice_tools" VALUES('kept_pay','idempotent_with_key',1795112245746266,NULL,'tests/store/kept_ledgers.py:57',NULL,NULL,NULL,'{"additionalProperties":{"type":"integer"},"type":"object"}');
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
INSERT INTO "tool_call_results" VALUES('done','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1795112245746266,'956bdcbe96d0e3c3c395273d708bdbb9','DONE','idempotent_with_key',1,'faf36dd8b4ea718d3016225f00000000','2c92591a0a7a4e7a979b3838d9b55830',1795112245746266,1795112245747708,NULL,0,NULL,'pay-3',1795112245746266,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('done','tell','start/','kept_mail','cde2c6fc07f7380c47e27c6f917486034f932ed371607356d319827ad14a3a82',1795112245748852,'eb416ca338ba62214b4ef8ba5656598f','DONE','unsafe_on_replay',1,'faf36dd8b4ea718d3016225f00000001','2c92591a0a7a4e7a979b3838d9b55830',1795112245748852,1795112245750065,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,'plain','{"to":"ann"}','"mailed ann"',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1795112245764087,'b113980941743e9cd30889499795bae9','DONE','idempotent_with_key',1,'dfaad0224d7d2aeb2ab37d2300000000','cf12658aa8964280a680215a3f590028',1795112245764087,1795112245766062,NULL,0,NULL,'pay-3',1795112245746266,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96',1795112245767314,'0b3146851abf2b3b18c01dfff7085cc7','PENDING','unsafe_on_replay',1,'dfaad0224d7d2aeb2ab37d2300000001','cf12658aa8964280a680215a3f590028',1795112245767314,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,NULL,'{"to":"bob"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','pay','start/','kept_pay','cfffdf09bccf4a6136b4232ccf442edd05372b454ff140d206a460124c9d4fe2',1795112245779542,'ee1d8e37b5e06fb5899d280643c479a1','DONE','idempotent_with_key',1,'68ee83d772ef01beaee27f9400000000','2e70daad3a0d482992722af9cd3da2d3',1795112245779542,1795112245781296,NULL,0,NULL,'pay-2',1795112245779542,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":2}','{"order":2}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','tell','start/','kept_mail','645a526478e8ef9881496bb795fd3a753f12a84689a3d4d81e860400983b40b7',1795112245782668,'7af50dfe803a8f4b4aa21d2b4537d78f','PENDING','unsafe_on_replay',1,'68ee83d772ef01beaee27f9400000001','2e70daad3a0d482992722af9cd3da2d3',1795112245782668,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,NULL,'{"to":"cy"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('graph','pay_first','kept-graph@1.0.0/1','kept_pay','5f1bbb266dc182ff7c37390595d8d5875c9003674cddc7679182166449d70bf5',1795112245797197,'531d1bfcfedb3bf5aca05352006a74be','DONE','idempotent_with_key',1,'891367380f888b9d7982de8700000000','2c92591a0a7a4e7a979b3838d9b55830',1795112245797197,1795112245797967,NULL,0,NULL,'pay-9',1795112245797197,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":9}','{"order":9}',NULL,NULL);
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
CREATE INDEX nottwice_run_tags_run ON nottwice_run_tags (workflow_id);
CREATE INDEX nottwice_reviews_open ON nottwice_reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided');
CREATE UNIQUE INDEX nottwice_reviews_id ON nottwice_reviews (review_id);
CREATE INDEX nottwice_reviews_blocking ON nottwice_reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided')
    AND (kind NOT IN ('question', 'approval') OR instr(decision_json, '"abort"') > 0);
CREATE INDEX nottwice_reviews_of_group ON nottwice_reviews (group_id, opened_at)
  WHERE group_id IS NOT NULL AND status = 'open' AND kind NOT IN ('question', 'approval', 'budget');
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
CREATE INDEX nottwice_outbox_time ON nottwice_outbox (created_at, notice_id);
CREATE INDEX nottwice_outbox_run ON nottwice_outbox (workflow_id);
CREATE INDEX nottwice_outbox_due ON nottwice_outbox (kind, created_at) WHERE sent_at IS NULL;
CREATE INDEX nottwice_outbox_settled ON nottwice_outbox (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX nottwice_outbox_given_up ON nottwice_outbox (sent_at) WHERE problem IS NOT NULL;
COMMIT;
PRAGMA application_id = 1852798002;
PRAGMA user_version = 1;
