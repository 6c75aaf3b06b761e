-- Seals, schema version 5: marks by which rows show that nottwice wrote them.
--
-- seal     the id of a key, and a MAC over everything that the row says; NULL: nobody gave a key
-- nth      the number of a call among the calls of its run, in the order they were written
-- writes   how often the row of a call was written
-- head     what the calls and checkpoints of a run add up to, with a MAC of its own

ALTER TABLE tool_call_results ADD COLUMN nth    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tool_call_results ADD COLUMN writes INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tool_call_results ADD COLUMN seal   TEXT;
ALTER TABLE runs              ADD COLUMN seal   TEXT;
ALTER TABLE runs              ADD COLUMN head   TEXT;
ALTER TABLE steps             ADD COLUMN seal   TEXT;
ALTER TABLE reviews           ADD COLUMN seal   TEXT;
ALTER TABLE evidence          ADD COLUMN seal   TEXT;
ALTER TABLE audit             ADD COLUMN seal   TEXT;
ALTER TABLE checkpoints       ADD COLUMN seal   TEXT;
ALTER TABLE events            ADD COLUMN seal   TEXT;
ALTER TABLE graphs            ADD COLUMN seal   TEXT;
ALTER TABLE charges           ADD COLUMN seal   TEXT;

-- A ledger that is sealed later gets seals for what it says already.
DROP TRIGGER audit_keeps_what_it_says;
CREATE TRIGGER audit_keeps_what_it_says
BEFORE UPDATE OF workflow_id, at, who, action, subject, why ON audit
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is only ever added to');
END;
