-- Additive.
-- Schema version 4: what takers of notices need.
--
-- nottwice_outbox.kind     may also be run_failed or review_old
-- nottwice_outbox.tries    how often a notice was taken; NULL: never
-- nottwice_outbox.problem  why the last try failed. With sent_at: why the notice was given up

ALTER TABLE nottwice_outbox ADD COLUMN tries INTEGER;
ALTER TABLE nottwice_outbox ADD COLUMN problem TEXT;
CREATE INDEX nottwice_outbox_due ON nottwice_outbox (kind, created_at) WHERE sent_at IS NULL;
CREATE INDEX nottwice_outbox_settled ON nottwice_outbox (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX nottwice_outbox_given_up ON nottwice_outbox (sent_at) WHERE problem IS NOT NULL;
