-- Schema version 2: what policies count. A row says what was charged to a meter for a call. Unlike
-- all other tables, the key does not begin with the run, because a meter counts calls of all runs.

CREATE TABLE nottwice.charges (
  workflow_id    text COLLATE "C" NOT NULL,
  node_id        text COLLATE "C" NOT NULL,
  checkpoint_id  text COLLATE "C" NOT NULL,
  tool_name      text COLLATE "C" NOT NULL,
  input_hash     text COLLATE "C" NOT NULL,
  meter          text COLLATE "C" NOT NULL,
  call_id        text COLLATE "C" NOT NULL,
  at             bigint NOT NULL,
  amount         bigint NOT NULL,
  if_failed      smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (meter, call_id)
);
CREATE INDEX charges_at ON nottwice.charges (meter, at);
