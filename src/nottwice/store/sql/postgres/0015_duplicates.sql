-- Schema version 15: how many effects were asked for again and not made again.
--
-- Additive.
--
-- duplicates   of an opening; NULL: it was never released, or is older than this column

ALTER TABLE nottwice.openings ADD COLUMN duplicates bigint;
