-- Schema version 6: how many effects were asked for again and not made again.
--
-- Additive.
--
-- duplicates   of an opening; NULL: it was never released, or is older than this column

ALTER TABLE nottwice_openings ADD COLUMN duplicates INTEGER;
