-- What policies count, schema version 4, and an audit trail that only grows.
--
-- charges   what a call was charged to a meter: rows are only there where a policy counts. Not by
--           run, unlike everything else: a meter counts the calls of all runs.

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
  if_failed      INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (meter, call_id)
) WITHOUT ROWID;
CREATE INDEX charges_at ON charges (meter, at);

-- Against slips, not against somebody who owns the file: whoever does can drop them.
CREATE TRIGGER audit_keeps_what_it_says BEFORE UPDATE ON audit
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is only ever added to');
END;
CREATE TRIGGER audit_keeps_all_of_it BEFORE DELETE ON audit
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is only ever added to');
END;
