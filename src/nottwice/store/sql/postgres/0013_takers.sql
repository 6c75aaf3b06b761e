-- Additive.
-- Schema version 13: what takers of notices need.
--
-- outbox.kind     may also be run_failed or review_old
-- outbox.tries    how often a notice was taken; NULL: never
-- outbox.problem  why the last try failed. With sent_at: why the notice was given up

ALTER TABLE nottwice.outbox ADD COLUMN tries bigint;
ALTER TABLE nottwice.outbox ADD COLUMN problem text COLLATE "C";
CREATE INDEX outbox_notice ON nottwice.outbox (notice_id);
CREATE INDEX outbox_due ON nottwice.outbox (kind, created_at) WHERE sent_at IS NULL;
CREATE INDEX outbox_settled ON nottwice.outbox (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX outbox_given_up ON nottwice.outbox (sent_at) WHERE problem IS NOT NULL;
