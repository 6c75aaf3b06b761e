-- Schema version 3: runs of one call that belong to a group, and what other processes should know.
--
-- nottwice_reviews.group_id   the group in which nothing new is sent while the review is open; NULL: none.
--                             Not additive: a nottwice that does not know it would not heed it
-- nottwice_outbox             one row per fact that other processes should know, written by the commit that
--                             makes it true. Readers get each at least once. Removed with its run
-- nottwice_outbox.kind        review_opened, review_decided, run_ready or run_over
-- nottwice_outbox.leased_by   the sender that is passing it on, until leased_until; sent_at: it was passed on

ALTER TABLE nottwice_reviews ADD COLUMN group_id TEXT;
CREATE INDEX nottwice_reviews_of_group ON nottwice_reviews (group_id, opened_at)
  WHERE group_id IS NOT NULL AND status = 'open' AND kind NOT IN ('question', 'approval', 'budget');

CREATE TABLE nottwice_outbox (
  notice_id     TEXT    NOT NULL PRIMARY KEY,
  kind          TEXT    NOT NULL,
  workflow_id   TEXT    NOT NULL,
  created_at    INTEGER NOT NULL,
  payload_json  TEXT    NOT NULL,
  leased_by     TEXT,
  leased_until  INTEGER,
  sent_at       INTEGER
) WITHOUT ROWID;
CREATE INDEX nottwice_outbox_time ON nottwice_outbox (created_at, notice_id);
CREATE INDEX nottwice_outbox_run ON nottwice_outbox (workflow_id);
