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
  state_json     TEXT    NOT NULL,
  seal           TEXT,
  PRIMARY KEY (workflow_id, version)
);
INSERT INTO "nottwice_checkpoints" VALUES('graph',0,0,'/',1794843775459718,'{"state":{},"position":{"node":"pay_first","visits":{"pay_first":1}}}',NULL);
INSERT INTO "nottwice_checkpoints" VALUES('graph',1,1,'pay_first',1794843775479855,'{"state":{"paid":{"order":9}},"position":{"node":"ask_then","visits":{"pay_first":1,"ask_then":1}}}',NULL);
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
INSERT INTO "nottwice_evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','2a2edb38a56bfa8833a9602800000001',1794843775401041,'ownership','holder a5c039f9 is proven dead',NULL,NULL,NULL);
INSERT INTO "nottwice_evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','2a2edb38a56bfa8833a9602800000001',1794843775407738,'engine','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',NULL,NULL,NULL);
CREATE TABLE nottwice_graphs (
  graph_id         TEXT    NOT NULL PRIMARY KEY,
  definition_json  TEXT    NOT NULL,
  recorded_at      INTEGER NOT NULL,
  seal             TEXT
) WITHOUT ROWID;
INSERT INTO "nottwice_graphs" VALUES('kept-graph@1.0.0','{"name":"kept-graph","version":"1.0.0","nodes":[{"name":"pay_first","then":"ask_then","most":1000},{"name":"ask_then","then":"mail_last","most":1000},{"name":"mail_last","then":"$end","most":1000}],"append":[],"state":null,"tools":{"kept_mail":{"class":"unsafe_on_replay","arguments":{"properties":{"to":{"type":"string"}},"required":["to"]},"result":{"type":"string"}},"kept_pay":{"class":"idempotent_with_key","key":"pay-{order}","window_seconds":3153600000.0,"arguments":{"properties":{"order":{"type":"integer"}},"required":["order"]},"result":{"additionalProperties":{"type":"integer"},"type":"object"}}},"bodies":{"ask_then":"source:ace8de36a17c4178","mail_last":"source:3fc3026e3b4a6f04","pay_first":"source:3fc308bef7162303"}}',1794843775431926,NULL);
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
INSERT INTO "nottwice_holders" VALUES('8c3ad419755d4dbc8c87e775f2f23631','long-ago','long-ago','long-ago','long-ago',1,'1',1794843774999281,'65024:2203654');
INSERT INTO "nottwice_holders" VALUES('9f0817d22b564305bcdd5437695e490b','long-ago','long-ago','long-ago','long-ago',1,'1',1794843774999281,'65024:2203654');
INSERT INTO "nottwice_holders" VALUES('a5c039f99b7c4960bb8cc64a289d2aba','long-ago','long-ago','long-ago','long-ago',1,'1',1794843774999281,'65024:2203654');
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
  PRIMARY KEY (workflow_id, review_id)
) WITHOUT ROWID;
INSERT INTO "nottwice_reviews" VALUES('graph','8a127a32','question','open','ask_then','kept-graph@1.0.0/1','nottwice.ask','9b770c9cb3682d4f2d85fd1a0ae1b30d4be85d771580112a1969e3553ce4c7a8','f1dc2635ac2462f14bd5f27e0d4f3fd7','','Which size?',1794843775480373,1,NULL,NULL,NULL,'{"question":"Which size?","options":["small","large"],"about":null,"answer_type":"str","schema":null}',NULL);
INSERT INTO "nottwice_reviews" VALUES('waiting','3bdf3b19','in doubt','open','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96','0b3146851abf2b3b18c01dfff7085cc7','2a2edb38a56bfa8833a9602800000001','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',1794843775407738,1,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE nottwice_runs (
  workflow_id    TEXT    NOT NULL PRIMARY KEY,
  status         TEXT    NOT NULL,
  epoch          INTEGER NOT NULL,
  holder_id      TEXT,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  claimed_at     INTEGER,
  failure_json   TEXT,
  in_doubt_from  INTEGER NOT NULL DEFAULT 0,
  graph_id       TEXT,
  input_json     TEXT,
  parent_id      TEXT,
  root_id        TEXT,
  origin         TEXT,
  waits_json     TEXT,
  wake_at        INTEGER,
  ready_at       INTEGER,
  seal           TEXT,
  head           TEXT
) WITHOUT ROWID;
INSERT INTO "nottwice_runs" VALUES('done','completed',1,NULL,1794843775080458,1794843775165595,1794843775080458,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('graph','waiting',1,NULL,1794843775446383,1794843775496494,1794843775446383,NULL,0,'kept-graph@1.0.0','{}',NULL,NULL,NULL,'[{"kind":"review","subject":"8a127a32","step":"ask_then","until":null}]',NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('in doubt','running',1,'9f0817d22b564305bcdd5437695e490b',1794843775315066,1794843775315066,1794843775315066,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_runs" VALUES('waiting','waiting',2,NULL,1794843775210086,1794843775416763,1794843775381998,NULL,0,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"3bdf3b19","step":"tell","until":null}]',NULL,NULL,NULL,NULL);
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
INSERT INTO "nottwice_steps" VALUES('done','pay','start/','done',1,1794843775091775,1794843775142017,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('done','tell','start/','done',2,1794843775142113,1794843775165495,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('graph','ask_then','kept-graph@1.0.0/1','in_progress',2,1794843775480010,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('graph','pay_first','kept-graph@1.0.0/1','done',1,1794843775460117,1794843775479765,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('in doubt','pay','start/','done',1,1794843775339916,1794843775363704,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('in doubt','tell','start/','in_progress',2,1794843775363800,NULL,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('waiting','pay','start/','done',1,1794843775231890,1794843775259672,NULL,NULL,NULL);
INSERT INTO "nottwice_steps" VALUES('waiting','tell','start/','in_progress',2,1794843775259762,NULL,NULL,NULL,NULL);
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
INSERT INTO "tool_call_results" VALUES('done','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794843775121360,'956bdcbe96d0e3c3c395273d708bdbb9','DONE','idempotent_with_key',1,'4a9b3db03e949be303d389b700000000','8c3ad419755d4dbc8c87e775f2f23631',1794843775121360,1794843775135615,NULL,0,NULL,'pay-3',1794843775121360,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('done','tell','start/','kept_mail','cde2c6fc07f7380c47e27c6f917486034f932ed371607356d319827ad14a3a82',1794843775143125,'eb416ca338ba62214b4ef8ba5656598f','DONE','unsafe_on_replay',1,'4a9b3db03e949be303d389b700000001','8c3ad419755d4dbc8c87e775f2f23631',1794843775143125,1794843775159611,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,'plain','{"to":"ann"}','"mailed ann"',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794843775233072,'b113980941743e9cd30889499795bae9','DONE','idempotent_with_key',1,'2a2edb38a56bfa8833a9602800000000','a5c039f99b7c4960bb8cc64a289d2aba',1794843775233072,1794843775245807,NULL,0,NULL,'pay-3',1794843775121360,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96',1794843775259981,'0b3146851abf2b3b18c01dfff7085cc7','PENDING','unsafe_on_replay',1,'2a2edb38a56bfa8833a9602800000001','a5c039f99b7c4960bb8cc64a289d2aba',1794843775259981,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,NULL,'{"to":"bob"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','pay','start/','kept_pay','cfffdf09bccf4a6136b4232ccf442edd05372b454ff140d206a460124c9d4fe2',1794843775341068,'ee1d8e37b5e06fb5899d280643c479a1','DONE','idempotent_with_key',1,'eccce1e760391c5e813ce19a00000000','9f0817d22b564305bcdd5437695e490b',1794843775341068,1794843775349798,NULL,0,NULL,'pay-2',1794843775341068,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":2}','{"order":2}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','tell','start/','kept_mail','645a526478e8ef9881496bb795fd3a753f12a84689a3d4d81e860400983b40b7',1794843775364008,'7af50dfe803a8f4b4aa21d2b4537d78f','PENDING','unsafe_on_replay',1,'eccce1e760391c5e813ce19a00000001','9f0817d22b564305bcdd5437695e490b',1794843775364008,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,NULL,'{"to":"cy"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('graph','pay_first','kept-graph@1.0.0/1','kept_pay','5f1bbb266dc182ff7c37390595d8d5875c9003674cddc7679182166449d70bf5',1794843775460533,'531d1bfcfedb3bf5aca05352006a74be','DONE','idempotent_with_key',1,'300ef9135bc36dc72eb9696e00000000','8c3ad419755d4dbc8c87e775f2f23631',1794843775460533,1794843775471610,NULL,0,NULL,'pay-9',1794843775460533,3153600000.0,NULL,NULL,NULL,0,1,NULL,'plain','{"order":9}','{"order":9}',NULL,NULL);
CREATE INDEX tcr_workflow ON tool_call_results (workflow_id, created_at);
CREATE INDEX tcr_key ON tool_call_results (tool_name, idempotency_key, created_at)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX nottwice_runs_updated ON nottwice_runs (updated_at);
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
COMMIT;
PRAGMA application_id = 1852798002;
PRAGMA user_version = 1;
