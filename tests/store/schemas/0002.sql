BEGIN TRANSACTION;
CREATE TABLE audit (
  workflow_id  TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  who          TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  subject      TEXT    NOT NULL,
  why          TEXT    NOT NULL
);
CREATE TABLE checkpoints (
  workflow_id    TEXT    NOT NULL,
  version        INTEGER NOT NULL,
  snapshot       INTEGER NOT NULL,
  node_id        TEXT    NOT NULL,
  created_at     INTEGER NOT NULL,
  state_json     TEXT    NOT NULL,
  PRIMARY KEY (workflow_id, version)
);
INSERT INTO "checkpoints" VALUES('graph',0,0,'/',1794749974016121,'{"state":{},"position":{"node":"pay_first","visits":{"pay_first":1}}}');
INSERT INTO "checkpoints" VALUES('graph',1,1,'pay_first',1794749974035173,'{"state":{"paid":{"order":9}},"position":{"node":"ask_then","visits":{"pay_first":1,"ask_then":1}}}');
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
INSERT INTO "evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','2f43a5459cf63f80107d38b2300525f4',1794749973995133,'ownership','holder 6a60db10 is proven dead',NULL,NULL);
INSERT INTO "evidence" VALUES('waiting','0b3146851abf2b3b18c01dfff7085cc7','2f43a5459cf63f80107d38b2300525f4',1794749973995300,'engine','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',NULL,NULL);
CREATE TABLE graphs (
  graph_id         TEXT    NOT NULL PRIMARY KEY,
  definition_json  TEXT    NOT NULL,
  recorded_at      INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "graphs" VALUES('kept-graph@1.0.0','{"name":"kept-graph","version":"1.0.0","nodes":[{"name":"pay_first","then":"ask_then","most":1000},{"name":"ask_then","then":"mail_last","most":1000},{"name":"mail_last","then":"$end","most":1000}],"append":[],"state":null}',1794749974014403);
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
INSERT INTO "holders" VALUES('43bb2fb08f35434fa52c8970f87508af','long-ago','long-ago','long-ago','long-ago',1,'1',1794749973638569);
INSERT INTO "holders" VALUES('6a60db10c2cc418c9fc20e4e6303cd0a','long-ago','long-ago','long-ago','long-ago',1,'1',1794749973638569);
INSERT INTO "holders" VALUES('953e399d995d4234a2d7658ee6e4afa6','long-ago','long-ago','long-ago','long-ago',1,'1',1794749973638569);
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
  closed_at       INTEGER, about_json TEXT,
  PRIMARY KEY (workflow_id, review_id)
) WITHOUT ROWID;
INSERT INTO "reviews" VALUES('graph','6d5e005e','question','open','ask_then','kept-graph@1.0.0/1','nottwice.ask','9b770c9cb3682d4f2d85fd1a0ae1b30d4be85d771580112a1969e3553ce4c7a8','f1dc2635ac2462f14bd5f27e0d4f3fd7','','Which size?',1794749974035904,1,NULL,NULL,NULL,'{"question":"Which size?","options":["small","large"],"about":null,"answer_type":"str","schema":null}');
INSERT INTO "reviews" VALUES('waiting','f3bc8345','unknown','open','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96','0b3146851abf2b3b18c01dfff7085cc7','2f43a5459cf63f80107d38b2300525f4','it may or may not have happened: its process died during attempt 1, and the tool has no verify hook',1794749973995300,1,NULL,NULL,NULL,NULL);
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
, graph_id   TEXT, input_json TEXT, parent_id  TEXT, root_id    TEXT, origin     TEXT, waits_json TEXT, wake_at    INTEGER) WITHOUT ROWID;
INSERT INTO "runs" VALUES('done','completed',1,NULL,1794749973682764,1794749973750516,1794749973682764,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('graph','waiting',1,NULL,1794749974015050,1794749974058588,1794749974015050,NULL,0,'kept-graph@1.0.0','{}',NULL,NULL,NULL,'[{"kind":"review","subject":"6d5e005e","step":"ask_then","until":null}]',NULL);
INSERT INTO "runs" VALUES('in doubt','running',1,'953e399d995d4234a2d7658ee6e4afa6',1794749973938640,1794749973938640,1794749973938640,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('waiting','waiting',2,NULL,1794749973839812,1794749974006492,1794749973976505,NULL,0,NULL,NULL,NULL,NULL,NULL,'[{"kind":"review","subject":"f3bc8345","step":"tell","until":null}]',NULL);
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
INSERT INTO "steps" VALUES('done','pay','start/','done',1,1794749973684017,1794749973745804,NULL);
INSERT INTO "steps" VALUES('done','tell','start/','done',2,1794749973745980,1794749973750358,NULL);
INSERT INTO "steps" VALUES('graph','ask_then','kept-graph@1.0.0/1','in_progress',2,1794749974035451,NULL,NULL);
INSERT INTO "steps" VALUES('graph','pay_first','kept-graph@1.0.0/1','done',1,1794749974016425,1794749974035035,NULL);
INSERT INTO "steps" VALUES('in doubt','pay','start/','done',1,1794749973946603,1794749973956032,NULL);
INSERT INTO "steps" VALUES('in doubt','tell','start/','in_progress',2,1794749973956256,NULL,NULL);
INSERT INTO "steps" VALUES('waiting','pay','start/','done',1,1794749973862627,1794749973877974,NULL);
INSERT INTO "steps" VALUES('waiting','tell','start/','in_progress',2,1794749973878217,NULL,NULL);
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
INSERT INTO "tool_call_results" VALUES('done','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794749973735892,'956bdcbe96d0e3c3c395273d708bdbb9','DONE','idempotent_with_key',1,'610aa7b02d51c1985e1a4ca75fceee01','43bb2fb08f35434fa52c8970f87508af',1794749973735892,1794749973741855,NULL,0,NULL,'pay-3',1794749973735892,3153600000.0,NULL,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('done','tell','start/','kept_mail','cde2c6fc07f7380c47e27c6f917486034f932ed371607356d319827ad14a3a82',1794749973747161,'eb416ca338ba62214b4ef8ba5656598f','DONE','unsafe_on_replay',1,'5a402483a8fb7d2ad776772c14ba7fbb','43bb2fb08f35434fa52c8970f87508af',1794749973747161,1794749973748191,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,'plain','{"to":"ann"}','"mailed ann"',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','pay','start/','kept_pay','24bb8eb07a0bf5b55eff11c6c0a5ccb1444885eb283b302cae0862c8c64e78ad',1794749973863516,'b113980941743e9cd30889499795bae9','DONE','idempotent_with_key',1,'7ae03bf795d6d32c470bbebcec116f4c','6a60db10c2cc418c9fc20e4e6303cd0a',1794749973863516,1794749973869740,NULL,0,NULL,'pay-3',1794749973735892,3153600000.0,NULL,NULL,'plain','{"order":3}','{"order":3}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('waiting','tell','start/','kept_mail','7b66264d9a5b3e864eabcfcda8c9cfe0faf3a49f1a58be5aefcb41db13e01d96',1794749973878686,'0b3146851abf2b3b18c01dfff7085cc7','PENDING','unsafe_on_replay',1,'2f43a5459cf63f80107d38b2300525f4','6a60db10c2cc418c9fc20e4e6303cd0a',1794749973878686,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"to":"bob"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','pay','start/','kept_pay','cfffdf09bccf4a6136b4232ccf442edd05372b454ff140d206a460124c9d4fe2',1794749973947653,'ee1d8e37b5e06fb5899d280643c479a1','DONE','idempotent_with_key',1,'8861a1bd4cf9cca0620c363aedc5f27f','953e399d995d4234a2d7658ee6e4afa6',1794749973947653,1794749973949355,NULL,0,NULL,'pay-2',1794749973947653,3153600000.0,NULL,NULL,'plain','{"order":2}','{"order":2}',NULL,NULL);
INSERT INTO "tool_call_results" VALUES('in doubt','tell','start/','kept_mail','645a526478e8ef9881496bb795fd3a753f12a84689a3d4d81e860400983b40b7',1794749973956508,'7af50dfe803a8f4b4aa21d2b4537d78f','PENDING','unsafe_on_replay',1,'b4ee90446b3851891a2b76e6790b1edb','953e399d995d4234a2d7658ee6e4afa6',1794749973956508,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"to":"cy"}',NULL,NULL,NULL);
INSERT INTO "tool_call_results" VALUES('graph','pay_first','kept-graph@1.0.0/1','kept_pay','5f1bbb266dc182ff7c37390595d8d5875c9003674cddc7679182166449d70bf5',1794749974016882,'531d1bfcfedb3bf5aca05352006a74be','DONE','idempotent_with_key',1,'a1bdee3120e463ba82a78f6323beee81','43bb2fb08f35434fa52c8970f87508af',1794749974016882,1794749974033965,NULL,0,NULL,'pay-9',1794749974016882,3153600000.0,NULL,NULL,'plain','{"order":9}','{"order":9}',NULL,NULL);
CREATE INDEX tcr_workflow ON tool_call_results (workflow_id, created_at);
CREATE INDEX tcr_key ON tool_call_results (tool_name, idempotency_key, created_at)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_updated ON runs (updated_at);
CREATE INDEX reviews_open ON reviews (workflow_id, opened_at) WHERE status IN ('open', 'decided');
CREATE UNIQUE INDEX reviews_id ON reviews (review_id);
CREATE UNIQUE INDEX evidence_once ON evidence (workflow_id, call_id, attempt_id, at, source, text);
CREATE UNIQUE INDEX audit_once ON audit (workflow_id, at, who, action, subject, why);
CREATE INDEX runs_children ON runs (parent_id, created_at) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX reviews_blocking ON reviews (workflow_id, opened_at)
  WHERE status IN ('open', 'decided')
    AND (kind NOT IN ('question', 'approval') OR instr(decision_json, '"abort"') > 0);
CREATE INDEX events_waiting ON events (workflow_id, name, sent_at) WHERE received_by IS NULL;
COMMIT;
PRAGMA application_id = 1852798002;
PRAGMA user_version = 2;
