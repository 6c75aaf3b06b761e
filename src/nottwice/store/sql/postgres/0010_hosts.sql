-- Schema version 10: runs of one call that belong to a group, and what other processes should know.
--
-- reviews.group_id   the group in which nothing new is sent while the review is open; NULL: none.
--                    Not additive: a nottwice that does not know it would not heed it
-- outbox             one row per fact that other processes should know, written by the commit that makes it
--                    true. Readers get each at least once. Removed with its run
-- outbox.kind        review_opened, review_decided, run_ready or run_over
-- outbox.leased_by   the sender that is passing it on, until leased_until; sent_at: it was passed on

ALTER TABLE nottwice.reviews ADD COLUMN group_id text COLLATE "C";
CREATE INDEX reviews_of_group ON nottwice.reviews (group_id, opened_at)
  WHERE group_id IS NOT NULL AND status = 'open' AND kind NOT IN ('question', 'approval', 'budget');

CREATE TABLE nottwice.outbox (
  notice_id     text COLLATE "C" NOT NULL PRIMARY KEY,
  kind          text COLLATE "C" NOT NULL,
  workflow_id   text COLLATE "C" NOT NULL,
  created_at    bigint NOT NULL,
  payload_json  text COLLATE "C" NOT NULL,
  leased_by     text COLLATE "C",
  leased_until  bigint,
  sent_at       bigint
);
CREATE INDEX outbox_time ON nottwice.outbox (created_at, notice_id);
CREATE INDEX outbox_run ON nottwice.outbox (workflow_id);
